"""The command line as a whole: names, help, shell completion, and the commands that texts quote."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from cli_words import Typed
from click.shell_completion import BashComplete

from harness.cli.main import COMMANDS, cli


def test_each_command_has_its_name_and_one_line_of_eighty_columns(typed: Typed) -> None:
    lines = typed("--help")[1].splitlines()
    for name, (_, text) in COMMANDS.items():
        command = cli.get_command(click.Context(cli), name)
        assert (command.name, command.get_short_help_str(80)) == (name, text)
        (line,) = (line for line in lines if line.startswith(f"  {name} "))
        assert len(line) <= 80
        assert not line.endswith("...")


def test_the_help_names_the_documents_of_this_installation(typed: Typed) -> None:
    epilog = typed("--help")[1].partition("The documents begin at")[2]
    page = Path("".join(epilog.split()))
    assert page.read_text().startswith("# ")


@pytest.mark.parametrize("words", [(), ("data",), ("results",), ("new",)])
def test_a_command_without_its_subcommand_prints_its_help(
    typed: Typed, words: tuple[str, ...]
) -> None:
    code, out, err = typed(*words)
    assert (code, err) == (0, "")
    assert out.startswith(f"Usage: {' '.join(('harness', *words))} ")


@pytest.mark.parametrize(
    ("kind", "option"), [("tables", "--table"), ("figures", "--figure"), ("papers", "--paper")]
)
def test_names_of_lists_are_typed_as_they_stand(typed: Typed, kind: str, option: str) -> None:
    code, out, err = typed("list", kind, "--profile", "tiny")
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines()[3:] if line.strip()]
    name = next(row[0] for row in rows if row[-1] != "0")
    code, out, _ = typed("run", option, name, "--profile", "tiny", "--dry-run")
    assert code == 0
    assert name in out


HEAVY = ("torch", "transformers", "pandas", "scipy")


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("harness stat", ["status"]),
        ("harness run --methods kd", ["kdmcse"]),
        ("harness run --methods simcse,mc", ["simcse,mcse"]),
        ("harness run --profile sm", ["small"]),
        ("harness run --profile tiny --settings toy-", ["toy-text", "toy-pairs"]),
        ("harness run --settings nli+", ["nli+imagenet", "nli+librispeech"]),
        ("harness run --profile tiny --encoders ", ["toy-bert"]),
        ("harness eval x --profile tiny --suites sts,ge", ["sts,geometry"]),
        ("harness run --profile ./mine.toml --settings ", []),
        ("harness run --table dalr:T10", ["dalr:T10"]),
        ("harness run --figure mcse:F3", ["mcse:F3"]),
        ("harness run --paper k", ["kdmcse"]),
        ("harness run --executor ser", ["serial"]),
        ("harness show visualcse-", ["visualcse-sup"]),
        ("harness data fetch wiki1", ["wiki1m"]),
    ],
)
def test_names_are_completed(line: str, offered: list[str]) -> None:
    *words, last = line.split(" ")[1:]
    completion = BashComplete(cli, {}, "harness", "_HARNESS_COMPLETE")
    assert [item.value for item in completion.get_completions(words, last)] == offered


def test_a_shell_completes_without_heavy_imports(tmp_path: Path) -> None:
    words = {"COMP_WORDS": "harness run --profile tiny --methods kd", "COMP_CWORD": "5"}
    env = {**os.environ, "_HARNESS_COMPLETE": "bash_complete", **words}
    told = f"import atexit, sys; atexit.register(lambda: print(sys.modules.keys() & {HEAVY!r}))"
    command = [sys.executable, "-c", f"{told}; from harness.cli.main import main; main()"]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout.splitlines(), done.stderr) == (["plain,kdmcse", "set()"], "")


CHECKOUT = Path(__file__).parents[2]
PACKAGE = CHECKOUT / "harness"
#: a value that is only known when the text is printed
VALUE = "VALUE"
QUOTED = re.compile(r"`harness ([^`]+)`")


def texts(tree: ast.AST) -> Iterator[str]:
    """All texts of a module, docstrings included, with values in place of expressions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else VALUE for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def calls(tree: ast.AST) -> Iterator[list[str]]:
    """The words of each `harness_command(...)`, with values in place of what is not written there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "harness_command":
            words = [
                str(argument.value) if isinstance(argument, ast.Constant) else VALUE
                for argument in node.args
            ]
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
        member = command.get_command(context, name)
        if member is None:
            return f"no command {name}"
        command = member
    known = {
        flag
        for parameter in command.get_params(context)
        for flag in (*parameter.opts, *parameter.secondary_opts)
    }
    flags = [word.partition("=")[0] for word in rest if word.startswith("--")]
    return next((f"no option {flag}" for flag in flags if flag not in known), "")


def in_package() -> Iterator[tuple[str, list[str]]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        source, file = path.read_text("utf-8"), str(path.relative_to(CHECKOUT))
        if "`harness " not in source and "harness_command(" not in source:
            continue
        tree = ast.parse(source)
        for text in texts(tree):
            yield from (
                (file, shlex.split(" ".join(quoted.split()))) for quoted in QUOTED.findall(text)
            )
        yield from ((file, words) for words in calls(tree))


def in_documents() -> Iterator[tuple[str, list[str]]]:
    pages = (
        *sorted((CHECKOUT / "docs").rglob("*.md")),
        *sorted((CHECKOUT / "examples").rglob("README.md")),
    )
    for path in (*pages, CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md"):
        quoted = QUOTED.findall(path.read_text("utf-8"))
        yield from (
            (str(path.relative_to(CHECKOUT)), shlex.split(" ".join(text.split())))
            for text in quoted
        )


@pytest.mark.parametrize("listed", [in_package, in_documents], ids=["package", "documents"])
def test_commands_in_texts_exist(listed: object) -> None:
    commands = list(listed())  # type: ignore[operator]
    assert len(commands) > 40
    assert [
        f"{file}: harness {' '.join(words)}: {why}"
        for file, words in commands
        if (why := fault(words))
    ] == []


def test_a_command_that_does_not_exist_is_found() -> None:
    typed = ("data list wiki1m", "train --profile tiny", "data lst", "run --profile tiny --seed 3")
    assert [fault(words.split()) for words in typed] == [
        "",
        "no command train",
        "no command lst",
        "no option --seed",
    ]
