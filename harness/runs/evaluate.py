"""The evaluation of one run: its model as suites see it, and the suites, one after the other."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

import numpy as np
import torch
from torch import nn

from harness.corpora.base import Pairs
from harness.encoders.sentence_modules import SentenceModules
from harness.encoders.student import Student
from harness.errors import UserError
from harness.evaluation.suites import Embedder, EmbedFunction, Suite
from harness.events import Event, Stage, tell
from harness.planning.inventory import Inventory
from harness.planning.plan import PlannedRun
from harness.planning.seen import SeenRows
from harness.runs.inputs import Heads, Inputs, TeacherVectors, TestFeatures
from harness.runs.train import Trained
from harness.store import Evaluation, Store
from harness.store.folder import keep_evaluation, read_kept_evaluation

#: Rows that pass a head at once.
ROWS = 4096


def evaluate(
    run: PlannedRun, inventory: Inventory, inputs: Inputs, trained: Trained, store: Store
) -> list[Evaluation]:
    """Evaluate the suites to do; each is saved as it ends, so that a killed run does not repeat it."""
    trained_on = None
    if trained.rows:
        corpora = [corpus.read for corpus in run.experiment.corpora]
        trained_on = SeenRows(corpora, trained.rows)
    folder = store.work(run.fingerprint)
    vectors = dict[str, np.ndarray]()

    evaluations = []
    for name in run.todo:
        suite = inventory.suites[name]
        protocol = inventory.find_protocol(name)
        evaluation = read_kept_evaluation(store, run.fingerprint, name, protocol)
        if evaluation is not None:
            evaluations.append(evaluation)
            continue

        tell(Event("suite", suite=name))
        start = time.perf_counter()
        model = _make_embedder(suite, trained, inputs.tests, vectors)
        scored = suite.evaluate(replace(model, trained_on=trained_on, keep=folder), inventory.root)
        inventory.check_protocol(name)
        if inventory.list_selected_tasks(name):
            scored = scored.remove_averages()
        evaluation = Evaluation(
            suite=name,
            protocol=protocol,
            scores=scored.scores,
            parts=scored.parts,
            seconds=time.perf_counter() - start,
            warnings=[*inventory.check_tasks(name), *scored.warnings],
            finished=now(),
        )
        keep_evaluation(store, run.fingerprint, evaluation, scored.arrays)
        tell(Event("evaluated", suite=name, seconds=evaluation.seconds))
        evaluations.append(evaluation)

    return evaluations


def _make_embedder(
    suite: Suite, trained: Trained, tests: TestFeatures, vectors: dict[str, np.ndarray]
) -> Embedder:
    """The model as a suite sees it, which reports how far the suite is.

    Vectors of sentences are not computed again, but where the suite has millions of texts.
    """
    student = trained.student
    last_report = -math.inf

    def report_tasks(task: str, done: int, total: int) -> None:
        tell(Event("evaluate", stage=Stage("tasks", suite.name, done, total, task)))

    def report_sentences(done: int, total: int) -> None:
        nonlocal last_report
        if done in (0, total) or time.monotonic() - last_report >= 1:
            last_report = time.monotonic()
            tell(Event("evaluate", stage=Stage("sentences", suite.name, done, total)))

    embed: EmbedFunction = partial(student.embed, report=report_sentences)
    if suite.remembers:
        embed = remember_vectors(vectors, embed)
    spaces = None
    if trained.heads:
        # heads read what was pooled, without a head of texts that stays at test
        pooled = embed
        if isinstance(student, Student) and student.pooling.head:
            pooled = partial(student.embed, report=report_sentences, headed=False)
        spaces = Spaces(pooled, trained.heads, tests)

    library = None
    if isinstance(student, SentenceModules):
        # the vectors of a model that depends on padding are those of mteb's own batches there
        is_padded = student.found.rows == "equal lengths"
        if student.depends_on_task or is_padded:
            library = student.model

    return Embedder(
        embed,
        str(student.device),
        partial(encode_dropout_views, student),
        spaces,
        spaces,
        report=report_tasks,
        library=library,
    )


def now() -> str:
    """The time in UTC with microseconds, as text that sorts correctly among the whole seconds of
    older results.
    """
    return datetime.now(UTC).isoformat(timespec="microseconds")


@dataclass(frozen=True)
class Spaces:
    """Captions and images in the method's space and in the run's frozen teacher's.

    An `ImageTextSpace` and an `ImageTextTeacher`; `tests` are the teacher's features.
    """

    embed: EmbedFunction
    heads: Heads
    tests: TestFeatures

    def texts(self, sentences: Sequence[str]) -> np.ndarray:
        """Project n captions: (n, p) float32."""
        return _project(self.heads[0], self.embed(sentences))

    def images(self, pairs: Pairs, task: str) -> np.ndarray:
        """Project the m images of a retrieval task: (m, p) float32. Raises UserError for a task
        without features.
        """
        features = self.tests.get((task, "image"))
        if features is None:
            raise UserError(
                f"no features of {task} were loaded: a suite lists its tasks with images in `image_tasks`"
            )
        return _project(self.heads[1], np.asarray(features, dtype=np.float32))

    def both(
        self, texts: Sequence[str], pairs: Pairs, task: str
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """The teacher's captions (n, f) and images (m, f) of a retrieval task; None without a
        teacher of both.
        """
        if (task, "caption") not in self.tests:
            return None
        return np.asarray(self.tests[task, "caption"]), np.asarray(self.tests[task, "image"])


def remember_vectors(vectors: dict[str, np.ndarray], embed: EmbedFunction) -> EmbedFunction:
    """An `EmbedFunction` that embeds each sentence once, and keeps it in `vectors`."""

    def embed_new(sentences: Sequence[str]) -> np.ndarray:
        new = [text for text in dict.fromkeys(sentences) if text not in vectors]
        if new:
            vectors.update(zip(new, embed(new), strict=True))
        return np.stack([vectors[text] for text in sentences])

    return embed_new


@torch.inference_mode()
def encode_dropout_views(
    student: Student | SentenceModules | TeacherVectors, sentences: Sequence[str], n: int, seed: int
) -> np.ndarray:
    """Encode each of s sentences n times with dropout active: (s, n, d) float32.

    The dropout masks depend on `seed` alone; the caller's random state is not changed. Raises
    UserError for a teacher, which has none.
    """
    if isinstance(student, TeacherVectors):
        raise UserError("a teacher is frozen: it has no encodings under dropout")

    cards = [student.device] if student.device.type == "cuda" else []
    was_training = student.training
    with torch.random.fork_rng(devices=cards):
        torch.manual_seed(seed)
        rows = student.train().views(sentences, n)
    student.train(was_training)
    return rows.float().cpu().numpy()


@torch.inference_mode()
def _project(head: nn.Module, rows: np.ndarray) -> np.ndarray:
    device = next(head.eval().parameters()).device
    parts = []
    for start in range(0, len(rows), ROWS):
        batch = torch.tensor(rows[start : start + ROWS], device=device)
        parts.append(head(batch))
    return torch.cat(parts).float().cpu().numpy()
