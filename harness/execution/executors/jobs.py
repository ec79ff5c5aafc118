"""The jobs of a plan: its unfinished runs, and before them what several of them read."""

from __future__ import annotations

from collections.abc import Iterator

from harness.execution.executors.job import Job
from harness.execution.executors.preparation import FeaturesOfCorpus, Preparation, RecordingsOfCorpus, TokensOfCorpus
from harness.execution.executors.run_job import RunJob
from harness.execution.ingredients import Experiment
from harness.execution.plan import Plan
from harness.inputs import MEDIA
from harness.sources import digest


def jobs_of(plan: Plan, chunk: int | None = None) -> list[Job]:
    """The jobs in the plan's order, each after those that it needs; `chunk` is that of `RunJob`."""
    found: dict[str, Job] = {}
    for run in plan.todo:
        needs = {teacher.fingerprint for teacher in run.experiment.teachers}
        for prepared in _preparations(plan, run.experiment):
            found.setdefault(prepared.id, prepared)
            needs.add(prepared.id)
        found[run.fingerprint] = RunJob(plan.inventory, plan.store, frozenset(needs), run, chunk)
    return list(found.values())


def _preparations(plan: Plan, experiment: Experiment) -> Iterator[Preparation]:
    """What the training of a run reads, apart from files."""
    read, nothing = experiment.ingredients, frozenset[str]()
    encoder, length = read.encoder.fingerprint, experiment.resolved.training.max_length
    for corpus in read.corpora:
        content = corpus.read.fingerprint
        if corpus.stream == "audio":
            key = digest("recordings", content)
            yield RecordingsOfCorpus(plan.inventory, plan.store, nothing, key, experiment, corpus)
        elif corpus.stream not in MEDIA:
            key = digest("tokens", content, encoder, length)
            yield TokensOfCorpus(plan.inventory, plan.store, nothing, key, experiment, corpus)
    for features in read.features.values():
        teacher = features.teacher
        for corpus in features.corpora:
            identity = [*teacher.identity(corpus, length), encoder if teacher.of == "tokens" else None]
            needs = frozenset(teacher.runs(corpus))
            yield FeaturesOfCorpus(
                plan.inventory, plan.store, needs, digest("features", identity), experiment, corpus, teacher
            )
