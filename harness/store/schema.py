"""The records of a result file and of a failure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    PlainValidator,
    model_validator,
)

from harness.census import InputCensus
from harness.metrics import NO_SCORE, Metric
from harness.sources import digest
from harness.spec import (
    LATER_VALUES,
    NAMES,
    FeatureKind,
    OptionValue,
    RunSpec,
    settle_compile,
)

SCHEMA_VERSION: Final = 8
#: the schema of a record; those of 3 to 7 are read as they are, since later fields have defaults
SchemaVersion = Annotated[
    Literal[8], BeforeValidator(lambda version: 8 if version in (3, 4, 5, 6, 7) else version)
]
#: Increased when the same configuration would give other numbers: the loop, the batching, the
#: seeds, the optimizer.
BACKEND_VERSION: Final = 3

#: a number whose squares and their sums are finite too
Number = Annotated[float, Field(ge=-1e60, le=1e60)]
#: a seed, a step or a version
Whole = Annotated[int, Field(ge=0, le=10**15)]
#: where a run's profile was read from
ProfileOrigin = Literal["package", "file"]
#: task -> metric -> value
ScoresByTask = dict[str, dict[str, Number]]
#: task -> part -> metric -> value
ScoresByPart = dict[str, dict[str, dict[str, Number]]]


class Record(BaseModel):
    """Base of all records: immutable, finite numbers only, unknown keys refused.

    Every command that reads results can show all records admitted here:
    `tests/store/test_admitted.py`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


def _read_run(value: object) -> RunSpec:
    """Read the names of a run, as `RunSpec.names` gives them. Raises ValueError for any others."""
    if isinstance(value, RunSpec):
        return value

    names: dict[str, object] = value if isinstance(value, dict) else {}
    # without the method, which the variant names
    path = "/".join(str(names.get(name)) for name in NAMES[1:-1])
    run = RunSpec.parse(f"{path}/seed-{names.get('seed')}")
    if run.names != value:
        raise ValueError(f"these are not the names of the run {run}")
    return run


#: which run it was
Run = Annotated[RunSpec, PlainValidator(_read_run), PlainSerializer(lambda run: run.names)]


class DevCurve(Record):
    """Dev score every `eval_every` steps; empty for a method that does not train."""

    task: str
    metric: str
    steps: list[Whole]
    scores: list[Number]
    best_step: Whole | None
    best_score: Number | None

    @model_validator(mode="after")
    def _check_scores_by_step(self) -> Self:
        has_best_step = self.best_step is not None
        has_best_score = self.best_score is not None
        if len(self.scores) != len(self.steps) or has_best_step != has_best_score:
            raise ValueError("each step has one score, and the best step has the best score")
        return self


class LossCurves(Record):
    """Mean of each unweighted loss term since the previous point; None where the term did not
    occur.
    """

    steps: list[Whole]
    terms: dict[str, list[Number | None]]

    @model_validator(mode="after")
    def _check_terms_by_step(self) -> Self:
        for name, values in self.terms.items():
            if len(values) != len(self.steps):
                raise ValueError(f"{name} has {len(values)} values for {len(self.steps)} steps")
        return self


class GradientPoint(Record):
    """Each term's share of the gradient and its cosine with the whole
    (`harness.training.gradients`), if defined.
    """

    step: Whole
    shares: dict[str, Number | None]
    cosines: dict[str, Number | None]


@dataclass(frozen=True)
class Measure:
    """A number that runs measure, as frames, tables, pages, CSV files and documents show it.

    `title` heads it, with its unit; a row of several runs shows the median of what is `spent`. A
    `counted` number grows with the steps, so that frames have its part up to the weights that are
    scored too.
    """

    title: str
    meaning: str
    counted: bool = False
    spent: bool = True


class Budget(Record):
    """What a training has read, repeated rows counted, and computed (`harness.encoders.flops`).

    Rows of the other modality are recordings, images, and those of captions if the method reads
    features of images. `flops` is None where an earlier version has begun the training. Each field
    is a measure of runs, which is shown wherever those are.
    """

    steps: Annotated[
        Whole,
        Measure("steps", "steps of the training; missing for an untrained encoder", counted=True),
    ]
    text_rows: Annotated[
        Whole,
        Measure(
            "rows of text",
            "rows of text that the training read, repeated ones counted; missing in results of schema 4",
            counted=True,
        ),
    ]
    other_rows: Annotated[
        Whole,
        Measure(
            "rows of images or audio",
            "images or recordings that it read, repeated ones counted; missing in results of schema 4",
            counted=True,
        ),
    ]
    flops: Annotated[
        Number | None,
        Measure(
            "FLOPs",
            "operations of the encoder in training, counted by formula; missing in results of schema 4",
            counted=True,
        ),
    ]


