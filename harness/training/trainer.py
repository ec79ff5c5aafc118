"""One loop for all methods: a model from its seed, batches in, loss terms out, dev score, best
model, checkpoint.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from harness.corpora.base import Media
from harness.encoders.changes import changed_part, layout_of
from harness.encoders.flops import layer_weights, training_flops
from harness.encoders.kernels import seed_dropout
from harness.encoders.patches import AudioPatches, ImagePatches
from harness.encoders.precision import autocast, check_precision, float32_products
from harness.encoders.student import Student
from harness.errors import UserError, first_line
from harness.evaluation.suites import EmbedFunction
from harness.events import Event, TrainingProgress, tell
from harness.files import DamagedError, put_aside, remove
from harness.method import Dimensions, Encode, Method, Patches, Vocabulary
from harness.processors import peak_memory_mb
from harness.profiles import Training
from harness.seeds import derive_seed, generator
from harness.spec import Stream, find_fresh_size
from harness.stopping import Stopped, stop_requested
from harness.training.folder import TrainingFolder, load_checkpoint
from harness.training.gradients import gradient_parts
from harness.training.record import LossWindow, TrainingError, TrainingRecord
from harness.training.stepper import Chunked, Stepper
from harness.training.streams import Batches, TrainingData

log = logging.getLogger(__name__)

NOT_SAVED = (
    "a model is saved as its architecture alone, so keep modules of your own in the method, and use "
    "hooks that act in training only"
)
#: Largest difference of dev scores (x100) of a model and of what is loaded from its files: other
#: passes and devices round otherwise.
SAME_SCORE = 0.05
#: Points of the loss curve.
CURVE_POINTS = 100
#: Seconds after which a checkpoint is saved even without a better model.
SAVE_EVERY_S = 60.0


class Trainer:
    """Trains a student by a method; `run` starts or resumes, or loads the result of an ended
    training.
    """

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
        chunk: int | None = None,
    ) -> None:
        """`dev` scores an embedding function; `folder` holds the checkpoint and the best model.

        `chunk` is the number of rows that are encoded at a time where a batch does not fit; None
        encodes it whole.
        """
        self.student = student
        self.method = method
        self.training = training
        self.seed = seed
        self.dev = dev
        self.folder = TrainingFolder(folder)
        self._built = method.state_dict()
        self._layout = layout_of(student.model)
        own = method.own_steps(method.hyperparameters)
        rule = method.mixing(method.hyperparameters)
        changes_rows = type(method).change_rows is not Method.change_rows
        changes_texts = type(method).change_texts is not Method.change_texts
        self.batches = Batches(
            student,
            data,
            training,
            own,
            seed=seed,
            setting=setting,
            rule=rule,
            change=method.change_rows if changes_rows else None,
            change_texts=method.change_texts if changes_texts else None,
        )
        self.steps = self.batches.steps
        self.device = student.device
        modules = (student, method)
        self.main = Stepper(modules, training, self.steps, self.device, None)
        self.own = {
            stream: Stepper(modules, training, self.steps, self.device, table)
            for stream, table in own.items()
        }
        whole: Encode = (
            cast(Encode, torch.compile(student, dynamic=True)) if training.compile else student
        )
        self.encode = Chunked(whole, chunk, plain=student)
        self.record = TrainingRecord(flops=0, checkpoint=training.checkpoint)
        self._vectors: list[Tensor] = []
        self._weights = layer_weights(student)
        # those that a run has put into training mode
        self._modules: dict[str, nn.Module] = {}
        self.window = LossWindow()
        self.first = 0
        self._saved_at = 0.0

    def run(self) -> TrainingRecord:
        """Train to the last step, unless that is done, then load the best model into the student
        and the method.

        Random numbers of step k depend on the seed and k alone, so a killed run resumes from its
        checkpoint with the same result; the global generators are left unchanged. A checkpoint is
        saved with each better model, SAVE_EVERY_S after the last one, and at the end. Raises
        TrainingError, and Stopped, with a checkpoint, after the step in which the process was asked
        to stop.
        """
        record = self.folder.load_ended(self.student, self.method)
        if record is None:
            self._train()
            record = self.record
            self._load_best()
            self._check_saved(record)
            self.folder.end(record)
        return record

    def _train(self) -> None:
        check_precision(self.training.precision, self.device.type)
        cuda = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=cuda):
            first = self.first = self._resume()
            started = time.perf_counter()
            before = self.record.seconds
            self._saved_at = time.monotonic()
            self.student.train()
            self.method.train()
            self._modules = dict(self.student.named_modules())
            with contextlib.closing(self.batches):
                for step in range(first, self.steps):
                    self._step(step)
                    done = step + 1
                    elapsed = time.perf_counter() - started
                    self.record.seconds = before + elapsed
                    self._after(done, (done - first) / elapsed, self.batches.waited / elapsed)

    def _step(self, step: int) -> None:
        with self._named(step), float32_products(self.training.precision, self.device.type):
            for stream, total, terms in self.losses(step):
                self._check(total, terms)
                stepper = self.main if stream is None else self.own[stream]
                if self._vectors and terms:
                    self._measure(stream, step, terms, stepper)
                if total is not None:
                    stepper.step(total, step)
                self.window.add(terms, step)
            now = {
                name: torch.full((), value, device=self.device)
                for name, value in self.method.now.items()
            }
            self.window.add(now, step)
            with torch.no_grad():
                self.method.after_step(self.student, step)
        self._check_mode(step)

    def _check_mode(self, step: int) -> None:
        """Raise TrainingError for a part of the student that is no longer in training mode."""
        for name, module in self._modules.items():
            if not module.training:
                what = f"the encoder's {name}" if name else "the encoder"
                raise TrainingError(
                    f"{self.method.origin} leaves {what} in evaluation mode after step {step + 1}, "
                    "so that the next steps have no dropout; call student.train() after its "
                    "student.eval()"
                )

    @contextlib.contextmanager
    def _named(self, step: int) -> Iterator[None]:
        """Note on an error of the method's code at which step of which method it was raised."""
        try:
            yield
        except Exception as error:
            if not isinstance(error, UserError | TrainingError):
                error.add_note(f"at step {step + 1} of the method '{self.method.name}'")
            raise

    def losses(self, step: int) -> Iterator[tuple[Stream | None, Tensor | None, dict[str, Tensor]]]:
        """Yield stream, weighted loss and terms of each batch of a step; update before asking for
        the next batch.
        """
        self.method.now = self.method.scheduled(step / self.steps)
        for stream, batch in self.batches.of(step):
            seed_dropout(self._dropout_seed(step, stream), self.device)
            every = self.training.eval_every
            self._vectors = []
            score = min(self.steps, step - step % every + every)
            kept = step + 1 == score if stream else self.batches.mixing.is_last(step, score)
            encode = replace(self.encode, seen=partial(self._observe, kept))
            with autocast(self.training.precision, self.device.type):
                total, terms = self.method.loss(batch, encode)
            yield stream, total, terms

    def _observe(
        self, kept: bool, inputs: Mapping[str, Tensor], views: int, vectors: Tensor
    ) -> None:
        """Count what a batch costs, and keep its vectors for `_measure` if it is the last one
        before a dev score.
        """
        if kept and vectors.requires_grad:
            self._vectors.append(vectors)
        if self.record.flops is not None:
            self.record.flops += training_flops(self.student, self._weights, inputs, views)

    def _measure(
        self, stream: Stream | None, step: int, terms: Mapping[str, Tensor], stepper: Stepper
    ) -> None:
        """Record each term's part of the gradient at a batch's vectors, scaled as for the update."""
        weights = self.method.weights()
        weighted = {
            name: stepper.scaler.scale(weights.get(name, 1.0) * term)
            for name, term in terms.items()
        }
        measured = self.record.gradients.setdefault(stream or self.batches.text_rows(step)[0], [])
        measured.append((step + 1, *gradient_parts(weighted, self._vectors)))
        self._vectors.clear()

    def _check(self, total: Tensor | None, terms: Mapping[str, Tensor]) -> None:
        """Raise TrainingError for terms that the method does not declare, and for a loss that
        cannot be trained on.
        """
        for does, named in (("weighs", self.method.weights()), ("returned", terms)):
            for name in named:
                if name not in self.method.terms:
                    known = ", ".join(self.method.terms)
                    raise TrainingError(
                        f"{self.method.origin} {does} the term '{name}', which it does not declare; declared: {known}"
                    )
        for name, value in terms.items():
            if value.ndim:
                raise TrainingError(
                    f"{self.method.origin} returned the term '{name}' of shape {tuple(value.shape)}; a term is a scalar"
                )
        if total is not None and not total.requires_grad:
            raise TrainingError(
                f"{self.method.origin} returned a loss without a gradient, so nothing can be trained"
            )

    @property
    def _reached(self) -> bool:
        moved = [stepper.optimizer.state for stepper in (self.main, *self.own.values())]
        return any(parameter in state for parameter in self.student.parameters() for state in moved)

    def _dropout_seed(self, step: int, stream: Stream | None) -> int:
        axes: dict[str, str | int] = {"axis": "dropout", "seed": self.seed, "step": step}
        return derive_seed(**axes) if stream is None else derive_seed(**axes, stream=stream)

    def _after(self, done: int, rate: float, waited: float) -> None:
        """Add a point to the loss curve, score, keep the best model and save a checkpoint, each
        when it is due.
        """
        due = done % self.training.eval_every == 0 or done == self.steps
        terms: dict[str, float] = {}
        if due or done % max(1, self.steps // CURVE_POINTS) == 0:
            terms = self.window.close()
            self._check_finite(done)
            self.record.add_losses(done, terms)
        if due and not self.record.losses:
            raise TrainingError(
                f"no batch up to step {done} had a loss term; 'without' leaves out too much"
            )
        if due and not self._reached:
            raise TrainingError(
                f"no loss of {self.method.origin} up to step {done} depends on the encoder, so it learns nothing"
            )
        if due and (part := changed_part(self._layout, self.student.model)):
            raise TrainingError(f"{self.method.origin} changes the encoder: {part}; {NOT_SAVED}")
        keep = False
        if due:
            score = float(self.dev(self.student.embed))
            keep = self.record.add_dev(done, score)
        stopping = stop_requested()
        late = time.monotonic() - self._saved_at >= SAVE_EVERY_S and self.window.is_finite
        if keep or late or stopping or done == self.steps:
            for why in self.method.misfits(self._built):
                raise TrainingError(f"{self.method.origin} cannot be saved and loaded: {why}")
            self.folder.save(self._state(done))
            self._saved_at = time.monotonic()
        if keep:  # after the checkpoint, from which a lost model can be saved again
            self.folder.keep_best(self.student, self.method, done)
        if terms or due:
            last = self.record.dev_scores[-1] if self.record.dev_scores else None
            progress = TrainingProgress(
                done, self.steps, rate, terms, last, due, self.first, waited
            )
            device = self.device.type
            tell(
                Event(
                    "progress", device=device, progress=progress, memory_mb=peak_memory_mb(device)
                )
            )
        if stopping:
            raise Stopped

    def _check_finite(self, done: int) -> None:
        """Raise TrainingError for the first term that was not finite, and note the batch that
        caused it.
        """
        if (bad := self.window.first_bad) is None:
            return
        step, terms = bad
        log.warning("the batch of step %d: %s", step + 1, self.batches.described(step))
        broken = [name for name, value in terms.items() if not math.isfinite(value)]
        sound = [name for name in terms if name not in broken and name in self.method.terms]
        cause = "lower the learning rate, or look for a root, norm or logarithm whose gradient at 0 is not finite"
        if step == 0 or sound:
            why = f"the term '{sound[0]}' is finite there" if sound else "no update came before it"
            cause = f"{why}, so the rate is not the cause: look for a division, root or logarithm of 0 in this term"
        raise TrainingError(
            f"the loss term '{broken[0]}' of {self.method.origin} is {terms[broken[0]]} at step {step + 1}; {cause} "
            "(the run's log has the rows of that batch)"
        )

    def _state(self, step: int) -> dict[str, Any]:
        return {
            "step": step,
            "student": self.student.state_dict(),
            "method": self.method.state_dict(),
            **self.main.state_dict(),
            "own": {stream: stepper.state_dict() for stream, stepper in self.own.items()},
            "record": asdict(self.record),
            "window": self.window.state_dict(),
        }

    def _restore(self, state: dict[str, Any]) -> int:
        """Load a state; return its step. Raises DamagedError if it is of another model, with parts
        already loaded.
        """
        try:
            self.student.load_state_dict(state["student"])
            self.method.load_state_dict(state["method"])
            self.main.load_state_dict(state)
            for stream, stepper in self.own.items():
                stepper.load_state_dict(state["own"][stream])
            self.record = TrainingRecord(**state["record"])
            self.window.load_state_dict(state["window"])
            return int(state["step"])
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise DamagedError(f"it does not fit this run: {first_line(error)}") from error

    def _resume(self) -> int:
        """Load the latest usable checkpoint; return its step, 0 if there is none."""
        checkpoints = self.folder.checkpoints()
        if not checkpoints:
            return 0
        start = self._state(0)
        for part in ("student", "method"):
            start[part] = {name: value.cpu().clone() for name, value in start[part].items()}
        for path in checkpoints:
            then = (
                "training starts again"
                if path == checkpoints[-1]
                else "using the previous checkpoint"
            )
            try:
                step = self._restore(load_checkpoint(path, self.device))
            except DamagedError as error:
                put_aside(path, error, then, self.folder.path)
            else:
                if self._restore_best(step, then):
                    return step
                remove(path, self.folder.path)
            self._restore(start)
        return 0

    def _restore_best(self, step: int, then: str) -> bool:
        """Whether the model kept up to a checkpoint's step exists; it is saved again if it is
        that of the checkpoint.
        """
        kept = self.record.kept_step
        if kept is None or self.folder.restore_best(kept, "saved again" if kept == step else then):
            return True
        if kept == step:
            self.folder.keep_best(self.student, self.method, step)
        return kept == step

    def _load_best(self) -> None:
        """Load the best model. Raises TrainingError if it is damaged or not that of the record."""
        try:
            step = self.folder.load_best(self.student, self.method)
            if step != self.record.kept_step:
                raise DamagedError(f"it is of step {step}, not of step {self.record.kept_step}")
        except DamagedError as error:
            raise TrainingError(
                f"the best model in {self.folder.path} is damaged: {error}; run the same command to train it again"
            ) from error

    def _check_saved(self, record: TrainingRecord) -> None:
        """Raise TrainingError unless the saved model has its dev score without the method.

        It is read from its files, and runs by its modules on padded rows.
        """
        student = self.student
        cuda = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=cuda):
            saved = Student.load(self.folder.best, student.pooling.name, found=student.found)
        saved.packing = None
        score = float(self.dev(saved.to(self.device).embed))
        kept = record.kept_score
        if kept is not None and abs(score - kept) > SAME_SCORE:
            raise TrainingError(
                f"the model of {self.method.origin} has the dev score {kept:.2f} in its training, "
                f"and {score:.2f} when it is loaded from its files: the method changes the encoder "
                f"in a way that is not saved; {NOT_SAVED}"
            )


