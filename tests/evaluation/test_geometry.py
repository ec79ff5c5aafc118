from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.evaluation import geometry
from harness.evaluation.geometry import (
    GeometrySuite,
    alignment,
    effective_rank,
    mean_cosine,
    spectrum,
    uniformity,
)
from harness.evaluation.suites import Embedded

GOLDEN = json.loads(
    (Path(__file__).parents[1] / "golden" / "alignment_uniformity.json").read_text()
)["entries"]


def brute_uniformity(z: np.ndarray) -> float:
    z = z.astype(np.float64)
    z = z / np.linalg.norm(z, axis=1, keepdims=True)
    return float(
        np.log(
            np.mean([np.exp(-2 * ((a - b) ** 2).sum()) for a, b in itertools.combinations(z, 2)])
        )
    )


def vectors_of(sentences: list[str], width: int = 5) -> np.ndarray:
    """A vector that depends on the sentence alone."""
    return np.stack(
        [np.random.default_rng(list(text.encode())).normal(size=width) for text in sentences]
    )


def scored(subsets: dict[str, list[tuple[str, str, float]]]) -> tuple[dict[str, float], list[str]]:
    sentences = [
        text for pairs in subsets.values() for first, second, _ in pairs for text in (first, second)
    ]
    result = GeometrySuite(["ToySTS"]).score(
        subsets, Embedded(lambda unique: vectors_of(list(unique)), sentences)
    )
    return result.scores, result.warnings


def align_of(pairs: list[tuple[str, str, float]]) -> float:
    return alignment(vectors_of([a for a, _, _ in pairs]), vectors_of([b for _, b, _ in pairs]))


def uniform_of(pairs: list[tuple[str, str, float]]) -> float:
    return brute_uniformity(vectors_of([a for a, _, _ in pairs] + [b for _, b, _ in pairs]))


@pytest.mark.parametrize("entry", GOLDEN, ids=lambda entry: entry["case"])
def test_values_of_the_public_code(entry: dict[str, Any]) -> None:
    x, y = np.array(entry["inputs"]["x"]), np.array(entry["inputs"]["y"])
    assert alignment(x, y) == pytest.approx(entry["outputs"]["alignment"], rel=1e-9)
    assert uniformity(np.concatenate([x, y])) == pytest.approx(
        entry["outputs"]["uniformity"], rel=1e-9
    )


