"""Kinds of figure, asked for what they need."""

from __future__ import annotations

import subprocess
import sys


def test_asking_a_kind_for_its_suites_imports_no_plotting_library() -> None:
    script = (
        "import sys; from harness.registry import get, names\n"
        "found = {name: get('figure kind', name).suites for name in names('figure kind')}\n"
        "assert found['alignment-uniformity'] == ('sts',) and len(found) >= 7\n"
        "sys.exit('vl_convert' in sys.modules or 'torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
