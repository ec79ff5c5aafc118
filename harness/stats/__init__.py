"""Statistics over seeds: pure functions on numbers, no files and no names of the house.

Standard deviations are the sample form (n - 1). Tests are two-sided. Nothing returns NaN: where a
number does not exist the answer is None or the limit, as each function says.
"""

from harness.stats.dominance import almost_stochastic_order, violation_ratio
from harness.stats.effects import Effect, hedges_g, hedges_g_from_summaries, holm
from harness.stats.intervals import Interval, bootstrap_difference, bootstrap_mean, mean_interval
from harness.stats.permutation import Permutation, permutation_test
from harness.stats.power import detectable_difference, power_of_t_test, seeds_needed
from harness.stats.summary import Summary, summarise
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
    "bootstrap_mean",
    "detectable_difference",
    "hedges_g",
    "hedges_g_from_summaries",
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
