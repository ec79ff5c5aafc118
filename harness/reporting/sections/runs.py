"""Runs, failures, the index of runs, and one page, run.html?KEY, that shows a whole result file from KEY.js."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from math import isnan
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.commands import Commands
from harness.formatting import duration, fixed
from harness.metrics import AVERAGE, Metric, is_by_training
from harness.reporting.charts.curves import RunCurve, curve_title, run_curves, run_spec
from harness.reporting.look import plain
from harness.reporting.pages import TEMPLATES, Pages, anchor, numbered, plain_json, slug, slugs
from harness.reporting.sections.base import ReportSection
from harness.reporting.tables.grids import ABSENT
from harness.store import (
    BACKEND_VERSION,
    Frames,
    Result,
    TeacherUse,
    declared_metrics,
    is_earlier,
    lines_of,
    overrides_text,
)

if TYPE_CHECKING:
    import pandas

#: Most lines of a log on a page, half from its start and half from its end.
LOG_LINES = 300
#: The index of more runs than this is split into several pages: one of 5,000 lines has 5 MB.
MOST_LINES = 5000
#: In evaluations with more metrics than this, all but the main ones are folded away.
MOST_COLUMNS = 8
#: Follows the title of a table with parts by training.
BY_TRAINING = "; [seen]: pairs of which training read a sentence, [unseen]: the others"
#: heads of a row -> metric -> score
Rows = Mapping[tuple[str, ...], Mapping[str, float]]


@dataclass(frozen=True)
class ScoreTable:
    """Scores of a suite as text: the heads and cells of each row. `folded` tables are details."""

    title: str
    suite: str
    heads: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    folded: bool = False


class Ran(NamedTuple):
    """The runs of one profile, setting and encoder."""

    profile: str
    setting: str
    encoder: str
    variants: list[str]
    seeds: str
    suites: list[str]
    runs: int


class RunsSection(ReportSection):
    """What ran where, the index of runs, and the page of a run."""

    order = 200
    title = menu = "Runs"
    overview = "overview/runs.html"
    home = "runs/index.html"
    is_shown = True

    @cached_property
    def runs(self) -> pandas.DataFrame:
        return in_order(self.contents.frames)

    @property
    def ran(self) -> Sequence[Ran]:
        return what_ran(self.contents.frames, self.runs)

    def write(self, pages: Pages) -> None:
        frames, runs = self.contents.frames, self.runs
        _write_index(pages, runs, evaluated_of(frames))
        pages.write("run.html", "runs/run.html", curve=run_spec())
        pages.put("runs/run.js", (TEMPLATES / "run.js").read_bytes())
        siblings: dict[tuple[str, str], dict[int, str]] = {}
        for run in lines_of(runs):
            siblings.setdefault((run.profile, run.group), {})[run.seed] = run.page
        for row, page in zip(runs.index.tolist(), runs["page"], strict=True):
            if result := self.contents.result(row):
                shown = {
                    **_content(result, self.contents.log(result), self.contents.commands),
                    "crumbs": _crumbs(result, pages),
                    "seeds": dict(sorted(siblings[result.profile, result.group].items())),
                }
                pages.put(f"runs/{page}.js", f"showRun({plain_json(shown)});\n".encode())


def in_order(frames: Frames) -> pandas.DataFrame:
    """The runs by profile, place and seed, with the name of their `page`; the index is the row in `frames`."""
    order = ["profile", "setting", "encoder", "variant", "overrides", "seed", "finished"]
    texts = frames.runs.assign(key=frames.keys).astype({name: object for name in order if name != "seed"})
    runs = texts.sort_values(order, kind="stable")
    return runs.assign(page=run_names(zip(runs["key"], runs["fingerprint"], strict=True)))


def _crumbs(result: Result, pages: Pages) -> list[tuple[str, str]]:
    method, profile = result.spec.variant.name, result.profile
    return [
        ("Runs", "index.html"),
        (method, f"../methods/{pages.methods[method]}.html"),
        (f"profile {profile}", f"../profiles/{pages.profiles[profile]}.html"),
    ]


class RunLine(NamedTuple):
    """The line of a run in the index: the average of each suite that has one as text, and an earlier `backend`.

    `run` is the run's line of a frame, `best` its best dev score; `seconds` and `warnings` are of training and tests.
    """

    run: Any
    averages: Mapping[str, str]
    backend: int | None
    best: float | None
    seconds: float
    warnings: int


class Evaluated(NamedTuple):
    """An evaluation of a run: its suite, its protocol as JSON, and its average in each metric."""

    suite: str
    declared: str
    seconds: float
    warnings: str
    average: dict[str, float]


def evaluated_of(frames: Frames) -> Mapping[int, Sequence[Evaluated]]:
    """The evaluations of each run with any, by row."""
    evaluations = [frames.evaluations[name] for name in ("suite", "declared", "seconds", "warnings")]
    every = [
        Evaluated(suite, declared, seconds, said, {})
        for suite, declared, seconds, said in zip(*evaluations, strict=True)
    ]
    means = frames.scores[frames.scores["task"] == AVERAGE]
    for at, metric, value in zip(means["evaluation"], means["metric"], means["value"], strict=True):
        every[at].average[metric] = value
    of_run: dict[int, list[Evaluated]] = {}
    for run, evaluated in zip(frames.evaluations["run"], every, strict=True):
        of_run.setdefault(run, []).append(evaluated)
    return of_run


def _by_place(runs: pandas.DataFrame) -> dict[tuple[str, str, str], pandas.DataFrame]:
    """The runs of each profile, setting and encoder."""
    grouped: Iterable[tuple[Any, pandas.DataFrame]] = runs.groupby(["profile", "setting", "encoder"])
    return dict(iter(grouped))


def what_ran(frames: Frames, runs: pandas.DataFrame) -> list[Ran]:
    """The variants, seeds and suites of each profile, setting and encoder, of runs in order."""
    suites: dict[int, list[str]] = {}
    for run, suite in zip(frames.evaluations["run"], frames.evaluations["suite"], strict=True):
        suites.setdefault(run, []).append(suite)
    return [
        Ran(
            *place,
            sorted(some["variant"].unique()),
            spans(some["seed"]),
            list(dict.fromkeys(suite for row in some.index for suite in suites.get(row, ()))),
            len(some),
        )
        for place, some in _by_place(runs).items()
    ]


def spans(seeds: Iterable[int]) -> str:
    """`0–4, 7`."""
    texts: list[str] = []
    for _, group in groupby(enumerate(sorted(set(seeds))), key=lambda pair: pair[1] - pair[0]):
        numbers = [number for _, number in group]
        texts.append(str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}–{numbers[-1]}")
    return ", ".join(texts)


def _write_index(pages: Pages, runs: pandas.DataFrame, evaluated: Mapping[int, Sequence[Evaluated]]) -> None:
    """The index of runs: one page, or one for each profile, setting and encoder."""

    def write(page: str, some: pandas.DataFrame) -> None:
        lines, averages = run_lines(some, evaluated)
        columns = {suite: f"{suite} {metric.name}" for suite, metric in averages.items()}
        pages.write("runs.html", f"runs/{page}.html", lines=lines, columns=columns, places={}, runs=len(some))

    if len(runs) <= MOST_LINES:
        write("index", runs)
        return
    by_place = _by_place(runs)
    stems = slugs("/".join(place) for place in by_place)
    places = {f"index-{stems['/'.join(place)]}": (*place, len(some)) for place, some in by_place.items()}
    pages.write("runs.html", "runs/index.html", lines=[], columns={}, places=places, runs=len(runs))
    for page, some in zip(places, by_place.values(), strict=True):
        write(page, some)


def run_lines(
    runs: pandas.DataFrame, evaluated: Mapping[int, Sequence[Evaluated]]
) -> tuple[list[RunLine], dict[str, Metric]]:
    """The lines of runs, and for each suite the metric whose average is shown.

    This is the first metric with an average, in the first run that has any average in the suite.
    """
    shown: dict[str, Metric] = {}
    lines = []
    for run in lines_of(runs):
        mine, averages = evaluated.get(run.Index, ()), {}
        for each in {each.suite: each for each in mine}.values():
            if each.suite not in shown and each.average:
                shown[each.suite] = _columns(declared_metrics(each.declared), {(AVERAGE,): each.average})[0][0]
            if metric := shown.get(each.suite):
                averages[each.suite] = _cell(each.average, metric)
        seconds = run.train_seconds + sum(each.seconds for each in mine)
        warnings = sum(len(json.loads(text)) for text in (run.warnings, *(each.warnings for each in mine)))
        backend = run.backend if run.training and run.backend < BACKEND_VERSION else None
        lines.append(RunLine(run, averages, backend, None if isnan(run.dev) else run.dev, seconds, warnings))
    return lines, shown


def run_names(runs: Iterable[tuple[str, str]]) -> list[str]:
    """A unique stem for the page of each run, made of its key and its fingerprint."""
    return numbered(f"{slug(key)}-{slug(fingerprint[:12])}" for key, fingerprint in runs)


def score_tables(result: Result) -> Iterator[ScoreTable]:
    """For the newest evaluation of each suite: its tasks, further metrics, and the parts of its tasks."""
    for evaluation in result.current:
        suite, title = evaluation.suite, f"{evaluation.suite}, protocol {evaluation.protocol.version}"
        tasks: Rows = {(task,): scores for task, scores in evaluation.scores.items()}
        main, others = _columns(evaluation.protocol.metrics, tasks)
        if main:
            yield _table(title, suite, ("task",), main, tasks)
        if others:
            yield _table("other metrics", suite, ("task",), others, tasks, folded=True)
        parts: Rows = {(task, part): of for task, by_part in evaluation.parts.items() for part, of in by_part.items()}
        if parts:
            main, others = _columns(evaluation.protocol.metrics, parts)
            about = BY_TRAINING if any(is_by_training(part) for _, part in parts) else ""
            yield _table(f"parts of the tasks{about}", suite, ("task", "part"), [*main, *others], parts, folded=True)


def _columns(metrics: Iterable[Metric], rows: Rows) -> tuple[list[Metric], list[Metric]]:
    """The metrics to show at once, first those that tables show, and the metrics to fold away."""
    names = dict.fromkeys(name for scores in rows.values() for name in scores)
    declared = {metric.name: metric for metric in metrics if metric.name in names}
    metrics = [*declared.values(), *(_undeclared(name, rows) for name in names if name not in declared)]
    main = [metric for metric in metrics if metric.shown]
    rest = [metric for metric in metrics if not metric.shown]
    return ([*main, *rest], []) if len(metrics) <= MOST_COLUMNS or not main else (main, rest)


def _undeclared(name: str, rows: Rows) -> Metric:
    """A metric that the protocol does not declare: no decimals for counts, four if all are below 10, else two."""
    values = [scores[name] for scores in rows.values() if name in scores]
    digits = 0 if all(map(float.is_integer, map(float, values))) else 2 if max(map(abs, values)) >= 10 else 4
    return Metric(name, digits=digits, shown=False)


def _table(
    title: str, suite: str, heads: tuple[str, ...], columns: Sequence[Metric], rows: Rows, *, folded: bool = False
) -> ScoreTable:
    texts = tuple((at, tuple(_cell(scores, metric) for metric in columns)) for at, scores in rows.items())
    return ScoreTable(title, suite, heads, tuple(metric.name for metric in columns), texts, folded)


def _cell(scores: Mapping[str, float], metric: Metric) -> str:
    return fixed(scores[metric.name], metric.digits) if metric.name in scores else ABSENT


def _teacher_text(use: TeacherUse) -> str:
    source = {"": "", "computed": "; features computed"}.get(use.source, f"; features from {use.source}")
    return f"{use.teacher} (reads the {use.of}{source})"


def _content(result: Result, log: str, commands: Commands) -> dict[str, object]:
    best, spec = result.dev.best_score, result.spec
    teachers = {role: _teacher_text(use) for role, use in result.teachers.items()}
    values: dict[str, Mapping[str, object]] = {**result.hyperparameters, **({"teachers": teachers} if teachers else {})}
    return {
        "variant": str(spec.variant),
        "about": f"{spec.setting} / {spec.encoder}, seed {spec.seed}",
        "seed": spec.seed,
        "warnings": result.all_warnings,
        "scores": [vars(table) for table in score_tables(result)],
        "curves": [_curve(curve) for curve in run_curves(result)],
        "best": "" if best is None else f"Best {fixed(best, 2)} at step {result.dev.best_step}.",
        "values": {part: _texts(scores) for part, scores in values.items()},
        "command": commands.again(result),
        "facts": _texts(
            {
                "profile": result.profile,
                "profile read from": result.profile_origin,
                "variant": spec.variant,
                "setting": spec.setting,
                "encoder": spec.encoder,
                "seed": spec.seed,
                "changed with --set": overrides_text(result.overrides) or "nothing",
                "fingerprint of the training": result.fingerprint,
                "group, equal for all seeds": result.group,
                "code": result.revision or "unknown",
                "backend": f"{result.backend}, an earlier one" if is_earlier(result) else result.backend,
                "started": result.started,
                "finished": result.finished,
            }
        ),
        "machine": {
            "Time": {
                "training": duration(result.train_seconds),
                **{f"evaluation, {evaluation.suite}": duration(evaluation.seconds) for evaluation in result.current},
                "total": duration(result.seconds),
            },
            "Machine": _texts({**result.hardware, "peak memory": f"{result.peak_memory_mb:.0f} MB"}),
            "Packages": dict(sorted(result.packages.items())),
        },
        "log": _shortened(log),
    }


def _texts(values: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items()}


def _curve(curve: RunCurve) -> dict[str, object]:
    points = [(plain(x), plain(y)) for x, y in curve.points]
    name = anchor(f"curve-{curve.term or 'dev'}")
    return {"id": name, "title": curve_title(curve.term), "label": curve.y_label, "points": points}


def _shortened(log: str) -> str:
    """A log; in a long one, a single line replaces the middle."""
    lines, half = log.splitlines(), LOG_LINES // 2
    omitted = len(lines) - 2 * half
    return "\n".join(lines if omitted <= 0 else [*lines[:half], f"({omitted} lines omitted)", *lines[-half:]])


class FailuresSection(ReportSection):
    """Failed runs and runs without some scores, on the overview."""

    order = 950
    title = "Failures"
    overview = "overview/failures.html"

    @property
    def is_shown(self) -> bool:
        return bool(self.contents.failures or self.contents.unscored)
