"""One loop for all methods: batches in, loss terms out, dev score, best model, checkpoint."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from harness.encoders.precision import autocast, check_precision
from harness.encoders.student import Student
from harness.errors import UserError
from harness.evaluation.embed import EmbedFunction
from harness.inputs import Stream
from harness.method import Encode, Method
from harness.profiles import Training
from harness.seeds import derive_seed
from harness.stopping import Stopped, stop_requested
from harness.training.checkpoint import load_checkpoint, replace_folder, save_checkpoint
from harness.training.chunks import Chunked
from harness.training.record import LossWindow, TrainingError, TrainingProgress, TrainingRecord
from harness.training.stepper import Stepper
from harness.training.streams import Batches, TrainingData

log = logging.getLogger(__name__)

#: Points of the loss curve.
CURVE_POINTS = 100
HEADS_FILE = "heads.safetensors"


class Trainer:
    """Trains a student by a method; `run` starts or resumes."""

    def __init__(
        self,
        student: Student,
        method: Method,
        data: TrainingData,
        training: Training,
        *,
        seed: int,
        setting: str,
        dev: Callable[[EmbedFunction], float],
        folder: Path,
        report: Callable[[TrainingProgress], None] = lambda progress: None,
        chunk: int | None = None,
    ) -> None:
        """`dev` scores an embedding function; `folder` holds the checkpoint and the best model.

        `chunk` is the number of rows that are encoded at a time where a batch does not fit; None encodes it whole.
        """
        self.student, self.method, self.training = student, method, training
        self.seed, self.dev, self.folder, self.report = seed, dev, folder, report
        own = method.own_steps(method.hyperparameters)
        rule = method.mixing(method.hyperparameters)
        self.batches = Batches(student, data, training, own, seed=seed, setting=setting, rule=rule)
        self.steps = self.batches.steps
        self.device = student.device
        modules = (student, method)
        self.main = Stepper(modules, training, self.steps, self.device, None)
        self.own = {stream: Stepper(modules, training, self.steps, self.device, table) for stream, table in own.items()}
        encode: Encode = torch.compile(student.encode, dynamic=True) if training.compile else student.encode
        self.encode: Encode = Chunked(encode, chunk) if chunk else encode
        self.record = TrainingRecord()
        self.window = LossWindow()
        self.first = 0

    def run(self) -> TrainingRecord:
        """Train to the last step and load the best model into the student and the method.

        Random numbers of step k depend on the seed and k alone, so a killed run resumes from its checkpoint with the
        same result; the global generators are left unchanged. Raises TrainingError, and Stopped after the step in which
        the process was asked to stop, with a checkpoint of it.
        """
        check_precision(self.training.precision, self.device.type)
        cuda = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=cuda):
            first = self.first = self._resume()
            started, before = time.perf_counter(), self.record.seconds
            self.student.train()
            self.method.train()
            with contextlib.closing(self.batches):
                for step in range(first, self.steps):
                    self._step(step)
                    done = step + 1
                    elapsed = time.perf_counter() - started
                    self.record.seconds = before + elapsed
                    self._after(done, (done - first) / elapsed, self.batches.waited / elapsed)
        load_best(self.folder, self.student, self.method)
        return self.record

    def _step(self, step: int) -> None:
        for stream, total, terms in self.losses(step):
            self._check(total, terms)
            if total is not None:
                (self.main if stream is None else self.own[stream]).step(total, step)
            self.window.add(terms, step)

    def losses(self, step: int) -> Iterator[tuple[Stream | None, Tensor | None, dict[str, Tensor]]]:
        """Yield stream, weighted loss and terms of each batch of a step; the next is computed after an update."""
        for stream, batch in self.batches.of(step):
            torch.manual_seed(self._dropout_seed(step, stream))
            with autocast(self.training.precision, self.device.type):
                total, terms = self.method.loss(batch, self.encode)
            yield stream, total, terms

    def _check(self, total: Tensor | None, terms: Mapping[str, Tensor]) -> None:
        """Raise TrainingError for terms that the method does not declare, and for what cannot be trained on."""
        for name, value in terms.items():
            if name not in self.method.terms:
                known = ", ".join(self.method.terms)
                raise TrainingError(f"{self.method.origin} returned the term '{name}', which is not among its: {known}")
            if value.ndim:
                raise TrainingError(
                    f"{self.method.origin} returned the term '{name}' of shape {tuple(value.shape)}; a term is a scalar"
                )
        if total is not None and not total.requires_grad:
            raise TrainingError(f"{self.method.origin} returned a loss without a gradient, which trains nothing")

    @property
    def _reached(self) -> bool:
        """Whether any loss had a gradient for a parameter of the encoder."""
        moved = [stepper.optimizer.state for stepper in (self.main, *self.own.values())]
        return any(parameter in state for parameter in self.student.parameters() for state in moved)

    def _dropout_seed(self, step: int, stream: Stream | None) -> int:
        axes: dict[str, str | int] = {"axis": "dropout", "seed": self.seed, "step": step}
        return derive_seed(**axes) if stream is None else derive_seed(**axes, stream=stream)

    def _after(self, done: int, rate: float, waited: float) -> None:
        """Add a point to the loss curve, score, keep the best model and save a checkpoint, each when it is due."""
        due = done % self.training.eval_every == 0 or done == self.steps
        terms: dict[str, float] = {}
        if due or done % max(1, self.steps // CURVE_POINTS) == 0:
            terms = self.window.close()
            self._check_finite(done)
            self.record.add_losses(done, terms)
        if due and not self.record.losses:
            raise TrainingError(f"no batch up to step {done} had a loss term; 'without' leaves out too much")
        if due and not self._reached:
            raise TrainingError(
                f"no loss of {self.method.origin} up to step {done} depends on the encoder, which learns nothing"
            )
        if due:
            score = float(self.dev(self.student.embed))
            if self.record.best is None or score > self.record.best:
                replace_folder(self.folder / "best", self._save_model)
            self.record.add_dev(done, score)
        stopping = stop_requested()
        if due or stopping:
            self._save(done)
        if terms or due:
            last = self.record.dev_scores[-1] if self.record.dev_scores else None
            self.report(TrainingProgress(done, self.steps, rate, terms, last, due, self.first, waited))
        if stopping:
            raise Stopped

    def _check_finite(self, done: int) -> None:
        """Raise TrainingError for the first term that was not finite, and note the batch that it came from."""
        if (bad := self.window.first_bad) is None:
            return
        step, term, value = bad
        log.warning("the batch of step %d: %s", step + 1, self.batches.described(step))
        raise TrainingError(
            f"the loss term '{term}' of {self.method.origin} is {value} at step {step + 1}; lower the learning rate "
            "(the run's log has the rows of that batch)"
        )

    def _save_model(self, folder: Path) -> None:
        self.student.save(folder)
        heads = {name: value.contiguous() for name, value in self.method.state_dict().items()}
        save_file(heads, str(folder / HEADS_FILE))

    def _save(self, done: int) -> None:
        state = {
            "step": done,
            "student": self.student.state_dict(),
            "method": self.method.state_dict(),
            **self.main.state_dict(),
            "own": {stream: stepper.state_dict() for stream, stepper in self.own.items()},
            "record": asdict(self.record),
            "window": self.window.state_dict(),
        }
        save_checkpoint(self.folder / "checkpoint.pt", state)

    def _resume(self) -> int:
        state = load_checkpoint(self.folder / "checkpoint.pt", self.device)
        if state is None:
            return 0
        self.student.load_state_dict(state["student"])
        self.method.load_state_dict(state["method"])
        self.main.load_state_dict(state)
        for stream, stepper in self.own.items():
            stepper.load_state_dict(state["own"][stream])
        self.record = TrainingRecord(**state["record"])
        self.window.load_state_dict(state.get("window", {}))
        return int(state["step"])


def load_best(folder: Path, student: Student, method: Method) -> None:
    """Load the best model of a training folder into a student and its method, both as the run built them.

    A pooler in the file belongs to the method's heads and is ignored. Raises UserError naming the first other weight
    that is missing or unexpected.
    """
    best = folder / "best"
    keys = student.model.load_state_dict(load_file(str(best / "model.safetensors")), strict=False)
    unexpected = [name for name in keys.unexpected_keys if not name.startswith("pooler.")]
    problems = [f"no weight {name}" for name in keys.missing_keys] + [f"an unexpected weight {n}" for n in unexpected]
    if problems:
        raise UserError(f"the model in {best} has {problems[0]}; delete {folder} to train the run again")
    method.load_state_dict(load_file(str(best / HEADS_FILE)))
