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
from harness.method import Batch, Method, PairBatch, SentenceBatch
from harness.profiles import Training
from harness.seeds import derive_seed
from harness.training.batching import Mixing, Order
from harness.training.checkpoint import load_checkpoint, replace_folder, save_checkpoint

#: Points of a loss curve that a result keeps.
CURVE_POINTS = 100
HEADS_FILE = "heads.safetensors"


class TrainingError(Exception):
    """A training that cannot go on, such as a loss that is no longer a number."""


@dataclass(frozen=True)
class TrainingData:
    """Texts by stream ('sentences', 'pairs'), and teacher features of the pairs by role, (n, f) each."""

    texts: Mapping[str, Sequence[str]]
    features: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class Progress:
    """Where a run is: `rate` in steps a second, `terms` means over the last steps, `dev` the last score."""

    step: int
    steps: int
    rate: float
    terms: Mapping[str, float]
    dev: float | None = None


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


def total_steps(training: Training, data: Mapping[str, int]) -> int:
    """Optimizer steps of a run over streams of these numbers of rows."""
    return training.steps or training.epochs * mixing(training, data).epoch


def mixing(training: Training, rows: Mapping[str, int]) -> Mixing:
    """The mixture of a setting with these numbers of rows by stream. Raises UserError."""
    batches = {stream: -(-count // training.batch_size) for stream, count in rows.items()}
    return Mixing(batches.get("sentences", 0), batches.get("pairs", 0))


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
        self.student, self.method, self.data, self.training = student, method, data, training
        self.seed, self.dev, self.folder, self.report = seed, dev, folder, report
        rows = {stream: len(texts) for stream, texts in data.texts.items()}
        self.mixing = mixing(training, rows)
        self.steps = total_steps(training, rows)
        self.orders = {
            stream: Order(count, training.batch_size, seed, setting, stream) for stream, count in rows.items()
        }
        self.device = student.device
        self.optimizer = torch.optim.AdamW(
            _groups((student, method), training.weight_decay), lr=training.learning_rate, eps=training.adam_epsilon
        )
        self.parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=training.precision == "fp16")
        self.encode = torch.compile(student.encode, dynamic=True) if training.compile else student.encode
        self.record = Record()
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
            first = self._resume()
            started, before = time.perf_counter(), self.record.seconds
            self.student.train()
            self.method.train()
            for step in range(first, self.steps):
                self._step(step)
                done = step + 1
                self.record.seconds = before + time.perf_counter() - started
                self._after(done, (done - first) / (time.perf_counter() - started))
        load_best(self.folder, self.student, self.method)
        return self.record

    def _step(self, step: int) -> None:
        torch.manual_seed(derive_seed(axis="dropout", seed=self.seed, step=step))
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(step, self.steps, self.training)
        with self._autocast():
            total, terms = self.method.loss(self._batch(step), self.encode)
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(total).backward()
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.parameters, self.training.max_grad_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        for name, value in terms.items():
            value = value.detach().float()
            self.window[name] = self.window[name] + value if name in self.window else value
            self.counts[name] = self.counts.get(name, 0) + 1

    def _batch(self, step: int) -> Batch:
        stream, number = self.mixing.step(step)
        rows = self.orders[stream].batch(number)
        texts = self.data.texts[stream]
        tokens = self.student.tokenize([texts[row] for row in rows], self.training.max_length)
        tokens = {name: value.to(self.device) for name, value in tokens.items()}
        if stream == "sentences":
            return SentenceBatch(tokens)
        features = {
            role: torch.from_numpy(np.ascontiguousarray(values[rows], dtype=np.float32)).to(self.device)
            for role, values in self.data.features.items()
        }
        return PairBatch(tokens, features)

    def _after(self, done: int, rate: float) -> None:
        """Close a window of the loss curve, score, keep the best and save, each when it is due."""
        due = done % self.training.eval_every == 0 or done == self.steps
        terms: dict[str, float] = {}
        if due or done % max(1, self.steps // CURVE_POINTS) == 0:
            terms = self._close_window(done)
        if due:
            score = float(self.dev(self.student.embed))
            if self.record.best is None or score > self.record.best:
                replace_folder(self.folder / "best", self._save_model)
            self.record.dev_steps.append(done)
            self.record.dev_scores.append(score)
            self._save(done)
        if terms:
            last = self.record.dev_scores[-1] if self.record.dev_scores else None
            self.report(Progress(done, self.steps, rate, terms, last))

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
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "record": asdict(self.record),
        }
        save_checkpoint(self.folder / "checkpoint.pt", state)

    def _resume(self) -> int:
        state = load_checkpoint(self.folder / "checkpoint.pt", self.device)
        if state is None:
            return 0
        self.student.load_state_dict(state["student"])
        self.method.load_state_dict(state["method"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.record = Record(**state["record"])
        return int(state["step"])

    def _autocast(self) -> contextlib.AbstractContextManager[Any]:
        kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
        if self.training.precision == "fp32":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=kinds[self.training.precision])


def learning_rate(step: int, steps: int, training: Training) -> float:
    """The rate of step `step` (from 0): linear warm-up, then linear decay that would reach 0 at `steps`."""
    warmup = training.warmup_steps
    if step < warmup:
        return training.learning_rate * step / warmup
    return training.learning_rate * (steps - step) / max(1, steps - warmup)


def load_best(folder: Path, student: Student, method: Method) -> None:
    """Load the best model of a training folder into a student and its method, both as the run built them."""
    best = folder / "best"
    student.model.load_state_dict(load_file(str(best / "model.safetensors")), strict=False)
    method.load_state_dict(load_file(str(best / HEADS_FILE)))


def _groups(modules: Sequence[torch.nn.Module], weight_decay: float) -> list[dict[str, Any]]:
    """AdamW's two groups: biases and normalisation weights are not decayed."""
    decayed: list[torch.nn.Parameter] = []
    kept: list[torch.nn.Parameter] = []
    for module in modules:
        for name, parameter in module.named_parameters():
            if parameter.requires_grad:
                plain = name.endswith("bias") or "norm" in name.lower()
                (kept if plain else decayed).append(parameter)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": kept, "weight_decay": 0.0}]


def check_precision(precision: str, device: str) -> None:
    """Raise UserError for an autocast type that a device ('cpu', 'cuda') does not have."""
    if precision == "fp16" and device != "cuda":
        raise UserError(f"precision fp16 needs a CUDA device, this run is on {device}; use precision=bf16 or fp32")
    if precision == "bf16" and device == "cuda" and not torch.cuda.is_bf16_supported():
        raise UserError("this CUDA device has no bf16; use precision fp16 or fp32")
