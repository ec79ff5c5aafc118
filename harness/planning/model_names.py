"""Names for models from outside. A model is identified by its content, and no two share a name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.commands import read_places
from harness.encoders.locate import FolderModel
from harness.errors import UserError
from harness.planning.inventory import Inventory
from harness.spec import UNTRAINED, parse_encoder
from harness.store import Store


def name_model(model: FolderModel, asked: str | None, inventory: Inventory, store: Store) -> str:
    """Name a folder's model in a store: `asked`, or by default a name that is known or free.

    The default is the name that commands gave this folder, else that of the same content in the
    store, else the shortest end of the folder's path that no other model has, in the store or in
    the profile. Raises UserError if `asked` belongs to another model, or this model has another
    name.
    """
    folder = model.folder.resolve()
    if model.missing(None):
        return _clean(folder.name)

    content = model.fingerprint(None)
    known_names = _find_known_names(content, store)
    if asked is None:
        noted_name = _find_noted_name(folder, inventory, store)
        return noted_name or _choose_free_name(folder, content, known_names, inventory, store)

    if _is_taken(parse_encoder(asked), content, inventory, store):
        raise UserError(
            f"--name {asked}: the name is taken by another model in {store.root} or in the profile; give another"
        )
    if known_names and asked not in known_names:
        raise UserError(
            f"--name {asked}: {store.root} already has this model as {known_names[0]}; remove --name"
        )
    return asked


def _find_known_names(content: str, store: Store) -> list[str]:
    """The names that a store's results have for a content."""
    untrained = store.frames().where(setting=[UNTRAINED]).iterate_readable()
    return sorted(
        {result.spec.encoder for result in untrained if result.identity.get("encoder") == content}
    )


def _find_noted_name(folder: Path, inventory: Inventory, store: Store) -> str | None:
    """The name that earlier commands gave a folder."""
    noted = read_places(store.root, inventory.profile.name).encoders
    return next((name for name, path in noted.items() if Path(path) == folder), None)


def _choose_free_name(
    folder: Path, content: str, known: Sequence[str], inventory: Inventory, store: Store
) -> str:
    for name in (*known, *_list_path_ends(folder)):
        if not _is_taken(name, content, inventory, store):
            return name
    raise UserError(
        f"{folder}: its path gives no name that is free in {store.root}; give --name NAME"
    )


def _list_path_ends(folder: Path) -> Iterator[str]:
    """`name`, `parent/name`, `grandparent-parent/name` and so on."""
    *above, name = map(_clean, folder.parts[1:] or ("model",))
    yield name
    for start in range(len(above) - 1, -1, -1):
        yield f"{'-'.join(above[start:])}/{name}"


def _clean(part: str) -> str:
    """A part of a path, reduced to the characters allowed in names."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", part).lstrip("-._") or "model"


def _is_taken(name: str, content: str, inventory: Inventory, store: Store) -> bool:
    """Whether a name is that of a model with another content."""
    if name in (*inventory.profile.encoders, *inventory.profile.released):
        return inventory.find_encoder(name).fingerprint != content
    of_name = store.frames().where(encoder=[name]).iterate_readable()
    return any(result.identity.get("encoder") != content for result in of_name)
