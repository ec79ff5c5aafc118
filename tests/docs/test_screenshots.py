"""The pictures of the documentation show the numbers of today's results."""

from __future__ import annotations

import re

import pytest
import screenshots
from pages import ROOT


def test_the_pictures_have_the_numbers_of_the_results() -> None:
    """Take them anew with `python tools/screenshots.py CHROMIUM`."""
    if not screenshots.NUMBERS.is_file():
        pytest.skip("the pictures are older than their numbers; take them anew")
    assert screenshots.written_numbers() == screenshots.shown_numbers()


def test_every_picture_of_a_page_is_taken_by_the_command() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = {
        name
        for page in pages
        for name in re.findall(r"screenshots/([\w-]+)\.png", page.read_text("utf-8"))
    }
    assert shown == {*screenshots.SHOTS}
    assert shown == {path.stem for path in screenshots.OUT.glob("*.png")}
