"""The command line as a person types it."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from harness.checksums import note_in, write_note
from harness.cli.main import main
from harness.store import BACKEND_VERSION

SHORT = ("--profile", "tiny", "--set", "steps=6", "--set", "eval_every=3", "--device", "cpu")
COMMAND = [sys.executable, "-c", "from harness.cli.main import main; main()"]


@pytest.fixture(autouse=True)
def _without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARNESS_DATA", raising=False)


def code_of(command: Callable[[], None]) -> int:
    """The exit code of a command, which ends by SystemExit."""
    with pytest.raises(SystemExit) as ended:
        command()
    return int(ended.value.code or 0)


def harness(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command in this process, which has imported what it needs."""
    typed = ["harness", *map(str, words)]
    out, err = io.StringIO(), io.StringIO()
    with chdir(cwd), redirect_stdout(out), redirect_stderr(err), patch.object(sys, "argv", typed):
        code = code_of(main)
    return subprocess.CompletedProcess(typed, code, out.getvalue(), err.getvalue())


def in_a_process(*words: str | Path, cwd: Path) -> subprocess.Popen[str]:
    """The same as a person starts it."""
    env = {key: value for key, value in os.environ.items() if key != "HARNESS_DATA"} | {"OMP_NUM_THREADS": "1"}
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen([*COMMAND, *map(str, words)], cwd=cwd, env=env, **pipes)


