"""One run: RunSpec -> result. Train or resume, evaluate suite by suite, hand over the result."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.corpora.base import Pairs
from harness.encoders.student import Student
from harness.evaluation.dev import dev_scorer
from harness.evaluation.embed import Embedder
from harness.execution.environment import hardware, package_versions, peak_memory_mb, revision
from harness.execution.plan import PlannedRun
from harness.execution.sources import Sources
from harness.grid import SCRAMBLED
from harness.method import Dimensions, Method
from harness.seeds import derive_seed, generator
from harness.sources import digest, write_text
from harness.store import SCHEMA_VERSION, DevCurve, LossCurves, Protocol, Result, Spec, Store, Timings
from harness.training.trainer import Progress, Record, Trainer, TrainingData, load_best


@dataclass(frozen=True)
class Context:
    """Where and how a run happens; nothing in it changes a number that is kept."""

    store: Path
    device: str
    threads: int


@dataclass(frozen=True)
class Event:
    """What a run reports while it goes: 'start', 'progress', 'suite', 'done' or 'failed'."""

    kind: str
    key: str
    progress: Progress | None = None
    suite: str = ""
    text: str = ""
    result: Result | None = None


Report = Callable[[Event], None]


def run_one(run: PlannedRun, sources: Sources, context: Context, report: Report) -> Result:
    """Carry one run from wherever it stands to a saved result, and return it.

    Raises UserError for what a person can mend, TrainingError where training cannot go on.
    """
    torch.set_num_threads(context.threads)
    report(Event("start", run.key))
    started = datetime.now(UTC)
    store = Store(context.store)
    folder = store.work(run.training_fingerprint)
    student, record = _trained(run, sources, context, folder, report)
    outcome = _evaluated(run, sources, student, folder, report)
    result = _result(run, sources, context, record, started, outcome)
    store.save(result)
    report(Event("done", run.key, result=result))
    return result


def _trained(
    run: PlannedRun, sources: Sources, context: Context, folder: Path, report: Report
) -> tuple[Student, Record]:
    """The student at its best checkpoint: trained, resumed, read back, or as it came."""
    resolved = run.resolved
    device = torch.device(context.device)
    pooling = resolved.method.pooling(resolved.hyperparameters)
    student = Student.load(sources.encoder(resolved.spec.encoder).path(), pooling).to(device)
    if not resolved.method.trains:
        return student, Record()
    data = training_data(run, sources)
    widths = {role: values.shape[1] for role, values in data.features.items()}
    method = build_method(run, Dimensions(student.width, widths)).to(device)
    note = folder / "trained.json"
    if note.is_file():
        load_best(folder, student, method)
        return student, Record(**json.loads(note.read_text()))
    trainer = Trainer(
        student,
        method,
        data,
        resolved.training,
        seed=resolved.spec.seed,
        setting=str(resolved.spec.setting),
        dev=dev_scorer(sources.dev, sources.root),
        folder=folder,
        report=lambda progress: report(Event("progress", run.key, progress=progress)),
    )
    record = trainer.run()
    write_text(note, json.dumps(asdict(record)))
    (folder / "checkpoint.pt").unlink(missing_ok=True)
    return student, record


def build_method(run: PlannedRun, dimensions: Dimensions) -> Method:
    """The method with its heads, initialised from the seed and the method's name alone."""
    spec = run.resolved.spec
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(axis="heads", seed=spec.seed, method=spec.variant.name))
        return run.resolved.method(run.resolved.hyperparameters, dimensions)


def training_data(run: PlannedRun, sources: Sources) -> TrainingData:
    """The texts of each stream, and the features that the method asked for, row by row of the pairs."""
    setting = sources.profile.settings[run.resolved.spec.setting.name]
    loaded = {name: sources.corpora[name].load(sources.root) for name in setting.corpora}
    texts: dict[str, list[str]] = {}
    for name, corpus in loaded.items():
        texts.setdefault(sources.corpora[name].stream, []).extend(corpus.texts)
    features = {
        role: _features(run, sources, loaded, teacher)
        for role, teacher in run.resolved.features(sources.profile).items()
    }
    return TrainingData(texts, features)


def _features(run: PlannedRun, sources: Sources, loaded: Mapping[str, Any], teacher: str) -> np.ndarray:
    """One teacher's features over all pair corpora of the setting, (n, f); or a control in their place.

    'shuffled' deals the profile's features to the captions at random, once a run (MCSE Table 2);
    'random' puts standard normal noise there.
    """
    name = str(sources.profile.images) if teacher in SCRAMBLED else teacher
    pairs = {corpus: data for corpus, data in loaded.items() if isinstance(data, Pairs)}
    values = np.concatenate([_of_corpus(corpus, data, sources, name) for corpus, data in pairs.items()])
    seed = run.resolved.spec.seed
    if teacher == "shuffled":
        return values[generator(axis="shuffled images", seed=seed).permutation(len(values))]
    if teacher == "random":
        return generator(axis="random images", seed=seed).standard_normal(values.shape, dtype=np.float32)
    return values


