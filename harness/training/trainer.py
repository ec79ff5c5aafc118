"""One loop for all methods: batches in, loss terms out, dev score, best model, checkpoint."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from harness.encoders.student import Student
from harness.errors import UserError
from harness.method import Method
from harness.profiles import Training
from harness.seeds import derive_seed
from harness.training.checkpoint import load_checkpoint, replace_folder, save_checkpoint
from harness.training.stepper import Stepper
from harness.training.streams import Batches, TrainingData

#: Points of a loss curve that a result keeps.
CURVE_POINTS = 100
HEADS_FILE = "heads.safetensors"


class TrainingError(Exception):
    """A training that cannot go on, such as a loss that is no longer a number."""


@dataclass(frozen=True)
class Progress:
    """Where a run is: `rate` in steps a second, `terms` means over the last steps, `dev` the last score.

    `scored` says that `dev` is of this very step, `first` is the step that this process went on from, or 0.
    """

    step: int
    steps: int
    rate: float
    terms: Mapping[str, float]
    dev: float | None = None
    scored: bool = False
    first: int = 0


@dataclass
class Record:
    """What training leaves beside weights; all of it survives a resume."""

    loss_steps: list[int] = field(default_factory=list)
    losses: dict[str, list[float | None]] = field(default_factory=dict)
    dev_steps: list[int] = field(default_factory=list)
    dev_scores: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def best(self) -> float | None:
        """The best dev score so far."""
        return max(self.dev_scores, default=None)

    @property
    def best_step(self) -> int | None:
        """The first step that had it."""
        return self.dev_steps[self.dev_scores.index(max(self.dev_scores))] if self.dev_scores else None


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
        dev: Callable[[Callable[[Sequence[str]], np.ndarray]], float],
        folder: Path,
        report: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        """`dev` scores an embedder; `folder` holds checkpoint and best model; `report` hears of progress."""
        self.student, self.method, self.training = student, method, training
        self.seed, self.dev, self.folder, self.report = seed, dev, folder, report
        hyperparameters = method.hyperparameters
        own = method.own_steps(hyperparameters)
        rule = method.mixing(hyperparameters)
        self.batches = Batches(student, data, training, own, seed=seed, setting=setting, rule=rule)
        self.steps = self.batches.steps
        self.device = student.device
        modules = (student, method)
        self.main = Stepper(modules, training, self.steps, self.device, None)
        self.own = {stream: Stepper(modules, training, self.steps, self.device, table) for stream, table in own.items()}
        self.encode = torch.compile(student.encode, dynamic=True) if training.compile else student.encode
        self.record = Record()
        self.first = 0
        self.window: dict[str, Tensor] = {}
        self.counts: dict[str, int] = {}

    def run(self) -> Record:
        """Train to the last step and load the best model into the student and the method.

        Random numbers of step k depend on the seed and k alone, so a run that was killed goes on from its
        checkpoint as if nothing had happened; the global generators are left as they were.
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
                    self.record.seconds = before + time.perf_counter() - started
                    self._after(done, (done - first) / (time.perf_counter() - started))
        load_best(self.folder, self.student, self.method)
        return self.record

    def _step(self, step: int) -> None:
        for stream, batch in self.batches.of(step):
            axes: dict[str, str | int] = {"axis": "dropout", "seed": self.seed, "step": step}
            torch.manual_seed(derive_seed(**axes, **({} if stream is None else {"stream": stream})))
            with self._autocast():
                total, terms = self.method.loss(batch, self.encode)
            if total is not None:
                (self.main if stream is None else self.own[stream]).step(total, step)
            for name, value in terms.items():
                value = value.detach().float()
                self.window[name] = self.window[name] + value if name in self.window else value
                self.counts[name] = self.counts.get(name, 0) + 1

    def _after(self, done: int, rate: float) -> None:
        """Close a window of the loss curve, score, keep the best and save, each when it is due."""
        due = done % self.training.eval_every == 0 or done == self.steps
        terms: dict[str, float] = {}
        if due or done % max(1, self.steps // CURVE_POINTS) == 0:
            terms = self._close_window(done)
        if due and not self.record.losses:
            raise TrainingError(f"no batch up to step {done} had a loss term; 'without' leaves out too much")
        if due:
            score = float(self.dev(self.student.embed))
            if self.record.best is None or score > self.record.best:
                replace_folder(self.folder / "best", self._save_model)
            self.record.dev_steps.append(done)
            self.record.dev_scores.append(score)
            self._save(done)
        if terms or due:
            last = self.record.dev_scores[-1] if self.record.dev_scores else None
            self.report(Progress(done, self.steps, rate, terms, last, due, self.first))

    def _close_window(self, done: int) -> dict[str, float]:
        means = {name: float(value) / self.counts[name] for name, value in self.window.items()}
        for name, value in means.items():
            if not np.isfinite(value):
                raise TrainingError(f"the loss term '{name}' is {value} by step {done}; lower the learning rate")
            self.record.losses.setdefault(name, [None] * len(self.record.loss_steps))
        self.record.loss_steps.append(done)
        for name, values in self.record.losses.items():
            values.append(means.get(name))
        self.window, self.counts = {}, {}
        return means

    def _save_model(self, folder: Path) -> None:
        self.student.save(folder)
        heads = {name: value.contiguous() for name, value in self.method.state_dict().items()}
        save_file(heads, str(folder / HEADS_FILE))

    def _save(self, done: int) -> None:
        state: dict[str, Any] = {
            "step": done,
            "student": self.student.state_dict(),
            "method": self.method.state_dict(),
            **self.main.state_dict(),
            "own": {stream: stepper.state_dict() for stream, stepper in self.own.items()},
            "record": asdict(self.record),
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
        self.record = Record(**state["record"])
        return int(state["step"])

    def _autocast(self) -> contextlib.AbstractContextManager[Any]:
        kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
        if self.training.precision == "fp32":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=kinds[self.training.precision])


def load_best(folder: Path, student: Student, method: Method) -> None:
    """Load the best model of a training folder into a student and its method, both as the run built them."""
    best = folder / "best"
    student.model.load_state_dict(load_file(str(best / "model.safetensors")), strict=False)
    method.load_state_dict(load_file(str(best / HEADS_FILE)))


def check_precision(precision: str, device: str) -> None:
    """Raise UserError for an autocast type that a device ('cpu', 'cuda') does not have."""
    if precision == "fp16" and device != "cuda":
        raise UserError(f"precision fp16 needs a CUDA device, this run is on {device}; use precision=bf16 or fp32")
    if precision == "bf16" and device == "cuda" and not torch.cuda.is_bf16_supported():
        raise UserError("this CUDA device has no bf16; use precision fp16 or fp32")
