"""Runs that are trained anew: what they had moves away before, and is never lost."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from builders import result
from cli_words import Typed
from click.testing import CliRunner

import harness
from harness import api
from harness.cli.main import cli
from harness.errors import UserError
from harness.runs import run as run_module
from harness.store import Result, Store
from harness.store.folder import supersede

pytestmark = pytest.mark.usefixtures("small_toy_tests")

SHORT: dict[str, Any] = {"methods": "simcse", "suites": "sts", "set": {"steps": 2, "batch_size": 8}}
WORDS = ["run", "--profile", "tiny", "--methods", "simcse", "--seeds", "1", "--suites", "sts"]
WORDS += ["--set", "steps=2", "--set", "batch_size=8"]


def plan(folder: Path, **changes: Any) -> Any:
    return harness.plan("tiny", **{**SHORT, "seeds": 1, **changes}, results=folder)


def superseded(folder: Path) -> list[Result]:
    """All results below the folder for what was replaced, each a folder of results."""
    return [
        kept
        for below in sorted((folder / ".superseded").glob("*"))
        for kept in Store(below).load()[0]
    ]


def test_a_finished_run_is_trained_anew_and_what_it_had_is_kept(tmp_path: Path) -> None:
    (old,) = api.execute(plan(tmp_path)).runs
    before = Store(tmp_path).path(old).read_bytes()
    assert [run.state for run in plan(tmp_path).runs] == ["done"]
    asked = plan(tmp_path, redo=True)
    assert [(run.state, run.redo) for run in asked.runs] == [("missing", True)]
    assert not (tmp_path / ".superseded").exists(), "a plan changes nothing"
    with pytest.raises(UserError, match="--device cuda"):
        api.execute(asked, device="cuda")
    assert not (tmp_path / ".superseded").exists(), "nor does a command that is refused"
    steps = []
    (new,) = api.execute(asked, progress=lambda event: steps.append(event.progress)).runs
    assert any(steps), "it was trained"
    assert (new.fingerprint, new.evaluations[0].scores) == (
        old.fingerprint,
        old.evaluations[0].scores,
    )
    assert (new.started, new.finished) != (old.started, old.finished)
    assert [run.state for run in plan(tmp_path).runs] == ["done"]
    (earlier,) = (tmp_path / ".superseded").iterdir()
    assert Store(earlier).path(old).read_bytes() == before
    assert [
        store.log(old).count("training starts") for store in (Store(earlier), Store(tmp_path))
    ] == [1, 1]
    for store in (Store(earlier), Store(tmp_path)):
        assert (store.work(old.fingerprint) / "best" / "model.safetensors").is_file()
    assert len(harness.results(tmp_path)) == 1, "tables never see what was replaced"


@pytest.mark.long
def test_a_stopped_redo_goes_on_without_redo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs: one ends, the other's process is killed after its training."""
    first = {run.spec.seed: run for run in api.execute(plan(tmp_path, seeds=2)).runs}
    evaluate = run_module.evaluate

    def killed(run: Any, *given: Any) -> Any:
        if run.resolved.spec.seed == 1:
            raise KeyboardInterrupt
        return evaluate(run, *given)

    monkeypatch.setattr(run_module, "evaluate", killed)
    api.execute(plan(tmp_path, seeds=2, redo=True))
    monkeypatch.undo()
    assert sorted(superseded(tmp_path), key=lambda kept: kept.spec.seed) == [first[0], first[1]]
    again = plan(tmp_path, seeds=2)
    assert [run.state for run in again.runs] == ["done", "failed"]
    trained: list[Any] = []
    (*_, new) = api.execute(again, progress=lambda event: trained.append(event.progress)).runs
    assert not any(trained), "the training that had ended is not repeated"
    assert new.started != first[1].started


