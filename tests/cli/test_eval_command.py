"""`harness eval`: models from outside and finished runs, in the same store and tables."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from harness.cli.main import cli
from harness.corpora.toy import student_folder
from harness.encoders.student import Student
from harness.errors import UserError
from harness.evaluation.sts import STSSuite


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The toy student as sentence-transformers lays out a model read by its mean."""
    folder = tmp_path / "outside"
    shutil.copytree(student_folder(), folder)
    modules = [("", "sentence_transformers.models.Transformer"), ("1_Pooling", "sentence_transformers.models.Pooling")]
    listed = [{"idx": number, "path": path, "type": kind} for number, (path, kind) in enumerate(modules)]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "1_Pooling").mkdir()
    settings = {"word_embedding_dimension": 64, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    return folder


def suites(result: dict[str, Any]) -> dict[str, Any]:
    """Suite -> task -> metric -> value, as a result file holds them."""
    return {one["suite"]: one["scores"] for one in result["evaluations"]}


def harness(tmp_path: Path, *words: str) -> Result:
    words = (*words, "--profile", "tiny", "--results", str(tmp_path / "results"), "--device", "cpu")
    return CliRunner().invoke(cli, words, catch_exceptions=True)


def results(tmp_path: Path) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted((tmp_path / "results").rglob("seed-*.json"))]


def test_a_folder_is_scored_by_the_pooling_that_it_names(model: Path, tmp_path: Path) -> None:
    done = harness(tmp_path, "eval", str(model), "--suites", "sts")
    assert done.exit_code == 0, done.output
    (result,) = results(tmp_path)
    assert result["spec"] | {"seed": 0} == {
        "method": "none",
        "variant": "none[pooling=mean]",
        "setting": "none",
        "encoder": "outside",
        "seed": 0,
    }
    own = STSSuite(["ToySTS"]).evaluate(Student.load(student_folder(), "mean").embed, None)
    assert suites(result)["sts"]["ToySTS"]["spearman"] == pytest.approx(own.scores["ToySTS"]["spearman"], abs=1e-6)


def test_a_suite_is_added_to_a_finished_run_and_nothing_is_trained_again(tmp_path: Path) -> None:
    key = "mcse/toy/toy-bert/seed-0"
    short = ("--set", "steps=4", "--set", "batch_size=16")
    first = harness(tmp_path, "run", "--methods", "mcse", "--seeds", "1", "--suites", "sts", *short)
    assert first.exit_code == 0, first.output
    done = harness(tmp_path, "eval", key, "--suites", "retrieval")
    assert done.exit_code == 0, done.output
    (result,) = results(tmp_path)
    assert set(suites(result)) == {"sts", "retrieval"}
    assert "step " not in done.output
    recalls = suites(result)["retrieval"]["ToyRetrieval"]
    assert recalls["n_images"] == recalls["n_texts"] == 1000
    assert recalls["t2i_R@1"] <= recalls["t2i_R@10"]


def test_a_model_without_an_image_side_has_no_recall_and_says_so(model: Path, tmp_path: Path) -> None:
    done = harness(tmp_path, "eval", str(model), "--suites", "sts,retrieval")
    assert done.exit_code == 0, done.output
    (result,) = results(tmp_path)
    assert suites(result)["retrieval"] == {}
    assert any("no image side" in line for one in result["evaluations"] for line in one["warnings"])


def test_an_exported_supervised_model_is_read_through_its_head(tmp_path: Path) -> None:
    short = ("--set", "steps=4", "--set", "batch_size=16", "--suites", "sts")
    assert harness(tmp_path, "run", "--methods", "simcse-sup", "--seeds", "1", *short).exit_code == 0
    key, to = "simcse-sup/toy/toy-bert/seed-0", tmp_path / "exported"
    words = ("export", key, "--to", str(to), "--results", str(tmp_path / "results"))
    exported = CliRunner().invoke(cli, words)
    assert exported.exit_code == 0, exported.output
    done = harness(tmp_path, "eval", str(to), "--suites", "sts")
    assert done.exit_code == 0, done.output
    own, outside = sorted(results(tmp_path), key=lambda result: result["spec"]["method"] == "none")
    assert outside["spec"]["variant"] == "none[pooling=pooler]"
    ours, theirs = (suites(result)["sts"]["ToySTS"]["spearman"] for result in (own, outside))
    assert theirs == pytest.approx(ours, abs=1e-6)


def test_a_plain_folder_needs_its_pooling(tmp_path: Path) -> None:
    folder = str(student_folder())
    refused = harness(tmp_path, "eval", folder)
    assert isinstance(refused.exception, UserError)
    assert "give --pooling" in str(refused.exception)
    assert harness(tmp_path, "eval", folder, "--pooling", "cls", "--suites", "sts").exit_code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("./nowhere",), "no folder ./nowhere"),
        (("mcse/toy/toy-bert/seed-0", "--pooling", "cls"), "remove --pooling"),
        (("nobody/nothing", "--pooling", "cls"), "missing: the weights of nobody/nothing; run `harness fetch"),
        (("mcse/toy/toy-bert/seed-9",), "no result of mcse/toy/toy-bert/seed-9"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    refused = harness(tmp_path, "eval", *words)
    assert isinstance(refused.exception, UserError)
    assert message in str(refused.exception)
    assert "\n" not in str(refused.exception)
