"""The pictures of the documentation show the numbers of today's results."""

from __future__ import annotations

import re

import pytest
import screenshots
from builders import over_seeds, tables
from pages import ROOT

from harness.commands import DEFAULT_COMMANDS
from harness.reporting.sections.questions import QuestionPage
from harness.reporting.seeds.gains import make_forests
from harness.reporting.seeds.question import Question


def test_the_pictures_have_the_numbers_of_the_results() -> None:
    """Take them anew with `python tools/screenshots.py CHROMIUM`."""
    if not screenshots.NUMBERS.is_file():
        pytest.skip("the pictures are older than their numbers; take them anew")
    assert screenshots.read_numbers() == screenshots.collect_numbers()


def test_every_picture_of_a_page_is_taken_by_the_command() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = {
        name
        for page in pages
        for name in re.findall(r"screenshots/([\w-]+)\.png", page.read_text("utf-8"))
    }
    assert shown == {*screenshots.SHOTS}
    assert shown == {path.stem for path in screenshots.OUT.glob("*.png")}


def test_the_numbers_of_the_answer_are_all_that_its_page_says() -> None:
    methods = {"simcse": [20.0, 24.0, 22.5], "mcse": [70.0, 73.0, 72.2]}
    runs = [run for name, values in methods.items() for run in over_seeds(name, values)]
    (forest,) = make_forests(tables(runs)[0], fewest=1)
    page = QuestionPage(Question(forest), "index.html", "answer", DEFAULT_COMMANDS)
    numbers = "\n".join(screenshots.list_answer_numbers(page))
    assert numbers.startswith("MCSE, by 49.57, ")
    assert "1 MCSE: 71.73 ± 1.55; +49.57\n2 SimCSE (baseline): 22.17 ± 2.02; \n" in numbers
    assert all(f"{check.mark} {check.about}: {check.text}" in numbers for check in page.checks)
    assert page.next_run is not None
    assert page.next_run.command in numbers
    assert numbers.endswith(page.sentence)
