"""BibTeX for what results used, from reports/citations.toml. Items without a known work are listed as such."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, model_validator

from harness import __version__
from harness.formatting import for_latex
from harness.metrics import AVERAGE
from harness.papers.published import REPORTS
from harness.papers.schema import PaperPart
from harness.spec import UNTRAINED
from harness.store import Result
from harness.tomlfiles import Name, read_toml

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
        return "inproceedings" if self.booktitle else "article" if self.journal else "misc"


class Citations(PaperPart):
    """The works, and which of them to cite for each thing used. `name` is the file's stem."""

    name: Name
    uses: Mapping[Kind, Mapping[Name, tuple[Name, ...]]]
    works: Mapping[Name, CitedWork]

    @model_validator(mode="after")
    def _check_keys(self) -> Citations:
        for kind, named in self.uses.items():
            for name, keys in named.items():
                if unknown := sorted(set(keys) - set(self.works)):
                    raise ValueError(f"uses.{kind}.{name} names the work '{unknown[0]}', which is not there")
        return self


class Used(NamedTuple):
    """Something that results used, such as the encoder bert-base-uncased."""

    kind: Kind
    name: str


@cache
def read_citations() -> Citations:
    """Read reports/citations.toml. Raises UserError for a wrong file."""
    return read_toml(REPORTS / "citations.toml", "the citations", Citations)


def used_by(results: Iterable[Result]) -> list[Used]:
    """What results used, each thing once: methods, encoders, teachers, corpora, suites and their tasks."""
    return list(dict.fromkeys(use for result in results for use in _used(result)))


def bibtex(used: Sequence[Used], papers: Mapping[str, str] | None = None) -> str:
    """The entries of this project and of what was used, and a comment for each thing without a work.

    `papers` has, by method, the paper that it declares; the comment on a method without a work quotes it.
    """
    citations, said = read_citations(), papers or {}
    keys = dict.fromkeys([HARNESS])
    unknown = []
    for kind, name in used:
        entries = citations.uses.get(kind, {}).get(name, ())
        keys.update(dict.fromkeys(entries))
        if not entries:
            told = f": {said[name]}" if kind == "methods" and said.get(name) else ""
            unknown.append(f"% no known reference for {_SINGULAR[kind]} {' '.join(name.split())}{told}")
    return "\n\n".join([*(entry(key) for key in keys), *(["\n".join(unknown)] if unknown else [])]) + "\n"


def entry(key: str) -> str:
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
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
    return "\n".join([f"@{work.kind}{{{key},", *lines, "}"])


def works_of(method: str) -> tuple[str, ...]:
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


def _used(result: Result) -> Iterator[Used]:
    spec = result.spec
    if spec.method != UNTRAINED:
        yield Used("methods", spec.method)
    yield Used("encoders", spec.encoder)
    if spec.setting != UNTRAINED:
        yield from (Used("corpora", name) for name in spec.setting.partition("[")[0].split("+"))
    yield from (Used("teachers", use.teacher) for use in result.teachers.values())
    uses = read_citations().uses
    for evaluation in result.evaluations:
        if evaluation.suite in uses["suites"]:
            yield Used("suites", evaluation.suite)
        # the work cited for mteb covers its tasks
        if evaluation.suite != "mteb":
            tasks = (task for task in evaluation.scores if task.partition("[")[0] != AVERAGE)
            yield from (Used("tasks", task) for task in tasks)
