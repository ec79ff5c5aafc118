"""Statistics over seeds: pure functions on numbers.

Standard deviations are the sample form (n - 1). Tests are two-sided. No result is NaN: where a number does not exist,
the result is None or the limit, as each docstring says.
"""

from harness.stats.effects import Effect, hedges_g, holm
from harness.stats.power import detectable_difference, power_of_t_test, seeds_needed
from harness.stats.resampling import (
    Permutation,
    almost_stochastic_order,
    bootstrap_difference,
    permutation_test,
    violation_ratio,
)
from harness.stats.summary import Interval, Summary, mean_interval, summarise
from harness.stats.t_tests import ALPHA, TTest, paired_t_test, t_test, t_test_from_summaries

__all__ = [
    "ALPHA",
    "Effect",
    "Interval",
    "Permutation",
    "Summary",
    "TTest",
    "almost_stochastic_order",
    "bootstrap_difference",
    "detectable_difference",
    "hedges_g",
    "holm",
    "mean_interval",
    "paired_t_test",
    "permutation_test",
    "power_of_t_test",
    "seeds_needed",
    "summarise",
    "t_test",
    "t_test_from_summaries",
    "violation_ratio",
]
