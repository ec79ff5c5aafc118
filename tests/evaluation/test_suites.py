from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from harness import registry
from harness.errors import MissingData, UserError
from harness.evaluation.geometry import GeometrySuite
from harness.evaluation.sts import STSSuite
from harness.evaluation.suites import Suite

PACKAGE = '''
from harness.sources import Missing, digest

class Numbers:
    """Sentences are numbers; the gold score of two is 5 minus their distance."""

    def __init__(self, name, pairs, needs=None):
        self.name, self.pairs, self.needs = name, pairs, needs

    def missing(self, root):
        return [Missing(self.needs, "make it")] if self.needs else []

    def fingerprint(self, root):
        return digest(self.pairs)

    def load(self, root):
        return {"": [(str(a), str(b), 5.0 - abs(a - b)) for a, b in self.pairs]} if self.pairs else {}

near = Numbers("near", [[1, 2], [1, 4], [1, 3], [2, 2]])
far = Numbers("far", [[1, 5], [2, 4], [1, 3], [3, 3]])
flat = Numbers("flat", [[7, 7], [8, 8]])
empty = Numbers("empty", [])
absent = Numbers("absent", [], needs="a file")
absent_too = Numbers("absent-too", [], needs="a file")
'''
NAMES = ["near", "far", "flat", "empty", "absent", "absent_too"]


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed package that registers similarity tasks of its own."""
    (tmp_path / "numbers_package.py").write_text(PACKAGE)
    info = tmp_path / "numbers_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: numbers-package\nVersion: 1.0\n")
    lines = [f"{name} = numbers_package:{name}" for name in NAMES]
    (info / "entry_points.txt").write_text("\n".join(["[harness.similarity]", *lines, ""]))
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._points.cache_clear()
    yield
    registry._points.cache_clear()
    sys.modules.pop("numbers_package", None)


def embed(sentences: Sequence[str]) -> np.ndarray:
    angles = np.array([float(sentence) for sentence in sentences]) / 10
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def test_all_tasks_share_one_call_of_the_embedder() -> None:
    calls: list[list[str]] = []

    def recording(sentences: Sequence[str]) -> np.ndarray:
        calls.append(list(sentences))
        return embed(sentences)

    STSSuite(["near", "far"]).evaluate(recording, None)
    assert calls == [["1", "2", "4", "3", "5"]]


@pytest.mark.parametrize("suite", [STSSuite, GeometrySuite])
def test_the_average_is_the_plain_mean_of_unrounded_scores(suite: type[Suite]) -> None:
    scores = suite(["near", "far"]).evaluate(embed, None).scores
    assert list(scores) == ["near", "far", "Avg"]
    names = [metric.name for metric in suite.metrics]
    assert scores["Avg"] == {name: (scores["near"][name] + scores["far"][name]) / 2 for name in names}


def test_scores_hold_no_nan_and_an_average_needs_every_task() -> None:
    evaluation = STSSuite(["near", "flat"]).evaluate(embed, None)
    assert set(evaluation.scores["flat"]) == {"n"}
    assert evaluation.scores["Avg"] == {}
    assert evaluation.warnings[0] == "sts: flat: no score: all gold scores are equal"
    assert "Avg" in evaluation.warnings[1]
    json.dumps(evaluation.scores, allow_nan=False)


def test_a_task_with_vectors_that_are_not_finite_has_no_score() -> None:
    def broken(sentences: Sequence[str]) -> np.ndarray:
        vectors = embed(sentences)
        vectors[0] = np.nan
        return vectors

    evaluation = STSSuite(["near"]).evaluate(broken, None)
    assert evaluation.scores["near"] == {}
    assert evaluation.warnings[0] == "sts: near: no score: 1 of the 4 sentence vectors of the suite are not finite"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_model_without_any_finite_vector_fails(value: float) -> None:
    with pytest.raises(UserError, match="none of the model's 4 sentence vectors is finite"):
        STSSuite(["near"]).evaluate(lambda texts: np.full((len(texts), 2), value, np.float32), None)


def test_missing_things_are_listed_once() -> None:
    assert [str(line) for line in STSSuite(["near", "absent", "absent_too"]).missing(None)] == ["a file: make it"]
    assert STSSuite(["near"]).missing(None) == []


def test_real_files_that_are_missing_stop_the_evaluation(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="STS12"):
        STSSuite(["near", "STS12"]).evaluate(embed, tmp_path / "nothing")


def test_the_fingerprint_depends_on_protocol_tasks_and_contents(monkeypatch: pytest.MonkeyPatch) -> None:
    first = STSSuite(["near", "far"]).fingerprint(None)
    assert STSSuite(["near", "far"]).fingerprint(None) == first
    others = {STSSuite(["near"]).fingerprint(None), GeometrySuite(["near", "far"]).fingerprint(None)}
    registry.get("similarity task", "near").pairs.append([3, 3])
    others.add(STSSuite(["near", "far"]).fingerprint(None))
    registry.get("similarity task", "near").pairs.pop()
    monkeypatch.setattr(STSSuite, "version", STSSuite.version + 1)
    others.add(STSSuite(["near", "far"]).fingerprint(None))
    assert len(others) == 4
    assert first not in others


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([], "the suite 'sts' has no tasks"),
        (["near", "far", "near"], "names near twice"),
        (["naer"], "unknown similarity task 'naer'; did you mean near"),
    ],
)
def test_wrong_lists_of_tasks(tasks: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        STSSuite(tasks)


def test_a_task_without_pairs_is_an_error_of_its_data() -> None:
    with pytest.raises(UserError, match="'empty' has no pairs"):
        STSSuite(["near", "empty"]).evaluate(embed, None)


def test_planning_imports_no_large_library() -> None:
    code = (
        "import pathlib, sys\n"
        "from harness import registry\n"
        "for name in ('sts', 'geometry'):\n"
        "    suite = registry.get('suite', name)(['near', 'STS12', 'STS-B'])\n"
        "    assert len(suite.missing(pathlib.Path('nowhere'))) == 2\n"
        "    registry.get('suite', name)(['near']).fingerprint(None)\n"
        "registry.get('suite', 'transfer')(['TREC']).missing(None)\n"
        "mteb = registry.get('suite', 'mteb')\n"
        "mteb(registry.names('mteb task')).missing(None)\n"
        "mteb(['ToyMTEB-STS']).fingerprint(None)\n"
        "heavy = {'torch', 'scipy', 'sklearn', 'pandas', 'transformers', 'mteb', 'datasets'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    # The package above is on this process's path only.
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    assert done.stdout.strip() == "[]", done.stderr
