"""The command line as a person types it."""

from __future__ import annotations

import json
import re
from contextlib import chdir
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harness.cli.main import cli
from harness.files import parse_note, write_note
from harness.store import BACKEND_VERSION

pytestmark = pytest.mark.usefixtures("small_toy_tests")

SHORT = ("--profile", "tiny", "--set", "steps=6", "--set", "eval_every=3", "--device", "cpu")
SUITES = ("--suites", "sts,retrieval")


def harness(*words: str | Path, cwd: Path) -> Result:
    with chdir(cwd):
        return CliRunner().invoke(cli, [*map(str, words)])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a small grid has run."""
    folder = tmp_path_factory.mktemp("finished")
    done = harness(
        "run",
        *SHORT,
        "--methods",
        "simcse,mcse",
        "--seeds",
        "2",
        *SUITES,
        "--executor",
        "serial",
        cwd=folder,
    )
    assert done.exit_code == 0, done.stderr
    assert "%|" not in done.stdout + done.stderr, "a progress bar of a library leaked"
    assert "\x1b" not in done.stdout + done.stderr
    return folder


def test_a_second_call_does_no_work_and_more_methods_are_added(finished: Path) -> None:
    files = {path: path.stat().st_mtime_ns for path in finished.rglob("seed-*.json")}
    words = ("run", *SHORT, *SUITES, "--seeds", "2", "--methods")
    again = harness(*words, "simcse,mcse", cwd=finished)
    assert "nothing to do" in again.stdout
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("seed-*.json")} == files
    more = harness(*words, "simcse,mcse,none", cwd=finished)
    for text in ("5 runs, 4 done, 1 to do", "estimate", "[1/1] none/none/toy-bert/seed-0"):
        assert text in more.stdout
    assert "mcse (eval_every=3,steps=6)" in more.stdout


def test_a_result_holds_what_the_readme_says(finished: Path) -> None:
    (path,) = finished.glob("results/tiny/mcse/toy/toy-bert/seed-1-*.json")
    result = json.loads(path.read_text())
    assert result["spec"] == {
        "method": "mcse",
        "variant": "mcse",
        "setting": "toy",
        "encoder": "toy-bert",
        "seed": 1,
    }
    assert (result["dev"]["steps"], set(result["losses"]["terms"])) == ([3, 6], {"text", "info"})
    assert result["overrides"] == {"steps": 6, "eval_every": 3}
    assert str(finished) not in path.read_text(), "a result names a machine's path"


def test_a_failed_run_is_recorded_and_the_others_go_on(tmp_path: Path) -> None:
    words = (
        "--profile",
        "tiny",
        "--methods",
        "simcse,mcse[lambda=1e308]",
        "--seeds",
        "1",
        "--set",
        "steps=6",
    )
    done = harness("run", *words, cwd=tmp_path)
    assert done.exit_code == 1
    assert "FAILED" in done.stdout
    (file,) = tmp_path.glob("results/tiny/simcse/*/*/seed-0-*.json")
    result = parse_note(file.read_bytes())
    assert result.pop("backend") == BACKEND_VERSION
    write_note(file, result)
    (record,) = tmp_path.glob("results/failed/*.json")
    assert json.loads(record.read_text())["spec"]["method"] == "mcse"
    shown = harness("status", *words, cwd=tmp_path)
    assert "done     simcse/toy/toy-bert/seed-0" in shown.stdout
    assert "failed   mcse[lambda=1e+308]/toy/toy-bert/seed-0" in shown.stdout
    assert "earlier  1 result was made by backend 1, the current one is" in shown.stdout
    assert (
        harness("status", *words[:4], "--seeds", "1", cwd=tmp_path).stdout.count(
            "another configuration"
        )
        >= 1
    )


def test_list_names_what_a_profile_has(tmp_path: Path) -> None:
    listed = {
        "methods": "simcse",
        "profiles": "small",
        "settings": "toy",
        "encoders": "toy-bert",
        "suites": "ToySTS",
    }
    for kind, name in listed.items():
        assert name in harness("list", kind, "--profile", "tiny", cwd=tmp_path).stdout


@pytest.mark.long  # it plans every table of every paper
def test_doctor_says_what_can_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARNESS_DATA", raising=False)
    shown = harness("doctor", cwd=tmp_path).stdout
    assert "torch" in shown
    assert re.search(r"tiny +all \d+ found", shown)
    assert re.search(r"\nmcse: 0 of 10 tables and figures can be run\n", shown)
    assert (
        "`harness fetch --table mcse:T1` downloads for one, `harness fetch --paper mcse` for all: "
        in shown
    )


def test_audit_counts_what_training_has_seen(tmp_path: Path) -> None:
    rows = harness(
        "audit", "--seen", "--profile", "tiny", "--settings", "toy", cwd=tmp_path
    ).stdout.splitlines()
    overlaps = [line.split() for line in rows if line.split()[:1] == ["toy"]]
    assert ["toy", "retrieval", "ToyRetrieval", "100", "0"] in overlaps
    assert {row[2] for row in overlaps if row[1] == "dev"} == {"ToySTS-dev"}
