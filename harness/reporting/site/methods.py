"""What a method declares, as plain data: its terms, its readings and its values by reading."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from harness.errors import UserError
from harness.registry import get, names


@dataclass(frozen=True)
class Value:
    """A hyperparameter: its default in each reading, what it may be, and where it stands."""

    name: str
    by_reading: tuple[str, ...]
    allowed: str
    source: str

    @property
    def differs(self) -> bool:
        """Whether two readings differ in it."""
        return len(set(self.by_reading)) > 1


@dataclass(frozen=True)
class MethodFacts:
    """A method in words. `readings` say what each follows; `notes` is Markdown, empty where there are none."""

    name: str
    paper: str
    streams: Sequence[str]
    terms: Sequence[str]
    parts: Sequence[str]
    readings: Mapping[str, str]
    values: tuple[Value, ...]
    notes: str


def method_facts(name: str) -> MethodFacts:
    """What a registered method says of itself. Raises UserError for one that is not there or cannot be loaded."""
    method = get("method", name)
    named = [method.configure(reading).named() for reading in method.readings]
    values = []
    for item in dataclasses.fields(method.Hyperparameters):
        key = item.name.rstrip("_")
        shown = tuple(str(values_of[key]) for values_of in named)
        values.append(Value(key, shown, _allowed(item), str(item.metadata["source"])))
    notes = notes_path(name)
    return MethodFacts(
        name=name,
        paper=method.paper,
        streams=method.streams,
        terms=method.terms,
        parts=method.parts,
        readings=method.readings,
        values=tuple(values),
        notes=notes.read_text(encoding="utf-8") if notes else "",
    )


def installed_methods() -> tuple[list[MethodFacts], list[str]]:
    """The facts of all registered methods, and one line for each that cannot be loaded."""
    found, problems = [], []
    for name in names("method"):
        try:
            found.append(method_facts(name))
        except UserError as error:
            problems.append(str(error))
    return found, problems


def notes_path(name: str) -> Path | None:
    """The notes on a method's reproduction, its own or those of the method that it builds on."""
    folder = Path(str(files("harness_reports") / "notes"))
    known = {path.stem: path for path in folder.glob("*.md")}
    return known.get(name) or known.get(name.removesuffix("-sup"))


def _allowed(item: dataclasses.Field[Any]) -> str:
    return ", ".join(choice or "nothing" for choice in item.metadata["choices"]) or str(item.metadata["unit"])
