"""Expected best score of n trials: the best of n draws from the scores of all trials."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def expected_best(scores: Sequence[float] | NDArray[np.float64], *, larger_is_better: bool = True) -> list[float]:
    """The expected best of n trials for n = 1 to N, from the scores of N trials (Dodge et al. 2019, Eq. 3 and 4).

    The n trials are drawn with replacement from the N: the i-th smallest score is the largest of them with probability
    (i/N)^n - ((i-1)/N)^n. The first number is the mean. Raises ValueError for no scores and for NaN or infinity.
    """
    values = np.sort(np.asarray(scores, dtype=np.float64))
    if values.ndim != 1 or not values.size or not np.isfinite(values).all():
        raise ValueError("the best of trials needs at least one finite score")
    if not larger_is_better:
        values = values[::-1]
    shares = np.arange(values.size + 1) / values.size
    powers = shares[None, :] ** np.arange(1, values.size + 1)[:, None]
    found: list[float] = (np.diff(powers, axis=1) @ values).tolist()
    return found
