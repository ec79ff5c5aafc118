"""The real libraries, offline: each step is recorded once, across resumes, stops and runs of
others.
"""

from __future__ import annotations

import json
import struct
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from plugin_packages import Install

from harness.registry import get_class
from harness.work.tracking.base import TrackedRun, Tracker, serve

ROOT = Path(__file__).resolve().parents[2]
KEY, OTHER = "mcse[lambda=0.05]/toy/toy-bert/seed-0", "mcse[lambda=0.05]/toy/toy-bert/seed-1"
IDS = {KEY: "0123456789abcdef", OTHER: "fedcba9876543210"}
SCORE = {"sts/Avg/spearman": 70.5}


def begin(key: str) -> list[Any]:
    config = {
        "seed": int(key[-1]),
        "fingerprint": "f" * 64,
        "training.learning_rate": 3e-5,
        "training.compile": False,
    }
    return [
        "begin",
        {"key": key, "id": IDS[key], "place": key.rpartition("/")[0], "config": config},
    ]


def log(key: str, *steps: int) -> list[Any]:
    return [
        ["log", key, step, {"loss/text": 1 / step, "dev/ToySTS-dev": float(step)}] for step in steps
    ]


def sessions(name: str, folder: Path) -> None:
    """Two runs, one of which is stopped at step 20 and resumes from its checkpoint of step 10.

    Before, another process has finished one of them; within the first session, the other starts
    again.
    """
    pytest.importorskip(name, reason=f"{name} is not installed; its tracker was not tested")
    first = [["end", OTHER, "done", {}], begin(KEY), begin(OTHER), *log(KEY, 10), *log(OTHER, 10)]
    first += [begin(KEY), *log(KEY, 10, 20), ["end", OTHER, "failed", {}]]
    second = [begin(KEY), *log(KEY, 20, 30), ["end", KEY, "done", SCORE]]
    for messages in (first, second):
        tracker = get_class("tracker", name, Tracker)(folder)
        serve(tracker, map(json.dumps, messages))


