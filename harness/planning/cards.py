"""Peak rates of graphics cards, and how long counted operations take on them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.planning.operations import Passes, Shape

#: The part of a card's peak rate that a training is taken to reach. Nothing here was measured on a card; with it, four
#: epochs of DALR and KDMCSE in float32 on an A100 come within a factor of two of the minutes that DALR Table 7 prints.
UTILISATION = 0.35
#: A pass cannot be quicker than its operations are sent to the card: some 250 a layer of a training step and 60 of a
#: forward pass (counted in PyTorch under autocast), of 8 microseconds each.
SENT_S = {True: 250 * 8e-6, False: 60 * 8e-6}
#: Bytes a second of the disk that checkpoints are written to.
DISK = 1e9


@dataclass(frozen=True)
class Card:
    """A card with its dense peak rates, in operations a second.

    `half` is bf16 and fp16 with sums in float32, `tf32` and `single` are float32 with and without TF32.
    """

    name: str
    half: float
    tf32: float
    single: float

    def seconds(self, shape: Shape, work: Iterable[Passes]) -> float:
        """Return how long the work takes with an encoder of this shape."""
        return sum(self._one(shape, part) * part.count for part in work)

    def _one(self, shape: Shape, part: Passes) -> float:
        """Return the seconds of one pass."""
        rate = UTILISATION * {"fp32": self.single, "tf32": self.tf32}.get(part.precision, self.half)
        return max(part.operations / rate, shape.layers * SENT_S[part.trains]) + part.written / DISK


#: NVIDIA's data sheets and white papers: H200, H100 Tensor Core GPU (SXM5), A100, and the Ada
#: and Ampere GA102 white papers.
CARDS = (
    Card("H200", 989.4e12, 494.7e12, 66.9e12),
    Card("H100", 989.4e12, 494.7e12, 66.9e12),
    Card("A100", 312e12, 156e12, 19.5e12),
    Card("RTX 4090", 165.2e12, 82.6e12, 82.6e12),
    Card("RTX 3090", 71.2e12, 35.6e12, 35.6e12),
)
