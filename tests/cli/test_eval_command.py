"""`harness eval`: models from outside and finished runs, in the same store and tables."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from cases import mark_others_long
from click.testing import CliRunner, Result
from sentence_transformers import SentenceTransformer

from harness import api
from harness.cli.main import cli
from harness.command_line import Selection
from harness.encoders.student import Student
from harness.errors import UserError
from harness.evaluation.sts import STSSuite
from harness.evaluation.suites import Embedder
from harness.planning.request import make_model_request
from harness.runs.export import export
from harness.store import Store
from harness.toy import student_folder

pytestmark = pytest.mark.usefixtures("small_toy_tests")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The toy student as a model of sentence-transformers that reads the largest value over its
    tokens.
    """
    folder = tmp_path / "outside"
    shutil.copytree(student_folder(), folder)
    modules = [
        ("", "sentence_transformers.models.Transformer"),
        ("1_Pooling", "sentence_transformers.models.Pooling"),
    ]
    listed = [
        {"idx": at, "name": str(at), "path": path, "type": kind}
        for at, (path, kind) in enumerate(modules)
    ]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "1_Pooling").mkdir()
    settings = {
        "word_embedding_dimension": 64,
        "pooling_mode_cls_token": False,
        "pooling_mode_max_tokens": True,
    }
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    return folder


def suites(result: dict[str, Any]) -> dict[str, Any]:
    """Suite -> task -> metric -> value, as a result file holds them."""
    return {evaluation["suite"]: evaluation["scores"] for evaluation in result["evaluations"]}


def harness(tmp_path: Path, *words: str) -> Result:
    words = (*words, "--profile", "tiny", "--results", str(tmp_path / "results"), "--device", "cpu")
    return CliRunner().invoke(cli, words, catch_exceptions=True)


def results(tmp_path: Path) -> list[dict]:
    return [
        json.loads(path.read_text()) for path in sorted((tmp_path / "results").rglob("seed-*.json"))
    ]


@pytest.mark.parametrize("pooling", mark_others_long(["modules", "mean"], ["modules"]))
def test_a_folder_is_scored_by_its_modules_or_by_another_pooling_of_the_encoder(
    model: Path, tmp_path: Path, pooling: str
) -> None:
    words = () if pooling == "modules" else ("--pooling", pooling)
    done = harness(tmp_path, "eval", str(model), "--suites", "sts", *words)
    assert done.exit_code == 0, done.output
    (result,) = results(tmp_path)
    spec = {
        "method": "none",
        "variant": f"none[pooling={pooling}]",
        "setting": "none",
        "encoder": "outside",
        "seed": 0,
    }
    assert result["spec"] == spec
    whole = SentenceTransformer(str(model), device="cpu").encode
    embed = whole if pooling == "modules" else Student.load(student_folder(), pooling).embed
    own = STSSuite(["ToySTS"]).evaluate(Embedder(embed), None)
    assert suites(result)["sts"]["ToySTS"]["spearman"] == pytest.approx(
        own.scores["ToySTS"]["spearman"], abs=1e-6
    )


def test_the_weights_of_a_classifier_are_said_to_be_read_without_their_head(
    model: Path, tmp_path: Path
) -> None:
    settings = json.loads((model / "config.json").read_text())
    for kind, said in (("BertForSequenceClassification", True), ("BertForMaskedLM", False)):
        (model / "config.json").write_text(json.dumps(settings | {"architectures": [kind]}))
        remark = f"encoder outside: weights of a classifier ({kind}); its head is left out"
        done = harness(tmp_path / kind, "eval", str(model), "--suites", "sts", "--pooling", "mean")
        assert (f"warning   {remark}" in done.output) == said
        shown = CliRunner().invoke(
            cli,
            [
                "show",
                "none[pooling=mean]/none/outside/seed-0",
                "--results",
                str(tmp_path / kind / "results"),
            ],
        )
        assert shown.exit_code == 0
        assert (remark in shown.output) == said


@pytest.mark.long
def test_every_suite_reads_a_model_by_its_modules(model: Path, tmp_path: Path) -> None:
    done = harness(tmp_path, "eval", str(model), "--suites", "sts,geometry,figures,mteb,retrieval")
    assert done.exit_code == 0, done.output
    (result,) = results(tmp_path)
    assert set(suites(result)) == {"sts", "geometry", "figures", "mteb", "retrieval"}
    assert suites(result)["retrieval"] == {}
    assert any(
        "no image side" in line
        for evaluation in result["evaluations"]
        for line in evaluation["warnings"]
    )
    (work,) = (tmp_path / "results" / ".work").glob("*/mteb-scored")
    assert list(work.rglob("*.json")), "for `harness export --mteb`"
    assert not (work.parent / "mteb").exists(), "another evaluation would take scores from there"


