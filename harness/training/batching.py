"""The batch of each step: seeded permutations of the rows, and the mixing of text with pairs.

Everything is a function of the step number, so training resumes at any step without replaying
earlier ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from harness.errors import UserError
from harness.method import MixingRule
from harness.seeds import make_generator


@dataclass(frozen=True)
class Order:
    """The batches of a stream: each pass over its rows is a fresh seeded permutation, whose last
    batch may be short.
    """

    rows: int
    batch_size: int
    seed: int
    setting: str
    stream: str

    @property
    def batches(self) -> int:
        return -(-self.rows // self.batch_size)

    def get_first(self, batches: int) -> np.ndarray:
        """Return the rows of the first `batches` batches of training, each row once, unordered."""
        rows = self.rows if batches >= self.batches else batches * self.batch_size
        return _draw_permutation(self, 0)[:rows]

    def count(self, batches: int) -> int:
        """Return the rows of the first `batches` batches of training, repeated ones counted."""
        turns, rest = divmod(batches, self.batches)
        return turns * self.rows + min(self.rows, rest * self.batch_size)

    def batch(self, number: int) -> np.ndarray:
        """Return the row numbers of batch `number`, counted from the start of training: (<=
        batch_size,).
        """
        turn, position = divmod(number, self.batches)
        start = position * self.batch_size
        return _draw_permutation(self, turn)[start : start + self.batch_size]


@lru_cache(maxsize=4)
def _draw_permutation(order: Order, turn: int) -> np.ndarray:
    # `pass` is a keyword of Python
    turn_axis = {"pass": turn}
    generator = make_generator(
        axis="order", seed=order.seed, setting=order.setting, stream=order.stream, **turn_axis
    )
    return generator.permutation(order.rows)


@dataclass(frozen=True)
class Mixing:
    """Which steps of an epoch of `text + paired` batches are paired: step k iff k mod `cycle` is
    `place`.

    A method's `MixingRule` gives `cycle` and `place`. Without text or without pairs the other
    stream fills every step.
    """

    text: int
    paired: int
    cycle: int = 1
    place: int = 0

    @property
    def epoch(self) -> int:
        return self.text + self.paired

    @property
    def leaves_out_text(self) -> bool:
        """Whether the text is never read because every step is paired."""
        return self.text > 0 and self.paired > 0 and self.cycle == 1

    def step(self, number: int) -> tuple[Literal["text", "pairs"], int]:
        """Return the stream of a step and the number of its batch in that stream, counted from 0."""
        if not self.paired:
            return "text", number
        if not self.text:
            return "pairs", number

        paired_before = self.count_paired(number)
        if number % self.epoch % self.cycle == self.place:
            return "pairs", paired_before
        return "text", number - paired_before

    def is_last(self, number: int, before: int) -> bool:
        """Whether no step after this one, and before another, has a batch of the same stream."""
        kind, _ = self.step(number)
        return all(self.step(later)[0] != kind for later in range(number + 1, before))

    def count_paired(self, number: int) -> int:
        """Return how many of the first `number` steps are paired."""
        if not self.paired:
            return 0
        if not self.text:
            return number

        epochs, position = divmod(number, self.epoch)
        of_epoch = self._count_paired_in_epoch(self.epoch)
        return epochs * of_epoch + self._count_paired_in_epoch(position)

    def _count_paired_in_epoch(self, position: int) -> int:
        return (position - self.place + self.cycle - 1) // self.cycle


def count_batches(rows: int, pairs: int, batch_size: int) -> tuple[int, int]:
    """The batches of text and of pairs in an epoch. Raises UserError for more of pairs, where there
    is text.
    """
    text = -(-rows // batch_size)
    paired = -(-pairs // batch_size)
    if text and paired > text:
        raise UserError(
            f"the setting has {paired} paired and {text} text batches; the papers' mixing rules need at least as many "
            "text batches: take a larger text corpus or one of fewer pairs, or captions=setting for a method that "
            "reads all captions of an image"
        )
    return text, paired


def make_mixing(rows: int, pairs: int, batch_size: int, rule: MixingRule) -> Mixing:
    """Build the `Mixing` of text and pairs by a method's rule. Raises UserError for more pair than
    text batches.
    """
    text, paired = count_batches(rows, pairs, batch_size)
    if not (text and paired):
        return Mixing(text, paired)

    cycle, position = rule(rows, pairs, text, paired)
    if not 0 <= position < cycle:
        raise UserError(
            f"the method's mixing rule returns place {position} in a cycle of {cycle}; it must be below"
        )
    return Mixing(text, paired, cycle, position)
