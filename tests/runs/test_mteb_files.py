"""The files that mteb's repository of results takes load with mteb, and hold what the store holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builders import result as record
from click.testing import CliRunner

from harness.cli.main import cli
from harness.encoders.locate import HubModel
from harness.errors import UserError
from harness.runs.mteb_files import export_mteb, parse_hub_model
from harness.sources import digest
from harness.store import Result, Store
from harness.store.folder import SCORED_BY_MTEB

pytestmark = pytest.mark.usefixtures("small_toy_tests")

mteb = pytest.importorskip("mteb")

COMMIT = "c" * 40
NAMED = HubModel("somebody/a-model", COMMIT)
#: one split and one subset, and one of several
ONE, SEVERAL = "SICK-R", "STS22"
SCORE = 0.711235
SCORES = {
    ONE: {"main_score": 100 * SCORE},
    SEVERAL: {"main_score": 50.0},
    "Banking77-file": {"main_score": 60.0},
}
KEY = "simcse/toy/toy-bert/seed-0"


def saved(folder: Path, scores: dict[str, dict[str, float]] = SCORES, **given: Any) -> Result:
    averages = {"Avg[STS]": {"main_score": 60.0}, "Avg": {"main_score": 60.0}}
    return Store(folder).save(record(scores={"mteb": {**scores, **averages}}, **given))


def own_file(folder: Path, run: Result, task: str, *scores: float) -> None:
    """mteb's own file of a task in the work folder, one score a subset."""
    from mteb.results import TaskResult

    known = mteb.get_task(task)
    subsets = known.hf_subsets[: len(scores)]
    parts = {
        name: {"main_score": score, "cosine_pearson": 0.5}
        for name, score in zip(subsets, scores, strict=True)
    }
    path = (
        Store(folder).work(run.fingerprint)
        / SCORED_BY_MTEB
        / run.evaluations[0].protocol.data[:12]
        / "results/m/1"
    )
    path.mkdir(parents=True, exist_ok=True)
    TaskResult.from_task_results(known, {known.eval_splits[0]: parts}, 1.5).to_disk(
        path / f"{task}.json"
    )


def test_mteb_reads_what_is_written(tmp_path: Path) -> None:
    scored = saved(tmp_path / "results")
    own_file(tmp_path / "results", scored, ONE, SCORE)
    own_file(tmp_path / "results", scored, SEVERAL, 0.25, 0.75)
    done = export_mteb(KEY, tmp_path / "out", tmp_path / "results", NAMED)
    assert (done.model, done.tasks) == (NAMED, (ONE, SEVERAL))
    assert done.left_out == (
        "Banking77-file: not a task of mteb (it comes from this project or from a package)",
    )
    (folder,) = (tmp_path / "out" / "results").glob("*/*")
    assert (folder.parent.name, folder.name) == ("somebody__a-model", COMMIT)
    loaded = {path.stem: mteb.TaskResult.from_disk(path) for path in folder.glob("[!m]*.json")}
    assert {task: result.get_score() for task, result in loaded.items()} == {
        ONE: SCORE,
        SEVERAL: 0.5,
    }
    for task, result in loaded.items():
        assert result.dataset_revision == mteb.get_task(task).metadata.revision
        assert result.mteb_version == mteb.__version__
    assert loaded[SEVERAL].scores["test"][0]["cosine_pearson"] == 0.5, (
        "all that mteb's own file has"
    )
    meta = json.loads((folder / "model_meta.json").read_text())
    assert (meta["name"], meta["revision"]) == (NAMED.hub, NAMED.revision)
    (result,) = mteb.ResultCache(tmp_path / "out").load_results().model_results
    assert (result.model_name, result.model_revision, len(result.task_results)) == (
        NAMED.hub,
        NAMED.revision,
        2,
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, "SICK-R: mteb's own file of it is not in the work folder of the run"),
        ({"scores": {ONE: {"n": 3}}}, "SICK-R: its score is undefined"),
    ],
)
def test_what_the_store_does_not_hold_is_refused_in_one_line(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    saved(tmp_path / "results", **{"scores": {ONE: SCORES[ONE]}, **change})
    with pytest.raises(UserError) as refused:
        export_mteb(KEY, tmp_path / "out", tmp_path / "results", NAMED)
    assert reason in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_another_score_in_the_file_of_mteb_is_not_passed_on(tmp_path: Path) -> None:
    own_file(tmp_path / "results", saved(tmp_path / "results"), ONE, 0.9)
    with pytest.raises(UserError, match="the score 90, the result 71"):
        export_mteb(KEY, tmp_path / "out", tmp_path / "results", NAMED)


@pytest.mark.parametrize("trusted", [(), ("trusted",)], ids=["plain", "with its code"])
def test_an_untrained_encoder_has_its_own_name_and_no_other(
    tmp_path: Path, trusted: tuple[str, ...]
) -> None:
    about = ("none[pooling=cls]", 0, {"mteb": {ONE: SCORES[ONE]}})
    from harness.profiles import load_profile

    table = load_profile("small").encoders["all-minilm-l6-v2"]
    assert table.hub
    assert table.revision
    values = {"method": {}, "training": {}, "encoder": {"pooling": "cls"}}
    origin = {
        "setting": "none",
        "encoder": "all-minilm-l6-v2",
        "profile": "small",
        "hyperparameters": values,
    }
    identity = {"encoder": digest(table.hub, table.revision, *trusted)}
    untrained = record(*about, **origin, identity=identity)
    Store(tmp_path / "results").save(untrained)
    own_file(tmp_path / "results", untrained, ONE, SCORE)
    with pytest.raises(UserError, match="evaluated another model than somebody/a-model"):
        export_mteb(untrained.spec.key, tmp_path / "out", tmp_path / "results", NAMED)
    own = HubModel(table.hub, table.revision)
    assert export_mteb(untrained.spec.key, tmp_path / "out", tmp_path / "results").model == own


def test_the_command_needs_a_name_scores_and_something_to_write(tmp_path: Path) -> None:
    own_file(tmp_path / "results", saved(tmp_path / "results"), ONE, SCORE)
    Store(tmp_path / "bare").save(record())

    def refused(*words: str, results: str = "results") -> str:
        shown = CliRunner().invoke(
            cli, ["export", KEY, "--results", str(tmp_path / results), *words]
        )
        assert isinstance(shown.exception, UserError)
        return str(shown.exception)

    out = ("--mteb", str(tmp_path / "out"))
    assert refused().startswith("no output is given; add --to DIR")
    assert (
        refused("--push", "a/b", "--as", "a/b")
        == "--as works only with --mteb; add --mteb DIR, or remove --as"
    )
    assert refused("--push", "a/b", *out).startswith(
        "--mteb writes scores only; remove --to and --push"
    )
    assert "has no name on the hub; give --as OWNER/NAME@COMMIT" in refused(*out)
    assert "harness eval simcse/toy/toy-bert/seed-0 --profile tiny --suites mteb" in refused(
        *out, results="bare"
    )
    for text in ("a-model", "somebody/a-model", "somebody/a-model@main", "../x@" + COMMIT):
        with pytest.raises(UserError, match="is not OWNER/NAME@COMMIT"):
            parse_hub_model(text)
    done = CliRunner().invoke(
        cli,
        [
            "export",
            KEY,
            "--results",
            str(tmp_path / "results"),
            *out,
            "--as",
            f"somebody/a-model@{COMMIT}",
        ],
    )
    assert done.exit_code == 0
    assert "1 task of somebody/a-model" in done.output
    assert done.output.count("left out: ") == 2
