"""docs/profiles.md, results.md and encoders.md: pages made from schemas, from records and from
small models.
"""

from __future__ import annotations

import doctest
import inspect
import json
import re
from pathlib import Path
from types import ModuleType

import api_page
import encoders_page
import profiles_page
import pytest
import results_page
from cases import mark_others_long
from pages import ROOT
from pydantic import BaseModel

import harness
from harness.profiles import schema
from harness.registry import get, list_registered

TABLES = [
    value for value in vars(schema).values()
    if isinstance(value, type) and issubclass(value, BaseModel) and value.__module__ == schema.__name__
]  # fmt: skip


@pytest.mark.parametrize(
    "written", [api_page, profiles_page, results_page], ids=["api", "profiles", "results"]
)
def test_a_page_is_that_of_the_code(written: ModuleType) -> None:
    """Write it anew with `python tools/NAME_page.py > docs/NAME.md`."""
    name = written.__name__.removesuffix("_page")
    assert (ROOT / "docs" / f"{name}.md").read_text() == written.make_page()


def test_each_entry_of_the_page_of_the_api_has_an_example_that_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = [each for title in api_page.SECTIONS for each in api_page.list_objects(title)]
    assert {each.__name__ for each in listed} >= {*harness.__all__}
    assert [
        each
        for each in listed
        if each.__name__ not in api_page.SHORTENED
        and ">>>" not in f"{each.__doc__}{api_page.EXAMPLES.get(each.__name__)}"
    ] == []
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for name, text in api_page.EXAMPLES.items():
        example = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
        runner.run(example, clear_globs=False)
        names = example.globs
    assert runner.summarize(verbose=False).failed == 0


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_every_key_has_a_meaning(table: type[BaseModel]) -> None:
    assert all(field.description for field in table.model_fields.values())
    keys = re.findall(r"^- `(\w+)`(?: \(.+?\))?: .+$", profiles_page.make_page(), re.MULTILINE)
    assert {*table.model_fields} - {"name", "origin"} <= {*keys}


@pytest.mark.parametrize("kind", ["corpus", "suite"])
def test_options_of_every_kind_stand_below_it(kind: str) -> None:
    page = profiles_page.make_page()
    without_keys = "".join(re.findall(r"^Without further keys: (.*)$", page, re.MULTILINE))
    of_the_toy_world = "".join(
        re.findall(r"^With `seed` and `size` alone: .*$", page, re.MULTILINE)
    )
    for name in list_registered(kind):
        options = set(inspect.signature(get(kind, name)).parameters) - {"tasks", "how", "ignore"}
        if not options:
            assert f"`{name}`" in without_keys
            continue
        if options == {"seed", "size"}:
            assert f"`{name}`" in of_the_toy_world
            continue
        (section,) = re.findall(
            rf"^### .* `{name}`$(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL
        )
        assert set(re.findall(r"^- `(\w+)`", section, re.MULTILINE)) == options


def test_the_keys_of_a_stored_file_are_on_the_page() -> None:
    section = results_page.make_page().partition("## The result file")[2].partition("\n## ")[0]
    file = next((ROOT / "results" / "reference").rglob("seed-*.json"))
    for key in json.loads(file.read_text()).keys() - {"digest"}:
        assert f"\n- `{key}`: " in section
    page = results_page.make_page()
    assert [
        key for key in results_page._MEANINGS if f"- `{key.rpartition('.')[2]}`: " not in page
    ] == []


def encoder_groups() -> dict[str, list[str]]:
    """The types of encoders on the page, by what came back."""
    page = (ROOT / "docs" / "encoders.md").read_text()
    lines = re.findall(
        r"^- ((?:packed|padded|equal lengths|not read); .*): (.*)$", page, re.MULTILINE
    )
    return {outcome: names.split(", ") for outcome, names in lines}


@pytest.mark.parametrize("kind", mark_others_long(["bert", "albert", "distilbert"], ["distilbert"]))
def test_the_page_of_encoders_says_what_comes_back(kind: str) -> None:
    """`make encoders` writes it anew; three of its families are tried here."""
    page = (ROOT / "docs" / "encoders.md").read_text()
    notes = re.findall(r"^\d+\. (.*)$", page, re.MULTILINE)
    assert kind in encoder_groups()[encoders_page.describe_row(encoders_page.try_type(kind), notes)]


def test_every_family_of_encoders_is_right_or_refused() -> None:
    groups = encoder_groups()
    assert sum(map(len, groups.values())) > 60
    for outcome in groups:
        cells = outcome.split("; ")[1:]
        assert all(re.match(r"right |refused \(\d+\) ", cell) for cell in cells), outcome
    assert "NO REFERENCE" not in (ROOT / "docs" / "encoders.md").read_text()
