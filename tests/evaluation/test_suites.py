from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.errors import MissingData, UserError
from harness.evaluation.geometry import GeometrySuite
from harness.evaluation.sts import MultilingualSTSSuite, STSSuite
from harness.evaluation.suites import SIMILARITY, Embedder, Subsets, Suite
from harness.sources import Missing, digest


class Numbers:
    """Sentences are numbers; the gold score of two is 5 minus their distance."""

    kind = SIMILARITY

    def __init__(self, name: str, pairs: list[list[int]], needs: str | None = None) -> None:
        self.name, self.pairs, self.needs = name, pairs, needs

    def missing(self, root: Path | None) -> list[Missing]:
        return [Missing(self.needs, "make it")] if self.needs else []

    def fingerprint(self, root: Path | None) -> str:
        return digest(self.pairs)

    def load(self, root: Path | None) -> Subsets:
        return (
            {"": [(str(a), str(b), 5.0 - abs(a - b)) for a, b in self.pairs]} if self.pairs else {}
        )


NEAR = Numbers("near", [[1, 2], [1, 4], [1, 3], [2, 2]])
FAR = Numbers("far", [[1, 5], [2, 4], [1, 3], [3, 3]])
FLAT = Numbers("flat", [[7, 7], [8, 8]])
EMPTY = Numbers("empty", [])
ABSENT = Numbers("absent", [], needs="a file")
ABSENT_TOO = Numbers("absent-too", [], needs="a file")


def embed(sentences: Sequence[str]) -> np.ndarray:
    angles = np.array([float(sentence) for sentence in sentences]) / 10
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


@pytest.mark.parametrize("suite", [STSSuite, GeometrySuite])
def test_tasks_share_one_call_and_the_average_is_the_plain_mean_of_unrounded_scores(
    suite: type[Suite],
) -> None:
    calls: list[list[str]] = []
    scores = (
        suite([NEAR, FAR])
        .evaluate(Embedder(lambda texts: calls.append(list(texts)) or embed(texts)), None)
        .scores
    )
    assert calls == [["1", "2", "4", "3", "5"]]
    assert list(scores) == ["near", "far", "Avg"]
    names = [metric.name for metric in suite.metrics]
    assert scores["Avg"] == {
        name: (scores["near"][name] + scores["far"][name]) / 2 for name in names
    }


def test_scores_hold_no_nan_and_an_average_needs_every_task(tmp_path: Path) -> None:
    """Missing things are listed once, and stop the evaluation."""
    evaluation = STSSuite([NEAR, FLAT]).evaluate(Embedder(embed), None)
    assert set(evaluation.scores["flat"]) == {"n"}
    assert evaluation.scores["Avg"] == {}
    assert evaluation.warnings[0] == "sts: flat: no score: all gold scores are equal"
    assert "Avg" in evaluation.warnings[1]
    json.dumps(evaluation.scores, allow_nan=False)
    assert [str(line) for line in STSSuite([NEAR, ABSENT, ABSENT_TOO]).missing(None)] == [
        "cannot find a file; make it"
    ]
    assert STSSuite([NEAR]).missing(None) == []
    with pytest.raises(MissingData, match="STS12"):
        STSSuite([NEAR, "STS12"]).evaluate(Embedder(embed), tmp_path / "nothing")


def test_the_fingerprint_depends_on_protocol_tasks_and_contents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    more = Numbers("near", [*NEAR.pairs, [3, 3]])
    suites = (
        STSSuite([NEAR, FAR]),
        STSSuite([NEAR]),
        STSSuite([more, FAR]),
        GeometrySuite([NEAR, FAR]),
    )
    prints = {suite.fingerprint(None) for suite in (*suites, MultilingualSTSSuite([NEAR, FAR]))}
    assert STSSuite([NEAR, FAR]).fingerprint(None) in prints
    monkeypatch.setattr(STSSuite, "version", STSSuite.version + 1)
    prints.add(STSSuite([NEAR, FAR]).fingerprint(None))
    assert len(prints) == 6


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([], "the suite 'sts' has no tasks"),
        ([NEAR, FAR, NEAR], "names near twice"),
        (["STS-C"], "unknown similarity task 'STS-C'; did you mean STS-B"),
        ([NEAR, EMPTY], "'empty' has no pairs"),
    ],
)
def test_wrong_lists_of_tasks(tasks: list[Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        STSSuite(tasks).evaluate(Embedder(embed), None)