def _of_corpus(corpus: str, data: Pairs, sources: Sources, teacher: str) -> np.ndarray:
    if teacher in data.features:
        return data.features[teacher]
    from harness.encoders.features import cached_features
    from harness.encoders.teachers import ImageTeacher

    model = sources.teacher(teacher)
    key = digest(sources.fingerprint(sources.corpora[corpus]), sources.fingerprint(model))
    images = data.images
    if images is None:
        raise ValueError(f"the corpus {corpus} has neither pixels nor stored features of {teacher}")
    return cached_features(key, lambda: ImageTeacher(model.path()).encode_images(images))


@dataclass
class Outcome:
    """Scores, protocols and seconds by suite, and the warnings of all suites."""

    scores: dict[str, dict[str, dict[str, float]]]
    protocols: dict[str, Protocol]
    seconds: dict[str, float]
    warnings: list[str]


def _evaluated(run: PlannedRun, sources: Sources, student: Student, folder: Path, report: Report) -> Outcome:
    """Evaluate the suites that are due; each is saved as it ends, so a killed run does not repeat it."""
    embed = remembering(student.embed)
    outcome = Outcome({}, {}, {}, [])
    for name in run.todo:
        suite = sources.suites[name]
        part = folder / f"scores-{run.fingerprint[:12]}-{name}.json"
        if part.is_file():
            saved = json.loads(part.read_text())
        else:
            report(Event("suite", run.key, suite=name))
            clock = time.perf_counter()
            evaluation = suite.evaluate(embed, sources.root)
            took = time.perf_counter() - clock
            saved = {"scores": evaluation.scores, "warnings": evaluation.warnings, "seconds": took}
            write_text(part, json.dumps(saved, allow_nan=False))
        outcome.scores[name], outcome.seconds[name] = saved["scores"], saved["seconds"]
        outcome.warnings += saved["warnings"]
        outcome.protocols[name] = Protocol(version=suite.version, data=sources.fingerprint(suite))
    return outcome


def remembering(embed: Embedder) -> Embedder:
    """An embedder that embeds each sentence once, whatever suite asks for it again."""
    rows: dict[str, np.ndarray] = {}

    def remembered(sentences: Sequence[str]) -> np.ndarray:
        new = [text for text in dict.fromkeys(sentences) if text not in rows]
        if new:
            rows.update(zip(new, embed(new), strict=True))
        return np.stack([rows[text] for text in sentences])

    return remembered


def _result(
    run: PlannedRun, sources: Sources, context: Context, record: Record, started: datetime, outcome: Outcome
) -> Result:
    resolved = run.resolved
    seconds = outcome.seconds
    return Result(
        schema_version=SCHEMA_VERSION,
        spec=spec_record(run),
        profile=sources.profile.name,
        overrides=dict(resolved.overrides),
        fingerprint=run.fingerprint,
        group=run.group,
        training_fingerprint=run.training_fingerprint,
        hyperparameters={
            "method": resolved.hyperparameters.named(),
            "training": resolved.training.model_dump() if resolved.method.trains else {},
            "encoder": {"pooling": resolved.method.pooling(resolved.hyperparameters)},
        },
        scores=outcome.scores,
        protocols=outcome.protocols,
        dev=DevCurve(
            task=sources.profile.dev,
            metric="spearman",
            steps=record.dev_steps,
            scores=record.dev_scores,
            best_step=record.best_step,
            best_score=record.best,
        ),
        losses=LossCurves(steps=record.loss_steps, terms=record.losses),
        timings=Timings(train_s=record.seconds, evaluate_s=seconds, total_s=record.seconds + sum(seconds.values())),
        peak_memory_mb=peak_memory_mb(context.device),
        hardware=hardware(context.device, context.threads),
        packages=package_versions(),
        revision=revision(),
        started=started.isoformat(timespec="seconds"),
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        warnings=outcome.warnings,
    )


def spec_record(run: PlannedRun) -> Spec:
    """A run's spec as result files and failures hold it."""
    spec = run.resolved.spec
    return Spec(
        method=spec.variant.name,
        variant=str(spec.variant),
        setting=str(spec.setting),
        encoder=spec.encoder,
        seed=spec.seed,
    )
