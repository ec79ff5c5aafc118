"""Statistics over seeds: pure functions on numbers.

Standard deviations are the sample form (n - 1). Tests are two-sided. No result is NaN: where a number does not exist,
the result is None or the limit, as each docstring says.
"""

from harness.stats.equivalence import (
    Equivalence,
    detectable_difference,
    equivalence_test,
    power_of_verdict,
    seeds_to_decide,
)
from harness.stats.resampling import (
    Permutation,
    Ranking,
    almost_stochastic_order,
    bootstrap_difference,
    bootstrap_ranking,
    expected_best,
    permutation_test,
    violation_ratio,
)
from harness.stats.several import interquartile_mean, probability_of_improvement, stratified_interval
from harness.stats.t_tests import (
    ALPHA,
    FEWEST_SEEDS,
    Effect,
    Interval,
    Summary,
    TTest,
    hedges_g,
    holm,
    mean_interval,
    one_sample_t_test,
    paired_t_test,
    pooled_deviation,
    summarise,
    t_test,
    t_test_from_summaries,
)

__all__ = [
    "ALPHA",
    "FEWEST_SEEDS",
    "Effect",
    "Equivalence",
    "Interval",
    "Permutation",
    "Ranking",
    "Summary",
    "TTest",
    "almost_stochastic_order",
    "bootstrap_difference",
    "bootstrap_ranking",
    "detectable_difference",
    "equivalence_test",
    "expected_best",
    "hedges_g",
    "holm",
    "interquartile_mean",
    "mean_interval",
    "one_sample_t_test",
    "paired_t_test",
    "permutation_test",
    "pooled_deviation",
    "power_of_verdict",
    "probability_of_improvement",
    "seeds_to_decide",
    "stratified_interval",
    "summarise",
    "t_test",
    "t_test_from_summaries",
    "violation_ratio",
]
