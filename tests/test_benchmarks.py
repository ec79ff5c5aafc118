"""Benchmarks: the one that cannot run where this project is built, in its short form, and results that others read."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from scripts import script

from harness.store import Store

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


def test_made_up_results_are_those_of_a_store(tmp_path: Path) -> None:
    script(BENCHMARKS / "made_up.py").write(tmp_path, 30)
    found = Store(tmp_path).indexed()
    assert (len(found), found.problems) == (30, [])
    assert found[0].spec.variant == "simcse"


@pytest.mark.long
def test_the_benchmark_of_cards_works_on_a_processor() -> None:
    command = [sys.executable, str(BENCHMARKS / "gpu.py"), "--short", "--steps", "2"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[0] == "a small encoder on the CPU"
    found = [re.match(r"eager, 8 (\w+): +([\d.]+) steps/s, +([\d,]+) tokens/s", line) for line in lines[1:]]
    assert [match and match[1] for match in found] == ["sentences", "pairs"]
    for match in found:
        assert match is not None
        # 8 sentences, two views each, of 3 to 32 tokens
        assert 8 * 2 * 3 <= float(match[3].replace(",", "")) / float(match[2]) <= 8 * 2 * 32
