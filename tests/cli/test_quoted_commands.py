"""Every `harness ...` command that the package prints, or its documents quote, has a command and options that exist."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import harness
from harness.cli.main import cli

PACKAGE = Path(harness.__file__).parent
CHECKOUT = PACKAGE.parent
#: a value that is only known when the text is printed
VALUE = "VALUE"
QUOTED = re.compile(r"`harness ([^`]+)`")


def texts(tree: ast.AST) -> Iterator[str]:
    """All texts of a module, docstrings included, with values in place of expressions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else VALUE for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def calls(tree: ast.AST) -> Iterator[list[str]]:
    """The words of each `harness_command(...)`, with values in place of what is not written there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "harness_command":
            words = [str(one.value) if isinstance(one, ast.Constant) else VALUE for one in node.args]
            flags = [f"--{key.arg.replace('_', '-')}" for key in node.keywords if key.arg]
            yield words + [word for flag in flags for word in (flag, VALUE)]


def fault(words: list[str]) -> str:
    """What does not exist in a command; empty where all of it does."""
    command: click.Command = cli
    context = click.Context(cli)
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        if name in ("...", "COMMAND", VALUE):
            return ""
        found = command.get_command(context, name)
        if found is None:
            return f"no command {name}"
        command = found
    known = {flag for one in command.get_params(context) for flag in (*one.opts, *one.secondary_opts)}
    flags = [word.partition("=")[0] for word in rest if word.startswith("--")]
    return next((f"no option {flag}" for flag in flags if flag not in known), "")


def in_package() -> Iterator[tuple[str, list[str]]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        source, place = path.read_text("utf-8"), str(path.relative_to(CHECKOUT))
        if "`harness " not in source and "harness_command(" not in source:
            continue
        tree = ast.parse(source)
        for text in texts(tree):
            yield from ((place, shlex.split(" ".join(found.split()))) for found in QUOTED.findall(text))
        yield from ((place, words) for words in calls(tree))


def in_documents() -> Iterator[tuple[str, list[str]]]:
    for path in (*sorted((CHECKOUT / "docs").rglob("*.md")), CHECKOUT / "README.md"):
        found = QUOTED.findall(path.read_text("utf-8"))
        yield from ((str(path.relative_to(CHECKOUT)), shlex.split(" ".join(text.split()))) for text in found)


@pytest.mark.parametrize("found", [in_package, in_documents], ids=["package", "documents"])
def test_commands_in_texts_exist(found: object) -> None:
    commands = list(found())  # type: ignore[operator]
    assert len(commands) > 40
    assert [f"{place}: harness {' '.join(words)}: {why}" for place, words in commands if (why := fault(words))] == []


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ("run --profile tiny", ""),
        ("data list wiki1m", ""),
        ("train --profile tiny", "no command train"),
        ("data lst", "no command lst"),
        ("run --seed 3", "no option --seed"),
    ],
)
def test_a_command_that_does_not_exist_is_found(typed: str, why: str) -> None:
    assert fault(typed.split()) == why
