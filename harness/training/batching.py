"""Which batch each step sees: seeded permutations and MCSE's mixing rule, both without memory.

Everything is a function of the step's number, so a run resumes at any step without replay.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from harness.errors import UserError
from harness.seeds import generator


@dataclass(frozen=True)
class Order:
    """The batches of one stream: each pass over its rows is a fresh seeded permutation.

    The last batch of a pass may be smaller, as in the public code of SimCSE and MCSE.
    """

    rows: int
    batch_size: int
    seed: int
    setting: str
    stream: str

    @property
    def batches(self) -> int:
        """Batches a pass."""
        return -(-self.rows // self.batch_size)

    def batch(self, number: int) -> np.ndarray:
        """Row numbers of the stream's batch `number`, counted from the start of training: (<= batch_size,)."""
        turn, place = divmod(number, self.batches)
        return _permutation(self, turn)[place * self.batch_size : (place + 1) * self.batch_size]


@lru_cache(maxsize=4)
def _permutation(order: Order, turn: int) -> np.ndarray:
    axes: dict[str, str | int] = {"seed": order.seed, "setting": order.setting, "stream": order.stream, "pass": turn}
    return generator(axis="order", **axes).permutation(order.rows)


@dataclass(frozen=True)
class Mixing:
    """MCSE's rule: with T text and P paired batches, step k of an epoch of T + P is paired iff p divides k.

    p = T // P, so the first step of every epoch is paired and pairs are read a little more than once an
    epoch (MCSE, public code train_mix.py; its appendix A says 'in proportion to their sizes').
    One stream alone fills every step.
    """

    text: int
    paired: int

    def __post_init__(self) -> None:
        if self.text and self.paired > self.text:
            raise UserError(
                f"the setting has {self.paired} paired and {self.text} text batches; MCSE's mixing rule needs "
                "at least as many text batches: enlarge the text corpus or limit the pairs"
            )

    @property
    def epoch(self) -> int:
        """Steps an epoch."""
        return self.text + self.paired

    def step(self, number: int) -> tuple[str, int]:
        """The stream of a step, and the number of that stream's batch, both counted from 0."""
        if not self.paired:
            return "sentences", number
        if not self.text:
            return "pairs", number
        period = self.text // self.paired
        epoch, place = divmod(number, self.epoch)
        before = epoch * (-(-self.epoch // period)) + -(-place // period)
        return ("pairs", before) if place % period == 0 else ("sentences", number - before)
