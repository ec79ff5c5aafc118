"""One loop for all methods: batches in, loss terms, updates, dev scores, the kept model, checkpoints.

Read it from the top: `run` starts, resumes or loads; `_train` is the loop over steps; `_step` is one
step; `_finish_step` does what is due after it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from harness.encoders.changes import describe_layout
from harness.encoders.flops import count_token_flops, count_training_flops
from harness.encoders.kernels import seed_dropout
from harness.encoders.precision import autocast, check_precision, set_float32_products
from harness.encoders.student import Student
from harness.errors import UserError
from harness.evaluation.suites import EmbedFunction
from harness.events import Event, TrainingProgress, tell
from harness.files import DamagedError
from harness.method import Encode, Method
from harness.processors import measure_peak_memory_mb
from harness.profiles import Training
from harness.seeds import derive_seed
from harness.spec import Stream
from harness.stopping import Stopped, stop_requested
from harness.training.checks import (
    check_architecture,
    check_finite,
    check_learning,
    check_loadable,
    check_loaded_score,
    check_terms,
    check_training_mode,
)
from harness.training.compiling import choose_compiled
from harness.training.folder import TrainingFolder
from harness.training.gradients import measure_gradient_parts
from harness.training.neighbours import NearRows
from harness.training.record import TrainingError, TrainingRecord
from harness.training.state import TrainingState
from harness.training.stepper import Chunked, Stepper
from harness.training.streams import Batches, TrainingData

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
        models: Mapping[str, Student] = MappingProxyType({}),
    ) -> None:
        """`dev` scores an embedding function; `folder` holds the checkpoint and the best model.
        `models` are the frozen models beside the student, by role.

        `chunk` is the number of rows that are encoded at a time where a batch does not fit; None
        encodes it whole.
        """
        self.student = student
        self.method = method
        self.training = training
        self.seed = seed
        self.dev = dev
        self.folder = TrainingFolder(folder)
        self.device = student.device

        own_steps = method.own_steps(method.hyperparameters)
        changes_rows = type(method).change_rows is not Method.change_rows
        changes_texts = type(method).change_texts is not Method.change_texts
        self.batches = Batches(
            student,
            data,
            training,
            own_steps,
            seed=seed,
            setting=setting,
            rule=method.mixing(method.hyperparameters),
            change=method.change_rows if changes_rows else None,
            change_texts=method.change_texts if changes_texts else None,
        )
        self.steps = self.batches.steps
        self.batches.near = self._make_near_rows(models)

        modules = (student, method)
        self.main = Stepper(modules, training, self.steps, self.device, None)
        self.own = {
            stream: Stepper(modules, training, self.steps, self.device, table)
            for stream, table in own_steps.items()
        }
        is_compiled = choose_compiled(training, self.steps, self.device)
        record = TrainingRecord(flops=0, checkpoint=training.checkpoint, compiled=is_compiled)
        self.state = TrainingState(
            student, method, self.main, self.own, record, near=self.batches.near
        )
        #: the steps that were done when `run` began
        self.first = 0

        self.chunk = chunk
        self.encode = self._make_encode()

        # as built, to compare with what training makes of them
        self._built = method.state_dict()
        self._layout = describe_layout(student.model)
        self._token_flops = count_token_flops(student)
        # those that a run has put into training mode
        self._modules: dict[str, nn.Module] = {}
        # every dev score is of the same sentences
        self._list_ids = lru_cache(maxsize=1)(student.list_ids)
        # of the batch whose gradient is to be measured
        self._vectors: list[Tensor] = []
        self._started_at = 0.0
        self._saved_at = 0.0

    def _make_encode(self) -> Chunked:
        """What encodes a batch; layers are compiled in the first step that needs it."""
        encode: Encode = self.student
        # a checkpoint of an earlier version does not say so
        if self.record.compiled or self.training.compile is True:
            encode = cast(Encode, torch.compile(self.student, dynamic=True))
        return Chunked(encode, self.chunk, plain=self.student)

    def _make_near_rows(self, models: Mapping[str, Student]) -> dict[str, NearRows]:
        """The searches of the corpus that the method asks for, by name."""
        searches = {}
        for name, declared in self.method.neighbours(self.method.hyperparameters).items():
            model = self.student if declared.by == "student" else models[declared.by]
            embed = partial(self._embed_for_search, model)
            searches[name] = NearRows(name, declared, self.batches, embed, self.device, self.seed)
        return searches

    def _embed_for_search(self, model: Student, texts: Sequence[str]) -> np.ndarray:
        with autocast(self.training.precision, self.device.type):
            return model.embed(texts, longest=self.training.max_length)

    def _embed_for_score(self, sentences: Sequence[str]) -> np.ndarray:
        return self.student.embed_rows(self._list_ids(tuple(sentences)))

    @property
    def record(self) -> TrainingRecord:
        """What the training has recorded so far."""
        return self.state.record

    def run(self) -> TrainingRecord:
        """Train to the last step, unless that is done, then load the best model into the student
        and the method.

        Random numbers of step k depend on the seed and k alone, so a killed run resumes from its
        checkpoint with the same result; the global generators are left unchanged. A checkpoint is
        saved with each better model, SAVE_EVERY_S after the last one, and at the end. Raises
        TrainingError, and Stopped, with a checkpoint, after the step in which the process was asked
        to stop.
        """
        ended = self.folder.load_ended(self.student, self.method)
        if ended is not None:
            return ended

        check_precision(self.training.precision, self.device.type)
        with self._keep_generators():
            self._train()
        self._load_best()
        self._check_saved()
        self.folder.end(self.record)
        return self.record

    def _train(self) -> None:
        """Do the steps from the latest checkpoint to the last one."""
        self.first = self.state.resume(self.folder, self.device)
        # as the training began, also where it goes on on a machine that would choose otherwise
        self.encode = self._make_encode()
        seconds_before = self.record.seconds
        self._started_at = time.perf_counter()
        self._saved_at = time.monotonic()

        self.student.train()
        self.method.train()
        self._modules = dict(self.student.named_modules())

        with contextlib.closing(self.batches):
            for step in range(self.first, self.steps):
                self._step(step)
                elapsed = time.perf_counter() - self._started_at
                self.record.seconds = seconds_before + elapsed
                self._finish_step(step + 1, elapsed)

    def _step(self, step: int) -> None:
        """Update once by each batch of a step."""
        with self._name_step(step), set_float32_products(self.training.precision, self.device.type):
            for stream, total, terms in self.compute_losses(step):
                check_terms(self.method, total, terms)
                stepper = self.main if stream is None else self.own[stream]
                if self._vectors and terms:
                    self._measure_gradient(stream, step, terms, stepper)
                if total is not None:
                    stepper.step(total, step)
                self.state.window.add(terms, step)

            self.state.window.add(self._get_scheduled_values(), step)
            with torch.no_grad():
                self.method.after_step(self.student, step)
        check_training_mode(self.method, self._modules, step)

    def compute_losses(
        self, step: int
    ) -> Iterator[tuple[Stream | None, Tensor | None, dict[str, Tensor]]]:
        """Yield stream, weighted loss and terms of each batch of a step; update before asking for
        the next batch.
        """
        self.method.now = self.method.scheduled(step / self.steps)
        for stream, batch in self.batches.take(step):
            seed_dropout(self._derive_dropout_seed(step, stream), self.device)
            self._vectors = []
            is_measured = self._is_last_before_score(stream, step)
            encode = replace(self.encode, seen=partial(self._observe, is_measured))
            with autocast(self.training.precision, self.device.type):
                total, terms = self.method.loss(batch, encode)

            yield stream, total, terms

    def _finish_step(self, steps_done: int, elapsed: float) -> None:
        """Add a point to the loss curve, score, keep the best model and save a checkpoint, each
        when it is due; `elapsed` are the seconds of this process's steps.
        """
        is_last = steps_done == self.steps
        is_score_due = is_last or steps_done % self.training.eval_every == 0
        is_point_due = is_score_due or steps_done % max(1, self.steps // CURVE_POINTS) == 0

        terms = self._add_point(steps_done) if is_point_due else {}
        is_better = self._score(steps_done) if is_score_due else False

        is_stopping = stop_requested()
        if is_better or is_stopping or is_last or self._is_checkpoint_due():
            check_loadable(self.method, self._built)
            self.folder.save(self.state.state_dict(steps_done))
            self._saved_at = time.monotonic()
        if is_better:  # after the checkpoint, from which a lost model can be saved again
            self.folder.keep_best(self.student, self.method, steps_done)

        if terms or is_score_due:
            self._tell_progress(steps_done, elapsed, terms, scored=is_score_due)
        if is_stopping:
            raise Stopped

    def _add_point(self, steps_done: int) -> dict[str, float]:
        """Add the means of the terms since the last point to the loss curve, and return them."""
        terms = self.state.window.close()
        check_finite(self.method, self.state.window.first_bad, self.batches.describe)
        self.record.add_losses(steps_done, terms)
        return terms

    def _score(self, steps_done: int) -> bool:
        """Score the student on the dev set; return whether its weights are now those to keep."""
        check_learning(
            self.method, self.student, self.state.steppers, self.record.losses, steps_done
        )
        check_architecture(self.method, self._layout, self.student)

        score = float(self.dev(self._embed_for_score))
        return self.record.add_dev(steps_done, score)

    def _is_checkpoint_due(self) -> bool:
        is_late = time.monotonic() - self._saved_at >= SAVE_EVERY_S
        return is_late and self.state.window.is_finite

    def _tell_progress(
        self, steps_done: int, elapsed: float, terms: Mapping[str, float], *, scored: bool
    ) -> None:
        dev_scores = self.record.dev_scores

        progress = TrainingProgress(
            steps_done,
            self.steps,
            (steps_done - self.first) / elapsed,
            terms,
            dev_scores[-1] if dev_scores else None,
            scored,
            self.first,
            self.batches.waited / elapsed,
        )
        device = self.device.type
        tell(
            Event(
                "progress",
                device=device,
                progress=progress,
                memory_mb=measure_peak_memory_mb(device),
            )
        )

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

    def _check_saved(self) -> None:
        """Raise TrainingError unless the saved model alone has the dev score that it had in training.

        It is read from its files, and runs by its modules on padded rows.
        """
        with self._keep_generators():
            saved = Student.load(
                self.folder.best, self.student.pooling.name, found=self.student.found
            )

        saved.packing = None
        score = float(self.dev(saved.to(self.device).embed))
        check_loaded_score(self.method, score, self.record.kept_score)

    def _is_last_before_score(self, stream: Stream | None, step: int) -> bool:
        """Whether a step's batch is the last of its stream before the next dev score."""
        interval = self.training.eval_every

        next_score = min(self.steps, step - step % interval + interval)
        if stream is None:
            return self.batches.mixing.is_last(step, next_score)
        return step + 1 == next_score

    def _observe(
        self, is_measured: bool, inputs: Mapping[str, Tensor], views: int, vectors: Tensor
    ) -> None:
        """Count what a batch costs, and keep its vectors if its gradient is to be measured."""
        if is_measured and vectors.requires_grad:
            self._vectors.append(vectors)
        if self.record.flops is not None:
            self.record.flops += count_training_flops(
                self.student, self._token_flops, inputs, views
            )

    def _measure_gradient(
        self, stream: Stream | None, step: int, terms: Mapping[str, Tensor], stepper: Stepper
    ) -> None:
        """Record each term's part of the gradient at a batch's vectors, scaled as for the update."""
        weights = self.method.weights()
        weighted = {}
        for name, term in terms.items():
            weighted[name] = stepper.scaler.scale(weights.get(name, 1.0) * term)

        shares, cosines = measure_gradient_parts(weighted, self._vectors)

        place = stream or self.batches.get_text_rows(step)[0]
        self.record.gradients.setdefault(place, []).append((step + 1, shares, cosines))
        self._vectors.clear()

    def _get_scheduled_values(self) -> dict[str, Tensor]:
        """The method's values that change over training, for the curves."""
        return {
            name: torch.full((), value, device=self.device)
            for name, value in self.method.now.items()
        }

    def _derive_dropout_seed(self, step: int, stream: Stream | None) -> int:
        axes: dict[str, str | int] = {"axis": "dropout", "seed": self.seed, "step": step}
        return derive_seed(**axes) if stream is None else derive_seed(**axes, stream=stream)

    @contextlib.contextmanager
    def _keep_generators(self) -> Iterator[None]:
        """Leave torch's global generators as they are."""
        cuda = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=cuda):
            yield

    @contextlib.contextmanager
    def _name_step(self, step: int) -> Iterator[None]:
        """Note on an error of the method's code at which step of which method it was raised."""
        try:
            yield
        except Exception as error:
            if not isinstance(error, UserError | TrainingError):
                error.add_note(f"at step {step + 1} of the method '{self.method.name}'")
            raise
