"""Every command and every piece of Python on a page works: it is carried out, or planned, or at
least understood.

The tests plan each grid (`--dry-run`) and carry out the commands that take no time. `make long`
carries out all of them: what trains on toy data does so for two steps. What needs data, a GPU or a
cluster is planned there too; what downloads, sends or needs files of the reader is parsed.
"""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner
from pages import ROOT, Block, blocks, calls
from plugin_packages import Install

from harness import api, fetching
from harness.cli.main import cli
from harness.code import get_declarations
from harness.errors import MissingData
from harness.profiles import load_profile, shipped_profiles

PAGES = [
    *sorted((ROOT / "docs").glob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "examples").rglob("README.md")),
    *sorted((ROOT / "examples").rglob("*.yml")),
]
FEW = [
    "--seeds",
    "1",
    "--set",
    "steps=2",
    "--set",
    "eval_every=2",
    "--suites",
    "sts",
    "--executor",
    "serial",
]
#: options of `harness run` that FEW replaces
REPLACED = ("--seeds", "--set", "--suites", "--executor", "--jobs", "--run-timeout")
#: what a reader puts a name of their own for
PLACEHOLDER = re.compile(r"(?<![A-Za-z])([A-Z]|[A-Z_]{2,})(?![A-Za-z])")
#: programs of others, whose words are not looked at
OTHERS = ("fish_source", "head", "hf", "mkdir", "pytest", "ray", "scontrol", "source", "srun")
#: commands that use the network or downloaded files, and one that takes seconds and has tests of
#: its own
PARSED = ("doctor", "data fetch", "data import", "data verify")
#: what takes long, or needs the runs of the page: `make long` carries it out
SLOW = ("audit", "check", "compare", "demo", "eval", "report", "table")
#: what takes seconds is carried out with the first options that are found, and then parsed
ONCE = ("report",)
#: more runs than these are planned
MOST_RUNS = 2
#: what other pages have carried out
DONE: set[tuple[str, ...]] = set()


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder in which all pages are typed, with two short runs."""
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        for name in ("data", "DATA"):
            Path(name).mkdir()
        patched.setenv("HARNESS_DATA", str(folder / "data"))
        patched.setenv("COLUMNS", "100")
        patched.setattr(api, "run", _short(api.run))
        typed(["run", "--profile", "tiny", "--methods", "simcse,mcse", *FEW])
        shutil.copytree("results", "theirs")
        yield folder


def _short(run: Callable[..., Any]) -> Callable[..., Any]:
    few = {"seeds": 1, "set": {"steps": 2, "eval_every": 2}, "suites": "sts", "executor": "serial"}
    return lambda *words, **options: run(*words, **options | few)


def typed(words: Sequence[str]) -> None:
    """Carry out a command in this process."""
    result = CliRunner().invoke(cli, list(words))
    needs_data = isinstance(result.exception, MissingData)
    assert result.exit_code == 0 or needs_data, (
        f"harness {' '.join(words)}: {result.output}{result.exception!r}"
    )


def parsed(words: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The command and its options, parsed and not carried out."""
    contexts: list[click.Context] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(click.Command, "invoke", lambda self, context: contexts.append(context))
        result = CliRunner().invoke(cli, list(words))
    assert result.exit_code in (0, 2 if not words else 0), (
        f"harness {' '.join(words)}: {result.output}"
    )
    return (
        (contexts[-1].command_path.removeprefix("cli").strip(), contexts[-1].params)
        if contexts
        else ("", {})
    )


def check(words: list[str], install: Install, *, carry_out: bool) -> None:
    """Carry out, plan or parse one call of a page."""
    program, *rest = words
    if program == "harness":
        rest = [
            word.replace("/shared/", "").replace("results/reference", "results") for word in rest
        ]
        if ("harness", *rest) not in DONE:
            DONE.add(("harness", *rest))
            check_harness(rest, carry_out=carry_out)
    elif program == "make":
        assert all(
            re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
            for target in rest
        )
    elif program == "pip":
        check_pip(rest, install)
    elif program in ("python", "python3"):
        assert rest[0] == "-m" or (ROOT / rest[0]).is_file(), words
    else:
        assert program in OTHERS, f"{words}: is it a program of the reader?"
        if "harness" in rest:
            check(rest[rest.index("harness") :], install, carry_out=carry_out)


def check_pip(rest: Sequence[str], install: Install) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for what in rest[1:]:
        match = re.fullmatch(r"sentence-harness\[(.*)\]", what)
        assert set(match[1].split(",")) <= extras.keys() if match else True
        assert (
            match
            or what in (".", "-e", "pytest", "sentence-harness")
            or (ROOT / what).is_dir()
            or Path(what).is_dir()
        ), what
        if what.startswith(("./", "examples/")):
            install_folder(Path(what) if what.startswith("./") else ROOT / what, install)


