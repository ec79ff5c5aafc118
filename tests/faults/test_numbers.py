"""Models whose vectors are no numbers: no score, and the reason wherever the score would stand."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result
from faults_tools import short_run
from safetensors.torch import load_file, save_file

import harness
from harness.cli import main
from harness.errors import UserError
from harness.toy import student_folder

pytestmark = pytest.mark.usefixtures("small_toy_tests")

WORDS = "embeddings.word_embeddings.weight"


def evaluated(tmp_path: Path, rows: slice, value: float) -> tuple[Path, Result]:
    """The results and the end of `harness eval` for a model with some rows of its embedding
    replaced.
    """
    folder, results = shutil.copytree(student_folder(), tmp_path / "model"), tmp_path / "results"
    weights = load_file(folder / "model.safetensors")
    (name,) = (name for name in weights if name.endswith(WORDS))
    weights[name][rows] = torch.tensor(value)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    words = [
        "eval",
        str(folder),
        "--profile",
        "tiny",
        "--suites",
        "sts",
        "--pooling",
        "cls",
        "--results",
        str(results),
    ]
    return results, CliRunner().invoke(main.cli, words)


def test_some_vectors_without_numbers_leave_a_task_without_a_score(tmp_path: Path) -> None:
    results, done = evaluated(
        tmp_path, slice(58, 68), float("nan")
    )  # words that the trial of a model does not have
    assert done.exit_code == 0, done.output
    assert "no score of " in done.output
    assert "sentence vectors of the suite are not finite" in done.output
    (run,) = harness.results(results).runs
    (evaluation,) = run.evaluations
    assert not any("spearman" in row for row in evaluation.scores.values())
    table = CliRunner().invoke(main.cli, ["table", "sts", "--results", str(results)])
    assert isinstance(table.exception, UserError)
    assert "not finite" in str(table.exception)
    harness.report(results, tmp_path / "report")
    assert "not finite" in (tmp_path / "report" / "overview.html").read_text()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_model_without_any_finite_vector_is_refused(value: float, tmp_path: Path) -> None:
    results, done = evaluated(tmp_path, slice(None), value)
    assert isinstance(done.exception, UserError)
    assert "is not finite; correct its weights" in str(done.exception)
    assert not results.exists()


def test_training_on_one_sentence_is_refused(tmp_path: Path) -> None:
    (failure,) = short_run("mcse", tmp_path, settings="toy[shot=1]").failures
    assert "one distinct sentence in its batch of pairs" in failure.error


BOTH = "steps = 5\nepochs = 1\n"


def profile_with(more: str, tmp_path: Path) -> str:
    path = tmp_path / "mine.toml"
    path.write_text(f'extends = "tiny"\n{more}')
    return str(path)


@pytest.mark.parametrize(
    ("more", "given", "says"),
    [
        ("", {"set": {"steps": 5, "epochs": 1}}, "both steps and epochs"),
        (f"[training]\n{BOTH}", {}, "steps replace epochs"),
        (f'[[hyperparameters]]\nsource = "mine"\n{BOTH}', {}, "'mine' gives both steps and epochs"),
        (
            "",
            {"methods": "simcse[epochs=2]"},
            r"simcse\[epochs=2\]: the profile 'mine' sets steps = 400",
        ),
    ],
)
def test_steps_and_epochs_exclude_each_other(
    more: str, given: dict[str, Any], says: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=says):
        harness.plan(
            profile_with(more, tmp_path), **{"methods": "simcse", **given}, results=tmp_path
        )


@pytest.mark.parametrize("ours", ["steps = 400", "epochs = 3"])
@pytest.mark.parametrize(
    ("given", "methods", "expected"),
    [
        ({"steps": 5}, "simcse", {"steps": 5}),
        ({"epochs": 2}, "simcse", {"steps": None, "epochs": 2}),
        ({"epochs": 1}, "simcse[epochs=2]", {"steps": None, "epochs": 2}),
    ],
)
def test_steps_or_epochs_of_the_command_replace_the_other_of_the_profile(
    ours: str, given: dict[str, int], methods: str, expected: dict[str, int | None], tmp_path: Path
) -> None:
    profile = profile_with(f"[training]\n{ours}\n", tmp_path)
    (run,) = harness.plan(profile, methods=methods, results=tmp_path, seeds=1, set=given).runs
    assert expected.items() <= run.experiment.resolved.training.model_dump().items()
