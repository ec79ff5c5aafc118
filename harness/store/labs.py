"""Results of several labs in one store: who contributed what, and every lab's own copy of it.

RESULTS/.labs/LAB/PROFILE/VARIANT/SETTING/ENCODER/seed-N-FINGERPRINT.json        what a lab contributed

Each lab's folder is a store of its own. The tables of RESULTS read one result of each training, the first that came;
copies of labs are never among them. They say who contributed a result, and what several labs got from one experiment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from harness.errors import UserError
from harness.formatting import count_of
from harness.sources import digest
from harness.spec import Variant
from harness.store.files import Store
from harness.store.schema import Result

LABS: Final = ".labs"
#: stands for the lab of results that no lab contributed
HERE: Final = "this store"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


class Copy(NamedTuple):
    """A lab's result of a run."""

    lab: str
    result: Result


def check_lab(name: str) -> str:
    """The name of a lab. Raises UserError for one that is no name of a folder on every system."""
    if not _NAME.fullmatch(name):
        raise UserError(
            f"'{name}' is not a valid contributor name: at most 63 letters, digits, '.', '_' and '-', first a letter "
            "or a digit; give one with --contributor"
        )
    return name


def lab_store(store: Store, lab: str) -> Store:
    """The results that a lab contributed to a store."""
    return Store(store.root / LABS / check_lab(lab))


def named_stores(folders: Sequence[Path], names: Sequence[str]) -> dict[str, Store]:
    """The stores of folders by the names of their contributors, which default to the folders' own names.

    Raises UserError for a name that is given twice or is none, and for another number of names than of folders.
    """
    if names and len(names) != len(folders):
        raise UserError(
            f"{count_of(len(folders), 'folder')} and {count_of(len(names), 'contributor')}; give --contributor once "
            "for each folder, in their order, or not at all"
        )
    found: dict[str, Store] = {}
    for folder, name in zip(folders, names or [folder.expanduser().resolve().name for folder in folders], strict=True):
        if found.setdefault(check_lab(name), Store(folder.expanduser())).root != folder.expanduser():
            raise UserError(
                f"two folders are the results of '{name}'; tell them apart with --contributor, once for each"
            )
    return found


def labs_of(store: Store) -> dict[str, Store]:
    """The labs that contributed to a store, by name."""
    found = sorted((store.root / LABS).glob("*"))
    return {path.name: Store(path) for path in found if path.is_dir() and _NAME.fullmatch(path.name)}


def same_training(one: Result, other: Result) -> bool:
    """Whether two results tell of one process of training; their evaluations may differ."""
    if (one.fingerprint, one.started) != (other.fingerprint, other.started):
        return False
    without: dict[str, object] = {"evaluations": []}
    return one.whole().model_copy(update=without) == other.whole().model_copy(update=without)


def disagreement(one: Result, other: Result) -> str:
    """In what two results of one lab contradict each other; empty where one only has more evaluations."""
    if not same_training(one, other):
        return "training"
    held = {evaluation.key: (evaluation.scores, evaluation.parts) for evaluation in one.evaluations}
    differ = (
        found.suite
        for found in other.evaluations
        if held.get(found.key, (found.scores, found.parts)) != (found.scores, found.parts)
    )
    return ", ".join(dict.fromkeys(differ))


def contributor(store: Store, result: Result) -> str:
    """The lab that trained a result of a store; empty where no lab contributed it."""
    for lab, held in labs_of(store).items():
        found = held.find(result.profile, result.spec, result.fingerprint)
        if found is not None and same_training(found, result):
            return lab
    return ""


def repeated(store: Store) -> Iterator[tuple[Copy, ...]]:
    """The results of each run that several labs have: first the one that the store's tables show, then by name.

    Files that cannot be used are left out.
    """
    copies: dict[str, list[Copy]] = {}
    for lab, held in labs_of(store).items():
        for one in held.indexed():
            copies.setdefault(one.fingerprint, []).append(Copy(lab, one))
    results = {result.fingerprint: result for result in store.indexed() if result.fingerprint in copies}
    for fingerprint, found in copies.items():
        result = results.get(fingerprint)
        if result is not None and not any(same_training(result, copy.result) for copy in found):
            found.insert(0, Copy(HERE, result))
        if len(found) > 1:
            yield tuple(sorted(found, key=lambda copy: result is None or not same_training(result, copy.result)))


def check_identity(result: Result) -> bool:
    """Compute a result's fingerprint from its content; whether it holds what that needs, which older files do not.

    Raises UserError where fingerprint, group or names do not follow from the identity that the file holds.
    """
    identity = result.identity
    if not identity:
        return False
    variant = Variant.parse(result.spec.variant)
    told: Mapping[str, tuple[object, object]] = {
        "fingerprint": (digest(identity), result.fingerprint),
        "group": (digest({**identity, "seed": None}), result.group),
        "seed": (identity.get("seed"), result.spec.seed),
        "method": (identity.get("method"), result.spec.method),
        "variant": ((variant.name, variant.reading), (result.spec.method, identity.get("reading"))),
        "training": (identity.get("training", {}), result.hyperparameters.get("training", {})),
        "setting": (
            identity.get("setting", ""),
            result.spec.setting.partition("[")[0] if "setting" in identity else "",
        ),
        "backend": (identity.get("backend", result.backend), result.backend),
    }
    wrong = [what for what, (computed, stated) in told.items() if computed != stated]
    if wrong:
        raise UserError(f"{result.spec.key}: its {' and '.join(wrong)} do not match the identity stored in it")
    return True