def build_method(
    kind: type[Method],
    hyperparameters: Any,
    student: Student,
    data: TrainingData,
    seed: int,
    pretrained: Mapping[Stream, Path],
    models: Mapping[str, Student] = MappingProxyType({}),
    limit: int = 0,
) -> Method:
    """A method with its heads, after adding the student's patch embeddings; both depend only on
    seed and names.

    `pretrained` has the files of patch embeddings by stream, `models` the frozen models beside the
    student by role, `limit` is the most tokens of a row. Raises ValueError for options that no head
    fits, and UserError for a patch embedding of another width than the student's.
    """
    widths = {role: int(values.shape[-1]) for role, values in data.features.items()}
    widths |= {role: model.width for role, model in models.items()}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(axis="heads", seed=seed, method=kind.name))
        method = kind(hyperparameters, Dimensions(student.width, widths))
    for stream, steps in kind.own_steps(hyperparameters).items():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(axis="patches", seed=seed, stream=stream))
            _attach(student, steps.patches, data.media[stream], pretrained.get(stream))
    if kind.prepare is not Method.prepare:
        layout = layout_of(student.model)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(axis="prepare", seed=seed, method=kind.name))
            method.prepare(student, Vocabulary.of(student.tokenizer, limit), models)
        if part := changed_part(layout, student.model):
            raise UserError(f"{kind.name}: prepare changes the encoder: {part}; {NOT_SAVED}")
        student.look_again()
    method = method.to(student.device)
    if student.pooling.head:
        head = method.test_head()
        if head is None:
            raise UserError(
                f"the pooling '{student.pooling.name}' keeps the text head at test, and {kind.name} has none; give "
                "pooling=cls"
            )
        student.read_through(head)
    return method


def _attach(student: Student, patches: Patches, media: Media, pretrained: Path | None) -> None:
    ((name, sample),) = media.batch(np.array([0]), generator(axis="sample")).items()
    if name != "pixels":
        frames, bins = sample.shape[1:]
        student.attach(
            name,
            AudioPatches(student.width, frames, bins, patches.size, positions=patches.positions),
        )
        return
    size = find_fresh_size(patches.pretrained) if patches.pretrained else None
    if size is not None:
        student.attach(name, ImagePatches.fresh(student.width, sample.shape[-1], size))
    elif pretrained is not None:
        student.attach(name, ImagePatches.load(pretrained, student.width))
    else:
        raise UserError(
            "no patch embedding is named for this encoder; give the option patches=NAME, or patches=fresh-SIZE for "
            "one that is trained from scratch"
        )
