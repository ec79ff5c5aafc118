"""The census of what a run reads: of each input, what was read and what else lies in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from harness.census import InputCensus, account_for, account_for_number
from harness.corpora.images import CaptionImages, FeatureFile
from harness.encoders.locate import ModelSource, list_model_files
from harness.encoders.unknown import compute_unknown_share
from harness.planning.ingredients import Ingredient
from harness.planning.inventory import Inventory, UsedCorpus
from harness.sources import Checkable, Findings

#: the share of unknown tokens from which a user is warned
MANY_UNKNOWN = 0.2


def make_census(
    what: str, files: Sequence[str], findings: Findings, encoder: tuple[str, Path] | None
) -> InputCensus:
    """The census of an input that was examined; `encoder` is the name and folder of the model whose
    tokenizer reads its texts.
    """
    shares = {}
    if encoder is not None:
        name, folder = encoder
        share = compute_unknown_share(findings.sample, folder)
        if share is not None:
            shares[name] = share
    return InputCensus(
        what=what,
        files=tuple(map(name_file, files)),
        rows=findings.rows,
        images=findings.images,
        equal_rows=findings.equal_rows,
        unknown_tokens=shares,
        accounts=tuple(findings.accounts),
    )


def name_file(file: str) -> str:
    """A file as results name it: where it lies on this machine is left out."""
    return Path(file).name if Path(file).is_absolute() else file


def make_need_census(
    teacher: str, need: Ingredient[Checkable], unread_rows: int = 0
) -> list[InputCensus]:
    """The census of what a teacher's features depend on: their file, pictures, or a model.

    `unread_rows` of a file belong to nothing that is read.
    """
    source = need.source
    if isinstance(source, FeatureFile | CaptionImages):
        kind = "features" if isinstance(source, FeatureFile) else "pictures"
        subject = f"{kind} of {teacher}: {name_file(source.files[0])}"
        census = make_census(subject, source.files, need.examined, None)
        unread = account_for_number("rows", unread_rows, "of nothing that is captioned")
        return [census.model_copy(update={"accounts": (*census.accounts, *unread)})]
    model = getattr(source, "model", None)
    if isinstance(model, ModelSource):
        # the fingerprint of what reads the model is at hand, and differs where the model's does
        return [_make_folder_census(f"teacher {teacher}", model.path(), need.fingerprint)]
    return []


def make_corpus_census(corpus: UsedCorpus, encoder: tuple[str, Path] | None) -> InputCensus:
    """The census of a corpus as a run reads it, made once for each encoder."""
    if encoder not in corpus.censuses:
        source = corpus.plain.source
        files = getattr(source, "files", None) or [getattr(source, "path", "made by the harness")]
        subject = f"corpus {corpus.name}"
        corpus.censuses[encoder] = make_census(subject, files, corpus.found, encoder)
    return corpus.censuses[encoder]


def make_model_census(what: str, model: Ingredient[ModelSource]) -> InputCensus:
    """The census of a model's folder; others than the files that are read have no effect."""
    return _make_folder_census(what, model.source.path(), model.fingerprint)


@cache
def _make_folder_census(what: str, folder: Path, fingerprint: str) -> InputCensus:
    """The same, once for a content."""
    names_read = [path.relative_to(folder).as_posix() for path in list_model_files(folder)]
    names_of_files = {
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    }
    names_left_out = sorted(names_of_files.difference(names_read))

    accounts = account_for("files", names_read, "read")
    accounts += account_for("files", names_left_out, "left out", "not read by the harness")
    return InputCensus(what=what, accounts=tuple(accounts))


def make_task_censuses(
    inventory: Inventory, suites: Iterable[str], encoder: tuple[str, Path] | None
) -> list[InputCensus]:
    """The census of the profile's own tasks of suites; the model of `encoder` reads their texts."""
    names: list[str] = []
    for suite in suites:
        names += inventory.list_selected_tasks(suite) or inventory.suites[suite].tasks

    censuses = []
    for name in dict.fromkeys(names):
        task = inventory.tasks.get(name)
        if task is not None and not task.missing(inventory.root):
            files = getattr(task, "files", ())
            findings = task.examined(inventory.root)
            censuses.append(make_census(f"task {name}", files, findings, encoder))
    return censuses


def merge_censuses(censuses: Iterable[InputCensus]) -> list[InputCensus]:
    """Each input once, with the shares of unknown tokens of all encoders that read it."""
    merged: dict[str, InputCensus] = {}
    for census in censuses:
        earlier = merged.setdefault(census.what, census)
        if not census.unknown_tokens.keys() <= earlier.unknown_tokens.keys():
            shares = {**earlier.unknown_tokens, **census.unknown_tokens}
            merged[census.what] = earlier.model_copy(update={"unknown_tokens": shares})
    return list(merged.values())


def warn_of_unknown(censuses: Iterable[InputCensus]) -> list[str]:
    """A line for each corpus of which an encoder's vocabulary lacks a large part."""
    lines = []
    for census in censuses:
        corpus = census.what.removeprefix("corpus ")
        for name, share in census.unknown_tokens.items():
            if share >= MANY_UNKNOWN:
                lines.append(
                    f"{corpus}: {100 * share:.0f} % of the tokens are unknown to the encoder {name}, which reads "
                    "them all as one"
                )
    return lines
