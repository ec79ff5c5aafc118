"""A tracker of another package records runs from a process of its own; one that fails costs a
warning and no run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from plugin_packages import Install

import harness
from harness.errors import UserError
from harness.events import Event
from harness.work.tracking import listener

pytestmark = pytest.mark.usefixtures("small_toy_tests")

CODE = '''\
    """Trackers: one that writes a diary, and three that cannot."""
    import json
    import time

    from harness.work.tracking.base import Tracker


    class Diary(Tracker):
        """Appends what it is told to a file."""

        @staticmethod
        def place(folder):
            return f"the file {folder / 'diary'}"

        def begin(self, run):
            self.write("begin", run.key, run.id, run.place, dict(run.config))
            return 0

        def log(self, run, step, values):
            self.write("log", run.id, step, values)

        def end(self, run, end, step, scores):
            self.write(end, run.id, step, scores)

        def write(self, *words):
            print("a tracker may print")
            with (self.folder / "diary").open("a") as stream:
                stream.write(json.dumps(words) + "\\n")


    class Broken(Diary):
        """Fails at the first value."""

        def log(self, run, step, values):
            raise OSError("the server is\\nnot there")


    class Stuck(Diary):
        """Never answers."""

        def begin(self, run):
            time.sleep(1000)


    class Lacking(Diary):
        """Needs a library that is not installed."""

        module, install = "no_such_library", "pip install no-such-library"
'''


@pytest.fixture(autouse=True)
def _trackers(install: Install) -> None:
    names = ("Diary", "Broken", "Stuck", "Lacking")
    install("diary_tracker", CODE, {"trackers": {name.lower(): name for name in names}})


def grid(results: Path, **more: Any) -> Any:
    return {
        "methods": "simcse",
        "seeds": 1,
        "set": {"steps": 4, "eval_every": 2},
        "results": results,
        **more,
    }


def test_a_run_has_one_record_which_later_sessions_continue(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(
        listener, "QUIET_S", listener.FINISH_S
    )  # a busy machine starts trackers slowly
    done = harness.run("tiny", **grid(tmp_path), suites="sts", track="diary,broken")
    assert len(done) == 1
    (warning,) = (message for message in caplog.messages if "tracker" in message)
    assert warning.startswith(
        "the tracker 'broken' failed; the runs continue without it: not there ("
    )
    assert capfd.readouterr().out == "", "what trackers print is in their logs"
    result = done.runs[0]
    plan = harness.plan("tiny", **grid(tmp_path), suites="sts,geometry")
    assert [run.todo for run in plan.todo] == [("geometry",)]
    with listener.track_runs(["diary"], plan) as listen:
        listen(Event("start", result.spec.key, device="cpu"))
        listen(Event("done", result.spec.key, result=result))
    told = [json.loads(line) for line in (tmp_path / "diary" / "diary").read_text().splitlines()]
    kinds = [each[0] for each in told]
    assert kinds == ["begin", *["log"] * 4, "done", "begin", "done"]
    _, key, number, group, config = told[0]
    assert (key, group) == (result.spec.key, "simcse/toy/toy-bert")
    assert (config["fingerprint"], config["seed"], config["training.steps"]) == (
        result.fingerprint,
        0,
        4,
    )
    assert config["method.temperature"] == result.hyperparameters["method"]["temperature"]
    curves = {"loss/text": (result.losses.steps, result.losses.terms["text"])}
    curves["dev/ToySTS-dev"] = result.dev.steps, result.dev.scores
    values = [
        (name, each[2], value)
        for each in told
        if each[0] == "log"
        for name, value in each[3].items()
    ]
    for name, points in curves.items():
        assert {(step, value) for label, step, value in values if label == name} == {
            *zip(*points, strict=True)
        }
    assert {each[1] for each in told if each[0] != "begin"} == {number}, "one id in both sessions"
    scores = {
        f"sts/{task}/{metric}": value
        for task, row in result.current[0].scores.items()
        for metric, value in row.items()
    }
    assert told[-3] == ["done", number, 4, scores]
    assert told[-1] == ["done", number, 0, scores], "this tracker says that it holds no step"


@pytest.mark.long
def test_a_tracker_that_never_answers_is_ended_and_left_to_itself_by_an_interrupted_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    started: list[listener._Process] = []
    finish = listener._Process.finish
    monkeypatch.setattr(
        listener._Process,
        "finish",
        lambda process, wait: started.append(process) or finish(process, wait),
    )
    plan = harness.plan("tiny", **grid(tmp_path), suites="sts")

    def listened(times: int, error: type[BaseException] | None = None) -> None:
        with listener.track_runs(["stuck"], plan) as listen:
            for _ in range(times):
                listen(Event("start", plan.runs[0].key, device="cpu"))
            if error:
                raise error

    monkeypatch.setattr(listener, "QUIET_S", 0.2)
    with pytest.raises(KeyboardInterrupt):
        listened(1, KeyboardInterrupt)
    (left,) = started
    assert left.process.poll() is None
    assert not caplog.records
    left._given_up = True
    left.process.kill()
    left._writer.join()
    monkeypatch.setattr(listener, "FINISH_S", 0.2)
    listened(10_000)  # far more than a pipe holds
    assert caplog.messages == [
        "waiting for the tracker 'stuck' to finish (at most 0 s)",
        "the tracker 'stuck' did not finish within 0 s and was stopped",
    ]


def test_what_cannot_work_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(
        UserError,
        match="no_such_library, which is not installed; run `pip install no-such-library`",
    ):
        harness.run("tiny", **grid(tmp_path), track="lacking")
    assert not list(tmp_path.glob("tiny"))
