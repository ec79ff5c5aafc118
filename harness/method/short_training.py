"""A few steps of training on random batches, for the checks of a method."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from harness.encoders.poolings import get_pooling
from harness.method.base import Method
from harness.method.interface import MediaBatch
from harness.method.samples import (
    LOSS,
    build_with,
    compute_loss,
    random_batches,
    small_student,
)

#: steps of a whole training
STEPS = 4


class ShortTraining:
    """A training of the small student, with dropout, on random batches; media have random vectors."""

    def __init__(self, method: type[Method], values: Any, seed: int) -> None:
        self.student = small_student().train()
        self.student.pooling = get_pooling(values.pooling)
        self.method = build_with(self.student, method, values, seed).train()
        if self.student.pooling.head:
            self.student.read_through(self.method.test_head())

        self._modules = nn.ModuleList([self.student, self.method])
        trainable = [
            parameter for parameter in self._modules.parameters() if parameter.requires_grad
        ]
        self._optimizer = torch.optim.AdamW(trainable, lr=1e-3)

    def run(self, first: int, end: int) -> Iterator[str]:
        """Train, and yield which parameters a loss needs that no optimizer moves."""
        for step in range(first, end):
            self.method.now = self.method.scheduled(step / STEPS)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(LOSS + step)
                batches = random_batches(self.method)

            for batch in batches:
                encode = None if isinstance(batch, MediaBatch) else self.student
                total, _ = compute_loss(self.method, batch, encode, seed=LOSS + step)
                if total is not None and total.requires_grad:
                    yield from self._find_unreached(total)
                    self._optimizer.zero_grad()
                    total.backward()  # type: ignore[no-untyped-call]
                    self._optimizer.step()

            with torch.no_grad():
                self.method.after_step(self.student, step)

    def _find_unreached(self, total: Tensor) -> Iterator[str]:
        reached = {id(parameter) for parameter in self._modules.parameters()}
        for leaf in find_leaves(total):
            if isinstance(leaf, nn.Parameter) and id(leaf) not in reached:
                yield (
                    f"a loss needs a parameter of shape {tuple(leaf.shape)} that no update reaches: "
                    "its module is no attribute of the method; set it as one in __init__ or prepare"
                )

    def state_dict(self) -> dict[str, Any]:
        """A copy of what a checkpoint has."""
        state = {
            "modules": self._modules.state_dict(),
            "optimizer": self._optimizer.state_dict(),
        }
        return copy.deepcopy(state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state of another training."""
        self._modules.load_state_dict(state["modules"])
        self._optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))


def find_leaves(total: Tensor) -> Iterator[Tensor]:
    """The tensors whose gradients a loss has."""
    pending = [total.grad_fn]
    seen = set(pending)
    while pending:
        node = pending.pop()
        if node is None:
            continue

        leaf = getattr(node, "variable", None)
        if leaf is not None:
            yield leaf
        for before, _ in node.next_functions:
            if before is not None and before not in seen:
                seen.add(before)
                pending.append(before)
