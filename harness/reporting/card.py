"""The model card of a run: front matter that the hub reads, and what a person must know to use the model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness import __version__
from harness.encoders.poolings import pooling_named
from harness.formatting import count_of, fixed
from harness.method import Method
from harness.registry import get
from harness.reporting.files.markdown import escape
from harness.reporting.formats import ABSENT, cell_text, digits_of
from harness.reporting.seeds.summary import SummaryTable, summary_tables
from harness.spec import Variant, canonical

if TYPE_CHECKING:
    import pandas
    from huggingface_hub import EvalResult

#: suites whose scores enter the front matter -> the hub's name of their task
_TASKS = {
    "sts": "sentence-similarity",
    "stsb-multi": "sentence-similarity",
    "transfer": "text-classification",
    "mteb": "feature-extraction",
}
#: metric here -> the hub's name of it
_METRICS = {"spearman": "spearmanr", "acc": "accuracy"}
_TAGS = ("feature-extraction", "sentence-similarity")


class Part(NamedTuple):
    """A corpus, a teacher or the like: what it is called, and what or where it is."""

    name: str
    what: str


@dataclass(frozen=True)
class About:
    """What a result file does not say of the model that is exported.

    `pooling` is a registered name, and `modules` says whether sentence-transformers loads the folder; `width` are
    the dimensions of a vector, `longest` the tokens of the longest sequence. `base_model` is the encoder's name on
    the hub and `language` a code of ISO 639, None where they are not known.
    """

    pooling: str
    modules: bool
    width: int
    longest: int
    encoder: str
    base_model: str | None = None
    language: str | None = None
    setting: str = ""
    corpora: tuple[Part, ...] = ()
    teachers: tuple[Part, ...] = ()


class Score(NamedTuple):
    """One metric of one task, in words: this run's own and the one over the seeds of its experiment."""

    suite: str
    task: str
    metric: str
    own: str
    over_seeds: str
    seeds: str


def model_card(result: Any, about: About, frame: pandas.DataFrame) -> str:
    """The text of README.md for the exported model of a result.

    `frame` is `Store.frame()` of the runs of the result's experiment, itself among them. Whatever comes from
    results or profiles is escaped.
    """
    tables = summary_tables(frame)
    method: type[Method] = get("method", result.spec.method)
    variant = Variant.parse(result.spec.variant)
    pooling = pooling_named(about.pooling)
    values = result.hyperparameters
    without = str(values["method"].get("without", "")).split("+")
    environment = Environment(
        loader=FileSystemLoader(str(files("harness_reports") / "templates")),
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    body = environment.get_template("card.md").render(
        result=result,
        about=about,
        pooling=pooling,
        code=Markup(pooling.code or f"# computed by the pooling '{pooling.name}' of the package that registers it"),
        method=method,
        reading=(variant.reading, method.readings[variant.reading]),
        terms=[term for term in method.terms if term not in without],
        left_out=[term for term in without if term],
        values=[
            (part, name, canonical(value))
            for part in ("method", "training")
            for name, value in values[part].items()
            if value not in ("", None)
        ],
        overrides=[f"{name}={canonical(value)}" for name, value in result.overrides.items()],
        packages=[f"{name} {version}" for name, version in result.packages.items()],
        scores=list(_scores(result, tables)),
        seeds=count_of(frame["seed"].nunique(), "seed"),
        version=__version__,
    )
    return f"---\n{_front_matter(result, about, tables)}\n---\n\n{body}"


def _shown(value: Any) -> str:
    """What a template prints: escaped, lists with commas."""
    if isinstance(value, Markup):
        return str(value)
    return escape(", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value))


def _scores(result: Any, tables: Sequence[SummaryTable]) -> Iterator[Score]:
    """The run's scores in the main metrics of its suites."""
    for table in tables:
        (row,) = table.rows
        for column in table.columns:
            own = _own(result, table.suite, column.task, column.metric)
            cell = row.cells.get(column)
            yield Score(
                table.suite,
                column.task,
                column.metric,
                ABSENT if own is None else fixed(own, digits_of(column.metric)),
                str(cell_text(cell, column, cell.summary.n if cell else 0)),
                str(cell.summary.n if cell else 0),
            )


def _own(result: Any, suite: str, task: str, metric: str) -> float | None:
    evaluation = result.latest(suite)
    value: float | None = evaluation.scores.get(task, {}).get(metric) if evaluation else None
    return value


def _front_matter(result: Any, about: About, tables: Sequence[SummaryTable]) -> str:
    """The YAML block. No licence is named but 'unknown': the weights' terms are those of encoder and data."""
    from huggingface_hub import ModelCardData

    library = "sentence-transformers" if about.modules else "transformers"
    scores = list(_eval_results(result, tables))
    data = ModelCardData(
        language=about.language,
        license="unknown",
        library_name=library,
        pipeline_tag="sentence-similarity" if about.modules else "feature-extraction",
        tags=[library, *_TAGS, *([result.spec.method] if get("method", result.spec.method).trains else [])],
        base_model=about.base_model,
        model_name=result.spec.key if scores else None,
        eval_results=scores or None,
    )
    return data.to_yaml()


def _eval_results(result: Any, tables: Sequence[SummaryTable]) -> Iterator[EvalResult]:
    """This run's own scores, averages left out."""
    from huggingface_hub import EvalResult

    for table in tables:
        for task, metric in table.columns:
            value = _own(result, table.suite, task, metric)
            if table.suite not in _TASKS or task == "Avg" or value is None:
                continue
            yield EvalResult(
                task_type=_TASKS[table.suite],
                dataset_type=task,
                dataset_name=task,
                metric_type=_METRICS.get(metric, metric),
                metric_name=f"{metric} x 100" if metric == "spearman" else metric,
                metric_value=round(value, 4),
            )
