"""results/ as the database."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.errors import UserError
from harness.store import FRAME_COLUMNS, SCHEMA_VERSION, Failure, Result, Spec, Store


def result(seed: int = 0, variant: str = "simcse", **changes: object) -> Result:
    values = {
        "schema_version": SCHEMA_VERSION,
        "spec": {
            "method": variant.partition("[")[0],
            "variant": variant,
            "setting": "toy",
            "encoder": "toy-bert",
            "seed": seed,
        },
        "profile": "tiny",
        "overrides": {},
        "fingerprint": f"{seed:08d}" * 8,
        "group": "b" * 64,
        "training_fingerprint": "c" * 64,
        "hyperparameters": {"method": {"temperature": 0.05}},
        "scores": {"sts": {"ToySTS": {"spearman": 40.0 + seed, "n": 10}, "Avg": {"spearman": 40.0 + seed}}},
        "protocols": {"sts": {"version": 1, "data": "d" * 64}},
        "dev": {
            "task": "ToySTS-dev",
            "metric": "spearman",
            "steps": [1],
            "scores": [1.0],
            "best_step": 1,
            "best_score": 1.0,
        },
        "losses": {"steps": [1], "terms": {"text": [0.1], "info": [None]}},
        "timings": {"train_s": 1.0, "evaluate_s": {"sts": 0.5}, "total_s": 1.5},
        "peak_memory_mb": 100.0,
        "hardware": {"device": "cpu"},
        "packages": {"torch": "2"},
        "revision": None,
        "started": "2026-01-01T00:00:00+00:00",
        "finished": "2026-01-01T00:00:01+00:00",
        "warnings": [],
    }
    return Result.model_validate({**values, **changes})


def test_what_is_saved_is_read_back(tmp_path: Path) -> None:
    store = Store(tmp_path / "a folder with 'quotes'")
    path = store.save(result(variant="mcse[images=shuffled]"))
    assert path.relative_to(store.root).parts[:4] == ("tiny", "mcse[images=shuffled]", "toy", "toy-bert")
    assert store.read(path) == result(variant="mcse[images=shuffled]")
    assert store.load() == ([store.read(path)], [])
    assert store.find(result().fingerprint) is not None
    assert store.find("f" * 64) is None


def test_a_name_with_a_slash_stays_one_folder(tmp_path: Path) -> None:
    store = Store(tmp_path)
    spec = {
        "method": "dalr",
        "variant": "dalr[text=run:simcse/wiki/b/seed-0]",
        "setting": "wiki",
        "encoder": "o/m",
        "seed": 0,
    }
    store.save(result(spec=spec))
    assert store.load()[0][0].spec.encoder == "o/m"


def test_finished_scores_are_never_changed_but_suites_are_added(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = store.save(result())
    other = {"sts": {"Avg": {"spearman": 99.0}}, "geometry": {"Avg": {"alignment": 0.2}}}
    protocols = {name: {"version": 1, "data": "e" * 64} for name in other}
    timings = {"train_s": 9.0, "evaluate_s": dict.fromkeys(other, 1.0), "total_s": 11.0}
    store.save(result(scores=other, protocols=protocols, timings=timings))
    now = store.read(path)
    assert now.scores["sts"] == result().scores["sts"]
    assert now.scores["geometry"]["Avg"] == {"alignment": 0.2}
    assert now.protocols["sts"].data == "d" * 64


@pytest.mark.parametrize(
    "harm",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: text.replace('"seed": 0', '"seed": "zero"'),
        lambda text: text.replace('"scores"', '"skores"'),
        lambda text: text.replace('"spearman": 40.0', '"spearman": NaN'),
        lambda text: text.replace('"schema_version": 1', '"schema_version": 99'),
    ],
    ids=["cut", "empty", "type", "key", "nan", "schema"],
)
def test_a_damaged_file_is_named_and_kept(tmp_path: Path, harm) -> None:
    store = Store(tmp_path)
    path = store.save(result())
    good = store.save(result(seed=1))
    damaged = harm(path.read_text())
    path.write_text(damaged)
    results, problems = store.load()
    assert [found.spec.seed for found in results] == [1]
    assert len(problems) == 1
    assert str(path) in problems[0]
    assert "\n" not in problems[0]
    with pytest.raises(UserError):
        store.save(result())
    assert path.read_text() == damaged
    assert good.exists()


def test_the_frame_is_tidy(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for seed in range(3):
        store.save(result(seed, overrides={"steps": 3, "batch_size": 2}))
    frame = store.frame()
    assert tuple(frame.columns) == FRAME_COLUMNS
    average = frame[(frame["task"] == "Avg") & (frame["metric"] == "spearman")]
    assert sorted(average["value"]) == [40.0, 41.0, 42.0]
    assert set(frame["overrides"]) == {"batch_size=2,steps=3"}
    assert list(Store(tmp_path / "none").frame().columns) == list(FRAME_COLUMNS)


def test_a_lock_keeps_others_out_and_dies_with_its_process(tmp_path: Path) -> None:
    store = Store(tmp_path)
    code = (
        "import sys, time; from pathlib import Path; from harness.store import Store\n"
        "with Store(Path(sys.argv[1])).lock('f' * 64) as mine:\n    print(mine, flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "True"
        with store.lock("f" * 64) as mine:
            assert not mine
        with store.lock("e" * 64) as mine:
            assert mine
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        with store.lock("f" * 64) as mine:
            if mine:
                return
    pytest.fail("the lock of a killed process was never released")


def test_failures_are_listed_apart_and_cleared_by_success(tmp_path: Path) -> None:
    store = Store(tmp_path)
    spec = Spec.model_validate(result().spec.model_dump())
    store.save_failure(
        Failure(
            spec=spec, profile="tiny", fingerprint=result().fingerprint, error="out of memory", traceback="", when="now"
        )
    )
    assert [failure.error for failure in store.failures()] == ["out of memory"]
    assert store.load() == ([], [])
    store.save(result())
    assert store.failures() == []


def test_nothing_half_written_is_taken_for_whole(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = store.save(result())
    path.with_name(f".{path.name}.123.tmp").write_text(json.dumps(result(1).model_dump())[:50])
    assert len(store.files()) == 1
