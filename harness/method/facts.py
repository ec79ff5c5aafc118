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

from harness.code import get_declarations
from harness.errors import UserError
from harness.method.declared import get_declared_method, method_named
from harness.processors import start_with_safe_path, start_without_script
from harness.registry import convert_errors, list_registered

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


def read_method_facts(name: str) -> MethodFacts:
    """The facts of a registered method, usually without importing torch.

    Raises UserError if it is unknown, PlugInError if its own code fails.
    """
    return _read_facts(get_declarations().ask("method", name, _FACTS, lambda: _describe(name)))


#: the question to a method that its facts answer
_FACTS = "facts"


def _describe(name: str) -> dict[str, Any]:
    """The facts of a method as JSON values."""
    method = method_named(name)
    with convert_errors("method", name, "cannot be described"):
        values_by_reading = [method.configure(reading).named() for reading in method.readings]
        options = [
            _make_option_facts(option, declared, values_by_reading)
            for option, declared in method.Hyperparameters.options().items()
        ]
        decisions = [
            (subject, ORIGINS[origin], done) for subject, (origin, done) in method.decisions.items()
        ]
        facts = MethodFacts(
            name=name,
            paper=str(method.paper),
            streams=tuple(method.streams),
            terms=tuple(method.terms),
            parts=tuple(method.parts),
            readings=dict(method.readings),
            values=options,
            decisions=decisions,
            title=str(method.title) or name,
        )
        return {**dataclasses.asdict(facts), "notes": method.notes or name}


def _read_facts(content: Mapping[str, Any]) -> MethodFacts:
    """The facts that JSON values describe; notes that are not written are none."""
    notes = Path(str(files("harness_reports") / "notes" / f"{content['notes']}.md"))
    options = []
    for option in content["values"]:
        by_reading = tuple(option["by_reading"])
        options.append(OptionFacts(**{**option, "by_reading": by_reading}))

    facts = {
        **content,
        "streams": tuple(content["streams"]),
        "terms": tuple(content["terms"]),
        "parts": tuple(content["parts"]),
        "values": options,
        "notes": notes if notes.is_file() else None,
        "decisions": list(map(tuple, content["decisions"])),
    }
    return MethodFacts(**facts)


def read_methods_in_process() -> tuple[list[MethodFacts], list[str]]:
    """The facts of all registered methods, and one line for each method that fails.

    Those that are not kept are from a process of its own: methods import torch, which needs more
    memory than a report.
    """
    declarations = get_declarations()
    contents = [declarations.recall("method", name, _FACTS) for name in list_registered("method")]
    if all(contents):
        return list(map(_read_facts, contents)), []

    spawn = get_context("spawn")
    # a pool would need semaphores, which need /dev/shm
    receiver, sender = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_send_methods, args=(sender,))
    with start_with_safe_path(), start_without_script():
        process.start()
    sender.close()
    with receiver:
        try:
            sent: tuple[list[MethodFacts], list[str]] = receiver.recv()
        except EOFError:
            sent = [], ["no method is described: a method ended the process that imported it"]
    process.join()

    # the next report of this process needs no other one
    declarations.read_again()
    return sent


def _send_methods(sender: Connection) -> None:
    """Send the facts of all methods, and a line for each that fails, to the process of the report."""
    methods = []
    problems = []
    for name in list_registered("method"):
        try:
            methods.append(read_method_facts(name))
            # kept as well, since a report asks for it
            get_declared_method(name)
        except UserError as error:
            problems.append(str(error))
    get_declarations().save()
    sender.send((methods, problems))


def _make_option_facts(
    name: str,
    declared: dataclasses.Field[Any],
    values_by_reading: Sequence[Mapping[str, object]],
) -> OptionFacts:
    about = declared.metadata
    # an empty choice is the one that leaves something out
    choices = ", ".join(choice or "nothing" for choice in about["choices"])
    return OptionFacts(
        name,
        by_reading=tuple(str(values[name]) for values in values_by_reading),
        allowed=choices or str(about["unit"]),
        source=str(about["source"]),
        origin=ORIGINS[about["origin"]],
    )
