"""docs/results.md, and the records that it is made from."""

from __future__ import annotations

import json
from pathlib import Path

import results_page as written

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_that_of_the_code() -> None:
    """Write it anew with `python tools/results_page.py > docs/results.md`."""
    assert (ROOT / "docs" / "results.md").read_text() == written.page()


def test_the_keys_of_a_stored_file_are_on_the_page() -> None:
    section = written.page().partition("## The result file")[2].partition("\n## ")[0]
    file = next((ROOT / "results" / "reference").rglob("seed-*.json"))
    for key in json.loads(file.read_text()).keys() - {"digest"}:
        assert f"\n| `{key}` | " in section


def test_no_meaning_is_of_a_key_that_is_gone() -> None:
    page = written.page()
    assert [key for key in written._MEANINGS if f"| `{key.rpartition('.')[2]}` |" not in page] == []