def scores_of(path: Path) -> dict[str, dict[str, dict[str, float]]]:
    """A result's scores by suite, task and metric."""
    return {one["suite"]: one["scores"] for one in json.loads(path.read_text())["evaluations"]}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a small grid has run, two runs at a time."""
    folder = tmp_path_factory.mktemp("finished")
    process = in_a_process("run", *SHORT, "--methods", "simcse,mcse", "--seeds", "2", "--jobs", "2", cwd=folder)
    printed, _ = process.communicate()
    assert process.returncode == 0, printed
    assert "%|" not in printed, "a progress bar of a library leaked"
    assert "\x1b" not in printed
    return folder


def test_a_run_prints_its_plan_its_progress_and_its_table(finished: Path) -> None:
    again = harness("run", *SHORT, "--methods", "simcse,mcse,none", "--seeds", "2", cwd=finished)
    assert "5 runs, 4 done, 1 to do" in again.stdout
    assert "estimate" in again.stdout
    assert "[1/1] none/none/toy-bert/seed-0" in again.stdout
    assert "mcse (eval_every=3,steps=6)" in again.stdout


def test_a_second_identical_call_does_no_work(finished: Path) -> None:
    files = {path: path.stat().st_mtime_ns for path in finished.rglob("seed-*.json")}
    again = harness("run", *SHORT, "--methods", "simcse,mcse", "--seeds", "2", cwd=finished)
    assert "nothing to do" in again.stdout
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("seed-*.json")} == files


def test_a_result_holds_what_the_readme_says(finished: Path) -> None:
    (path,) = finished.glob("results/tiny/mcse/toy/toy-bert/seed-1-*.json")
    result = json.loads(path.read_text())
    assert result["spec"] == {"method": "mcse", "variant": "mcse", "setting": "toy", "encoder": "toy-bert", "seed": 1}
    assert len(result["fingerprint"]) == 64
    scores = scores_of(path)["sts"]
    assert scores["Avg"]["spearman"] == pytest.approx(scores["ToySTS"]["spearman"])
    assert set(result["losses"]["terms"]) == {"text", "info"}
    assert result["dev"]["steps"] == [3, 6]
    assert result["overrides"] == {"steps": 6, "eval_every": 3}
    assert str(finished) not in path.read_text(), "a result names a machine's path"


def test_one_seed_gives_one_result_whatever_runs_beside_it(finished: Path, tmp_path: Path) -> None:
    """A run by itself ends with the numbers that it had as one of two at a time."""
    done = harness("run", *SHORT, "--methods", "mcse", "--seeds", "1,", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("results/tiny/*/toy/*/seed-*.json")
    assert scores_of(path) == scores_of(finished / path.relative_to(tmp_path))


def test_suites_are_added_to_finished_runs_without_training(tmp_path: Path) -> None:
    words = ("run", *SHORT, "--methods", "simcse", "--seeds", "1")
    harness(*words, "--suites", "geometry", cwd=tmp_path)
    (path,) = tmp_path.glob("results/tiny/**/*.json")
    before, trained = scores_of(path), json.loads(path.read_text())["train_seconds"]
    added = harness(*words, cwd=tmp_path)
    assert "starts" in added.stdout
    assert "step" not in added.stdout.replace("steps=6", "").replace("steps = 6", "")
    after = scores_of(path)
    assert set(before) == {"geometry"}
    assert set(after) == {"geometry", "retrieval", "sts"}
    assert after["geometry"] == before["geometry"]
    assert json.loads(path.read_text())["train_seconds"] == trained


def test_two_commands_on_one_folder_share_the_work(tmp_path: Path) -> None:
    words = ["run", *SHORT, "--methods", "simcse", "--seeds", "3", "--suites", "sts", "--executor", "serial"]
    both = [in_a_process(*words, cwd=tmp_path) for _ in range(2)]
    outputs = [process.communicate(timeout=200)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert len(list(tmp_path.glob("results/tiny/*/*/*/seed-*.json"))) == 3
    starts = [line for output in outputs for line in output.splitlines() if line.endswith("  starts")]
    assert len(set(starts)) == 3
    assert len(starts) == 3, "a run was done twice"


def test_a_failed_run_is_recorded_and_the_others_go_on(tmp_path: Path) -> None:
    words = ("--profile", "tiny", "--methods", "simcse,mcse[lambda=1e308]", "--seeds", "1", "--set", "steps=6")
    done = harness("run", *words, cwd=tmp_path)
    assert done.returncode == 1
    assert "FAILED" in done.stdout
    (file,) = tmp_path.glob("results/tiny/simcse/*/*/seed-0-*.json")
    result = note_in(file.read_bytes())
    assert result.pop("backend") == BACKEND_VERSION
    write_note(file, result)
    (record,) = tmp_path.glob("results/failed/*.json")
    assert json.loads(record.read_text())["spec"]["method"] == "mcse"
    shown = harness("status", *words, cwd=tmp_path)
    assert "done     simcse/toy/toy-bert/seed-0" in shown.stdout
    assert "failed   mcse[lambda=1e+308]/toy/toy-bert/seed-0" in shown.stdout
    assert "earlier  1 result was made by backend 1, the current one is" in shown.stdout
    assert harness("status", *words[:4], "--seeds", "1", cwd=tmp_path).stdout.count("another configuration") >= 1


def test_the_report_is_written(finished: Path) -> None:
    done = harness("report", "--profile", "tiny", cwd=finished)
    assert done.returncode == 0, done.stderr
    for name in ("report.md", "report.tex", "report.csv", "index.html"):
        assert (finished / "reports" / "build" / name).stat().st_size > 500


def test_show_and_list_and_doctor(finished: Path) -> None:
    shown = harness("show", "mcse/toy/toy-bert/seed-0", cwd=finished).stdout
    assert "fingerprint" in shown
    assert "spearman" in shown
    assert "averaged" in harness("show", "mcse", cwd=finished).stdout
    shown = " ".join(harness("show", "dalr", cwd=finished).stdout.split())
    assert "targets raw raw code, text silent" in shown
    assert "gradients code, text silent the targets of Eq. 7 have none" in shown
    listed = {"methods": "simcse", "profiles": "small", "settings": "toy", "encoders": "toy-bert", "suites": "ToySTS"}
    for kind, name in listed.items():
        assert name in harness("list", kind, "--profile", "tiny", cwd=finished).stdout
    shown = harness("doctor", cwd=finished).stdout
    assert "torch" in shown
    assert re.search(r"tiny +all \d+ found", shown)
    assert re.search(r"\nmcse: 0 of 10 tables and figures can be run\n", shown)
    assert "`harness fetch --table mcse:T1` downloads for one, `harness fetch --paper mcse` for all: " in shown


MISTAKES = [
    (("run", "--profile", "tiny", "--methods", "simces"), "unknown method 'simces'; did you mean simcse"),
    (("run", "--profile", "tiny", "--methods", "mcse[lamda=1]"), "no option 'lamda'; valid: images, lambda"),
    (("run", "--profile", "tiny", "--methods", "mcse[lambda"), "unbalanced brackets"),
    (("run", "--profile", "tiny", "--seeds", "five"), "seeds 'five'"),
    (("run", "--profile", "tiny", "--set", "steps"), "--set 'steps' is not key=value"),
    (("run", "--profile", "tiny", "--set", "steps=ten"), "'steps' = 'ten' is refused"),
    (("run", "--profile", "tiny", "--device", "tpu"), "'tpu' is not one of"),
    (("run", "--profile", "tiny", "--device", "cuda"), "no CUDA device"),
    (("run", "--profile", "tiny", "--device", "cpu", "--set", "precision=fp16"), "fp16 needs a CUDA device"),
    (("run", "--profile", "tyni"), "unknown profile 'tyni'; did you mean tiny"),
    (("run", "--profile", "./mine.toml"), "cannot be read"),
    (("run", "--profile", "tiny", "--encoders", "mine=./nowhere"), "has no config.json"),
    (("run", "--profile", "tiny", "--encoders", "owner/model@main"), "does not pin a hub model"),
    (("run", "--profile", "tiny", "--encoders", f"owner/model@{'0' * 40}"), "1 input missing"),
    (
        ("run", "--profile", "tiny", "--encoders", "owner/model"),
        "1 input missing: the weights of owner/model at main; run `h",
    ),
    (("fetch", "--profile", "tyni"), "unknown profile 'tyni'; did you mean tiny"),
    (("fetch", "--methods", "none"), "no data root is set"),
    (("run", "--profile", "tiny", "--data-root", "./nowhere"), "is not a folder"),
    (("run", "--profile", "tiny", "--results", "/proc/nowhere", "--methods", "none"), "cannot be written"),
    (("run",), "the profile `tiny` needs no data"),
    (("run", "--profile", "tiny", "--methods", "mcse", "--settings", "toy-text"), "every run is skipped, nothing"),
    (("run", "--profile", "tiny", "--track", "wanb"), "unknown tracker 'wanb'; did you mean wandb"),
    (("report", "--profile", "tiny"), "no results of the profile 'tiny'"),
    (("report", "--margin", "0"), "the margin 0 is not a positive number of points"),
    (("show", "mcse/toy/toy-bert/seed-9"), "no result of"),
    (("show", "nothing.json"), "there is no file"),
    (("list", "nouns"), "'nouns' is not one of"),
    (("frobnicate",), "unknown command `harness frobnicate`"),
]


@pytest.mark.parametrize(
    ("words", "message"), MISTAKES, ids=lambda value: " ".join(value) if type(value) is tuple else ""
)
def test_a_mistake_is_one_line_and_exit_code_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    message: str,
) -> None:
    import torch

    from harness.cli.main import main

    if message == "no CUDA device" and torch.cuda.is_available():
        pytest.skip("this machine has the CUDA device that the mistake asks for")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HARNESS_DATA", raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(sys, "argv", ["harness", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    shown = capsys.readouterr()
    assert ended.value.code == 2
    assert message in shown.err
    assert shown.err.startswith("error: ")
    assert shown.err.count("\n") == 1