@settings(deadline=None, max_examples=50)
@given(
    n=st.integers(2, 23),
    width=st.integers(1, 6),
    block=st.integers(1, 24),
    seed=st.integers(0, 999),
)
def test_uniformity_in_blocks_is_brute_force(n: int, width: int, block: int, seed: int) -> None:
    z = np.random.default_rng(seed).normal(size=(n, width)).astype(np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(geometry, "_BLOCK", block)
        assert uniformity(z) == pytest.approx(brute_uniformity(z), abs=1e-9)


def test_limits_of_alignment_and_uniformity() -> None:
    axis, other = np.array([[2.0, 0.0]]), np.array([[-5.0, 0.0]])
    assert alignment(axis, axis) == 0
    assert alignment(axis, other) == pytest.approx(4)
    assert uniformity(np.concatenate([axis, axis])) == 0
    assert uniformity(np.concatenate([axis, other])) == pytest.approx(-8)
    with pytest.raises(ValueError, match="pair"):
        alignment(axis[:0], axis[:0])
    with pytest.raises(ValueError, match="two"):
        uniformity(axis)


def test_batches_of_one_set_keep_the_order_and_one_without_positives_counts_as_zero() -> None:
    """Positives are above 4.0 in the whole set, from 4.0 on in batches."""
    pairs = [(f"a{i}", f"b{i}", (5.0 if i < 19 else 4.0) if i < 20 else 1.0) for i in range(150)]
    scores, warnings = scored({"": pairs})
    assert warnings == []
    assert (scores["n"], scores["n_positive"]) == (150, 19)
    assert scores["alignment"] == pytest.approx(align_of(pairs[:19]))
    assert scores["alignment_batch128"] == pytest.approx((align_of(pairs[:20]) + 0) / 2)
    assert scores["uniformity"] == pytest.approx(uniform_of(pairs))
    assert scores["uniformity_batch128"] == pytest.approx(
        (uniform_of(pairs[:128]) + uniform_of(pairs[128:])) / 2
    )
    for gold, left in ((4.0, {"alignment_batch128"}), (1.0, set())):
        scores, warnings = scored({"": [("a", "b", 1.0), ("c", "d", gold)]})
        assert {name for name in scores if name.startswith("alignment")} == left
        assert warnings[0].startswith("alignment left out")
        assert len(warnings) == 3 - len(left)


def test_batches_of_several_subsets_are_sorted_by_words_and_score_and_never_cross() -> None:
    long, short = ([(f"w {more}{i}", "z", 1.0) for i in range(100)] for more in ("x y ", ""))
    other = [("p", "q", 5.0), ("r", "s", 0.0)]
    scores, _ = scored({"one": long + short, "two": other})
    parts = [short + long[:28], long[28:], other]
    assert scores["uniformity_batch128"] == pytest.approx(
        np.mean([uniform_of(part) for part in parts])
    )
    assert scores["alignment_batch128"] == pytest.approx(align_of(other[:1]) / 3)


def test_readings_by_subsets_weigh_each_by_its_pairs_and_pass_over_those_without_positives() -> (
    None
):
    """Weights are the pairs of a subset, not its positives: 4 and 2, not 1 and 2."""
    first = [("a", "b", 5.0), ("c", "d", 4.0), ("e", "f", 0.0), ("g", "h", 1.0)]
    two, none = [("p", "q", 5.0), ("r", "s", 4.8)], [("x", "y", 4.0)]
    scores, warnings = scored({"one": first, "none": none, "two": two})
    assert warnings == []
    assert scores["alignment_subsets"] == pytest.approx(
        (4 * align_of(first[:1]) + 2 * align_of(two)) / 6
    )
    assert scores["alignment"] == pytest.approx((align_of(first[:1]) + 2 * align_of(two)) / 3)
    weighted = (4 * uniform_of(first) + 2 * uniform_of(two) + uniform_of(none)) / 7
    assert scores["uniformity_subsets"] == pytest.approx(weighted)
    assert weighted != pytest.approx(scores["uniformity"], abs=1e-3)


@settings(deadline=None, max_examples=50)
@given(n=st.integers(2, 12), width=st.integers(1, 6), seed=st.integers(0, 999))
def test_the_mean_cosine_is_that_of_all_pairs(n: int, width: int, seed: int) -> None:
    z = np.random.default_rng(seed).integers(-2, 3, (n, width)).astype(np.float32)
    cosines = []
    for a, b in itertools.combinations(z.astype(np.float64), 2):
        norms = np.linalg.norm(a) * np.linalg.norm(b)
        cosines.append(a @ b / norms if norms else 0.0)
    assert mean_cosine(z) == pytest.approx(np.mean(cosines), abs=1e-12)


def test_the_spectrum_is_that_of_a_singular_value_decomposition() -> None:
    rng = np.random.default_rng(3)
    z = (rng.normal(size=(40, 6)) * [5, 3, 1, 1, 0.5, 0] + 2).astype(np.float32)
    units = z / np.linalg.norm(z.astype(np.float64), axis=1, keepdims=True)
    squares = np.linalg.svd(units - units.mean(axis=0), compute_uv=False) ** 2
    shares = squares / squares.sum()
    entropy = -sum(p * np.log(p) for p in shares if p > 1e-15)
    axes = np.concatenate([np.eye(4), -np.eye(4)]).astype(np.float32)
    line = np.array([[1, 1], [-1, -1], [2, 2]], dtype=np.float32)
    for rows, wanted, rank in (
        (z, shares, np.exp(entropy)),
        (axes, [0.25] * 4, 4),
        (line, [1, 0], 1),
    ):
        assert spectrum(rows) == pytest.approx(wanted, abs=1e-9)
        assert effective_rank(spectrum(rows)) == pytest.approx(rank, rel=1e-6)
    assert not spectrum(np.full((9, 3), 0.7, dtype=np.float32)).any()
    assert mean_cosine(axes) == pytest.approx(-1 / 7)
    with pytest.raises(ValueError, match="two"):
        mean_cosine(axes[:1])


def test_the_spread_is_of_distinct_sentences_and_undefined_where_they_do_not_differ() -> None:
    once, _ = scored({"": [("a", "b", 5.0), ("c", "d", 1.0)]})
    again, _ = scored({"": [("a", "b", 5.0), ("c", "d", 1.0), ("a", "c", 4.5), ("a", "d", 0.0)]})
    for name in ("mean_cosine", "top_variance", "effective_rank"):
        assert again[name] == pytest.approx(once[name], abs=1e-12)
    assert again["uniformity"] != pytest.approx(once["uniformity"])
    same = Embedded(lambda unique: np.ones((len(unique), 3), dtype=np.float32), "abcd")
    result = GeometrySuite(["ToySTS"]).score({"": [("a", "b", 5.0), ("c", "d", 1.0)]}, same)
    assert result.scores["mean_cosine"] == pytest.approx(1)
    assert [line.partition(" ")[0] for line in result.warnings] == [
        "top_variance",
        "effective_rank",
    ]
    assert "top_variance" not in result.scores
    assert GeometrySuite(["ToySTS"]).score({"": [("a", "b", 5.0)]}, same).scores[
        "mean_cosine"
    ] == pytest.approx(1)
