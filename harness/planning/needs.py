"""The data and models that a profile names, with what is missing of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from harness.encoders.locate import MissingModel
from harness.fetching import providers
from harness.planning.inventory import Checkable, Inventory
from harness.planning.lacking import disk_need


class Need(NamedTuple):
    """One source of a profile. `label` names it, such as "corpus wiki (setting wiki+flickr)"."""

    label: str
    source: Checkable


def data_needs(inventory: Inventory) -> Iterator[Need]:
    """Corpora, the image features stored with them, and suites."""
    settings = inventory.profile.settings.items()
    for name, corpus in inventory.corpora.items():
        users = [key for key, setting in settings if name in setting.corpora]
        used = f" ({'settings' if len(users) > 1 else 'setting'} {', '.join(users)})" if users else ""
        yield Need(f"corpus {name}{used}", corpus.plain.source)
        for teacher, stored in corpus.stored.items():
            yield Need(f"{teacher} features of {name}", stored.source)
    for name, suite in inventory.suites.items():
        yield Need(f"suite {name}", suite)


def all_needs(inventory: Inventory) -> Iterator[Need]:
    """Encoders, and the data."""
    for name in inventory.profile.encoders:
        yield Need(f"encoder {name}", inventory.encoder(name).source)
    yield from data_needs(inventory)


def disk_needs(inventory: Inventory) -> Iterator[tuple[str, str]]:
    """The disk space for each suite, of all models and of the whole profile, in words."""
    suites = {name: suite.missing(None) for name, suite in inventory.suites.items()}
    for name, files in suites.items():
        yield f"the suite {name}", disk_need(files)
    profile = inventory.profile
    tables = (
        *profile.encoders.values(),
        *profile.teachers.values(),
        *profile.patches.values(),
        *profile.released.values(),
    )
    models = [
        MissingModel(table.hub, "", table.hub, str(table.revision), about=table.about) for table in tables if table.hub
    ]
    yield "all models", disk_need(models)
    data = [item for need in data_needs(inventory) for item in need.source.missing(None)]
    pixels = (corpus.pixels for corpus in inventory.corpora.values())
    images = [item for one in pixels if one is not None for item in one.source.missing(None)]
    yield f"the profile {profile.name}", disk_need([*models, *data, *images])


class NeededFiles(NamedTuple):
    """Files of one need that share a state and the entries of the catalogue that provide them, as texts."""

    label: str
    files: str
    state: Literal["found", "missing"]
    entries: str


def needed_files(inventory: Inventory) -> Iterator[NeededFiles]:
    """The files that corpora and suites read, each need's files by state and entry."""
    for need in data_needs(inventory):
        missing = {item.what for item in need.source.missing(inventory.root)}
        found: dict[tuple[Literal["found", "missing"], str], list[str]] = {}
        for item in need.source.missing(None):
            entries = ", ".join(entry.name for entry in providers(item.what))
            absent = item.what in missing
            text = str(item) if absent and not entries else item.what
            found.setdefault(("missing" if absent else "found", entries), []).append(text)
        for (state, entries), files in found.items():
            more = f" and {len(files) - 1} more" if len(files) > 1 else ""
            yield NeededFiles(need.label, f"{files[0]}{more}", state, entries)
