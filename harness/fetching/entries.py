"""Catalogue entries: their schema, and the entries in entries.toml. Unknown keys are refused."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from harness.errors import UserError
from harness.registry import suggest
from harness.tomlfiles import Commit, Name, Table

Checksum = Annotated[str, Field(pattern=r"^(sha256:[0-9a-f]{64}|md5:[0-9a-f]{32})$")]


def _check_below(path: str) -> str:
    is_outside = path.startswith("/") or ".." in path.split("/")
    if is_outside or "\\" in path or "\n" in path:
        raise ValueError(f"{path!r} is outside the data root")
    return path


#: a path below the data root, with no way out of it
Below = Annotated[str, Field(min_length=1), AfterValidator(_check_below)]


class Origin(Table):
    """A file: on the hub, at an address, on Google Drive, downloaded manually, or an output of
    another entry.
    """

    file: Annotated[
        Below,
        Field(
            description="name in the hub's repository, of the download, or in a folder to import"
        ),
    ]
    hub: Annotated[Name | None, Field(description="data set of the hub, OWNER/NAME")] = None
    revision: Commit | None = None
    url: Annotated[str | None, Field(pattern=r"^https?://")] = None
    drive: Annotated[
        str | None, Field(pattern=r"^[\w-]{20,}$", description="id of a file on Google Drive")
    ] = None
    output: Annotated[
        Below | None, Field(description="path below the data root, an output of another entry")
    ] = None
    hand: Annotated[Name | None, Field(description="how to download it manually")] = None
    checksum: Annotated[Checksum | None, Field(description="none if not published")] = None
    bytes: Annotated[int | None, Field(gt=0, description="exact size, if known")] = None
    folder: Annotated[
        Below | None, Field(description="folder accepted instead of the file in an import")
    ] = None
    pick: Annotated[
        int | None,
        Field(ge=1, description="number of files drawn by seed from those that match a pattern"),
    ] = None

    @property
    def name(self) -> str:
        return self.file.rpartition("/")[2]

    @property
    def where(self) -> str:
        if self.hub:
            return f"hub {self.hub} at {str(self.revision)[:7]}"
        return self.address or self.output or "by hand"

    @property
    def address(self) -> str | None:
        """Its address for a browser, if it is not on the hub."""
        return f"https://drive.google.com/file/d/{self.drive}" if self.drive else self.url

    @model_validator(mode="after")
    def _check_one_place(self) -> Origin:
        places = (self.hub, self.url, self.drive, self.output, self.hand)
        if places.count(None) != len(places) - 1:
            raise ValueError("give exactly one of 'hub', 'url', 'drive', 'output' and 'hand'")
        if (self.hub is None) != (self.revision is None):
            raise ValueError("'hub' needs 'revision', and only 'hub' has one")
        if self.url is not None and self.url.startswith("http://") and self.checksum is None:
            raise ValueError("an address without TLS needs a checksum")
        if (self.pick is None) == ("*" in self.file):
            raise ValueError("a pattern needs 'pick', and only a pattern has one")
        return self


class Output(Table):
    """A file or folder below the data root, used by corpora and tasks."""

    path: Below
    kind: Literal["file", "folder"] = "file"
    origin: Annotated[Name | None, Field(description="recipes place and unpack: its origin")] = None
    rows: Annotated[
        int | None, Field(ge=1, description="rows or lines of a file without its header")
    ] = None
    files: Annotated[
        int | None, Field(ge=1, description="files of a folder and its sub-folders")
    ] = None
    pattern: Annotated[str, Field(description="the files that are counted in a folder")] = "*"

    def holds(self, path: str) -> bool:
        return path == self.path or (self.kind == "folder" and path.startswith(f"{self.path}/"))

    def counts(self, name: str) -> bool:
        return fnmatchcase(name, self.pattern)


class Entry(Table):
    """A data set: its origins, and its outputs below the data root."""

    name: Name
    title: Name
    licence: Name
    restricted: Annotated[
        bool, Field(description="the licence restricts use: `harness fetch` asks for consent")
    ] = False
    about: Annotated[
        int | None, Field(gt=0, description="approximate download size in bytes, if known")
    ] = None
    recipe: Name = "place"
    options: dict[str, Any] = {}
    origins: tuple[Origin, ...] = ()
    outputs: tuple[Output, ...] = ()
    note: str = ""

    @property
    def by_hand(self) -> list[Origin]:
        return [origin for origin in self.origins if origin.hand is not None]

    @property
    def how(self) -> str:
        """How to get it: a command, or the note of an entry without origins."""
        if not self.origins:
            return self.note
        if self.by_hand:
            return f"by hand, then `{self.import_command}`"
        return f"`harness data fetch {self.name}`"

    @property
    def import_command(self) -> str:
        return f"harness data import {self.name} FOLDER"

    def provides(self, path: str) -> bool:
        return any(output.holds(path) for output in self.outputs)

    @model_validator(mode="after")
    def _check_complete(self) -> Entry:
        if bool(self.origins) != bool(self.outputs):
            raise ValueError("'origins' and 'outputs' go together")
        if not self.outputs and not self.note:
            raise ValueError("an entry without outputs needs a 'note' on what to do")
        return self


@cache
def entries() -> Mapping[str, Entry]:
    """All entries by name, in the order of the file."""
    return read_entries((files(__package__) / "entries.toml").read_text(encoding="utf-8"))


def read_entries(text: str) -> dict[str, Entry]:
    """Parse entries. Raises pydantic's ValidationError: the catalogue is part of the package."""
    return {
        name: Entry.model_validate({**table, "name": name})
        for name, table in tomllib.loads(text).items()
    }


def list_restricted() -> list[Entry]:
    """The entries whose licences restrict use."""
    return [entry for entry in entries().values() if entry.restricted]


def find_entry(name: str) -> Entry:
    """The entry of a name. Raises UserError listing the closest names."""
    if name not in entries():
        raise UserError(f"the catalogue has no entry '{name}'; {suggest(name, list(entries()))}")
    return entries()[name]


def find_providers(path: str) -> list[Entry]:
    """The entries that provide a path below the data root."""
    return [entry for entry in entries().values() if entry.provides(path)]


def add_inputs(entry: Entry) -> list[Entry]:
    """An entry, preceded by the entries whose outputs it is made from."""
    with_inputs = []
    for origin in entry.origins:
        if origin.output:
            for provider in find_providers(origin.output):
                with_inputs += add_inputs(provider)
    return [*with_inputs, entry]
