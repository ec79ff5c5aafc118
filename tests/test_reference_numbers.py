"""docs/reference-results.md: its numbers are those of the runs in results/reference."""

from __future__ import annotations

from pathlib import Path

from scripts import script

ROOT = Path(__file__).resolve().parents[1]


def test_the_numbers_are_those_of_the_reference_runs() -> None:
    """`python tools/reference_numbers.py --write` writes them anew."""
    numbers = script(ROOT / "tools" / "reference_numbers.py")
    text = numbers.PAGE.read_text("utf-8")
    blocks = {name: block for name, _, block in numbers.MARKED.findall(text)}
    assert blocks.keys() == numbers.BLOCKS.keys()
    assert all("±" in blocks[name] for name in ("tiny", "tiny-tables", "small"))
    assert numbers.written(text) == text
