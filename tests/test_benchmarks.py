"""Benchmarks: made-up results, which others read."""

from __future__ import annotations

from pathlib import Path

from scripts import script

from harness.store import Store

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


def test_made_up_results_are_those_of_a_store(tmp_path: Path) -> None:
    script(BENCHMARKS / "made_up.py").write(tmp_path, 30)
    found = Store(tmp_path).indexed()
    assert (len(found), found.problems) == (30, [])
    assert found[0].spec.variant == "simcse"
