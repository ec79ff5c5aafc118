"""Every command that is suggested works as typed: an encoder by folder, results elsewhere, a
profile of one's own.
"""

from __future__ import annotations

import html
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_words import Typed as Run

from harness.commands import Commands, LastPlaces, note_places, read_places
from harness.toy import student_folder

pytestmark = pytest.mark.usefixtures("small_toy_tests")

PROFILE = """
extends = "tiny"
description = "short runs"

[training]
steps = 2
eval_every = 2

[suites.sts]
tasks = ["ToySTS"]
"""
PLACES = ("--profile", "lab/own.toml", "--results", "elsewhere")
RUN = ("run", *PLACES, "--encoders", "mine=models/enc", "--seeds", "1", "--suites", "sts")


def suggested(*texts: str) -> set[tuple[str, ...]]:
    """The commands that texts name, as words."""
    commands = (
        command
        for text in texts
        for command in re.findall(r"`(harness [^`]+)`", html.unescape(text))
    )
    return {tuple(shlex.split(command.replace("\\", ""))[1:]) for command in commands}


def of_pages(report: Path) -> Iterator[str]:
    """What a report suggests: in its notes, and on the pages of runs."""
    yield from (re.sub("<[^>]+>", "", path.read_text()) for path in report.rglob("*.html"))
    for path in report.glob("runs/*-seed-*.js"):
        page = json.loads(path.read_text().removeprefix("showRun(").removesuffix(");\n"))
        yield f"`{page['command']}`"


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    """The toy encoder in a folder, beside a profile of one's own."""
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "own.toml").write_text(PROFILE)
    return shutil.copytree(student_folder(), tmp_path / "models" / "enc")


@pytest.mark.long
@pytest.mark.usefixtures("encoder")
def test_suggested_commands_can_be_typed(tmp_path: Path, typed: Run) -> None:
    scenes = [
        (*RUN, "--methods", "mcse,simcse"),
        ("compare", "mcse", "simcse", "--metric", "sts.ToySTS", "--results", "elsewhere"),
        ("table", "sts", "--results", "elsewhere"),
        ("status", *RUN[1:], "--methods", "mcse"),
        ("report", "--results", "elsewhere"),
    ]
    ends = [typed(*words) for words in scenes]
    assert [code for code, _, _ in ends] == [0] * len(scenes)
    commands = suggested(
        *(text for _, *both in ends for text in both), *of_pages(tmp_path / "reports" / "build")
    )
    mine = {words for words in commands if "lab/own.toml" in words}
    assert {words[0] for words in commands} >= {"run", "report"}
    assert any("none[pooling=cls],none[pooling=mean]" in words for words in mine)
    assert sum("--seeds" in words for words in mine) >= 2, "one for each run"
    other = {
        next((word.partition(":")[0] for word in words if ":" in word), words): words
        for words in commands - mine
    }
    for words in sorted(
        {*mine, *other.values()} - set(scenes)
    ):  # of those that fill a paper's tables, one
        code, _, err = typed(
            *words, *(["--dry-run"] if words[0] == "run" and words not in mine else [])
        )
        assert (code, err) == (0, "") or words[0] == "logs", (words, err)
    assert "Untrained" not in typed("table", "sts", "--results", "elsewhere")[1]


def test_results_of_an_encoder_by_folder_are_known_to_be_present(
    encoder: Path, tmp_path: Path, typed: Run
) -> None:
    """What `run` calls done, `table` does not call stale: both find the encoder and the profile."""
    run = (*RUN, "--methods", "simcse")
    assert typed(*run, "--executor", "nope")[0] == 2
    assert not (tmp_path / "elsewhere").exists(), "a refused command leaves no note"
    assert typed(*run)[0] == 0
    listed = ("results", "list", "--results", "elsewhere")
    assert "present" in typed(*listed)[1]
    settings = encoder / "tokenizer_config.json"
    settings.write_text(settings.read_text().replace("64", "32"))
    assert "present" not in typed(*listed)[1]
    settings.write_text(settings.read_text().replace("32", "64"))
    shown = typed("eval", "models/enc", "--pooling", "mean", "--suites", "sts", *PLACES)[1]
    assert "mine" in shown, "eval names the folder as the run did, so it is the untrained row"


def test_places_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    note_places(
        tmp_path,
        "own",
        LastPlaces(profile=str(tmp_path / "own.toml"), data_root="/nowhere", encoders={"a": "/no"}),
    )
    note_places(tmp_path, "own", LastPlaces(encoders={"b": str(tmp_path)}))
    assert read_places(tmp_path, "own") == LastPlaces(encoders={"b": str(tmp_path)})
    command = Commands(tmp_path).run(profile="own", encoders=["a", "b"])
    assert command.startswith(f"harness run --profile ./own.toml --encoders a,b={tmp_path} ")
    (note,) = (tmp_path / ".last-places").iterdir()
    note.write_text("{}")
    assert read_places(tmp_path, "own") == LastPlaces()


def test_places_that_somebody_else_noted_are_not_advised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor from a note under the name of this user's, with the digest that notes have."""
    theirs, mine = tmp_path / "their-cache", tmp_path / "my-cache"
    monkeypatch.setenv("HARNESS_CACHE", str(theirs))
    note_places(tmp_path, "own", LastPlaces(data_root="/"))
    (note,) = (tmp_path / ".last-places").iterdir()
    assert read_places(tmp_path, "own") == LastPlaces(data_root="/")

    monkeypatch.setenv("HARNESS_CACHE", str(mine))
    assert read_places(tmp_path, "own") == LastPlaces()
    note_places(tmp_path, "own", LastPlaces(encoders={"b": str(tmp_path)}))
    (own_note,) = {*(tmp_path / ".last-places").iterdir()} - {note}
    own_note.write_bytes(note.read_bytes())
    assert read_places(tmp_path, "own") == LastPlaces()
    assert (mine / "secret").stat().st_mode & 0o077 == 0
