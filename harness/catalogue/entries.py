"""Loading the entries of the catalogue from entries.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from pydantic import ValidationError

from harness.catalogue.schema import Entry
from harness.errors import UserError
from harness.registry import suggest


@cache
def entries() -> Mapping[str, Entry]:
    """All entries by name, in the order of the file."""
    return read_entries((files(__package__) / "entries.toml").read_text(encoding="utf-8"))


def read_entries(text: str) -> dict[str, Entry]:
    """Parse entries. Raises UserError naming the wrong table and key."""
    try:
        return {name: Entry.model_validate({**table, "name": name}) for name, table in tomllib.loads(text).items()}
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"the catalogue is not valid TOML: {error}; correct that line") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the entry as a whole"
        raise UserError(f"the catalogue, {place}: {first['msg']}; correct that table") from error


def entry(name: str) -> Entry:
    """The entry of a name. Raises UserError listing the closest names."""
    if name not in entries():
        raise UserError(f"the catalogue has no entry '{name}'; {suggest(name, list(entries()))}")
    return entries()[name]


def providers(path: str) -> list[Entry]:
    """The entries that provide a path below the data root."""
    return [each for each in entries().values() if any(output.holds(path) for output in each.outputs)]
