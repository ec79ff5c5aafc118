"""Documents, docstrings and comments name modules, files, make targets, commands and options that
are there.
"""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest
import yaml
from pages import ROOT

from harness.cli.main import cli
from harness.documents import find_page

FOLDERS = ("harness", "methods", "tests", "benchmarks", "tools")
#: what a path begins with, or a name that only exists once it was made
PATH = re.compile(
    r"(?<![\w./-])((?:harness|methods|tests|benchmarks|tools|docs|reports|examples)/[\w./*-]*[\w*])"
)
MADE = ("docs/_build", "reports/build")
#: a file of SentEval
OTHERS = ("tools/classifier.py",)
#: the part of the change log that names what earlier states had
EARLIER = "### For users of earlier states"
MODULE = re.compile(r"(?<![\w./-])harness(?:_methods|_reports)?(?:\.[A-Za-z_]\w*)+(?![\w/])")
CODE = re.compile(r"`([^`\n]+)`")
#: strings too, so that a `#` in one begins no comment; `tokenize` takes ten times as long
STRING_OR_COMMENT = re.compile(
    r'''("""|\'\'\').*?(?<!\\)\1|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|(?P<comment>#[^\n]*)''',
    re.DOTALL,
)


def texts() -> Iterator[tuple[str, str]]:
    """Each document with its name, and of Python files the docstrings and comments."""
    for path in (
        *(ROOT / "docs").glob("*.md"),
        *ROOT.glob("*.md"),
        *(ROOT / "examples").glob("*.md"),
    ):
        yield str(path.relative_to(ROOT)), path.read_text().partition(EARLIER)[0]
    for name in ("Makefile", "pyproject.toml"):
        yield name, "\n".join(re.findall(r"#.*", (ROOT / name).read_text()))
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            yield str(path.relative_to(ROOT)), said(path)
        for path in (ROOT / folder).rglob("*.toml"):
            yield (
                str(path.relative_to(ROOT)),
                "\n".join(re.findall(r"^\s*#.*", path.read_text(), re.MULTILINE)),
            )


def said(path: Path) -> str:
    """The docstrings and comments of a file."""
    text = path.read_text()
    comments = [match["comment"] for match in STRING_OR_COMMENT.finditer(text) if match["comment"]]
    nodes = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
    ]
    return "\n".join([*comments, *filter(None, map(ast.get_docstring, nodes))])


@cache
def groups() -> frozenset[str]:
    """Groups of entry points, whose names look like modules."""
    return frozenset(
        tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    )


@cache
def is_named(name: str) -> bool:
    """Whether a dotted name is a module or what one has."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[end:]:
            if not hasattr(found, attribute) and attribute not in getattr(
                found, "__annotations__", {}
            ):
                return False
            found = getattr(found, attribute, None)
        return True
    return False


def gone(text: str) -> list[str]:
    """What a text names that is not there."""
    paths = {name for name in PATH.findall(text) if not name.startswith((*MADE, *OTHERS))}
    missing = [name for name in paths if "NAME" not in name and not any(ROOT.glob(name))]
    missing += [name for name in set(MODULE.findall(text)) - groups() if not is_named(name)]
    targets = re.findall(r"`make ([a-z]+)`", text)
    missing += [
        f"make {name}" for name in targets if f"\n{name}:" not in (ROOT / "Makefile").read_text()
    ]
    return missing + [
        code for code in CODE.findall(text) if code.startswith("harness ") and not is_command(code)
    ]


def is_command(code: str) -> bool:
    """Whether the command of a line of code is there, with its options."""
    command: click.Command | None = cli
    options: set[str] = set()
    for word in code.split()[1:]:
        if isinstance(command, click.Group) and re.fullmatch(r"[a-z]+", word):
            command = command.get_command(click.Context(command), word)
            if command is None:
                return False
        options |= (
            {word.partition("=")[0]} if re.fullmatch(r"--[a-z][a-z-]+(=.*)?", word) else set()
        )
    known = {
        option
        for one in (command.params if command else ())
        for option in one.opts + one.secondary_opts
    }
    return options <= known | {"--help", "--version"}


def test_what_is_named_is_there() -> None:
    assert {name: missing for name, text in texts() if (missing := gone(text))} == {}


def test_the_pages_that_messages_name_are_there() -> None:
    texts = [path.read_text() for path in (ROOT / "harness").rglob("*.py")]
    names = {name for text in texts for name in re.findall(r"find_page\([\"'](.+?)[\"']\)", text)}
    assert {"index.md", "data.md", "reproduce.md"} <= names
    assert [name for name in names if not find_page(name).is_file()] == []


@pytest.mark.parametrize(
    "text",
    [
        "see harness/encoders/dropout.py",
        "`benchmarks/gpu.py`",
        "harness.encoders.dropout",
        "`harness.files.no_such_name`",
        "`make everything`",
        "`harness train --profile tiny`",
        "`harness run --profil tiny`",
    ],
)
def test_what_is_gone_is_found(text: str) -> None:
    assert gone(text)


def test_the_weekly_workflow_runs_each_long_form() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "long.yml").read_text())
    forms = set(workflow["jobs"]["long"]["strategy"]["matrix"]["form"])
    # YAML reads `on` as true
    assert workflow[True]["schedule"]

    pytest_options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]
    markers = {line.partition(":")[0] for line in pytest_options["ini_options"]["markers"]}
    assert markers | {"floors"} <= forms
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert forms <= set(targets)