def _list_measures(record: type[Record]) -> dict[str, Measure]:
    """The measures among the fields of a record, by name."""
    measures = {}
    for name, field in record.model_fields.items():
        for note in field.metadata:
            if isinstance(note, Measure):
                measures[name] = note
    return measures


#: what runs measure: column of frames -> its words, in the order of tables
MEASURES: Final[Mapping[str, Measure]] = {
    "last_dev": Measure("last dev score", "dev score at the last step", spent=False),
    **_list_measures(Budget),
    "peak_memory_mb": Measure(
        "peak MB", "most memory in use, in MB: of the GPU, or of the process"
    ),
    "minutes": Measure(
        "minutes (this machine)", "training time in minutes, of this machine and its load"
    ),
}
#: the measures that grow with the steps
COUNTED: Final = tuple(name for name, measure in MEASURES.items() if measure.counted)


class Protocol(Record):
    """How a suite was scored.

    `data` is the suite's fingerprint: a hash of its name, its version, its options and the contents
    of its tasks. `metrics` are the suite's own, the main one first.
    """

    version: Whole
    data: str
    metrics: tuple[Metric, ...] = ()

    @cached_property
    def key(self) -> str:
        """Short identity of the protocol within its suite: 12 hex digits, independent of how
        metrics are shown.
        """
        return digest(self.version, self.data)[:12]


class Evaluation(Record):
    """The scores of one suite under one protocol.

    `scores[task][metric]` are for whole tasks, with their plain mean as the task 'Avg';
    correlations are x 100. `parts[task][part][metric]` are for subsets of a task. `seconds` is wall
    time.
    """

    suite: str
    protocol: Protocol
    scores: ScoresByTask
    parts: ScoresByPart = {}
    seconds: Number = 0.0
    warnings: list[str] = []
    finished: str

    @property
    def key(self) -> tuple[str, str]:
        """Suite and protocol key; a result holds at most one evaluation of each."""
        return self.suite, self.protocol.key


class TeacherUse(Record):
    """A teacher of a run (a name of the profile, a control, or `run:KEY`), and what its features
    describe.

    `of` is 'model' for a frozen model beside the student. `source` is the origin of the features,
    such as a file of published features, or the hub's model and commit; empty in older results.
    `fitted_on` says what a teacher that the harness fits was made from; empty for others, and in
    older results.
    """

    teacher: str
    of: FeatureKind
    source: str = ""
    fitted_on: str = ""


class EncoderTrial(Record):
    """What a trial of the run's encoder found on a CPU, before the run.

    `rows` is how batches pass it: without padding ("packed"), with it, or rows of equal length
    together, because its vectors depend on padding. `types` are the token types of a sentence's
    first token, of those within, and of its last. Sentences of tests are cut at `longest` tokens.
    The others are differences relative to the largest value: of a sentence's vector `alone` and in
    a batch (rounding), of vectors of sentences with another `first_word` or `last_word`, and of two
    `views` of a sentence in training (0 without dropout).
    """

    rows: Literal["packed", "padded", "equal lengths"]
    types: tuple[int, int, int]
    longest: Whole
    alone: Number
    first_word: Number
    last_word: Number
    views: Number


