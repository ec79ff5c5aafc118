from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.stats import Ranking, bootstrap_ranking

NAN = float("nan")


def ranked(*variants: list[list[float]], draws: int = 400) -> Ranking:
    return bootstrap_ranking(np.array(variants), draws=draws)


def by_loops(scores: np.ndarray) -> list[float]:
    means = [[np.mean([one for one in seeds if np.isfinite(one)]) for seeds in places] for places in scores]
    ranks = []
    for mine in means:
        per_place = []
        for place, value in enumerate(mine):
            others = [other[place] for other in means]
            per_place.append(sum(other > value for other in others) + (sum(other == value for other in others) + 1) / 2)
        ranks.append(sum(per_place) / len(per_place))
    return ranks


@settings(max_examples=30)
@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_mean_ranks_are_those_of_loops_and_lie_in_their_intervals(v: int, p: int, s: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 4, (v, p, s)).astype(float)
    scores[:, :, 1:][rng.random((v, p, s - 1)) < 0.3] = NAN
    found = bootstrap_ranking(scores, draws=60)
    assert found.mean_rank == pytest.approx(by_loops(scores))
    assert sum(found.mean_rank) == pytest.approx(v * (v + 1) / 2)
    assert list(found.mean_rank[found.order]) == sorted(found.mean_rank)
    assert ((found.low <= found.high) & (found.low >= 1) & (found.high <= v)).all()
    assert ((found.flips >= 0) & (found.flips <= 1)).all()
    assert len(found.flips) == v - 1


def test_variants_that_never_overlap_never_flip() -> None:
    found = ranked([[1.0, 2, 3]], [[7.0, 8, 9]], [[4.0, 5, 6]])
    assert list(found.order) == [1, 2, 0]
    assert list(found.mean_rank) == list(found.low) == list(found.high) == [3, 1, 2]
    assert list(found.flips) == [0, 0]


def test_equal_variants_flip_half_of_the_time() -> None:
    found = ranked([[1.0, 2, 3, 4]], [[1.0, 2, 3, 4]], draws=4000)
    assert found.flips[0] == pytest.approx(0.5, abs=0.03)


def test_the_chance_of_a_flip_is_that_of_the_bootstrap() -> None:
    a, b = [1.0, 3.0], [0.0, 2.0]
    # means of a: 1, 2, 2, 3; of b: 0, 1, 1, 2: of 16 pairs b is ahead in one, and they are equal in four
    (flip,) = ranked([a], [b], draws=20_000).flips
    assert flip == pytest.approx((1 + 0.5 * 4) / 16, abs=0.01)


def test_more_places_make_the_order_surer() -> None:
    rng = np.random.default_rng(0)
    one = rng.normal(0, 1, (2, 1, 5)) + np.array([[[0.6]], [[0.0]]])
    many = np.repeat(one, 12, axis=1)
    assert bootstrap_ranking(many).flips[0] < bootstrap_ranking(one).flips[0]


def test_a_place_without_a_score_is_refused() -> None:
    with pytest.raises(ValueError, match="each variant in each place"):
        ranked([[NAN, NAN]], [[1.0, 2.0]])
