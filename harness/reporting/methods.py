"""What methods declare, as plain data: streams, loss terms, readings and hyperparameters by
reading.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from harness.errors import UserError
from harness.processors import safe_path, without_script
from harness.registry import errors_of, names

#: origins of @paper's values in words
ORIGINS = {
    None: "",
    "text": "text",
    "code": "code, text silent",
    "mended": "text, corrected",
    "control": "control of this project",
}


@dataclass(frozen=True)
class OptionFacts:
    """A hyperparameter: its default in each reading, its unit or allowed values, and its source in
    the paper.

    `origin` says in words where the default of @paper comes from.
    """

    name: str
    by_reading: tuple[str, ...]
    allowed: str
    source: str
    origin: str = ""

    @property
    def differs(self) -> bool:
        """Whether its default depends on the reading."""
        return len(set(self.by_reading)) > 1


@dataclass(frozen=True)
class MethodFacts:
    """A method as data. `title` is its name as people write it.

    `readings` map names to sources, `notes` is the Markdown file on the method, if there is one.
    `decisions` are what @paper does outside its hyperparameters: subject, origin in words, what is
    done.
    """

    name: str
    paper: str
    streams: Sequence[str]
    terms: Sequence[str]
    parts: Sequence[str]
    readings: Mapping[str, str]
    values: Sequence[OptionFacts]
    notes: Path | None = None
    decisions: Sequence[tuple[str, str, str]] = ()
    title: str = ""


def method_facts(name: str) -> MethodFacts:
    """The facts of a registered method. Raises UserError if it is unknown, PlugInError if its own
    code fails.
    """
    from harness.method import method_named

    method = method_named(name)
    with errors_of("method", name, "cannot be described"):
        notes = Path(str(files("harness_reports") / "notes" / f"{method.notes or name}.md"))
        named = [method.configure(reading).named() for reading in method.readings]
        return MethodFacts(
            name=name,
            paper=str(method.paper),
            streams=tuple(method.streams),
            terms=tuple(method.terms),
            parts=tuple(method.parts),
            readings=dict(method.readings),
            values=[
                _option(key, item, named) for key, item in method.Hyperparameters.options().items()
            ],
            notes=notes if notes.is_file() else None,
            decisions=[
                (key, ORIGINS[origin], done) for key, (origin, done) in method.decisions.items()
            ],
            title=str(method.title) or name,
        )


def methods_from_a_process() -> tuple[list[MethodFacts], list[str]]:
    """The facts of all registered methods, and one line for each method that fails.

    They are from a process of its own: methods import torch, which needs more memory than a report.
    """
    spawn = get_context("spawn")
    answers, answer = spawn.Pipe(duplex=False)  # a pool would need semaphores, which need /dev/shm
    process = spawn.Process(target=_send_methods, args=(answer,))
    with safe_path(), without_script():
        process.start()
    answer.close()
    with answers:
        try:
            sent: tuple[list[MethodFacts], list[str]] = answers.recv()
        except EOFError:
            sent = [], ["no method is described: a method ended the process that imported it"]
    process.join()
    return sent


def _send_methods(answer: Connection) -> None:
    methods = []
    problems = []
    for name in names("method"):
        try:
            methods.append(method_facts(name))
        except UserError as error:
            problems.append(str(error))
    answer.send((methods, problems))


def _option(
    key: str, item: dataclasses.Field[Any], named: Sequence[Mapping[str, object]]
) -> OptionFacts:
    allowed = ", ".join(choice or "nothing" for choice in item.metadata["choices"]) or str(
        item.metadata["unit"]
    )
    by_reading = tuple(str(values[key]) for values in named)
    return OptionFacts(
        key, by_reading, allowed, str(item.metadata["source"]), ORIGINS[item.metadata["origin"]]
    )
