"""BibTeX for what results used, from reports/citations.toml. Items without a known work are listed
as such.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from inspect import cleandoc
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import Field, model_validator

from harness import __version__
from harness.formatting import for_latex
from harness.metrics import AVERAGE
from harness.papers.published import REPORTS
from harness.papers.schema import PaperPart
from harness.spec import UNTRAINED
from harness.store import Result, frames_of, lines_of
from harness.tomlfiles import Name, read_toml

if TYPE_CHECKING:
    from harness.method import Method

Kind = Literal["methods", "encoders", "teachers", "corpora", "suites", "tasks"]
#: the key of this project's own entry
HARNESS = "harness"


class CitedWork(PaperPart):
    """A work that is cited."""

    title: Name
    authors: Annotated[tuple[Name, ...], Field(min_length=1)]
    booktitle: str = ""
    journal: str = ""
    year: int | None = None
    pages: str = ""

    @property
    def kind(self) -> str:
        if self.booktitle:
            return "inproceedings"
        return "article" if self.journal else "misc"


class Citations(PaperPart):
    """The works, and which of them to cite for each thing used. `name` is the file's stem."""

    name: Name
    uses: Mapping[Kind, Mapping[Name, tuple[Name, ...]]]
    works: Mapping[Name, CitedWork]

    @model_validator(mode="after")
    def _check_keys(self) -> Citations:
        for kind, named in self.uses.items():
            for name, keys in named.items():
                unknown = sorted(set(keys) - self.works.keys())
                if unknown:
                    raise ValueError(
                        f"uses.{kind}.{name} names the work '{unknown[0]}', which is not there"
                    )
        return self


class Used(NamedTuple):
    """Something that results used, such as the encoder bert-base-uncased."""

    kind: Kind
    name: str


@cache
def read_citations() -> Citations:
    """Read reports/citations.toml. Raises UserError for a wrong file."""
    return read_toml(REPORTS / "citations.toml", "the citations", Citations)


def list_used(results: Sequence[Result]) -> list[Used]:
    """What results used, each thing once: methods, encoders, teachers, corpora, suites and their
    tasks.
    """
    frames = frames_of(results)
    scores = frames.scores.drop_duplicates(["evaluation", "task"])
    tasks_by_evaluation: dict[int, list[str]] = {}
    for evaluation, task in zip(scores["evaluation"], scores["task"], strict=True):
        tasks_by_evaluation.setdefault(evaluation, []).append(task)

    evaluations = zip(frames.evaluations["run"], frames.evaluations["suite"], strict=True)
    suites_by_run: dict[int, list[tuple[str, list[str]]]] = {}
    for evaluation, (run, suite) in enumerate(evaluations):
        tasks = tasks_by_evaluation.get(evaluation, [])
        suites_by_run.setdefault(run, []).append((suite, tasks))

    used = dict[Used, None]()
    for run in lines_of(frames.runs):
        used |= dict.fromkeys(_list_used_by_run(run, suites_by_run.get(run.Index, [])))
    return list(used)


def make_bibtex(
    used: Sequence[Used], methods: Mapping[str, type[Method]] = MappingProxyType({})
) -> str:
    """The entries of this project and of what was used, and a comment for each thing without a
    work.

    A method without a work is cited by the `citation` that it declares; if that is empty, the
    comment has its `paper`.
    """
    uses = read_citations().uses
    keys = dict.fromkeys([HARNESS])
    declared = []
    unknown = []
    for kind, name in used:
        keys_of_works = uses.get(kind, {}).get(name, ())
        if keys_of_works:
            keys |= dict.fromkeys(keys_of_works)
            continue

        method = methods.get(name) if kind == "methods" else None
        if method and method.citation:
            declared.append(cleandoc(method.citation).strip())
        else:
            paper = f": {method.paper}" if method and method.paper else ""
            words = " ".join(name.split())
            unknown.append(f"% no known reference for {_SINGULAR[kind]} {words}{paper}")

    parts = [make_entry(key) for key in keys] + declared
    if unknown:
        parts.append("\n".join(unknown))
    return "\n\n".join(parts) + "\n"


def make_entry(key: str) -> str:
    """One entry of BibTeX."""
    work = read_citations().works[key]
    fields = {
        "title": f"{{{for_latex(work.title)}}}",
        "author": " and ".join(work.authors),
        "booktitle": for_latex(work.booktitle),
        "journal": for_latex(work.journal),
        "year": str(work.year or ""),
        "pages": work.pages,
        "note": f"version {__version__}" if key == HARNESS else "",
    }
    lines = [f"@{work.kind}{{{key},"]
    lines += [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
    return "\n".join([*lines, "}"])


def find_works(method: str) -> tuple[str, ...]:
    """The keys of a method's works; none for one that is not listed."""
    return read_citations().uses["methods"].get(method, ())


_SINGULAR: Mapping[Kind, str] = {
    "methods": "the method",
    "encoders": "the encoder",
    "teachers": "the teacher",
    "corpora": "the training data",
    "suites": "the suite",
    "tasks": "the task",
}


def _list_used_by_run(run: Any, evaluated: Iterable[tuple[str, Sequence[str]]]) -> Iterator[Used]:
    """What a run used, a line of a frame, with the tasks of each of its evaluations."""
    if run.method != UNTRAINED:
        yield Used("methods", run.method)
    yield Used("encoders", run.encoder)
    if run.setting != UNTRAINED:
        corpora, _, _ = run.setting.partition("[")
        for name in corpora.split("+"):
            yield Used("corpora", name)
    for use in json.loads(run.teachers).values():
        yield Used("teachers", use["teacher"])

    uses = read_citations().uses
    for suite, tasks in evaluated:
        if suite in uses["suites"]:
            yield Used("suites", suite)
        if suite == "mteb":
            continue  # the work cited for it covers its tasks
        for task in tasks:
            if task.partition("[")[0] != AVERAGE:
                yield Used("tasks", task)
