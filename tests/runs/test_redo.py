"""Runs that are trained anew: the earlier result stands until the new one is complete, and is never lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders import result
from click.testing import CliRunner

import harness
from harness import api
from harness.cli.main import cli
from harness.errors import UserError
from harness.runs import run as run_module
from harness.runs.finished import FinishedRun
from harness.store import Result, Store, folder
from harness.store.folder import begin_redo, begins_to_redo, end_redo, new_results, redo_of

SHORT: dict[str, Any] = {"methods": "simcse", "suites": "sts", "set": {"steps": 2, "batch_size": 8}}


class KilledError(BaseException):
    """In place of kill -9."""


def plan(folder: Path, **changes: Any) -> Any:
    return harness.plan("tiny", **{**SHORT, "seeds": 1, **changes}, results=folder)


def superseded(folder: Path) -> list[Result]:
    """All results below the folder for what was replaced, each a folder of results."""
    return [kept for below in sorted((folder / ".superseded").glob("*")) for kept in Store(below).load()[0]]


def old_and_new() -> tuple[Result, Result]:
    old = result(finished="2026-01-02T03:04:05+00:00")
    return old, old.model_copy(update={"finished": "2026-02-02T03:04:05+00:00"})


def test_a_finished_run_is_trained_anew_and_what_it_had_is_kept(tmp_path: Path) -> None:
    (old,) = api.execute(plan(tmp_path)).runs
    before = Store(tmp_path).path(old).read_bytes()
    work = Store(tmp_path).work(old.fingerprint)
    assert [run.state for run in plan(tmp_path).runs] == ["done"]
    asked = plan(tmp_path, redo=True)
    assert [(run.state, bool(run.redo)) for run in asked.runs] == [("missing", True)]
    assert not (tmp_path / ".superseded").exists(), "a plan changes nothing"
    steps = []
    (new,) = api.execute(asked, progress=lambda event: steps.append(event.progress)).runs
    assert any(steps), "it was trained"
    assert (new.fingerprint, new.evaluations[0].scores) == (old.fingerprint, old.evaluations[0].scores)
    assert (new.started, new.finished) != (old.started, old.finished)
    assert [run.state for run in plan(tmp_path).runs] == ["done"]
    (earlier,) = (tmp_path / ".superseded").iterdir()
    assert Store(earlier).path(old).read_bytes() == before
    assert Store(earlier).log(old).count("training starts: 2 steps") == Store(tmp_path).log(new).count(
        "training starts"
    )
    assert (Store(earlier).work(old.fingerprint) / "best" / "model.safetensors").is_file()
    assert (work / "best" / "model.safetensors").is_file()
    assert len(harness.results(tmp_path)) == 1, "tables never see what was replaced"
    harness.run("tiny", **SHORT, seeds=1, redo=True, results=tmp_path)
    assert len(superseded(tmp_path)) == 2, "asked once more, it is done once more"


def test_a_stopped_redo_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    store = Store(tmp_path)
    assert store.read(store.path(first[1])) == first[1], "the earlier result stands"
    with pytest.raises(UserError, match=r"is being trained again, and its former weights are in .*superseded"):
        FinishedRun(first[1], store).student()
    again = plan(tmp_path, seeds=2, redo=True)
    assert [run.state for run in again.runs] == ["done", "missing"], "the same command goes on"
    assert [run.state for run in plan(tmp_path, seeds=2).runs] == ["done", "missing"], "and so does one without --redo"
    trained: list[Any] = []
    (*_, new) = api.execute(again, progress=lambda event: trained.append(event.progress)).runs
    assert not any(trained), "the training that had ended is not repeated"
    assert new.started != first[1].started
    assert {kept.spec.seed for kept in superseded(tmp_path)} == {0, 1}
    assert [run.state for run in plan(tmp_path, seeds=2, redo=True).runs] == ["missing", "missing"], (
        "the next one is new"
    )


@pytest.mark.parametrize("moment", range(15))
def test_killed_at_any_moment_nothing_is_lost_and_the_same_again_completes(
    tmp_path: Path, moment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, (old, new) = Store(tmp_path), old_and_new()
    identity = (old.profile, old.spec, old.fingerprint)
    store.save_log(old, "the first\n")
    store.save(old)
    work = store.work(old.fingerprint)
    work.mkdir(parents=True)
    (work / "checkpoint").write_text("former")

    def all_of_it() -> None:
        if not begins_to_redo(store, "a" * 64) and redo_of(store, old.fingerprint) is None:
            assert store.find(*identity) == old
        begin_redo(store, {old.fingerprint: old.spec.key}, "a" * 64)
        end_redo(store, *identity)
        if redo_of(store, old.fingerprint):
            assert not (work / "checkpoint").exists(), "former checkpoints are not used"
            into = new_results(store, old.fingerprint)
            into.save_log(new, "the second\n")
            into.save(new)
            end_redo(store, *identity)

    count = 0

    def counted(real: Any) -> Any:
        def act(*given: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count == moment + 1:
                raise KilledError
            return real(*given, **options)

        return act

    with monkeypatch.context() as patched:
        patched.setattr(folder, "write_note", counted(folder.write_note))
        patched.setattr(Path, "replace", counted(Path.replace))
        with pytest.raises(KilledError):
            all_of_it()
    kept = [*store.load()[0], *superseded(tmp_path)]
    assert old in kept
    if store.find(*identity) != new:
        all_of_it()
    end_redo(store, *identity)
    assert redo_of(store, old.fingerprint) is None
    assert store.find(*identity) == new
    assert store.log(new) == "the second\n"
    assert superseded(tmp_path) == [old]
    (earlier,) = (tmp_path / ".superseded").iterdir()
    assert Store(earlier).log(old) == "the first\n"
    assert (Store(earlier).work(old.fingerprint) / "checkpoint").read_text() == "former"


def test_a_run_in_another_process_is_not_done_anew(tmp_path: Path) -> None:
    store, (old, _) = Store(tmp_path), old_and_new()
    store.save(old)
    with store.lock(old.fingerprint), pytest.raises(UserError, match="is running in another process; use --redo when"):
        begin_redo(store, {old.fingerprint: old.spec.key}, "a" * 64)
    assert redo_of(store, old.fingerprint) is None


def test_without_its_result_file_a_run_says_that_its_weights_were_kept(tmp_path: Path) -> None:
    (old,) = api.execute(plan(tmp_path)).runs
    Store(tmp_path).path(old).unlink()
    assert [run.state for run in plan(tmp_path).runs] == ["trained"]
    words = ["run", "--profile", "tiny", "--methods", "simcse", "--seeds", "1", "--suites", "sts"]
    words += ["--set", "steps=2", "--set", "batch_size=8", "--results", str(tmp_path)]
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert "trained   1: the saved weights will be evaluated; --redo" in done.output
    (new,) = harness.results(tmp_path).runs
    assert new.evaluations[0].scores == old.evaluations[0].scores
    assert new.evaluations[0].finished != old.evaluations[0].finished, "evaluated now, not copied"