def complete_training_values(hyperparameters: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The training values of recorded hyperparameters, with those that were added later.

    Empty for a method that does not train.
    """
    recorded = hyperparameters.get("training")
    if not recorded:
        return {}
    return {**LATER_VALUES, **settle_compile(recorded)}


class BatchMixing(Record):
    """Which steps of a training that mixes text with pairs read pairs: step k of an epoch if k mod
    `cycle` is `place`; 1 and 0 where all its steps read one stream.

    `common` says whether methods without a rule of their own would read the same batches, at this
    run's numbers of batches.
    """

    cycle: Whole
    place: Whole
    common: bool


class Session(Record):
    """A process that worked on a run: when it started, on which host and hardware, and with which
    software.
    """

    started: str
    host: str
    hardware: dict[str, JsonValue]
    packages: dict[str, str]
    revision: str | None


class Result(Record):
    """A finished run.

    `fingerprint` identifies the training: two results share it only if everything that can change
    the weights is equal. Results share a `group` only if their trainings differ by seed alone. A
    result's file ends with a digest of itself (`harness.files`), which is no part of the record.
    `backend` is the version of the training code (missing in the oldest files); `train_seconds` is
    wall time; `warnings` are those of training. `identity` holds the values, by name, that the
    fingerprint is a hash of (empty in older files): a comparison shows why two runs have different
    fingerprints. `gradients` are by stream: of the last batch up to each dev score. `sessions` are
    the processes that made it, the first one first; `hardware`, `packages` and `revision` are of
    the last. `parameters` is how many numbers were trained. It, `trial`, `gradients`, `budget`,
    `mixing` and `sessions` are missing in older files.
    """

    schema_version: SchemaVersion = SCHEMA_VERSION
    backend: Whole = 1
    spec: Run
    profile: str
    profile_origin: ProfileOrigin
    overrides: dict[str, OptionValue]
    fingerprint: str
    group: str
    hyperparameters: dict[str, dict[str, JsonValue]]
    teachers: dict[str, TeacherUse]
    evaluations: list[Evaluation]
    dev: DevCurve
    losses: LossCurves
    train_seconds: Number
    peak_memory_mb: Number
    hardware: dict[str, JsonValue]
    packages: dict[str, str]
    revision: str | None
    started: str
    finished: str
    warnings: list[str]
    identity: dict[str, JsonValue] = {}
    trial: EncoderTrial | None = None
    gradients: dict[str, list[GradientPoint]] = {}
    budget: Budget | None = None
    parameters: Whole | None = None
    mixing: BatchMixing | None = None
    inputs: list[InputCensus] = []
    sessions: list[Session] = []

    @property
    def training(self) -> dict[str, JsonValue]:
        """The values of the training, with those that were added later; empty without training."""
        return complete_training_values(self.hyperparameters)

    @property
    def shares(self) -> dict[str, float]:
        """The largest share of the gradient that each term had in a batch."""
        largest: dict[str, float] = {}
        for points in self.gradients.values():
            for point in points:
                for term, share in point.shares.items():
                    largest[term] = max(largest.get(term, 0.0), share or 0.0)
        return largest

    @property
    def current(self) -> list[Evaluation]:
        """The newest evaluation of each suite."""
        return list({evaluation.suite: evaluation for evaluation in self.evaluations}.values())

    def latest(self, suite: str) -> Evaluation | None:
        """The newest evaluation of one suite; None where it was not evaluated."""
        for evaluation in reversed(self.evaluations):
            if evaluation.suite == suite:
                return evaluation
        return None

    def has_evaluation(self, suite: str, protocol: Protocol) -> bool:
        return any(evaluation.key == (suite, protocol.key) for evaluation in self.evaluations)

    @property
    def suites(self) -> list[str]:
        return list(dict.fromkeys(evaluation.suite for evaluation in self.evaluations))

    @property
    def seconds(self) -> float:
        """Wall time of training and of all evaluations."""
        return self.train_seconds + sum(evaluation.seconds for evaluation in self.evaluations)

    @property
    def all_warnings(self) -> list[str]:
        warnings = list(self.warnings)
        for evaluation in self.evaluations:
            warnings += evaluation.warnings
        return warnings

    def merge(self, newer: Result) -> Result:
        """This result with the evaluations that only `newer`, a result of the same training, has."""
        own_keys = {evaluation.key for evaluation in self.evaluations}
        evaluations = list(self.evaluations)
        evaluations += (entry for entry in newer.evaluations if entry.key not in own_keys)
        sessions = list(self.sessions)
        # a session without an evaluation of its own has made nothing
        if len(evaluations) > len(self.evaluations):
            sessions += (session for session in newer.sessions if session not in self.sessions)
        return self.model_copy(update={"evaluations": evaluations, "sessions": sessions})


def find_differences(first: Result, second: Result) -> list[str]:
    """In what both results of one training hold but not alike: suites under one protocol, and "dev
    scores".
    """
    evaluations = {evaluation.key: evaluation for evaluation in first.evaluations}
    differences = dict[str, None]()
    for evaluation in second.evaluations:
        counterpart = evaluations.get(evaluation.key, evaluation)
        if (counterpart.scores, counterpart.parts) != (evaluation.scores, evaluation.parts):
            differences[evaluation.suite] = None

    if first.dev.scores != second.dev.scores:
        differences["dev scores"] = None
    return list(differences)


class Failure(Record):
    """The last failure of a run. Failures are listed, and never part of tables."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    spec: Run
    profile: str
    fingerprint: str
    error: str
    traceback: str
    when: str

    def concerns(self, profile: str, spec: RunSpec, fingerprint: str) -> bool:
        return (self.profile, self.spec, self.fingerprint) == (profile, spec, fingerprint)


def describe_unscored_tasks(suite: str, warnings: Iterable[str]) -> str:
    """The tasks of a suite without a score, from the warnings of an evaluation: `no score of STS12,
    STS13: REASON`.
    """
    tasks_by_reason: dict[str, list[str]] = {}
    for line in warnings:
        task, mark, reason = line.removeprefix(f"{suite}: ").partition(f": {NO_SCORE}: ")
        if mark:
            tasks_by_reason.setdefault(reason, []).append(task)

    texts = [
        f"{NO_SCORE} of {', '.join(tasks)}: {reason}" for reason, tasks in tasks_by_reason.items()
    ]
    return "; ".join(texts)
