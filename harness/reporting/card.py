"""The model card of an exported run: front matter for the hub, and what users of the model should know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from harness import __version__
from harness.errors import UserError
from harness.evaluation.suites import Suite
from harness.formatting import count_of, fixed, for_markdown
from harness.method import Method, method_named
from harness.metrics import AVERAGE, Metric, Score
from harness.papers.citing import entry, works_of
from harness.registry import get_class
from harness.reporting.pages import environment
from harness.reporting.seeds.summary import SummaryTable, summary_tables
from harness.reporting.tables.grids import ABSENT, cell_text
from harness.spec import Variant, canonical
from harness.store import Result, metrics_of

if TYPE_CHECKING:
    import pandas


class Provenance(NamedTuple):
    """A corpus or teacher: its name or role, and what it is."""

    name: str
    what: str


@dataclass(frozen=True)
class ModelFacts:
    """Facts of an exported model that its result file does not hold.

    `modules` says whether sentence-transformers can load it. `width` is the dimension of a vector, `longest` the number
    of tokens that are read. `base_model` is the encoder's name on the hub, `licence` what its own card states, and
    `language` an ISO 639 code; None if they are unknown.
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
    corpora: tuple[Provenance, ...] = ()
    teachers: tuple[Provenance, ...] = ()


class CardScore(NamedTuple):
    """A score of this run, and mean and deviation over the seeds of its experiment; None without the score."""

    score: Score
    metric: Metric
    own: float | None
    over_seeds: str
    seeds: int

    @property
    def text(self) -> str:
        """This run's score, rounded."""
        return ABSENT if self.own is None else fixed(self.own, self.metric.digits)


def model_card(result: Result, facts: ModelFacts, frame: pandas.DataFrame) -> str:
    """The text of README.md for the exported model of a run.

    `frame` is the frame of scores of all seeds of the run's experiment. Texts from results and profiles are escaped.
    """
    scores = [score for table in summary_tables(frame, metrics_of([result])) for score in _scores(result, table)]
    method = method_named(result.spec.method)
    reading = Variant.parse(result.spec.variant).reading
    values = result.hyperparameters
    without = [term for term in str(values["method"].get("without", "")).split("+") if term]
    hyperparameters = [(part, *item) for part in ("method", "training") for item in values[part].items()]
    template = environment(finalize=_shown, keep_trailing_newline=True).get_template("card.md")
    body = template.render(
        result=result,
        facts=facts,
        method=method,
        reading=(reading, method.readings[reading]),
        terms=[term for term in method.terms if term not in without],
        left_out=without,
        values=[(part, name, canonical(value)) for part, name, value in hyperparameters if value not in ("", None)],
        overrides=[f"{name}={canonical(value)}" for name, value in result.overrides.items()],
        packages=[f"{name} {version}" for name, version in result.packages.items()],
        name=display_name(result),
        bibtex=_Verbatim("\n\n".join(entry(key) for key in works_of(result.spec.method))),
        scores=scores,
        smaller=list(dict.fromkeys(score.metric.name for score in scores if not score.metric.larger_is_better)),
        seeds=count_of(frame["seed"].nunique(), "seed"),
        version=__version__,
    )
    return f"---\n{_front_matter(result, facts, method, scores)}\n---\n\n{body}"


def display_name(result: Result) -> str:
    """What the model is called on its card."""
    spec = result.spec
    if not result.hyperparameters["training"]:
        return f"{spec.encoder}, pooling {result.hyperparameters['encoder']['pooling']}"
    return f"{spec.encoder} trained by {spec.variant} on {spec.setting}, seed {spec.seed}"


class _Verbatim(str):
    """A text of this project, which needs no escapes."""


def _shown(value: object) -> str:
    """What a template prints: escaped, with lists joined by commas."""
    if isinstance(value, _Verbatim):
        return value
    return for_markdown(", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value))


def _scores(result: Result, table: SummaryTable) -> Iterator[CardScore]:
    """The run's scores in the metrics that a suite's table shows."""
    (row,) = table.rows
    evaluation = result.latest(table.suite)
    for column in table.columns:
        metric, cell = table.metric(column), row.cells.get(column)
        own = evaluation.scores.get(column.task, {}).get(column.metric) if evaluation else None
        seeds = cell.summary.n if cell else 0
        text = str(cell_text(cell, metric.digits, seeds))
        yield CardScore(Score(table.suite, *column), metric, own, text, seeds)


def _front_matter(result: Result, facts: ModelFacts, method: type[Method], scores: Sequence[CardScore]) -> str:
    """The YAML block, with this run's own scores of single tasks.

    The licence is that of the encoder where its card states one; the weights inherit the terms of the data too.
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
        if own is not None and score.task != AVERAGE and (task_type := _hub_task(score.suite))
    ]
    data = ModelCardData(
        language=facts.language,
        license=facts.licence or "unknown",
        library_name=library,
        pipeline_tag="sentence-similarity" if facts.modules else "feature-extraction",
        tags=[library, "feature-extraction", "sentence-similarity", *([result.spec.method] if method.trains else [])],
        base_model=facts.base_model,
        model_name=display_name(result) if evaluated else None,
        pooling=facts.pooling,
        eval_results=evaluated or None,
    )
    return data.to_yaml()


def _hub_task(suite: str) -> str:
    """The hub's type of a suite's tasks; empty if it has none or is no longer installed."""
    try:
        return get_class("suite", suite, Suite).hub_task
    except UserError:
        return ""
