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
from harness.encoders.poolings import pooling_named
from harness.encoders.student import SentenceModules, Student
from harness.errors import UserError, first_line
from harness.evaluation.suites import Suite
from harness.fetching.repositories import find_or_make, upload
from harness.files import (
    ABANDONED_S,
    expand,
    fill_folder,
    remove_leftovers,
    temporary_beside,
    write_text,
)
from harness.formatting import count_of, fixed, for_markdown
from harness.method import Method, method_named
from harness.metrics import AVERAGE, Metric, Score
from harness.papers.citing import entry, works_of
from harness.planning.inventory import Inventory
from harness.planning.names import find_result
from harness.registry import get_class
from harness.reporting.pages import environment
from harness.reporting.seeds.summary import SummaryTable, summary_tables
from harness.reporting.tables.grids import ABSENT, cell_text
from harness.runs.finished import FinishedRun
from harness.sources import data_root
from harness.spec import canonical
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
        return ABSENT if self.own is None else fixed(self.own, self.metric.digits)


def make_model_card(result: Result, facts: ModelFacts, seeds: Sequence[Result]) -> str:
    """The text of README.md for the exported model of a run.

    `seeds` are the results of all seeds of the run's experiment. Texts from results and profiles
    are escaped.
    """
    scores = [
        score
        for table in summary_tables(seeds, metrics_of([result]))
        for score in _list_card_scores(result, table)
    ]
    method = method_named(result.spec.variant.name)
    reading = result.spec.variant.reading
    values = result.hyperparameters
    without = [term for term in str(values["method"].get("without", "")).split("+") if term]
    hyperparameters = [
        (part, *item) for part in ("method", "training") for item in values[part].items()
    ]
    template = environment(finalize=_escape_value, keep_trailing_newline=True).get_template(
        "card.md"
    )
    body = template.render(
        result=result,
        facts=facts,
        pooling=Markup(
            pooling_named(facts.pooling).code
            or f"# then pool as '{facts.pooling}' of its package does"
        ),
        method=method,
        reading=(reading, method.readings[reading]),
        terms=[term for term in method.terms if term not in without],
        left_out=without,
        values=[
            (part, name, canonical(value))
            for part, name, value in hyperparameters
            if value not in ("", None)
        ],
        overrides=[f"{name}={canonical(value)}" for name, value in result.overrides.items()],
        packages=[f"{name} {version}" for name, version in result.packages.items()],
        name=make_display_name(result),
        bibtex=Markup("\n\n".join(entry(key) for key in works_of(method.name))),
        scores=scores,
        smaller=list(
            dict.fromkeys(
                score.metric.name for score in scores if not score.metric.larger_is_better
            )
        ),
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
    return for_markdown(
        ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    )


def _list_card_scores(result: Result, table: SummaryTable) -> Iterator[CardScore]:
    """The run's scores in the metrics that a suite's table shows."""
    (row,) = table.rows
    evaluation = result.latest(table.suite)
    for column in table.columns:
        metric = table.metric(column)
        cell = row.cells.get(column)
        own = evaluation.scores.get(column.task, {}).get(column.metric) if evaluation else None
        seeds = cell.summary.n if cell else 0
        text = str(cell_text(cell, metric.digits, seeds))
        yield CardScore(Score(table.suite, *column), metric, own, text, seeds)


def _make_front_matter(
    result: Result, facts: ModelFacts, method: type[Method], scores: Sequence[CardScore]
) -> str:
    """The YAML block, with this run's own scores of single tasks.

    The licence is that of the encoder where its card states one; the weights inherit the terms of
    the data too.
    """
    from huggingface_hub import EvalResult, ModelCardData

    library = "sentence-transformers" if facts.modules else "transformers"
    evaluated = [
        EvalResult(
            task_type=task_type,
            dataset_type=score.task,
            dataset_name=score.task,
            metric_type=metric.name,
            metric_name=metric.title,
            metric_value=round(own, 4),
        )
        for score, metric, own, _, _ in scores
        if own is not None and score.task != AVERAGE and (task_type := _find_hub_task(score.suite))
    ]
    data = ModelCardData(
        language=facts.language,
        license=facts.licence or "unknown",
        library_name=library,
        pipeline_tag="sentence-similarity" if facts.modules else "feature-extraction",
        tags=[
            library,
            "feature-extraction",
            "sentence-similarity",
            *([method.name] if method.trains else []),
        ],
        base_model=facts.base_model,
        model_name=make_display_name(result) if evaluated else None,
        pooling=facts.pooling,
        eval_results=evaluated or None,
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
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
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
    fresh = temporary_beside(folder)
    remove_leftovers(folder.parent, f".{escape(folder.name)}.*.tmp", ABANDONED_S)
    try:
        fill_folder(fresh, fill)
        try:
            fresh.replace(folder)
        except OSError:
            shutil.rmtree(fresh, ignore_errors=True)
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
    if held := remote.names - {".gitattributes"}:
        raise UserError(
            f"{repository} has {count_of(len(held), 'file')} already; give a new repository"
        )
    files = {
        path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()
    }
    return upload(remote, files, f"Add {run}")


def find_siblings(result: Result, store: Store) -> tuple[list[Result], list[str]]:
    """The result, then those that differ from it by seed alone, and one line for each unusable one."""
    stored, problems = store.seeds(result.profile, result.spec)
    others = (each for each in stored if each.fingerprint != result.fingerprint)
    same = [
        each for each in others if each.group == result.group and each.overrides == result.overrides
    ]
    return [result, *same], problems


def collect_facts(run: FinishedRun, student: Student) -> ModelFacts:
    """The facts on the card that the result does not contain."""
    profile = run.profile
    resolved = run.resolved
    name = run.result.spec.encoder
    table = profile.encoders.get(name)
    trains = resolved.trains
    corpora = {corpus: profile.corpora[corpus] for corpus in resolved.streams} if trains else {}
    teachers = {
        role: (use, profile.teachers.get(use.teacher)) for role, use in run.result.teachers.items()
    }
    return ModelFacts(
        pooling=run.pooling,
        modules=student.pooling.switch is not None,
        width=student.width,
        longest=student.longest,
        encoder=f"{name} (in the profile: {table.origin})" if table else name,
        base_model=table.hub if table else name if "/" in name else None,
        licence=_read_licence(run),
        language="en" if profile.origin == "package" else None,
        setting=profile.settings[resolved.spec.setting.name].description if trains else "",
        corpora={
            corpus: ", ".join(
                str(part) for part in (source.kind, source.options.get("file")) if part
            )
            for corpus, source in corpora.items()
        },
        teachers={
            role: f"{use.teacher} ({use.of})"
            + (f", {source.kind}: {source.origin}" if source else "")
            for role, (use, source) in teachers.items()
        },
    )


def _read_licence(run: FinishedRun) -> str | None:
    """The licence stated by the model card in the encoder's folder; None if unknown."""
    from huggingface_hub import metadata_load

    name = run.result.spec.encoder
    given = run.given_encoder
    try:
        folder = given or Inventory(run.profile, data_root(), {}).encoder(name).source.path()
        stated = (metadata_load(folder / "README.md") or {}).get("license")
    except (UserError, OSError, ValueError, YAMLError):
        return None
    return (
        stated
        if isinstance(stated, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*", stated)
        else None
    )
