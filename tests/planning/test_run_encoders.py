"""Runs that start from the model of an earlier run: `run:KEY` as an encoder."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.commands import Commands
from harness.encoders.locate import FolderModel
from harness.errors import UserError
from harness.planning.present import Present
from harness.sources import digest
from harness.store import PRESENT, Store

pytestmark = pytest.mark.usefixtures("small_toy_tests")

KEY = "simcse/toy/toy-bert/seed-0"
SHORT: dict[str, Any] = {"seeds": 1, "suites": "sts", "set": {"steps": 2, "batch_size": 8}}
PROFILE = f"""
extends = "tiny"
[encoders.stage1]
folder = "run:{KEY}"
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of results with a trained run and an untrained one."""
    folder = tmp_path_factory.mktemp("results")
    finished = harness.run(
        "tiny", methods=["simcse", "none[pooling=mean]"], results=folder, executor="serial", **SHORT
    )
    assert not finished.failures
    return folder


def first(results: Path) -> Any:
    return next(result for result in Store(results).load()[0] if result.spec.key == KEY)


def test_a_run_starts_from_the_weights_of_an_earlier_one(results: Path, tmp_path: Path) -> None:
    earlier = first(results)
    chosen = {"methods": ["none[pooling=cls]", "mcse"], "results": results, **SHORT}
    finished = harness.run("tiny", encoders=f"run:{KEY}", executor="serial", **chosen)
    scores = {str(run.spec.variant): run.evaluations[0].scores for run in finished.runs}
    assert scores["none[pooling=cls]"] == earlier.evaluations[0].scores, (
        "the weights are those of the earlier run"
    )
    (trained,) = (run for run in finished.runs if str(run.spec.variant) == "mcse")
    assert trained.spec.encoder == f"run-{earlier.fingerprint[:12]}"
    best = Store(results).work(earlier.fingerprint) / "best"
    content = FolderModel(best).fingerprint(None)
    assert trained.identity["encoder"] == digest("run", earlier.fingerprint[:32], content)
    (tmp_path / "mine.toml").write_text(PROFILE)
    spelled = {
        "tiny": [
            f"a=run:{earlier.fingerprint[:10]}",
            f"b=run:{Store(results).path(earlier)}",
            f"c=run:{best}",
        ],
        str(tmp_path / "mine.toml"): ["stage1"],
    }
    for profile, encoders in spelled.items():
        planned = harness.plan(profile, encoders=encoders, **{**chosen, "methods": "mcse"}).runs
        assert {run.fingerprint for run in planned} == {trained.fingerprint}, encoders
        assert [run.key.split("/")[2] for run in planned] == [
            text.partition("=")[0] for text in encoders
        ]
    folder = harness.plan("tiny", encoders=f"d={best}", **{**chosen, "methods": "mcse"}).runs[0]
    assert folder.fingerprint != trained.fingerprint, "a folder alone has no run"
    assert f"--encoders {trained.spec.encoder}=run:{best}" in Commands(results).repeat(trained), (
        "as it is typed again"
    )
    assert {*Present(results)(Store(results).frames())} == {PRESENT}, (
        "no later command takes it for another model"
    )


def _without(results: Path) -> None:
    shutil.rmtree(results / ".work")


def _harmed(results: Path) -> None:
    file = Store(results).work(first(results).fingerprint) / "best" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"x")


@pytest.mark.parametrize(
    ("harm", "encoder", "said"),
    [
        (
            None,
            "run:simcse/toy/toy-bert/seed-7",
            "there is no result of 'simcse/toy/toy-bert/seed-7'|seed-7 in ",
        ),
        (
            None,
            "run:none[pooling=mean]/none/toy-bert/seed-0",
            "trained nothing; give its encoder: --encoders toy-bert",
        ),
        (None, "x=run:.", r"run:\. is no model of a run in a folder of results; give NAME=\."),
        (
            _without,
            f"run:{KEY}",
            "the weights of simcse/.* are not in .*; train the run again in another folder with `",
        ),
        (
            _harmed,
            f"run:{KEY}",
            r"the weights of simcse/.* are damaged \(model.safetensors: .*restore them",
        ),
    ],
    ids=["no run", "untrained", "a folder", "gone", "damaged"],
)
def test_a_run_that_has_no_model_is_refused_in_one_line(
    results: Path, tmp_path: Path, harm: Callable[[Path], None] | None, encoder: str, said: str
) -> None:
    copy = shutil.copytree(results, tmp_path / "copy")
    if harm:
        harm(copy)
    with pytest.raises(UserError, match=said) as error:
        harness.plan("tiny", methods="mcse", encoders=encoder, results=copy, **SHORT)
    assert "\n" not in str(error.value)
