"""The simulations of wrong conclusions run, and their lines are those of benchmarks/simulations.md."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from harness.stats import seeds_to_decide

ROOT = Path(__file__).resolve().parents[1]
SIMULATIONS = runpy.run_path(str(ROOT / "benchmarks" / "simulations.py"))


def test_the_smallest_simulation_has_the_lines_of_the_page() -> None:
    lines = list(SIMULATIONS["list_lines"](1))
    assert all(0.0 <= share <= 1.0 for share, *_ in lines)
    page = (ROOT / "benchmarks" / "simulations.md").read_text("utf-8")
    listed = re.findall(r"^\| [\d.]+ % \| ([\d.]+ %) \| (.+) \|$", page, re.MULTILINE)
    assert listed == [(claimed, name) for _, claimed, name in lines]


def test_seeds_that_decide_in_a_family_are_those_of_its_level() -> None:
    """Alone the same difference needs far fewer, which decide in half of families of eight."""
    alone = seeds_to_decide(1.0, 1.0, None)
    among_eight = seeds_to_decide(1.0, 1.0, None, alpha=0.05 / 8)
    assert (alone, among_eight) == (17, 28)
