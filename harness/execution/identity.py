"""What a training depends on: its identity, what it lacks, and the runs whose encoders are its teachers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.encoders.patches import fresh_size
from harness.errors import UserError
from harness.execution.sources import LitTeacher, Sources
from harness.grid import SCRAMBLED, Resolved, check_setting, impossible, resolve
from harness.method import Feature
from harness.sources import Missing, Source, digest
from harness.spec import RunSpec

#: Raised when the same configuration would come to other numbers: the loop, the batching, the seeds.
BACKEND_VERSION = 1
RUN = "run:"


@dataclass(frozen=True)
class RunTeacher(Source):
    """A run whose finished encoder is a teacher; it need not be trained yet."""

    run: Resolved
    sources: Sources

    def missing(self, root: Path | None) -> list[Missing]:
        """What the run lacks."""
        return lacking(self.run, self.sources)

    def fingerprint(self, root: Path | None) -> str:
        """The fingerprint of its training."""
        return digest(training_identity(self.run, self.sources))


def training_identity(run: Resolved, sources: Sources) -> dict[str, Any]:
    """Everything that can change a run's weights, by name; no path, no device, no clock."""
    encoder = sources.fingerprint(sources.encoder(run.spec.encoder))
    method = {"method": run.spec.variant.name, "reading": run.spec.variant.reading, "encoder": encoder}
    identity: dict[str, Any] = {**method, "hyperparameters": run.hyperparameters.identity(), "seed": run.spec.seed}
    if not run.method.trains:
        return identity
    identity = {
        **identity,
        "backend": BACKEND_VERSION,
        "training": run.training.model_dump(),
        "setting": run.spec.setting.name,
        "corpora": [sources.fingerprint(sources.corpus(name, run)) for name in run.corpora(sources.profile)],
        "features": {
            role: _feature_identity(run, sources, wanted) for role, wanted in run.features(sources.profile).items()
        },
        "dev": sources.fingerprint(sources.dev(run.spec.setting)),
    }
    extra = {
        "patches": [sources.fingerprint(source) for source in patch_sources(run, sources).values()],
        "setting_options": dict(run.spec.setting.options),
    }
    return {**identity, **{key: value for key, value in extra.items() if value}}


def lacking(run: Resolved, sources: Sources) -> list[Missing]:
    """Everything absent that a run needs, once each."""
    needed: list[Any] = [sources.encoder(run.spec.encoder)]
    if run.method.trains:
        needed += [sources.corpus(name, run) for name in run.corpora(sources.profile)]
        needed += [item for w in run.features(sources.profile).values() for item in feature_sources(run, sources, w)]
        needed += [sources.dev(run.spec.setting), *patch_sources(run, sources).values()]
    return list(dict.fromkeys(item for source in needed for item in sources.missing(source)))


def teacher_runs(run: Resolved, sources: Sources) -> list[Resolved]:
    """The runs that must be trained before this one, those that they need themselves first."""
    found: dict[RunSpec, Resolved] = {}
    for wanted in run.features(sources.profile).values() if run.method.trains else ():
        for item in feature_sources(run, sources, wanted):
            if isinstance(item, RunTeacher):
                found.update({one.spec: one for one in (*teacher_runs(item.run, sources), item.run)})
    return list(found.values())


def run_teacher(key: str, run: Resolved, sources: Sources) -> RunTeacher:
    """The teacher `run:KEY`, resolved as `run` was. Raises UserError for a run that cannot be."""
    spec = RunSpec.parse(key.removeprefix(RUN))
    if spec == run.spec:
        raise UserError(f"{run.spec} names itself as its teacher; name another run")
    teacher = resolve(sources.profile, spec, run.overrides)
    if teacher.method.trains:
        check_setting(sources.profile, spec.setting)
    why = impossible(sources.profile, teacher.method, spec.setting)
    if why:
        raise UserError(f"the teacher {key} cannot be trained: {why}")
    return RunTeacher(teacher, sources)


def feature_sources(run: Resolved, sources: Sources, wanted: Feature) -> list[Source]:
    """What the features depend on, beside the corpora themselves."""
    pairs = [name for name in run.corpora(sources.profile) if sources.corpora[name].stream == "pairs"]
    return [item for corpus in pairs for item in _of_corpus(run, sources, wanted, corpus)]


def patch_sources(run: Resolved, sources: Sources) -> dict[str, Source]:
    """The pretrained patch embeddings of the streams that have one."""
    own = run.method.own_steps(run.hyperparameters)
    named = {stream: steps.patches.pretrained for stream, steps in own.items()}
    return {stream: sources.patches(name) for stream, name in named.items() if name and fresh_size(name) is None}


def _of_corpus(run: Resolved, sources: Sources, wanted: Feature, corpus: str) -> Iterator[Source]:
    teacher = str(sources.profile.images) if wanted.teacher in SCRAMBLED else wanted.teacher
    stored = sources.corpora[corpus].stored
    if teacher.startswith(RUN):
        yield run_teacher(teacher, run, sources)
    elif wanted.of == "image" and teacher in stored:
        yield stored[teacher]
    else:
        source = sources.teacher(teacher, wanted.of)
        yield source
        pixels = sources.corpora[corpus].pixels
        if wanted.of == "image" and pixels is not None and not isinstance(source, LitTeacher):
            yield pixels
        if isinstance(source, LitTeacher):
            for place in (corpus, source.corpus):
                yield sources.corpora[place]
                for part in source.parts:
                    yield from _of_corpus(run, sources, part, place)


def _feature_identity(run: Resolved, sources: Sources, wanted: Feature) -> list[Any]:
    found = [sources.fingerprint(item) for item in feature_sources(run, sources, wanted)]
    return [wanted.teacher, found] if wanted.of == "image" else [wanted.teacher, found, wanted.of]