def test_a_teacher_that_nobody_asked_for_stays(tmp_path: Path) -> None:
    for methods, redone in (("dalr", {"dalr"}), ("mcse,dalr", {"mcse", "dalr"})):
        runs = plan(tmp_path, methods=methods, redo=True).runs
        assert {run.resolved.spec.variant.name for run in runs} == {"mcse", "dalr"}
        assert {run.resolved.spec.variant.name for run in runs if run.redo} == redone


@pytest.mark.parametrize("moment", range(4))
def test_killed_at_any_moment_nothing_is_lost_and_the_same_again_moves_the_rest(
    tmp_path: Path, moment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, old = Store(tmp_path), result()
    run = (old.profile, old.spec, old.fingerprint)
    store.save_log(old, "the first\n")
    store.save(old)
    (store.work(old.fingerprint) / "best").mkdir(parents=True)
    (store.work(old.fingerprint) / "checkpoint").write_text("former")
    moves, replace = iter(range(5)), os.replace

    def killed(path: str, target: str, **folders: int) -> None:
        if next(moves) == moment:
            raise KeyboardInterrupt
        replace(path, target, **folders)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            supersede(store, [run])
    assert store.find(*run) == old, "until all else is moved, the same command finds the run again"
    supersede(store, [run])
    assert (store.load()[0], superseded(tmp_path)) == ([], [old])
    assert not any(store.work(old.fingerprint).iterdir()), "former checkpoints are not used"
    moved = [
        path.read_text()
        for path in (tmp_path / ".superseded").rglob("*")
        if path.suffix in ("", ".log") and path.is_file()
    ]
    assert sorted(moved) == ["former", "the first\n"]


def test_of_several_runs_none_moves_while_one_is_in_another_process(tmp_path: Path) -> None:
    store, runs = Store(tmp_path), [result(), result(seed=1)]
    for each in runs:
        store.save(each)
    named = [(each.profile, each.spec, each.fingerprint) for each in runs]
    with (
        store.lock(runs[1].fingerprint),
        pytest.raises(UserError, match="seed-1 is in progress; run the same command"),
    ):
        supersede(store, named)
    assert len(store.load()[0]) == 2
    assert not superseded(tmp_path)


def test_a_stop_says_which_command_goes_on(
    tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: Any, **named: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "execute", interrupted)
    for more, command in (
        ([], "the same command again"),
        (["--redo"], "the same command without --redo"),
    ):
        assert (
            f"interrupted; run {command} to resume"
            in typed(*WORDS, *more, "--results", str(tmp_path))[2]
        )


def test_without_its_result_file_a_run_says_that_its_weights_were_kept(tmp_path: Path) -> None:
    (old,) = api.execute(plan(tmp_path)).runs
    Store(tmp_path).path(old).unlink()
    assert [run.state for run in plan(tmp_path).runs] == ["trained"]
    done = CliRunner().invoke(cli, [*WORDS, "--results", str(tmp_path)], catch_exceptions=False)
    assert "trained   1: the saved weights will be evaluated; --redo" in done.output
    (new,) = harness.results(tmp_path).runs
    assert new.evaluations[0].scores == old.evaluations[0].scores
    assert new.evaluations[0].finished != old.evaluations[0].finished, "evaluated now, not copied"


@pytest.mark.parametrize("where", ["", "checkpoint"])
def test_a_linked_work_folder_is_not_moved_away(tmp_path: Path, where: str) -> None:
    store, old = Store(tmp_path / "results"), result()
    store.save(old)
    work, elsewhere = store.work(old.fingerprint) / where, tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "key").write_text("secret")
    work.parent.mkdir(parents=True, exist_ok=True)
    work.symlink_to(elsewhere)
    with pytest.raises(UserError, match=f"{work}: it is a link.*; remove it"):
        supersede(store, [(old.profile, old.spec, old.fingerprint)])
    assert (elsewhere / "key").read_text() == "secret"
    assert store.load()[0] == [old], "nothing is moved"
    assert not (store.root / ".superseded").exists()
