from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.evaluation import neighbours
from harness.evaluation.neighbours import nearest, nearest_sentences, neighbours_of


def slow_nearest(query: np.ndarray, pool: np.ndarray, k: int, left_out: set[int]) -> list[tuple[int, float]]:
    """A full sort of float64 cosines, rounded so that what float32 cannot tell apart is equal."""
    found = []
    for row, other in enumerate(pool.astype(np.float64)):
        norms = np.linalg.norm(query.astype(np.float64)) * np.linalg.norm(other)
        found.append((row, float(query.astype(np.float64) @ other / norms) if norms else 0.0))
    kept = [pair for pair in found if pair[0] not in left_out]
    return sorted(kept, key=lambda pair: (-round(pair[1], 5), pair[0]))[:k]


@settings(deadline=None, max_examples=40)
@given(rows=st.integers(1, 30), width=st.integers(1, 4), cells=st.integers(1, 90), seed=st.integers(0, 999))
def test_neighbours_in_blocks_are_a_full_sort(rows: int, width: int, cells: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Signs and zeros alone: cosines tie often, and equal ones are equal in float32 too.
    pool = rng.choice([-1.0, 0.0, 1.0], (rows, width)).astype(np.float32)
    queries = rng.choice([-1.0, 0.0, 1.0], (5, width)).astype(np.float32)
    left_out = [rng.choice(rows, rng.integers(0, rows), replace=False) for _ in range(5)]
    k = int(rng.integers(1, 1 + min(rows - len(out) for out in left_out)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "_CELLS", cells)
        found = nearest(queries, pool, k, left_out)
    for query, out, found_rows, cosines in zip(queries, left_out, found.rows, found.cosines, strict=True):
        expected = slow_nearest(query, pool, k, set(out.tolist()))
        assert cosines == pytest.approx([cosine for _, cosine in expected], abs=1e-6)
        assert found_rows.tolist() == [row for row, _ in expected]


def test_neighbours_of_noise() -> None:
    rng = np.random.default_rng(0)
    pool, queries = rng.normal(size=(2000, 32)).astype(np.float32), rng.normal(size=(7, 32)).astype(np.float32)
    found = nearest(queries, pool * rng.uniform(0.1, 9, (2000, 1)).astype(np.float32), 10, [np.array([], int)] * 7)
    for query, rows, cosines in zip(queries, found.rows, found.cosines, strict=True):
        expected = slow_nearest(query, pool, 10, set())
        assert rows.tolist() == [row for row, _ in expected]
        assert cosines == pytest.approx([cosine for _, cosine in expected], abs=1e-6)


def lengths(sentences: Sequence[str]) -> np.ndarray:
    """Sentences of like length have like directions."""
    angles = np.array([len(sentence) for sentence in sentences]) / 20
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


POOL = ["four", "seven77", "five5", "four", "tenten1010", "also"]


def test_sentences_with_the_words_of_the_query_are_left_out_unless_asked_for() -> None:
    without = nearest_sentences(lengths, ["four", "absent"], POOL, 3)
    assert without.rows.tolist() == [[5, 2, 1], [1, 2, 0]]
    within = nearest_sentences(lengths, ["four"], POOL, 4, itself=True)
    assert within.rows.tolist() == [[0, 3, 5, 2]]
    assert within.cosines[0] == pytest.approx([1, 1, 1, np.cos(1 / 20)], abs=1e-6)


@pytest.mark.parametrize(("k", "itself"), [(0, True), (7, True), (5, False)])
def test_too_few_sentences_are_an_error(k: int, itself: bool) -> None:
    with pytest.raises(ValueError, match="neighbours are left in a pool of 6"):
        nearest_sentences(lengths, ["four"], POOL, k, itself=itself)


#: sentences on a circle, by their angle in degrees
ANGLES = {"a": 0.0, "b": 10.0, "c": 30.0, "d": 90.0, "e": 180.0}


def circle(texts: Sequence[str]) -> np.ndarray:
    radians = np.radians([ANGLES[text] for text in texts])
    return np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)


def test_drawn_captions_have_the_nearest_others_by_hand() -> None:
    # every caption is there twice
    found = neighbours_of([*ANGLES, *ANGLES], circle, 9, np.random.default_rng(0))
    queries = found["queries"].tolist()
    assert sorted(queries) == list("abcde"), "a caption is asked for once"
    assert {query: "".join(row) for query, row in zip(queries, found["neighbours"], strict=True)} == {
        "a": "bcd",
        "b": "acd",
        "c": "bad",
        "d": "cba",
        "e": "dcb",
    }
    row = found["neighbour_cosines"][queries.index("c")]
    assert row == pytest.approx(np.cos(np.radians([20, 30, 60])), abs=1e-6)


def test_the_draw_depends_on_the_seed_alone() -> None:
    draws = [tuple(neighbours_of([*ANGLES], circle, 2, np.random.default_rng(seed))["queries"]) for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2]
    again = neighbours_of([*ANGLES], lambda texts: -circle(texts)[:, ::-1], 2, np.random.default_rng(0))
    assert tuple(again["queries"]) == draws[0], "another model is asked something else"


def test_few_captions_have_few_neighbours() -> None:
    assert neighbours_of(["a", "b", "a"], circle, 5, np.random.default_rng(0))["neighbours"].shape == (2, 1)
    with pytest.raises(ValueError, match="fewer than 1 neighbours are left in a pool of 1"):
        neighbours_of(["a", "a"], circle, 5, np.random.default_rng(0))
