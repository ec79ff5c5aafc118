"""Statistics over seeds: pure functions on numbers.

Standard deviations are the sample form (n - 1). Tests are two-sided. No result is NaN: where a
number does not exist, the result is None or the limit, as each docstring says.
"""

from harness.stats.corrections import CORRECTION as CORRECTION
from harness.stats.corrections import holm as holm
from harness.stats.equivalence import Equivalence as Equivalence
from harness.stats.equivalence import detectable_difference as detectable_difference
from harness.stats.equivalence import equivalence_test as equivalence_test
from harness.stats.equivalence import power_of_verdict as power_of_verdict
from harness.stats.equivalence import seeds_to_decide as seeds_to_decide
from harness.stats.resampling import Permutation as Permutation
from harness.stats.resampling import Ranking as Ranking
from harness.stats.resampling import almost_stochastic_order as almost_stochastic_order
from harness.stats.resampling import bootstrap_difference as bootstrap_difference
from harness.stats.resampling import bootstrap_ranking as bootstrap_ranking
from harness.stats.resampling import expected_best as expected_best
from harness.stats.resampling import permutation_test as permutation_test
from harness.stats.resampling import violation_ratio as violation_ratio
from harness.stats.several import interquartile_mean as interquartile_mean
from harness.stats.several import probability_of_improvement as probability_of_improvement
from harness.stats.several import stratified_interval as stratified_interval
from harness.stats.t_tests import ALPHA as ALPHA
from harness.stats.t_tests import FEWEST_SEEDS as FEWEST_SEEDS
from harness.stats.t_tests import Effect as Effect
from harness.stats.t_tests import Interval as Interval
from harness.stats.t_tests import Summary as Summary
from harness.stats.t_tests import TTest as TTest
from harness.stats.t_tests import hedges_g as hedges_g
from harness.stats.t_tests import mean_interval as mean_interval
from harness.stats.t_tests import one_sample_t_test as one_sample_t_test
from harness.stats.t_tests import paired_t_test as paired_t_test
from harness.stats.t_tests import pooled_deviation as pooled_deviation
from harness.stats.t_tests import summarise as summarise
from harness.stats.t_tests import t_test as t_test
from harness.stats.t_tests import t_test_from_summaries as t_test_from_summaries
