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
from harness.evaluation.embed import Embedded
from harness.evaluation.geometry import alignment, score, uniformity

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "alignment_uniformity.json").read_text())["entries"]


def brute_uniformity(z: np.ndarray) -> float:
    z = z.astype(np.float64)
    z = z / np.linalg.norm(z, axis=1, keepdims=True)
    return float(np.log(np.mean([np.exp(-2 * ((a - b) ** 2).sum()) for a, b in itertools.combinations(z, 2)])))


def vectors_of(sentences: list[str], width: int = 5) -> np.ndarray:
    """A vector that depends on the sentence alone."""
    return np.stack([np.random.default_rng(list(text.encode())).normal(size=width) for text in sentences])


def scored(subsets: dict[str, list[tuple[str, str, float]]]) -> tuple[dict[str, float], list[str]]:
    sentences = [text for pairs in subsets.values() for first, second, _ in pairs for text in (first, second)]
    return score(subsets, Embedded(lambda unique: vectors_of(list(unique)), sentences))


def align_of(pairs: list[tuple[str, str, float]]) -> float:
    return alignment(vectors_of([a for a, _, _ in pairs]), vectors_of([b for _, b, _ in pairs]))


def uniform_of(pairs: list[tuple[str, str, float]]) -> float:
    return brute_uniformity(vectors_of([a for a, _, _ in pairs] + [b for _, b, _ in pairs]))


@pytest.mark.parametrize("entry", GOLDEN, ids=lambda entry: entry["case"])
def test_values_of_the_public_code(entry: dict[str, Any]) -> None:
    x, y = np.array(entry["inputs"]["x"]), np.array(entry["inputs"]["y"])
    assert alignment(x, y) == pytest.approx(entry["outputs"]["alignment"], rel=1e-9)
    assert uniformity(np.concatenate([x, y])) == pytest.approx(entry["outputs"]["uniformity"], rel=1e-9)


@settings(deadline=None, max_examples=50)
@given(n=st.integers(2, 23), width=st.integers(1, 6), block=st.integers(1, 24), seed=st.integers(0, 999))
def test_uniformity_in_blocks_is_brute_force(n: int, width: int, block: int, seed: int) -> None:
    z = np.random.default_rng(seed).normal(size=(n, width)).astype(np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(geometry, "_BLOCK", block)
        assert uniformity(z) == pytest.approx(brute_uniformity(z), abs=1e-9)


def test_limits() -> None:
    one, other = np.array([[2.0, 0.0]]), np.array([[-5.0, 0.0]])
    assert alignment(one, one) == 0
    assert alignment(one, other) == pytest.approx(4)
    assert uniformity(np.concatenate([one, one])) == 0
    assert uniformity(np.concatenate([one, other])) == pytest.approx(-8)
    with pytest.raises(ValueError, match="pair"):
        alignment(one[:0], one[:0])
    with pytest.raises(ValueError, match="two"):
        uniformity(one)


def test_positives_are_above_four_for_the_whole_split_and_four_or_more_for_the_batches() -> None:
    pairs = [("a", "b", 4.0), ("c", "d", 4.2), ("e", "f", 3.9)]
    scores, warnings = scored({"": pairs})
    assert warnings == []
    assert (scores["n"], scores["n_positive"]) == (3, 1)
    assert scores["alignment"] == pytest.approx(align_of(pairs[1:2]))
    assert scores["alignment_batch128"] == pytest.approx(align_of(pairs[:2]))
    assert scores["uniformity"] == pytest.approx(uniform_of(pairs))
    assert scores["uniformity_batch128"] == pytest.approx(uniform_of(pairs))


def test_batches_of_one_set_keep_the_order_and_one_without_positives_counts_as_zero() -> None:
    pairs = [(f"a{i}", f"b{i}", 5.0 if i < 20 else 1.0) for i in range(150)]
    scores, _ = scored({"": pairs})
    assert scores["alignment"] == pytest.approx(align_of(pairs[:20]))
    assert scores["alignment_batch128"] == pytest.approx((align_of(pairs[:20]) + 0) / 2)
    assert scores["uniformity_batch128"] == pytest.approx((uniform_of(pairs[:128]) + uniform_of(pairs[128:])) / 2)


def test_batches_of_several_subsets_are_sorted_by_words_and_score_and_never_cross() -> None:
    long = [(f"w x y {i}", "z", 1.0) for i in range(100)]
    short = [(f"w {i}", "z", 1.0) for i in range(100)]
    other = [("p", "q", 5.0), ("r", "s", 0.0)]
    scores, _ = scored({"one": long + short, "two": other})
    parts = [short + long[:28], long[28:], other]
    assert scores["uniformity_batch128"] == pytest.approx(np.mean([uniform_of(part) for part in parts]))
    assert scores["alignment_batch128"] == pytest.approx(align_of(other[:1]) / 3)


def test_no_positives_leave_alignment_out_with_a_warning() -> None:
    scores, warnings = scored({"": [("a", "b", 1.0), ("c", "d", 4.0)]})
    assert "alignment" not in scores
    assert "alignment_batch128" in scores
    assert warnings == ["alignment left out, no pair has a gold score above 4.0"]
    scores, warnings = scored({"": [("a", "b", 1.0)]})
    assert set(scores) == {"uniformity", "uniformity_batch128", "n", "n_positive"}
    assert len(warnings) == 2
