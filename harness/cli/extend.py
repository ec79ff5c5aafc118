"""`harness new` and `harness check`: commented templates of a profile, a task and a method, and
checks of methods.
"""

from __future__ import annotations

import importlib.util
import keyword
import re
import shlex
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import click

from harness.cli.options import CommandGroup
from harness.cli.output import echo
from harness.command_line import harness_command
from harness.errors import UserError
from harness.files import write_text
from harness.formatting import count_of
from harness.registry import list_registered

#: file of a method's package -> its template; examples/plugin-template is the package that they
#: make
_PACKAGE = {
    "pyproject.toml": "method.toml",
    "src/@NAME@.py": "method.txt",
    "tests/test_@NAME@.py": "method.test",
    "README.md": "method.md",
    ".github/workflows/method.yml": "method.yml",
    ".gitignore": "method.gitignore",
}
_MODULE = re.compile(r"[a-z][a-z0-9_]{0,99}")


@click.group(cls=CommandGroup)
def new() -> None:
    """Write a commented template: a profile, a task or a method."""


@new.command()
@click.argument("name")
def profile(name: str) -> None:
    """Write NAME.toml, a profile that extends another."""
    name = _check_profile_name(name.removesuffix(".toml"))
    file = Path(f"{name}.toml")
    _write_templates({file: "profile.toml"}, {"NAME": name})
    echo(f"wrote {file}; run it as it is, on toy data:")
    echo(f"  {harness_command('run', profile=str(file))}")


@new.command()
@click.argument("name")
def task(name: str) -> None:
    """Write NAME.tsv, sentence pairs, and NAME.toml, a profile."""
    from harness.planning.inventory import check_task_name

    check_task_name(_check_profile_name(name))
    file = Path(f"{name}.toml")
    pairs = Path(f"{name}.tsv")
    _write_templates({file: "task.toml", pairs: "task.tsv"}, {"NAME": name})
    echo(f"wrote {file} and {pairs}; run them as they are:")
    echo(f"  {harness_command('run', profile=str(file), suites='sts')}")


@new.command()
@click.argument("name")
@click.option(
    "--text-only", is_flag=True, help="A method that learns from sentences alone, without pictures."
)
def method(name: str, text_only: bool) -> None:
    """Write the folder NAME, a package with a method in one file and its tests."""
    fault = ""
    if not _MODULE.fullmatch(name) or keyword.iskeyword(name):
        fault = "is not a valid module name (at most 100 of a-z, 0-9 and '_')"
    elif name in list_registered("method") or importlib.util.find_spec(name) is not None:
        fault = "is already the name of a method or module"
    if fault:
        raise UserError(f"'{name}' {fault}; give another name, for example my_method")

    templates = {file.replace("@NAME@", name): start for file, start in _PACKAGE.items()}
    words = {
        "NAME": name,
        "CLASS": "".join(part.capitalize() for part in name.split("_")),
        "TERM": "spread" if text_only else "image",
    }
    paths = {Path(name) / file: start for file, start in templates.items()}
    _write_templates(paths, words, "TEXT" if text_only else "PICTURES")

    echo(
        f"wrote {name}/ with {', '.join(templates)}; install the folder once, then change the method and run it:"
    )
    echo(f"  {shlex.join(['pip', 'install', '-e', f'./{name}'])}")
    echo(f"  {harness_command('run', profile='tiny', methods=name)}")


def _check_profile_name(name: str) -> str:
    """Check the name of a new profile. Raises UserError for an invalid name or that of a shipped
    profile.
    """
    from harness.profiles import shipped_profiles

    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise UserError(
            f"'{name}' is not a valid name; use at most 100 letters, digits, '.', '_' and '-', without a folder"
        )
    if name in shipped_profiles():
        raise UserError(
            f"the profile '{name}' is shipped; give another name, for example my-{name}"
        )
    return name


def _write_templates(
    templates: Mapping[Path, str], words: Mapping[str, str], marked: str = ""
) -> None:
    """Write templates, with each @WORD@ replaced; of lines that begin with @TEXT@ or @PICTURES@,
    only those `marked` so.

    Raises UserError, and writes nothing, if a file exists.
    """
    for target in sorted({Path(path.parts[0]) for path in templates}):
        if target.exists() or target.is_symlink():
            raise UserError(f"{target} exists already; give another name, or move it away")

    other_lines = rf"^@(?!{marked}@)(TEXT|PICTURES)@.*\n"
    for path, template in templates.items():
        text = files("harness.cli").joinpath("starts", template).read_text("utf-8")
        text = re.sub(rf"{other_lines}|^@{marked}@", "", text, flags=re.MULTILINE)
        for word, value in words.items():
            text = text.replace(f"@{word}@", value)
        write_text(path, text)


@click.command()
@click.argument(
    "what", metavar="METHOD|PACKAGE|FOLDER|MODULE[:CLASS]|FILE.py...", nargs=-1, required=True
)
@click.pass_context
def check(context: click.Context, what: tuple[str, ...]) -> None:
    """Check methods, or those of a package or file, on random batches.

    A name may have values, as in 'simcse[temperature=0.1]'. Neither a folder nor a file need be
    installed. It checks declarations, loss terms, gradients, values, seeds, checkpoints and
    devices, and trains a small encoder that is stopped, resumed and exported, a line for each. It
    notes a weight without a second term, which changes nothing. Exit code 1 if one fails.
    """
    from harness.method.conformance import check_all
    from harness.method.inert import describe_inert_weights
    from harness.method.lookup import find_variants

    methods = dict.fromkeys(method for name in what for method in find_variants(name))
    failures = 0
    for method in methods:
        for outcome in check_all(method):
            if outcome.problems:
                failures += 1
            echo(f"{'fails' if outcome.problems else 'ok':5} {outcome.method}: {outcome.check}")
            for problem in outcome.problems:
                echo(f"      {problem}")
        for note in describe_inert_weights(method):
            echo(f"note  {method.name}: {note}")

    if failures:
        echo(f"{count_of(failures, 'check')} failed", err=True)
        context.exit(1)
