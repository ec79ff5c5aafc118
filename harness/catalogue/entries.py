"""The entries of the catalogue, read from entries.toml beside this file."""

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
    """Every entry by name, in the file's order."""
    return read_entries((files(__package__) / "entries.toml").read_text(encoding="utf-8"))


def read_entries(text: str) -> dict[str, Entry]:
    """Entries of a TOML text. Raises UserError naming the table and the key that is wrong."""
    try:
        return {name: Entry.model_validate({**table, "name": name}) for name, table in tomllib.loads(text).items()}
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"the catalogue is not valid TOML: {error}; mend that line") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the entry as a whole"
        raise UserError(f"the catalogue, {place}: {first['msg']}; mend that table") from error


def entry(name: str) -> Entry:
    """The entry of a name. Raises UserError with the nearest names."""
    if name not in entries():
        raise UserError(f"the catalogue has no entry '{name}'; {suggest(name, list(entries()))}")
    return entries()[name]


def providers(path: str) -> list[Entry]:
    """The entries whose outputs are, or hold, a path below the data root."""
    return [each for each in entries().values() if any(output.holds(path) for output in each.outputs)]
