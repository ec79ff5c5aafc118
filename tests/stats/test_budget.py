from __future__ import annotations

from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.stats import expected_best

SCORES = st.lists(st.floats(-100, 100), min_size=1, max_size=4)


@settings(max_examples=40)
@given(SCORES)
def test_the_expected_best_is_the_mean_over_all_draws(scores: list[float]) -> None:
    for n, expected in enumerate(expected_best(scores), start=1):
        draws = [max(draw) for draw in product(scores, repeat=n)]
        assert expected == pytest.approx(sum(draws) / len(draws), abs=1e-9)


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=40))
def test_more_trials_are_never_expected_to_find_less(scores: list[float]) -> None:
    found = expected_best(scores)
    assert all(a <= b + 1e-9 for a, b in pairwise(found))
    assert found[0] == pytest.approx(sum(scores) / len(scores), abs=1e-9)
    assert found[-1] <= max(scores) + 1e-9
    smaller = expected_best([-score for score in scores], larger_is_better=False)
    assert smaller == pytest.approx([-score for score in found], abs=1e-9)


@pytest.mark.parametrize("scores", [[], [float("nan")], [1.0, float("inf")]])
def test_what_has_no_best_is_refused(scores: list[float]) -> None:
    with pytest.raises(ValueError, match="at least one finite score"):
        expected_best(scores)