def check_harness(words: list[str], *, carry_out: bool) -> None:
    command, given = parsed(words)
    for name in (
        *given.get("names", ()),
        *filter(None, [given.get("name")] if command.startswith("data") else []),
    ):
        assert fetching.find_entry(name)
    if command in ("run", "fetch", "status"):
        check_grid(command, words, given, carry_out=carry_out)
    elif (command in SLOW and not carry_out) or (command in ONCE and (command,) in DONE):
        return
    elif command not in PARSED and given.get("names") != () and all(map(is_there, words)):
        typed(words)
        DONE.add((command,))


def check_grid(command: str, words: list[str], given: dict[str, Any], *, carry_out: bool) -> None:
    profile, methods = given["profile"], given["methods"]
    assert profile in shipped_profiles() or profile.endswith(".toml")
    own = profile == "tiny" or Path(profile).is_file()
    few = (
        bool(methods)
        and len(re.split(r",(?![^\[]*\])|\|", methods)) <= MOST_RUNS
        and not given["tune"]
    )
    trains = command == "run" and not given["dry_run"] and not given["track"]
    if carry_out and trains and own and few:
        elsewhere = [] if profile == "tiny" else ["--results", "results of my profiles"]
        typed([*without(words, REPLACED), *FEW, *elsewhere])
        return

    dry = tuple(planned(command, words))
    if dry not in DONE:
        DONE.add(dry)
        typed(dry)


def planned(command: str, words: list[str]) -> list[str]:
    """The command without what only a reader's machine has, and without carrying anything out."""
    words = without(
        words,
        (
            *("--executor", "--address", "--slurm", "--jobs", "--track"),
            *("--data-root", "--results", "--encoders"),
        ),
    )
    words = [word for word in words if word != "--fetch"]
    return words if command == "status" or "--dry-run" in words else [*words, "--dry-run"]


def without(words: Sequence[str], options: Sequence[str]) -> list[str]:
    """The words without some options and their values."""
    return [
        word
        for word, before in zip(words, ["", *words], strict=False)
        if not {word, before} & set(options)
    ]


def is_there(word: str) -> bool:
    """Whether a file or a run of the toy data is there, as far as the word is one; no reader's own
    name is.
    """
    if PLACEHOLDER.search(word):
        return False
    if "/seed-" in word:
        return "/toy/" in word
    return (
        not (word.startswith(("./", "~/")) or word.endswith((".py", ".toml")))
        or Path(word).exists()
    )


def install_folder(folder: Path, install: Install) -> None:
    """Install each module of a package."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    for module in (folder / "src").glob("*.py"):
        install(module.stem, module.read_text(), points_of(project, f"{module.stem}:"))


def points_of(project: dict[str, Any], module: str = "") -> dict[str, dict[str, str]]:
    """The entry points of a package's only module, or of one, by group and name: what the module
    calls them.
    """
    groups = project["project"]["entry-points"]
    return {
        group.removeprefix("harness."): {
            name: target.partition(":")[2]
            for name, target in some.items()
            if target.startswith(module)
        }
        for group, some in groups.items()
    }


def check_python(block: Block, names: dict[str, Any], install: Install, text: str) -> None:
    """Execute a block; one that begins with `# NAME.py` is installed with the entry points of its
    page.
    """
    title = re.match(r"# (\w+)\.py\n", block.text)
    if not title:
        code = block.text.replace('"results/reference"', repr(str(ROOT / "results" / "reference")))
        exec(compile(code, "page", "exec"), names)
        return
    (points,) = (
        block.text
        for block in blocks(text)
        if block.language == "toml" and "entry-points" in block.text
    )
    install(title[1], block.text, points_of(tomllib.loads(points)))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_all_of_a_page_is_understood_and_planned(page: Path, install: Install) -> None:
    with get_declarations().hold():  # a page installs each of its plug-ins once
        check_page(page, install, carry_out=False)


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_all_of_a_page_works(page: Path, install: Install) -> None:
    check_page(page, install, carry_out=True)


def check_page(page: Path, install: Install, *, carry_out: bool) -> None:
    """Check each block of a page."""
    module = types.ModuleType("page")
    sys.modules["page"] = module
    for package in page.parents:
        if ROOT / "examples" in package.parents and (package / "pyproject.toml").is_file():
            install_folder(package, install)
    for block in blocks_of(page):
        if block.language == "sh":
            for words in calls(block.text):
                check(words, install, carry_out=carry_out)
        elif block.language == "python":
            check_python(block, vars(module), install, page.read_text())
        elif block.language == "toml" and "extends" in tomllib.loads(block.text):
            Path("of-a-page.toml").write_text(block.text)
            load_profile("of-a-page.toml")
        else:  # `test_made_pages.py` and `test_api.py` execute pycon
            assert block.language in ("text", "toml", "pycon"), f"{page}: what is {block.language}?"


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page; of a workflow, the commands of its steps."""
    if page.suffix == ".md":
        return blocks(page.read_text())
    steps = [
        step for job in yaml.safe_load(page.read_text())["jobs"].values() for step in job["steps"]
    ]
    return [Block("sh", step["run"], 0, 0) for step in steps if "run" in step]


def test_links_of_other_pages_lead_somewhere() -> None:
    pages = [(ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", "".join(pages)):
        assert (ROOT / target).exists(), target
