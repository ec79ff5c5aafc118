"""An exported run is a folder that both libraries load, with the embeddings and scores of the run."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import mark_others_long
from click.testing import CliRunner
from executor_jobs import ignore, plan
from huggingface_hub import ModelCard

from harness.cli.main import cli
from harness.encoders.student import Student
from harness.errors import UserError
from harness.evaluation.sts import STSSuite
from harness.evaluation.suites import Embedder
from harness.planning.names import find_result
from harness.planning.plan import Plan
from harness.profiles import load_profile
from harness.runs.execution import Execution
from harness.runs.export import export
from harness.runs.inputs import load_training_inputs
from harness.runs.train import train
from harness.store import Result, Store
from harness.store.merging import check_identity
from harness.toy import student_folder
from harness.work.base import execute

pytestmark = pytest.mark.usefixtures("small_toy_tests")

METHODS = ("simcse", "simcse-sup", "none[pooling=mean]", "none")
#: the exports of these are compared by `make long`
OTHERS = (
    *("simcse[pooling=pooler]", "simcse-sup[pooling=cls]", "simcse[dropout=0.2,pooling=mean]"),
    "simcse[attention_dropout=0,pooling=last]",
)
#: of the profile as it is shipped, since a command trains one of these runs again
SHORT: dict[str, Any] = {
    "profile": load_profile("tiny"),
    "steps": 4,
    "eval_every": 2,
    "batch_size": 16,
}
KEYS = {
    "cls": "simcse/toy/toy-bert/seed-0",
    "pooler": "simcse-sup/toy/toy-bert/seed-0",
    "mean": "none[pooling=mean]/none/toy-bert/seed-0",
    "avg-first-last": "none/none/toy-bert/seed-0",
}
#: the pooling of each run whose export is compared
EXPORTED = {key: name for name, key in KEYS.items() if name != "avg-first-last"} | {
    "simcse[pooling=pooler]/toy/toy-bert/seed-0": "pooler",
    "simcse-sup[pooling=cls]/toy/toy-bert/seed-0": "cls",
    "simcse[dropout=0.2,pooling=mean]/toy/toy-bert/seed-0": "mean",
    "simcse[attention_dropout=0,pooling=last]/toy/toy-bert/seed-0": "last",
}
SENTENCES = ["the big red circle", "a", "", "a blue square " * 60, "we see a striped disc at noon"]


def carry_out(made: Plan) -> None:
    ends = execute(made, ignore, Execution(device="cpu"))
    assert all(isinstance(end, Result) for end in ends), ends


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store with one short run of each pooling, and a second seed of SimCSE."""
    folder = tmp_path_factory.mktemp("models") / "results"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
        carry_out(plan(folder, *METHODS, **SHORT))
        carry_out(plan(folder, "simcse", seeds=(1,), **SHORT))
        yield folder


