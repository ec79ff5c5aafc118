"""One run: train or load its student, evaluate suite by suite, save the result."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import numpy as np
import torch
from torch import nn

from harness.corpora.base import Pairs
from harness.encoders.student import SentenceModules, Student
from harness.evaluation.suites import Embedder, EmbedFunction
from harness.events import Event, Stage, listening, tell
from harness.planning.inventory import Inventory
from harness.planning.plan import PlannedRun
from harness.planning.seen import RunTraining
from harness.runs.environment import Seat, package_versions, peak_memory_mb, revision
from harness.runs.log import RunLog
from harness.runs.train import Bench, RunFeatures, Trained, run_features, train
from harness.store import (
    BACKEND_VERSION,
    DevCurve,
    EncoderTrial,
    Evaluation,
    LossCurves,
    Result,
    Spec,
    Store,
    TeacherUse,
)
from harness.store.folder import commit, keep_evaluation, kept_evaluation
from harness.store.logs import running_log

#: Rows that pass a head at once.
ROWS = 4096


def run_one(run: PlannedRun, inventory: Inventory, store: Store, seat: Seat, chunk: int | None = None) -> Result:
    """Train and evaluate a run from wherever an earlier process stopped; save and return its result.

    The seat names the device. `chunk` rows of a batch are encoded at a time in training, all of them for None.

    Raises UserError for missing or wrong inputs, TrainingError where training cannot continue.
    """
    started = _now()
    with RunLog(running_log(store, run.fingerprint), run.key) as log, listening(run.key, log):
        tell(Event("start", device=seat.device))
        bench = Bench(store, seat.device, chunk)
        trained = train(run.experiment, bench)
        evaluations = _evaluate(run, inventory, trained, bench)
        log.write("done")
    result = _result(run, inventory, seat, chunk, trained, started, evaluations)
    return commit(store, result, log.path)


def _evaluate(run: PlannedRun, inventory: Inventory, trained: Trained, bench: Bench) -> list[Evaluation]:
    """Evaluate the suites to do; each is saved as it ends, so that a killed run does not repeat it."""
    watch = _Watch()
    embedders = _embedders(run, inventory, trained, bench, watch)
    evaluations = []
    for name in run.todo:
        suite, protocol = inventory.suites[name], inventory.protocol(name)
        evaluation = kept_evaluation(bench.store, run.fingerprint, name, protocol)
        if evaluation is None:
            watch.suite = name
            tell(Event("suite", suite=name))
            clock = time.perf_counter()
            scored = suite.evaluate(embedders[suite.remembers], inventory.root)
            inventory.check_protocol(name)
            if inventory.part(name):
                scored = scored.without_averages()
            evaluation = Evaluation(
                suite=name,
                protocol=protocol,
                scores=scored.scores,
                parts=scored.parts,
                seconds=time.perf_counter() - clock,
                warnings=[*inventory.check_tasks(name), *scored.warnings],
                finished=_now(),
            )
            keep_evaluation(bench.store, run.fingerprint, evaluation, scored.arrays)
            tell(Event("evaluated", suite=name, seconds=evaluation.seconds))
        evaluations.append(evaluation)
    return evaluations


@dataclass
class _Watch:
    """Reports how far the evaluation of `suite` is; sentences once a second at most."""

    suite: str = ""
    last: float = -math.inf

    def task(self, name: str, done: int, total: int) -> None:
        self._tell(Stage("tasks", self.suite, done, total, name))

    def sentences(self, done: int, total: int) -> None:
        if done in (0, total) or time.monotonic() - self.last >= 1:
            self.last = time.monotonic()
            self._tell(Stage("sentences", self.suite, done, total))

    def _tell(self, stage: Stage) -> None:
        tell(Event("evaluate", stage=stage))


def _embedders(
    run: PlannedRun, inventory: Inventory, trained: Trained, bench: Bench, watch: _Watch
) -> dict[bool, Embedder]:
    """The run's two embedders: True caches vectors, False does not, for suites of millions of texts."""
    heads = trained.heads
    keep = bench.folder(run.experiment)
    corpora = run.experiment.corpora
    trained_on = RunTraining(corpora, trained.rows) if trained.rows else None
    embedders = {}
    counted = partial(trained.student.embed, report=watch.sentences)
    device, views = str(trained.student.device), partial(dropout_views, trained.student)
    library = trained.student.model if isinstance(trained.student, SentenceModules) else None
    for caches in (True, False):
        embed: EmbedFunction = CachedEmbedding(counted) if caches else counted
        shared = teacher = None
        if heads is not None:
            contents, features = inventory.retrieval_content, run_features(run.experiment, bench)
            pooled: EmbedFunction = embed
            if isinstance(trained.student, Student) and trained.student.pooling.head:
                pooled = partial(counted, headed=False)
            shared, teacher = HeadSpace(pooled, heads, features, contents), TeacherSpace(features, contents)
        embedders[caches] = Embedder(embed, device, views, shared, teacher, trained_on, keep, watch.task, library)
    return embedders


