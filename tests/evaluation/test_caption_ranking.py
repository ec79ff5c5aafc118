from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.evaluation import cosines
from harness.evaluation.retrieval import TIE, both_ways, ranks, recalls


def slow_ranks(queries: np.ndarray, gallery: np.ndarray, query_of: np.ndarray, gallery_of: np.ndarray) -> list[int]:
    """Loops in float64: 1 plus the untrue rows that the best true one does not beat."""
    found = []
    for query, owner in zip(queries.astype(np.float64), query_of, strict=True):
        cosines = []
        for row in gallery.astype(np.float64):
            norms = np.sqrt((query**2).sum() * (row**2).sum())
            cosines.append((query * row).sum() / norms if norms else 0.0)
        best = max(c for c, own in zip(cosines, gallery_of, strict=True) if own == owner)
        found.append(1 + sum(c >= best - TIE for c, own in zip(cosines, gallery_of, strict=True) if own != owner))
    return found


@settings(deadline=None, max_examples=40)
@given(
    images=st.integers(1, 9),
    captions=st.integers(1, 4),
    width=st.integers(1, 6),
    cells=st.integers(1, 60),
    seed=st.integers(0, 999),
)
def test_ranks_in_blocks_are_brute_force(images: int, captions: int, width: int, cells: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    owners = rng.permutation(np.repeat(np.arange(images), rng.integers(1, captions + 1, images)))
    # Small whole numbers: many exact ties and zero rows.
    texts = rng.integers(-2, 3, (len(owners), width)).astype(np.float32)
    pictures = rng.integers(-2, 3, (images, width)).astype(np.float32)
    every = np.arange(images)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cosines, "_CELLS", cells)
        assert ranks(texts, pictures, owners, every).tolist() == slow_ranks(texts, pictures, owners, every)
        assert ranks(pictures, texts, every, owners).tolist() == slow_ranks(pictures, texts, every, owners)


def test_a_thousand_rows_of_noise_have_the_ranks_of_float64() -> None:
    rng = np.random.default_rng(0)
    queries, gallery = rng.normal(size=(60, 64)).astype(np.float32), rng.normal(size=(1000, 64)).astype(np.float32)
    query_of = rng.integers(0, 1000, 60)
    found = ranks(queries, gallery, query_of, np.arange(1000))
    assert found.tolist() == slow_ranks(queries, gallery, query_of, np.arange(1000))
    assert found.min() < 200
    assert found.max() > 800


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_constant_model_is_last_everywhere(value: float) -> None:
    texts, images = np.full((1500, 37), value, dtype=np.float32), np.full((300, 37), value, dtype=np.float32)
    scores, parts = both_ways(texts, images, np.repeat(np.arange(300), 5))
    assert {name: x for name, x in scores.items() if "R@" in name and x != 0} == {}
    assert scores["t2i_median_rank"] == 300
    assert parts["one"]["i2t_median_rank"] == 300
    assert parts["five"]["i2t_median_rank"] == 1 + 299 * 5


def test_a_perfect_model_is_first_whatever_the_length_of_its_vectors() -> None:
    rng = np.random.default_rng(1)
    images = rng.normal(size=(50, 16)).astype(np.float32)
    image_of = rng.permutation(np.repeat(np.arange(50), 3))
    scores, _ = both_ways(images[image_of] * rng.uniform(0.01, 100, (150, 1)).astype(np.float32), images, image_of)
    assert {x for name, x in scores.items() if "R@" in name} == {100.0}
    assert {x for name, x in scores.items() if "median" in name} == {1.0}
    assert (scores["n_texts"], scores["n_images"]) == (150, 50)


def test_recalls_count_ranks_up_to_k() -> None:
    assert recalls(np.array([1, 1, 5, 6, 10, 11, 40, 2])) == {
        "R@1": 25.0,
        "R@5": 50.0,
        "R@10": 75.0,
        "median_rank": 5.5,
    }


def test_one_takes_the_first_caption_of_an_image_and_five_the_first_five() -> None:
    # Image 0 lies along the first axis, image 1 along the second; a seventh caption is no part of any protocol.
    right, wrong = [1.0, 0.0], [0.0, 1.0]
    texts = np.array([wrong, wrong, right, right, wrong, [0.1, 1], right], dtype=np.float32)
    images, image_of = np.array([right, wrong], dtype=np.float32), np.array([0, 1, 0, 0, 0, 0, 0])
    scores, parts = both_ways(texts, images, image_of)
    # Captions of image 0 in order: wrong, right, right, wrong, nearly wrong, and right as the sixth, left out.
    assert parts["one"]["t2i_R@1"] == 50
    assert parts["five"]["t2i_R@1"] == pytest.approx(100 * 3 / 6)
    assert parts["one"]["i2t_R@1"] == 0
    assert parts["five"]["i2t_R@1"] == 50
    assert scores == parts["five"] | {"n_texts": 6, "n_images": 2}


def test_one_caption_an_image_has_one_protocol() -> None:
    scores, parts = both_ways(np.eye(3, dtype=np.float32), np.eye(3, dtype=np.float32), np.array([0, 2, 1]))
    assert parts == {}
    assert scores["t2i_R@1"] == pytest.approx(100 / 3)
    assert scores["t2i_median_rank"] == 3


def test_a_query_without_a_true_row_is_an_error() -> None:
    with pytest.raises(ValueError, match="no true row"):
        ranks(np.eye(2), np.eye(2), np.array([0, 2]), np.array([0, 1]))