@pytest.mark.long
def test_a_hub_model_of_sentence_transformers_is_read_by_its_modules(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    cached = tmp_path / "hub" / "models--owner--model"
    shutil.copytree(model, cached / "snapshots" / ("0" * 40))
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("0" * 40)
    for name in ("owner/model", f"owner/model@{'0' * 40}"):
        done = harness(tmp_path, "eval", name, "--suites", "sts")
        assert done.exit_code == 0, done.output
    (result,) = results(tmp_path)
    assert result["spec"]["variant"] == "none[pooling=modules]"
    key = "none[pooling=modules]/none/owner/model/seed-0"
    loaded = api.load_model(key, results=tmp_path / "results", device="cpu")
    expected = SentenceTransformer(str(model), device="cpu").encode(["a red circle"])
    assert loaded.encode(["a red circle"]) == pytest.approx(expected, abs=1e-6)
    assert api.load_model(model, device="cpu").encode(["a red circle"]) == pytest.approx(
        expected, abs=1e-6
    )
    with pytest.raises(UserError, match="copy the folder of that model"):
        export(key, tmp_path / "exported", tmp_path / "results")


@pytest.mark.long
def test_code_of_a_folder_is_executed_only_if_trusted(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "cache")
    )
    listed = json.loads((model / "modules.json").read_text())
    listed.append({"idx": 2, "name": "2", "path": "", "type": "same.Same"})
    (model / "modules.json").write_text(json.dumps(listed))
    (model / "same.py").write_text(
        "from torch import nn\nclass Same(nn.Identity):\n    load = classmethod(lambda cls, *args, **kwargs: cls())\n"
    )
    refused = harness(tmp_path, "eval", str(model), "--suites", "sts")
    assert refused.exit_code != 0
    assert "needs same.Same" in str(refused.exception)
    done = harness(tmp_path, "eval", str(model), "--suites", "sts", "--trust-remote-code")
    assert done.exit_code == 0, done.output


def test_a_suite_is_added_to_a_finished_run_and_nothing_is_trained_again(tmp_path: Path) -> None:
    key = "mcse/toy/toy-bert/seed-0"
    short = ("--set", "steps=4", "--set", "batch_size=16")
    first = harness(tmp_path, "run", "--methods", "mcse", "--seeds", "1", "--suites", "sts", *short)
    assert first.exit_code == 0, first.output
    (before,) = results(tmp_path)
    done = harness(tmp_path, "eval", key, "--suites", "retrieval")
    assert done.exit_code == 0, done.output
    (result,) = results(tmp_path)
    assert set(suites(result)) == {"sts", "retrieval"}
    assert suites(result)["sts"] == suites(before)["sts"]
    assert result["train_seconds"] == before["train_seconds"]
    assert "starts" in done.output
    assert "step " not in done.output


def test_two_models_of_one_folder_name_are_two_rows_and_one_content_is_one(
    model: Path, tmp_path: Path
) -> None:
    """Identity is content; a name is never shared."""
    first, second, copy = (tmp_path / parent / "model" for parent in ("a", "b", "copy"))
    shutil.copytree(model, first)
    shutil.copytree(model, second)
    shutil.copytree(model, copy)
    changed = {"word_embedding_dimension": 64, "pooling_mode_cls_token": True}
    (second / "1_Pooling" / "config.json").write_text(json.dumps(changed))
    for folder, suite in ((first, "sts"), (second, "geometry"), (copy, "sts")):
        done = harness(tmp_path, "eval", str(folder), "--suites", suite, "--pooling", "modules")
        assert done.exit_code == 0, done.output
    assert "nothing to do" in done.output, "the same content in another folder"
    named = {result["spec"]["encoder"]: set(suites(result)) for result in results(tmp_path)}
    assert named == {"model": {"sts"}, "b/model": {"geometry"}}
    for name, why in (
        ("model", "the name is taken by another model"),
        ("mine", "already has this model as b/model"),
    ):
        refused = harness(
            tmp_path, "eval", str(second), "--suites", "sts", "--pooling", "modules", "--name", name
        )
        assert why in str(refused.exception)
    third = shutil.copytree(second, tmp_path / "third")
    (third / "1_Pooling" / "config.json").write_text(
        json.dumps({**changed, "pooling_mode_mean_tokens": True})
    )
    request = make_model_request(
        str(third), "modules", Selection("tiny"), Store(tmp_path / "results"), name="mine"
    )
    assert list(request.encoders) == ["mine"]