def _result(
    run: PlannedRun,
    inventory: Inventory,
    seat: Seat,
    chunk: int | None,
    trained: Trained,
    started: str,
    evaluations: list[Evaluation],
) -> Result:
    resolved, record, profile = run.resolved, trained.record, inventory.profile
    features = run.experiment.features
    return Result(
        backend=BACKEND_VERSION,
        spec=Spec.of(resolved.spec),
        profile=profile.name,
        profile_origin=profile.origin,
        overrides=dict(resolved.overrides),
        fingerprint=run.fingerprint,
        group=run.group,
        hyperparameters={
            "method": dict(resolved.hyperparameters.named()),
            "training": resolved.training.model_dump() if resolved.trains else {},
            "encoder": {"pooling": resolved.pooling},
        },
        teachers={
            role: TeacherUse(teacher=used.asked.teacher, of=used.asked.of, source=used.source)
            for role, used in features.items()
            if used.asked.of != "model"  # which the hyperparameters name
        },
        evaluations=evaluations,
        dev=DevCurve(
            task=resolved.dev,
            metric="spearman",
            steps=record.dev_steps,
            scores=record.dev_scores,
            best_step=record.best_step,
            best_score=record.best,
        ),
        losses=LossCurves(steps=record.loss_steps, terms=record.losses),
        train_seconds=record.seconds,
        peak_memory_mb=peak_memory_mb(seat.device),
        hardware=dict(seat.hardware(chunk)),
        packages=package_versions(),
        revision=revision(),
        started=started,
        finished=_now(),
        warnings=list(trained.warnings),
        identity=run.experiment.identity,
        trial=EncoderTrial(**{name: getattr(trained.student.found, name) for name in EncoderTrial.model_fields}),
    )


def _now() -> str:
    """The time in UTC with microseconds, as text that sorts correctly among the whole seconds of older results."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


@dataclass(frozen=True)
class HeadSpace:
    """Captions and images through the method's own heads (an `ImageTextSpace`)."""

    embed: EmbedFunction
    heads: tuple[nn.Module, nn.Module]
    features: RunFeatures
    contents: Callable[[str], str]

    def texts(self, sentences: Sequence[str]) -> np.ndarray:
        """Project n captions: (n, p) float32."""
        return _through(self.heads[0], self.embed(sentences))

    def images(self, pairs: Pairs, task: str) -> np.ndarray:
        """Project the m images of a retrieval task: (m, p) float32."""
        features = self.features.of_images(pairs, self.contents(task))
        return _through(self.heads[1], np.asarray(features, dtype=np.float32))


@dataclass(frozen=True)
class TeacherSpace:
    """Captions and images as the run's frozen teacher embeds them (an `ImageTextTeacher`)."""

    features: RunFeatures
    contents: Callable[[str], str]

    def both(self, texts: Sequence[str], pairs: Pairs, task: str) -> tuple[np.ndarray, np.ndarray] | None:
        """Embed captions (n, f) and images (m, f) of a retrieval task; None without a teacher of both."""
        captions = self.features.of_captions(texts, self.contents(task))
        if captions is None:
            return None
        return np.asarray(captions), np.asarray(self.features.of_images(pairs, self.contents(task)))


class CachedEmbedding:
    """An `EmbedFunction` that embeds each sentence once, whichever suite asks for it again."""

    def __init__(self, embed: EmbedFunction) -> None:
        self._embed = embed
        self._rows: dict[str, np.ndarray] = {}

    def __call__(self, sentences: Sequence[str]) -> np.ndarray:
        """Embed n sentences: (n, d) float32."""
        new = [text for text in dict.fromkeys(sentences) if text not in self._rows]
        if new:
            self._rows.update(zip(new, self._embed(new), strict=True))
        return np.stack([self._rows[text] for text in sentences])


@torch.inference_mode()
def dropout_views(student: Student | SentenceModules, sentences: Sequence[str], n: int, seed: int) -> np.ndarray:
    """Encode each of s sentences n times with dropout active: (s, n, d) float32.

    The dropout masks depend on `seed` alone; the caller's random state is not changed.
    """
    device, was_training = student.device, student.training
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        rows = student.train().views(sentences, n)
    student.train(was_training)
    return rows.float().cpu().numpy()


@torch.inference_mode()
def _through(head: nn.Module, rows: np.ndarray) -> np.ndarray:
    device = next(head.eval().parameters()).device
    parts = [head(torch.tensor(rows[start : start + ROWS], device=device)) for start in range(0, len(rows), ROWS)]
    return torch.cat(parts).float().cpu().numpy()
