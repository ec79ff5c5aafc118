"""The dual encoder over frozen features: where the best map is known, and on photographs with captions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from refusals import refused

from harness.encoders import teacher_kinds
from harness.encoders.teacher_kinds import fit


def pairs(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two linear views of 6 hidden numbers, beside stronger numbers that the two do not share."""
    random = np.random.default_rng(seed)
    mixing = np.random.default_rng(1)
    hidden = random.normal(size=(count, 6))
    sides = []
    for wide, scale in ((20, 50.0), (30, 0.01)):
        own = 2 * random.normal(size=(count, 4))
        values = np.concatenate([hidden, own], axis=1) @ mixing.normal(size=(10, wide))
        sides.append((scale * (values + mixing.normal(size=wide))).astype(np.float32))
    return sides[0], sides[1]


def test_what_two_views_share_is_found() -> None:
    """A linear map that keeps the hidden numbers alone exists, so nearly all pairs can be distinguished."""
    fitted = fit(*pairs(2000), steps=300, batch_size=256, learning_rate=0.01, width=16, dropout=0.0)
    images, captions = pairs(400, seed=2)
    first, second = fitted.images(images), fitted.captions(captions)
    assert first.shape == second.shape == (400, 16)
    scores = first @ second.T
    for found in (scores.argmax(1), scores.argmax(0)):
        assert (found == np.arange(400)).mean() > 0.95


def test_vectors_are_of_length_one_and_do_not_depend_on_what_is_beside_them() -> None:
    images, captions = pairs(100)
    fitted = fit(images, captions, steps=5, width=8)
    for side, features in ((fitted.images, images), (fitted.captions, captions)):
        vectors = side(features)
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
        np.testing.assert_allclose(side(features[3:4]), vectors[3:4], atol=1e-6)


def test_a_fit_is_a_function_of_its_seed_and_leaves_the_global_generator() -> None:
    data = pairs(200)
    state = torch.random.get_rng_state()
    first, again, other = (fit(*data, steps=10, width=8, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(state, torch.random.get_rng_state())
    np.testing.assert_array_equal(first.images.weight, again.images.weight)
    assert not np.allclose(first.images.weight, other.images.weight)


def test_the_loss_is_the_mean_of_both_directions() -> None:
    random = np.random.default_rng(0)
    first, second = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in random.normal(size=(2, 5, 3)))
    expected = 0.0
    for one, two in ((first, second), (second, first)):
        for row in range(5):
            scores = [float(np.dot(one[row], key)) / 0.05 for key in two]
            expected += (np.log(sum(np.exp(score) for score in scores)) - scores[row]) / 10
    loss = teacher_kinds._loss(torch.tensor(first), torch.tensor(second), torch.tensor(np.log(20.0)))
    assert float(loss) == pytest.approx(expected, rel=1e-9)


def test_moments_are_those_of_all_rows_and_constants_have_deviation_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teacher_kinds, "CHUNK", 7)
    values = np.random.default_rng(0).normal(5, 3, size=(50, 4)).astype(np.float32)
    values[:, 1], values[:, 2] = 0.1, 0
    tower = fit(values, values, steps=1, width=2).images
    np.testing.assert_allclose(tower.mean, values.astype(np.float64).mean(0), rtol=1e-6)
    np.testing.assert_allclose(tower.spread[[0, 3]], values[:, [0, 3]].astype(np.float64).std(0), rtol=1e-6)
    np.testing.assert_array_equal(tower.spread[[1, 2]], 1)


def test_pairs_must_be_pairs() -> None:
    with refused("at least two pairs"):
        fit(np.ones((1, 3)), np.ones((1, 3)))
    with pytest.raises(ValueError, match="3 images for 2 captions"):
        fit(np.ones((3, 3)), np.ones((2, 3)))
