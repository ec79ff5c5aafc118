"""The benchmark that cannot run where this project is built, in its short form."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


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
