"""The earlier name of `harness.losses.matching`, for methods that import it."""

from harness.losses.matching import cross_alignment as cross_alignment
from harness.losses.matching import in_batch_g2l as in_batch_g2l
from harness.losses.matching import list_mle as list_mle
from harness.losses.matching import list_net as list_net
from harness.losses.matching import over_tokens as over_tokens
from harness.losses.matching import pair_consistency as pair_consistency
from harness.losses.matching import rolled as rolled
from harness.losses.matching import soft_alignment as soft_alignment
