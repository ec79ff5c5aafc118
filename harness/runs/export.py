"""A finished run as a folder that transformers and sentence-transformers load, with its model card.

New folders are written completely or not at all.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from glob import escape
from pathlib import Path

from safetensors import SafetensorError
from yaml import YAMLError

from harness.encoders.sentence_modules import SentenceModules
from harness.encoders.student import Student
from harness.errors import UserError, first_line
from harness.fetching.repositories import find_or_make, upload
from harness.files import fill_folder, temporary_beside, write_text
from harness.formatting import count_of
from harness.locks import try_lock
from harness.planning.inventory import Inventory
from harness.reporting.card import ModelFacts, Provenance, model_card
from harness.runs.finished import FinishedRun, find_result
from harness.sources import data_root
from harness.store import Result, Store, frame_of

#: the file that marks a folder as an export that has not ended, and is locked as long as its process lives
_MARK = ".harness-export.lock"


def check_new(to: Path, option: str) -> None:
    """Raise UserError where the folder that an option names is neither new nor empty."""
    folder = to.expanduser().resolve()
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UserError(f"{option} {to} exists and is not an empty folder; nothing is overwritten, give another folder")


def write_whole(to: Path, option: str, fill: Callable[[Path], None]) -> Path:
    """Fill a new folder beside `to`, which is empty or not there, and rename it; remove it where that fails.

    Raises UserError where it cannot be written.
    """
    folder = to.expanduser().resolve()
    try:
        _write(folder, fill)
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) else first_line(error)
        raise UserError(f"{option} {to} cannot be written: {reason}; give another folder") from error
    return folder


def _write(folder: Path, fill: Callable[[Path], None]) -> None:
    fresh = temporary_beside(folder)
    _remove_leftovers(folder)

    with ExitStack() as held:

        def fill_marked(path: Path) -> None:
            held.enter_context(try_lock(path / _MARK))
            fill(path)

        fill_folder(fresh, fill_marked)
        try:
            (fresh / _MARK).unlink()
            fresh.replace(folder)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise


def _remove_leftovers(folder: Path) -> None:
    """Remove what killed exports to the same folder left: unfinished folders with their mark, which nobody holds."""
    for mark in folder.parent.glob(f"{escape(temporary_beside(folder).name.rsplit('.', 2)[0])}.*.tmp/{_MARK}"):
        with try_lock(mark) as free:
            if free:
                shutil.rmtree(mark.parent, ignore_errors=True)


@dataclass(frozen=True)
class Exported:
    """What was written; `modules` says whether sentence-transformers can load it.

    `problems` has one line for each result of another seed that the card leaves out, since it cannot be used.
    """

    folder: Path
    result: Result
    modules: bool
    problems: tuple[str, ...]


def export(what: str, to: Path, results: Path, profile: str | None = None, encoder: Path | None = None) -> Exported:
    """Write the best model of a run, with its card, to the new folder `to`, completely or not at all.

    `what` is a run's key in the folder `results`, or a result file, whose own folder holds the weights; for `profile`
    and `encoder` see `FinishedRun`. Raises UserError for a run that does not exist or is not the only one, missing
    weights, and a folder that is not empty.
    """
    check_new(to, "--to")
    result, store = find_result(what, results, profile)
    run = FinishedRun(result, store, profile, encoder)
    student = run.student()
    if isinstance(student, SentenceModules):
        raise UserError(
            f"{result.spec.key} evaluated a model of sentence-transformers unchanged; copy the folder of that model"
        )
    facts = model_facts(run, student)
    seeds, problems = siblings(result, store)
    card = model_card(result, facts, frame_of(seeds))

    def fill(path: Path) -> None:
        student.save(path)
        write_text(path / "README.md", card)

    return Exported(write_whole(to, "--to", fill), result, facts.modules, tuple(problems))


def push_model(folder: Path, repository: str, run: str) -> str:
    """Write the files of an exported model into a new repository of the hub, which is private; return its commit.

    Raises UserError for a repository that has files, of which none is overwritten, and one that cannot be written to.
    """
    remote = find_or_make(repository, "model")
    if held := remote.files - {".gitattributes"}:
        raise UserError(f"{repository} has {count_of(len(held), 'file')} already; give a new repository")
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return upload(remote, files, f"Add {run}")


def siblings(result: Result, store: Store) -> tuple[list[Result], list[str]]:
    """The results that differ from one by their seed alone, itself first, and a line for each that cannot be used."""
    found, problems = store.seeds(result.profile, result.spec)
    others = (one for one in found if one.fingerprint != result.fingerprint)
    same = [one for one in others if one.group == result.group and one.overrides == result.overrides]
    return [result, *same], problems


def model_facts(run: FinishedRun, student: Student) -> ModelFacts:
    """The facts of the card that are not in the result."""
    profile, resolved, name = run.profile, run.resolved, run.result.spec.encoder
    table, trains = profile.encoders.get(name), resolved.trains
    corpora = {corpus: profile.corpora[corpus] for corpus in resolved.streams} if trains else {}
    teachers = {role: (use, profile.teachers.get(use.teacher)) for role, use in run.result.teachers.items()}
    return ModelFacts(
        pooling=run.pooling,
        modules=student.pooling.switch is not None,
        width=student.width,
        longest=student.longest,
        encoder=f"{name} (in the profile: {table.origin})" if table else name,
        base_model=table.hub if table else name if "/" in name else None,
        licence=_licence(run),
        language="en" if profile.origin == "package" else None,
        setting=profile.settings[resolved.spec.setting.name].description if trains else "",
        corpora=tuple(
            Provenance(corpus, ", ".join(str(part) for part in (found.kind, found.options.get("file")) if part))
            for corpus, found in corpora.items()
        ),
        teachers=tuple(
            Provenance(role, f"{use.teacher} ({use.of})" + (f", {found.kind}: {found.origin}" if found else ""))
            for role, (use, found) in teachers.items()
        ),
    )


def _licence(run: FinishedRun) -> str | None:
    """What the card in the folder of a run's encoder states as its licence; None where nothing is known."""
    from huggingface_hub import metadata_load

    name, given = run.result.spec.encoder, run.given_encoder
    try:
        folder = given or Inventory(run.profile, data_root(), {}).encoder(name).source.path()
        stated = (metadata_load(folder / "README.md") or {}).get("license")
    except (UserError, OSError, ValueError, YAMLError):
        return None
    return stated if isinstance(stated, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*", stated) else None
