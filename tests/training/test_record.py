"""Loss curves and dev scores of a training."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from harness.training.record import LossWindow, TrainingError, TrainingRecord


def test_a_window_averages_each_term_over_the_batches_that_had_it_and_is_read_in_one_piece() -> None:
    """Each number that is read by itself would wait for an accelerator once more."""
    window = LossWindow()
    window.add({"text": torch.tensor(1.0, requires_grad=True), "info": torch.tensor(4.0, dtype=torch.bfloat16)})
    window.add({"text": torch.tensor(2.0)})
    with Reads() as reads:
        assert window.close() == {"text": 1.5, "info": 4.0}
    assert reads.count == 0
    assert window.close() == {}


class Reads(TorchDispatchMode):
    """Counts the single numbers that are read of tensors."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


def test_a_term_that_appears_later_or_not_again_leaves_gaps() -> None:
    record = TrainingRecord()
    record.add_losses(10, {"text": 1.0})
    record.add_losses(20, {"text": 0.5, "info": 3.0})
    record.add_losses(30, {"info": 2.0})
    assert record.loss_steps == [10, 20, 30]
    assert record.losses == {"text": [1.0, 0.5, None], "info": [None, 3.0, 2.0]}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_ends_training(value: float) -> None:
    with pytest.raises(TrainingError, match=r"the loss term .info. is (nan|inf) by step 20; lower the learning rate"):
        TrainingRecord().add_losses(20, {"info": value})


def test_the_best_step_is_the_first_with_the_best_score() -> None:
    record = TrainingRecord()
    assert (record.best, record.best_step) == (None, None)
    for step, score in ((5, 1.0), (10, 3.0), (15, 3.0), (20, 2.0)):
        record.add_dev(step, score)
    assert (record.best, record.best_step) == (3.0, 10)