@pytest.mark.parametrize(("next_step", "reached"), [(0, 0), (1, 0), (21, 20)])
def test_wandb_has_reached_the_step_before_the_one_that_it_would_log(
    next_step: int, reached: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed; its tracker was not tested")
    monkeypatch.setattr("wandb.init", lambda **_: SimpleNamespace(step=next_step))
    run = TrackedRun(KEY, IDS[KEY], "mcse/toy/toy-bert", {})
    assert get_class("tracker", "wandb", Tracker)(tmp_path).begin(run) == reached


@pytest.fixture
def examples(install: Install) -> None:
    """The trackers of examples/trackers."""
    folder = ROOT / "examples" / "trackers"
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    trackers = project["entry-points"]["harness.trackers"]
    points = {name: target.partition(":")[2] for name, target in trackers.items()}
    code = (folder / "src" / "more_trackers.py").read_text()
    install("more_trackers", code, {"trackers": points})


@pytest.mark.usefixtures("examples")
@pytest.mark.parametrize("name", ["mlflow", "trackio"])
def test_an_example_is_a_tracker_and_says_how_its_library_is_installed(name: str) -> None:
    tracker = get_class("tracker", name, Tracker)
    assert (tracker.module, tracker.install) == (name, "pip install -e examples/trackers")
    assert (ROOT / tracker.install.split()[-1] / "pyproject.toml").is_file()


def test_tensorboard(tmp_path: Path) -> None:
    sessions("tensorboard", tmp_path)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (mine,) = tmp_path.glob(f"*/toy/toy-bert/seed-0-{IDS[KEY]}")
    (other,) = tmp_path.glob(f"*/toy/toy-bert/seed-1-{IDS[OTHER]}")
    read = EventAccumulator(str(mine)).Reload()
    assert [(each.step, each.value) for each in read.Scalars("dev/ToySTS-dev")] == [
        (10, 10),
        (20, 20),
        (30, 30),
    ]
    assert [(each.step, each.value) for each in read.Scalars("sts/Avg/spearman")] == [(30, 70.5)]
    (table,) = read.Tensors("config/text_summary")
    assert b"| training.learning_rate | 3e-05 |" in table.tensor_proto.string_val[0]
    ends = [each.tensor_proto.string_val[0] for each in read.Tensors("end/text_summary")]
    assert ends == [b"stopped", b"done"]
    assert [each.step for each in EventAccumulator(str(other)).Reload().Scalars("loss/text")] == [
        10
    ]


@pytest.mark.usefixtures("examples")
def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    pytest.importorskip(
        "sqlalchemy", reason="sqlalchemy is not installed; the tracker mlflow was not tested"
    )
    sessions("mlflow", tmp_path)
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    experiment = client.get_experiment_by_name("harness")
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert {name: run.info.status for name, run in runs.items()} == {
        KEY: "FINISHED",
        OTHER: "FAILED",
    }
    mine = runs[KEY]
    history = client.get_metric_history(mine.info.run_id, "dev/ToySTS-dev")
    assert [(each.step, each.value) for each in history] == [(10, 10), (20, 20), (30, 30)]
    assert mine.data.metrics["sts/Avg/spearman"] == 70.5
    assert mine.data.params["training.learning_rate"] == "3e-05"
    assert mine.data.tags["harness.id"] == IDS[KEY]


@pytest.mark.usefixtures("examples")
def test_trackio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    sessions("trackio", tmp_path)
    from trackio.sqlite_storage import SQLiteStorage

    name = f"{KEY} {IDS[KEY][:8]}"
    assert sorted(SQLiteStorage.get_runs("harness")) == sorted([name, f"{OTHER} {IDS[OTHER][:8]}"])
    logged = SQLiteStorage.get_logs("harness", name)
    assert [(each["step"], each["dev/ToySTS-dev"]) for each in logged if "dev/ToySTS-dev" in each] == [
        (10, 10), (20, 20), (30, 30),
    ]  # fmt: skip
    assert [each["step"] for each in logged if "sts/Avg/spearman" in each] == [30]
    assert SQLiteStorage.get_run_config("harness", name)["training.learning_rate"] == 3e-5


@pytest.mark.long
def test_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Offline a session cannot see the one before: the records share the id under which `wandb
    sync` joins them.
    """
    for name, value in {"WANDB_MODE": "offline", "WANDB_SILENT": "true"}.items():
        monkeypatch.setenv(name, value)
    sessions("wandb", tmp_path)
    import wandb

    wandb.teardown()  # files are complete once its process has ended, as at the end of a tracker's
    # the folder of a second session within the same second ends in "-1"
    mine = sorted(tmp_path.glob(f"wandb/offline-run-*-{IDS[KEY]}*/*.wandb"))
    histories = [[each.step.num for each in wandb_records(path, "history")] for path in mine]
    assert histories == [[10, 20], [20, 30]]
    (run,) = wandb_records(mine[1], "run")
    assert (run.run_id, run.display_name, run.run_group) == (IDS[KEY], KEY, KEY.rpartition("/")[0])
    config = {each.key: json.loads(each.value_json) for each in run.config.update}
    assert config["training.learning_rate"] == 3e-5
    items = [item for each in wandb_records(mine[1], "summary") for item in each.update]
    assert (
        float(
            {".".join(item.nested_key) or item.key: item.value_json for item in items}[
                "sts/Avg/spearman"
            ]
        )
        == 70.5
    )
    (other,) = tmp_path.glob(f"wandb/offline-run-*-{IDS[OTHER]}/*.wandb")
    assert [each.exit_code for path in (*mine, other) for each in wandb_records(path, "exit")] == [
        1,
        0,
        1,
    ]


def wandb_records(path: Path, kind: str) -> list[Any]:
    """The records of a kind in a small offline file: a header of 7 bytes, then checksum, length and
    content of each.
    """
    from wandb.proto.wandb_internal_pb2 import Record

    content, records, at = path.read_bytes(), [], 7
    while at + 7 <= len(content):
        _, length, whole = struct.unpack("<IHB", content[at : at + 7])
        assert whole == 1
        records.append(Record.FromString(content[at + 7 : at + 7 + length]))
        at += 7 + length
    return [getattr(each, kind) for each in records if each.WhichOneof("record_type") == kind]
