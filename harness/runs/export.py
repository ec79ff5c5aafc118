"""A finished run as a folder that transformers and sentence-transformers load, with its model card.

The card has front matter for the hub and what users of the model should know. New folders are
written completely or not at all.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from glob import escape
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup
from safetensors import SafetensorError
from yaml import YAMLError

from harness import __version__
from harness.encoders.poolings import get_pooling
from harness.encoders.sentence_modules import SentenceModules
from harness.encoders.student import Student
from harness.errors import UserError, first_line
from harness.evaluation.suites import Suite
from harness.fetching.repositories import find_or_make, upload
from harness.files import (
    ABANDONED_S,
    expand,
    fill_folder,
    make_temporary_path,
    remove_leftovers,
    write_text,
)
from harness.formatting import count_of, fixed, for_markdown
from harness.method import Method, method_named
from harness.metrics import AVERAGE, Metric, Score
from harness.papers.citing import find_works, make_entry
from harness.planning.inventory import Inventory
from harness.planning.names import find_result
from harness.registry import get_class
from harness.reporting.pages import make_environment
from harness.reporting.seeds.summary import SummaryTable, make_summary_tables
from harness.reporting.tables.grids import ABSENT, format_cell
from harness.runs.finished import FinishedRun
from harness.sources import resolve_data_root
from harness.spec import write_canonical
from harness.store import Result, Store, metrics_of


@dataclass(frozen=True)
class ModelFacts:
    """Facts of an exported model that its result file does not hold.

    `modules` says whether sentence-transformers can load it. `width` is the dimension of a vector,
    `longest` the number of tokens that are read. `base_model` is the encoder's name on the hub,
    `licence` what its own card states, and `language` an ISO 639 code; None if they are unknown.
    `corpora` and `teachers` say what each is, by name or role.
    """

    pooling: str
    modules: bool
    width: int
    longest: int
    encoder: str
    base_model: str | None = None
    licence: str | None = None
    language: str | None = None
    setting: str = ""
    corpora: Mapping[str, str] = field(default_factory=dict)
    teachers: Mapping[str, str] = field(default_factory=dict)


class CardScore(NamedTuple):
    """A score of this run, and mean and deviation over the seeds of its experiment; None without
    the score.
    """

    score: Score
    metric: Metric
    own: float | None
    over_seeds: str
    seeds: int

    @property
    def text(self) -> str:
        if self.own is None:
            return ABSENT
        return fixed(self.own, self.metric.digits)


def make_model_card(result: Result, facts: ModelFacts, seeds: Sequence[Result]) -> str:
    """The text of README.md for the exported model of a run.

    `seeds` are the results of all seeds of the run's experiment. Texts from results and profiles
    are escaped.
    """
    scores = list[CardScore]()
    for table in make_summary_tables(seeds, metrics_of([result])):
        scores += _list_card_scores(result, table)
    smaller_is_better = dict[str, None]()
    for score in scores:
        if not score.metric.larger_is_better:
            smaller_is_better[score.metric.name] = None

    method = method_named(result.spec.variant.name)
    reading = result.spec.variant.reading
    hyperparameters = result.hyperparameters
    left_out = str(hyperparameters["method"].get("without", "")).split("+")
    values = []
    for part in ("method", "training"):
        for name, value in hyperparameters[part].items():
            if value not in ("", None):
                values.append((part, name, write_canonical(value)))

    pooling_code = get_pooling(facts.pooling).code
    template = make_environment(finalize=_escape_value, keep_trailing_newline=True).get_template(
        "card.md"
    )
    body = template.render(
        result=result,
        facts=facts,
        pooling=Markup(pooling_code or f"# then pool as '{facts.pooling}' of its package does"),
        method=method,
        reading=(reading, method.readings[reading]),
        terms=[term for term in method.terms if term not in left_out],
        left_out=[term for term in left_out if term],
        values=values,
        overrides=[f"{name}={write_canonical(value)}" for name, value in result.overrides.items()],
        packages=[f"{name} {version}" for name, version in result.packages.items()],
        name=make_display_name(result),
        bibtex=Markup("\n\n".join(map(make_entry, find_works(method.name)))),
        scores=scores,
        smaller=list(smaller_is_better),
        seeds=count_of(len({run.spec.seed for run in seeds}), "seed"),
        version=__version__,
    )
    return f"---\n{_make_front_matter(result, facts, method, scores)}\n---\n\n{body}"


def make_display_name(result: Result) -> str:
    """What the model is called on its card."""
    spec = result.spec
    if not result.hyperparameters["training"]:
        return f"{spec.encoder}, pooling {result.hyperparameters['encoder']['pooling']}"
    return f"{spec.encoder} trained by {spec.variant} on {spec.setting}, seed {spec.seed}"


def _escape_value(value: object) -> str:
    """A value as templates print it: escaped, with lists joined by commas; markup is text of this
    project.
    """
    if isinstance(value, Markup):
        return value
    if isinstance(value, list | tuple):
        return for_markdown(", ".join(map(str, value)))
    return for_markdown(str(value))


def _list_card_scores(result: Result, table: SummaryTable) -> Iterator[CardScore]:
    """The run's scores in the metrics that a suite's table shows."""
    (row,) = table.rows
    evaluation = result.latest(table.suite)
    scores = evaluation.scores if evaluation else {}
    for column in table.columns:
        metric = table.metric(column)
        own_score = scores.get(column.task, {}).get(column.metric)
        cell = row.cells.get(column)
        seeds = cell.summary.n if cell else 0
        over_seeds = str(format_cell(cell, metric.digits, seeds))
        yield CardScore(Score(table.suite, *column), metric, own_score, over_seeds, seeds)


def _make_front_matter(
    result: Result, facts: ModelFacts, method: type[Method], scores: Sequence[CardScore]
) -> str:
    """The YAML block, with this run's own scores of single tasks.

    The licence is that of the encoder where its card states one; the weights inherit the terms of
    the data too.
    """
    from huggingface_hub import EvalResult, ModelCardData

    eval_results = []
    for score, metric, own_score, _, _ in scores:
        task_type = _find_hub_task(score.suite)
        if own_score is None or score.task == AVERAGE or not task_type:
            continue

        eval_results.append(
            EvalResult(
                task_type=task_type,
                dataset_type=score.task,
                dataset_name=score.task,
                metric_type=metric.name,
                metric_name=metric.title,
                metric_value=round(own_score, 4),
            )
        )

    library = "sentence-transformers" if facts.modules else "transformers"
    tags = [library, "feature-extraction", "sentence-similarity"]
    if method.trains:
        tags.append(method.name)
    data = ModelCardData(
        language=facts.language,
        license=facts.licence or "unknown",
        library_name=library,
        pipeline_tag="sentence-similarity" if facts.modules else "feature-extraction",
        tags=tags,
        base_model=facts.base_model,
        model_name=make_display_name(result) if eval_results else None,
        pooling=facts.pooling,
        eval_results=eval_results or None,
    )
    return data.to_yaml()


def _find_hub_task(suite: str) -> str:
    """The hub's type of a suite's tasks; empty if it has none or is no longer installed."""
    try:
        return get_class("suite", suite, Suite).hub_task
    except UserError:
        return ""


def check_new(to: Path, option: str) -> None:
    """Raise UserError where the folder that an option names is neither new nor empty."""
    folder = expand(to).resolve()
    is_empty = folder.is_dir() and not any(folder.iterdir())
    if folder.exists() and not is_empty:
        raise UserError(
            f"{option} {to} exists and is not an empty folder; nothing is overwritten, give another folder"
        )


def write_whole(to: Path, option: str, fill: Callable[[Path], None]) -> Path:
    """Fill a temporary folder and rename it to `to`, which must be empty or missing; on failure,
    remove it.

    What an export to the same folder left when it was killed is removed a day later. Raises
    UserError if `to` cannot be written.
    """
    folder = expand(to).resolve()
    temporary = make_temporary_path(folder)
    remove_leftovers(folder.parent, f".{escape(folder.name)}.*.tmp", ABANDONED_S)
    try:
        fill_folder(temporary, fill)
        try:
            temporary.replace(folder)
        except OSError:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) else first_line(error)
        raise UserError(
            f"{option} {to} cannot be written: {reason}; give another folder"
        ) from error

    return folder


@dataclass(frozen=True)
class Exported:
    """What was written; `modules` says whether sentence-transformers can load it.

    `problems` has one line for each unusable result of another seed, which the card leaves out.
    """

    folder: Path
    result: Result
    modules: bool
    problems: tuple[str, ...]


def export(
    what: str, to: Path, results: Path, profile: str | None = None, encoder: Path | None = None
) -> Exported:
    """Write the best model of a run, with its card, to the new folder `to`, completely or not at
    all.

    `what` is a run's key in the folder `results`, or a result file, whose own folder holds the
    weights; for `profile` and `encoder` see `FinishedRun`. Raises UserError if no result or several
    match, if weights are missing, and if the folder is not empty.
    """
    check_new(to, "--to")
    result, store = find_result(what, results, profile)
    run = FinishedRun(result, store, profile, encoder)
    student = run.load_student()
    if isinstance(student, SentenceModules):
        raise UserError(
            f"{result.spec.key} evaluated a model of sentence-transformers unchanged; copy the folder of that model"
        )

    facts = collect_facts(run, student)
    seeds, problems = find_siblings(result, store)
    card = make_model_card(result, facts, seeds)

    def fill(path: Path) -> None:
        student.save(path)
        write_text(path / "README.md", card)

    return Exported(write_whole(to, "--to", fill), result, facts.modules, tuple(problems))


def push_model(folder: Path, repository: str, run: str) -> str:
    """Upload the files of an exported model to a new private repository of the hub; return the
    commit.

    Raises UserError for a repository that already has files (none is overwritten) or cannot be
    written to.
    """
    remote = find_or_make(repository)
    names = remote.names - {".gitattributes"}
    if names:
        raise UserError(
            f"{repository} has {count_of(len(names), 'file')} already; give a new repository"
        )

    paths = [path for path in folder.rglob("*") if path.is_file()]
    files = {path.relative_to(folder).as_posix(): path for path in paths}
    return upload(remote, files, f"Add {run}")


def find_siblings(result: Result, store: Store) -> tuple[list[Result], list[str]]:
    """The result, then those that differ from it by seed alone, and one line for each unusable one."""
    stored, problems = store.seeds(result.profile, result.spec)
    siblings = [result]
    for run in stored:
        is_same_run = run.fingerprint == result.fingerprint
        if not is_same_run and (run.group, run.overrides) == (result.group, result.overrides):
            siblings.append(run)
    return siblings, problems


def collect_facts(run: FinishedRun, student: Student) -> ModelFacts:
    """The facts on the card that the result does not contain."""
    profile = run.profile
    resolved = run.resolved
    name = run.result.spec.encoder
    declared = profile.encoders.get(name)
    if declared is not None:
        encoder = f"{name} (in the profile: {declared.origin})"
        base_model = declared.hub
    else:
        encoder = name
        base_model = name if "/" in name else None

    setting = ""
    corpora = {}
    if resolved.trains:
        setting = profile.settings[resolved.spec.setting.name].description
        for corpus in resolved.streams:
            source = profile.corpora[corpus]
            parts = (source.kind, source.options.get("file"))
            corpora[corpus] = ", ".join(str(part) for part in parts if part)

    teachers = {}
    for role, use in run.result.teachers.items():
        text = f"{use.teacher} ({use.of})"
        teacher = profile.teachers.get(use.teacher)
        if teacher is not None:
            text += f", {teacher.kind}: {teacher.origin}"
        teachers[role] = text

    return ModelFacts(
        pooling=run.pooling,
        modules=student.pooling.switch is not None,
        width=student.width,
        longest=student.longest,
        encoder=encoder,
        base_model=base_model,
        licence=_read_licence(run),
        language="en" if profile.origin == "package" else None,
        setting=setting,
        corpora=corpora,
        teachers=teachers,
    )


def _read_licence(run: FinishedRun) -> str | None:
    """The licence stated by the model card in the encoder's folder; None if unknown."""
    from huggingface_hub import metadata_load

    try:
        folder = run.given_encoder
        if folder is None:
            inventory = Inventory(run.profile, resolve_data_root(), {})
            folder = inventory.find_encoder(run.result.spec.encoder).source.path()
        licence = (metadata_load(folder / "README.md") or {}).get("license")
    except (UserError, OSError, ValueError, YAMLError):
        return None

    if isinstance(licence, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*", licence):
        return licence
    return None