@pytest.fixture(scope="module")
def others(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the other runs."""
    folder = tmp_path_factory.mktemp("others") / "results"
    carry_out(plan(folder, *OTHERS, **SHORT))
    return folder


def own(results: Path, key: str) -> Student:
    """The run's own student, with the head that the trainer kept beside it."""
    planned = plan(results, *METHODS, *OTHERS, **SHORT).runs
    (run,) = (each for each in planned if each.key == key)
    inputs = load_training_inputs(run.experiment, "cpu", {})
    return train(run.experiment, inputs, Store(results).work(run.fingerprint)).student


def sentence_transformer(folder: Path) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu", local_files_only=True)


def code(folder: Path, library: str) -> np.ndarray:
    """What the lines of the card for a library come to on SENTENCES."""
    (text,) = (
        block
        for block in re.findall(r"```python\n(.*?)```", card(folder), re.S)
        if library in block
    )
    namespace: dict[str, Any] = {}
    lines = re.sub(r'\["a man rides a horse", "someone is riding"\]', repr(SENTENCES), text)
    exec(lines.replace("FOLDER", str(folder)), namespace)
    return np.asarray(namespace["vectors"])


def card(folder: Path) -> str:
    return (folder / "README.md").read_text()


@pytest.mark.parametrize("key", mark_others_long(EXPORTED, KEYS.values()))
def test_the_exported_model_is_that_of_the_run(
    results: Path, tmp_path: Path, key: str, request: pytest.FixtureRequest
) -> None:
    if key not in KEYS.values():
        results = request.getfixturevalue("others")
    folder, pooling = tmp_path / "model", EXPORTED[key]
    done = export(key, folder, results)
    expected = own(results, key).embed(SENTENCES)
    assert len(np.unique(expected.round(4), axis=0)) == len(SENTENCES)
    model = sentence_transformer(folder)
    assert model.max_seq_length == 64
    np.testing.assert_allclose(model.encode(SENTENCES), expected, atol=1e-5)
    np.testing.assert_allclose(Student.load(folder, pooling).embed(SENTENCES), expected, atol=1e-5)
    for library in ("sentence_transformers", "AutoModel"):
        np.testing.assert_allclose(code(folder, library), expected, atol=1e-5)
    scores = (
        STSSuite(["ToySTS"])
        .evaluate(Embedder(lambda texts: model.encode(list(texts))), None)
        .scores
    )
    assert scores["ToySTS"] == pytest.approx(done.result.latest("sts").scores["ToySTS"], abs=1e-3)
    if not key.startswith("none"):  # what was trained needs no conversion
        best = Store(results).work(done.result.fingerprint) / "best"
        np.testing.assert_allclose(
            sentence_transformer(best).encode(SENTENCES), expected, atol=1e-5
        )


def test_a_pooling_without_a_sentence_transformers_module_is_reported(
    results: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    done = CliRunner().invoke(
        cli, ["export", KEYS["avg-first-last"], "--to", str(folder), "--results", str(results)]
    )
    assert done.exit_code == 0, done.output
    assert "sentence-transformers has no module for its pooling" in done.output
    assert not (folder / "modules.json").exists()
    assert "no module for the pooling avg-first-last" in card(folder)
    assert "SentenceTransformer" not in card(folder)
    assert ModelCard.load(folder / "README.md").data.library_name == "transformers"
    np.testing.assert_allclose(
        code(folder, "AutoModel"), own(results, KEYS["avg-first-last"]).embed(SENTENCES), atol=1e-5
    )


def test_the_card_describes_the_run(results: Path, tmp_path: Path) -> None:
    done = export(KEYS["cls"], tmp_path / "model", results)
    text = card(tmp_path / "model")
    other, _ = find_result("simcse/toy/toy-bert/seed-1", results)
    values = [run.latest("sts").scores["ToySTS"]["spearman"] for run in (done.result, other)]
    over = f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}"
    assert f"| sts | ToySTS | spearman | {values[0]:.2f} | {over} | 2 |" in text
    for told in (
        "EMNLP 2021",
        "| toy-text | toy-sentences |",
        "steps=4",
        done.result.fingerprint,
        "Eq. 1",
        "licence",
    ):
        assert told in text, told
    assert "toy-triplets |" not in text, "SimCSE reads no triplets"
    (entry,) = ModelCard.load(tmp_path / "model" / "README.md").data.eval_results
    assert (entry.dataset_name, entry.metric_type) == ("ToySTS", "spearman")
    assert entry.metric_value == pytest.approx(values[0], abs=1e-4)


def test_nothing_is_overwritten(results: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    note = tmp_path / "mine" / "note.txt"
    note.write_text("kept")
    for key, folder, message in (
        (KEYS["cls"], note.parent, "nothing is overwritten"),
        (KEYS["cls"], note, "nothing is overwritten"),
        (KEYS["cls"], note / "below", "cannot be written"),
        (
            "simcse/toy/toy-bert/seed-9",
            tmp_path / "model",
            "there is no result of simcse/toy/toy-bert/seed-9",
        ),
    ):
        with pytest.raises(UserError, match=message):
            export(key, folder, results)
    assert [path.name for path in tmp_path.rglob("*")] == ["mine", "note.txt"]
    (tmp_path / "empty").mkdir()
    assert (export(KEYS["cls"], tmp_path / "empty", results).folder / "modules.json").is_file()


def test_missing_weights_are_trained_again_by_the_command_in_the_message(
    results: Path, tmp_path: Path
) -> None:
    lost = tmp_path / "lost"
    shutil.copytree(results, lost, ignore=shutil.ignore_patterns(".work"))
    (file,) = lost.glob("tiny/simcse/*/*/seed-0-*.json")
    with pytest.raises(UserError, match="are not in") as refusal:
        export(str(file), tmp_path / "model", tmp_path)
    assert not (tmp_path / "model").exists()
    words = shlex.split(
        str(refusal.value).split("`")[1].replace("AGAIN", shlex.quote(str(tmp_path / "again")))
    )
    done = CliRunner().invoke(cli, [*words[1:], "--suites", "sts", "--device", "cpu"])
    assert done.exit_code == 0, done.output
    export(KEYS["cls"], tmp_path / "model", tmp_path / "again")
    np.testing.assert_allclose(
        Student.load(tmp_path / "model").embed(SENTENCES),
        own(results, KEYS["cls"]).embed(SENTENCES),
        atol=1e-5,
    )


def test_a_key_with_several_results_needs_the_file(results: Path, tmp_path: Path) -> None:
    both = tmp_path / "both"
    shutil.copytree(results, both)
    carry_out(plan(both, "simcse", **SHORT, temperature=0.1))
    with pytest.raises(
        UserError, match="has 2 results of simcse/toy/toy-bert/seed-0; give the file"
    ) as refusal:
        export(KEYS["cls"], tmp_path / "model", both)
    files = sorted(both.glob("tiny/simcse/toy/toy-bert/seed-0-*.json"))
    third = Store(both).read(files[0])
    changes = {"spec": replace(third.spec, seed=2), "fingerprint": "2" * 64, "group": "3" * 64}
    Store(both).save(third.model_copy(update=changes))
    assert all(str(file) in str(refusal.value) for file in files)
    texts = []
    for file in files:
        export(str(file), tmp_path / file.stem, tmp_path)
        texts.append(card(tmp_path / file.stem))
    assert sum("temperature=0.1" in text for text in texts) == 1
    assert sum("(2 seeds)" in text for text in texts) == 1, (
        "another temperature or group is another experiment"
    )


def test_the_folder_of_an_untrained_encoder_is_asked_for_and_checked(
    results: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    shutil.copytree(student_folder(), outside)
    words = [
        "eval",
        str(outside),
        "--pooling",
        "mean",
        "--suites",
        "sts",
        "--profile",
        "tiny",
        "--device",
        "cpu",
    ]
    done = CliRunner().invoke(cli, [*words, "--results", str(tmp_path / "results")])
    assert done.exit_code == 0, done.output
    key = "none[pooling=mean]/none/outside/seed-0"
    export(key, tmp_path / "noted", tmp_path / "results")
    shutil.rmtree(tmp_path / "results" / ".last-places")  # as in results of another machine
    with pytest.raises(UserError, match="give that folder with --encoder"):
        export(key, tmp_path / "model", tmp_path / "results")
    export(key, tmp_path / "model", tmp_path / "results", encoder=outside)
    expected = Student.load(student_folder(), "mean").embed(SENTENCES)
    np.testing.assert_allclose(
        sentence_transformer(tmp_path / "model").encode(SENTENCES), expected, atol=1e-5
    )
    assert ModelCard.load(tmp_path / "model" / "README.md").data.license == "unknown"
    (outside / "README.md").write_text("---\nlicense: apache-2.0\n---\n")
    licensed = export(key, tmp_path / "licensed", tmp_path / "results", encoder=outside).folder
    assert ModelCard.load(licensed / "README.md").data.license == "apache-2.0"
    (file,) = (tmp_path / "results").glob("tiny/*/*/*/seed-0-*.json")
    assert "Frozen teachers" not in card(
        export(str(file), tmp_path / "old", tmp_path, encoder=outside).folder
    )
    settings = outside / "tokenizer_config.json"
    settings.write_text(settings.read_text().replace("64", "32"))
    with pytest.raises(UserError, match="is not the encoder that"):
        export(key, tmp_path / "other", tmp_path / "results", encoder=outside)


def test_the_fingerprint_of_a_run_follows_from_its_file(results: Path) -> None:
    """What a merge checks of the results of others: see tests/store/test_merge.py."""
    stored, problems = Store(results).load()
    assert (len(stored), problems) == (len(METHODS) + 1, [])
    assert all(check_identity(result) for result in stored)
