"""docs/profiles.md, and the schema that it is made from."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from profiles_page import page
from pydantic import BaseModel

from harness.profiles import schema
from harness.registry import get, names

PAGE = Path(__file__).resolve().parents[2] / "docs" / "profiles.md"
TABLES = [
    one for one in vars(schema).values()
    if isinstance(one, type) and issubclass(one, BaseModel) and one.__module__ == schema.__name__
]  # fmt: skip


def test_the_page_is_that_of_the_schema() -> None:
    """Write it anew with `python tools/profiles_page.py > docs/profiles.md`."""
    assert PAGE.read_text() == page()


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_every_key_has_a_meaning(table: type[BaseModel]) -> None:
    assert all(field.description for field in table.model_fields.values())
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.+?) \|$", page(), re.MULTILINE)
    assert {*table.model_fields} - {"name", "origin"} <= {key for key, *_ in rows}


@pytest.mark.parametrize("kind", ["corpus", "suite"])
def test_options_of_every_kind_stand_below_it(kind: str) -> None:
    for name in names(kind):
        (section,) = re.findall(rf"^### .* `{name}`$(.*?)(?=^##|\Z)", page(), re.MULTILINE | re.DOTALL)
        options = set(inspect.signature(get(kind, name)).parameters) - {"tasks"}
        assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == options
