"""Names of models from outside: a model is identified by its content, and two never share a name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from harness.encoders.locate import FolderModel
from harness.errors import UserError
from harness.planning.inventory import Inventory
from harness.sources import digest
from harness.spec import UNTRAINED, Variant, parse_encoder
from harness.store import Result, Store


def model_name(model: FolderModel, asked: str | None, inventory: Inventory, store: Store) -> str:
    """The name of a folder's model in a store: that under which its content is known, else `asked`.

    By default it is the shortest end of the folder's path that no other model has, in the store or in the profile.
    Raises UserError where `asked` belongs to another model, or this model has another name.
    """
    folder = model.folder.resolve()
    if model.missing(None):
        return _cleaned(folder.name)
    content = model.fingerprint(None)
    known = sorted({one.spec.encoder for one in _untrained(store) if _is_of(one, content)})
    if asked is None:
        free = (name for name in (*known, *_ends(folder)) if not _is_taken(name, content, inventory, store))
        found = next(free, None)
        if found is None:
            raise UserError(f"{folder}: its path gives no name that is free in {store.root}; give --name NAME")
        return found
    if _is_taken(parse_encoder(asked), content, inventory, store):
        raise UserError(
            f"--name {asked}: the name is taken by another model in {store.root} or in the profile; give another"
        )
    if known and asked not in known:
        raise UserError(f"--name {asked}: {store.root} already has this model as {known[0]}; remove --name")
    return asked


def _ends(folder: Path) -> Iterator[str]:
    """`name`, `parent/name`, `grandparent-parent/name` and so on."""
    *above, name = map(_cleaned, folder.parts[1:] or ("model",))
    yield name
    for start in range(len(above) - 1, -1, -1):
        yield f"{'-'.join(above[start:])}/{name}"


def _cleaned(part: str) -> str:
    """A part of a path with characters that names have."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", part).lstrip("-._") or "model"


def _is_taken(name: str, content: str, inventory: Inventory, store: Store) -> bool:
    """Whether another content has a name."""
    if name in (*inventory.profile.encoders, *inventory.profile.released):
        return inventory.encoder(name).fingerprint != content
    return any(not _is_of(one, content) for one in store.indexed() if one.spec.encoder == name)


def _untrained(store: Store) -> Iterator[Result]:
    return (one for one in store.indexed() if one.spec.setting == UNTRAINED)


def _is_of(result: Result, content: str) -> bool:
    """Whether a result has this encoder content; older ones tell by their fingerprint, where nothing is trained."""
    if result.identity:
        return result.identity["encoder"] == content
    identity = {
        "method": result.spec.method,
        "reading": Variant.parse(result.spec.variant).reading,
        "encoder": content,
        "hyperparameters": result.hyperparameters["method"],
        "seed": result.spec.seed,
    }
    return digest(identity) == result.fingerprint
