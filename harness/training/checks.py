"""What a training refuses of a method, in words that say what to mend."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping

from torch import Tensor, nn

from harness.encoders.changes import find_changed_part
from harness.encoders.student import Student
from harness.method import Method
from harness.training.record import TrainingError
from harness.training.stepper import Stepper

log = logging.getLogger(__name__)

NOT_SAVED = (
    "a model is saved as its architecture alone, so keep modules of your own in the method, and use "
    "hooks that act in training only"
)
#: Largest difference of dev scores (x100) of a model and of what is loaded from its files: other
#: passes and devices round otherwise.
SAME_SCORE = 0.05


def check_terms(method: Method, total: Tensor | None, terms: Mapping[str, Tensor]) -> None:
    """Raise TrainingError for terms that the method does not declare, and for a loss that cannot be
    trained on.
    """
    for verb, names in (("weighs", method.weights()), ("returned", terms)):
        for name in names:
            if name not in method.terms:
                raise TrainingError(
                    f"{method.origin} {verb} the term '{name}', which it does not declare; declared: "
                    f"{', '.join(method.terms)}"
                )

    for name, value in terms.items():
        if value.ndim:
            raise TrainingError(
                f"{method.origin} returned the term '{name}' of shape {tuple(value.shape)}; a term is a scalar"
            )

    if total is not None and not total.requires_grad:
        raise TrainingError(
            f"{method.origin} returned a loss without a gradient, so nothing can be trained"
        )


def check_training_mode(method: Method, modules: Mapping[str, nn.Module], step: int) -> None:
    """Raise TrainingError for a part of the student that is no longer in training mode."""
    for name, module in modules.items():
        if not module.training:
            part = f"the encoder's {name}" if name else "the encoder"
            raise TrainingError(
                f"{method.origin} leaves {part} in evaluation mode after step {step + 1}, so that "
                "the next steps have no dropout; call student.train() after its student.eval()"
            )


def check_finite(
    method: Method,
    first_bad: tuple[int, Mapping[str, float]] | None,
    describe_batch: Callable[[int], str],
) -> None:
    """Raise TrainingError for the first step with a term that was not finite, and log the batch
    that caused it.
    """
    if first_bad is None:
        return

    step, terms = first_bad
    log.warning("the batch of step %d: %s", step + 1, describe_batch(step))
    broken = [name for name, value in terms.items() if not math.isfinite(value)]
    sound = [name for name in terms if name not in broken and name in method.terms]

    cause = (
        "lower the learning rate, or look for a root, norm or logarithm whose gradient at 0 is not "
        "finite"
    )
    if step == 0 or sound:
        evidence = f"the term '{sound[0]}' is finite there" if sound else "no update came before it"
        cause = (
            f"{evidence}, so the rate is not the cause: look for a division, root or logarithm of 0 in "
            "this term"
        )
    raise TrainingError(
        f"the loss term '{broken[0]}' of {method.origin} is {terms[broken[0]]} at step {step + 1}; "
        f"{cause} (the run's log has the rows of that batch)"
    )


def check_learning(
    method: Method,
    student: Student,
    steppers: Iterable[Stepper],
    losses: Mapping[str, object],
    steps_done: int,
) -> None:
    """Raise TrainingError if no batch had a loss term, or if no loss has updated the encoder."""
    if not losses:
        raise TrainingError(
            f"no batch up to step {steps_done} had a loss term; 'without' leaves out too much"
        )

    for stepper in steppers:
        if any(parameter in stepper.optimizer.state for parameter in student.parameters()):
            return
    raise TrainingError(
        f"no loss of {method.origin} up to step {steps_done} depends on the encoder, so it learns "
        "nothing"
    )


def check_architecture(method: Method, layout: Mapping[str, str], student: Student) -> None:
    """Raise TrainingError if the encoder no longer has the layout that a saved model has."""
    part = find_changed_part(layout, student.model)
    if part is not None:
        raise TrainingError(f"{method.origin} changes the encoder: {part}; {NOT_SAVED}")


def check_loadable(method: Method, built: Mapping[str, Tensor]) -> None:
    """Raise TrainingError if the method's state does not fit into a new one, whose state is
    `built`.
    """
    for misfit in method.misfits(built):
        raise TrainingError(f"{method.origin} cannot be saved and loaded: {misfit}")


def check_loaded_score(method: Method, score: float, kept_score: float | None) -> None:
    """Raise TrainingError unless the model that is loaded from its files has the dev score that it
    had in its training.
    """

    if kept_score is None or abs(score - kept_score) <= SAME_SCORE:
        return

    raise TrainingError(
        f"the model of {method.origin} has the dev score {kept_score:.2f} in its training, and "
        f"{score:.2f} when it is loaded from its files: the method changes the encoder in a way "
        f"that is not saved; {NOT_SAVED}"
    )
