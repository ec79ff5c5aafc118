"""Runs, failures, the index of runs, and one page, run.html?KEY, that shows a whole result file from KEY.js."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

from harness.commands import Commands
from harness.formatting import duration, fixed
from harness.metrics import AVERAGE, Metric, is_by_training
from harness.reporting.charts.curves import RunCurve, curve_title, run_curves, run_spec
from harness.reporting.charts.plot import plain
from harness.reporting.pages import TEMPLATES, Pages, anchor, numbered, plain_json, slug, slugs
from harness.reporting.sections.base import ReportSection
from harness.reporting.tables.grids import ABSENT
from harness.store import Chosen, Evaluation, Result, TeacherUse, is_earlier, overrides_text

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


def in_order(results: Sequence[Result]) -> Chosen:
    """Sort results by profile, place and seed."""

    def key(result: Result) -> tuple[str, str, str, str, str, int, str]:
        spec, overrides = result.spec, overrides_text(result.overrides)
        return (result.profile, spec.setting, spec.encoder, spec.variant, overrides, spec.seed, result.finished)

    keys = list(map(key, results))
    return Chosen(results, sorted(range(len(keys)), key=keys.__getitem__))


class RunLine(NamedTuple):
    """The line of a run in the index: its page, and the average of each suite that has one as text."""

    page: str
    result: Result
    averages: Mapping[str, str]


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

    place = 200
    title = menu = "Runs"
    overview = "overview/runs.html"
    home = "runs/index.html"
    is_shown = True

    @cached_property
    def results(self) -> Chosen:
        return in_order(self.contents.results)

    @property
    def ran(self) -> Sequence[Ran]:
        return list(what_ran(self.results))

    def write(self, pages: Pages) -> None:
        results = self.results
        names = run_names(results)
        _write_index(pages, names, results)
        pages.write("run.html", "runs/run.html", curve=run_spec())
        pages.put("runs/run.js", (TEMPLATES / "run.js").read_bytes())
        siblings: dict[tuple[str, str], dict[int, str]] = {}
        for name, result in zip(names, results, strict=True):
            siblings.setdefault((result.profile, result.group), {})[result.spec.seed] = name
        for name, result in zip(names, results, strict=True):
            whole, seeds = result.whole(), dict(sorted(siblings[result.profile, result.group].items()))
            shown = {
                **_content(whole, self.contents.log(whole), self.contents.commands),
                "crumbs": _crumbs(whole, pages),
                "seeds": seeds,
            }
            pages.put(f"runs/{name}.js", f"showRun({plain_json(shown)});\n".encode())


def _crumbs(result: Result, pages: Pages) -> list[tuple[str, str]]:
    method, profile = result.spec.method, result.profile
    return [
        ("Runs", "index.html"),
        (method, f"../methods/{pages.methods[method]}.html"),
        (f"profile {profile}", f"../profiles/{pages.profiles[profile]}.html"),
    ]


def what_ran(results: Sequence[Result]) -> Iterator[Ran]:
    """The variants, seeds and suites of each profile, setting and encoder."""
    places: dict[tuple[str, str, str], tuple[Counter[str], set[int], dict[str, None]]] = {}
    for result in results:
        place = (result.profile, result.spec.setting, result.spec.encoder)
        variants, seeds, suites = places.setdefault(place, (Counter(), set(), {}))
        variants[result.spec.variant] += 1
        seeds.add(result.spec.seed)
        suites.update(dict.fromkeys(result.suites))
    for place, (variants, seeds, suites) in sorted(places.items()):
        yield Ran(*place, sorted(variants), spans(seeds), list(suites), variants.total())


def spans(seeds: Iterable[int]) -> str:
    """`0–4, 7`."""
    texts: list[str] = []
    for _, group in groupby(enumerate(sorted(set(seeds))), key=lambda pair: pair[1] - pair[0]):
        numbers = [number for _, number in group]
        texts.append(str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}–{numbers[-1]}")
    return ", ".join(texts)


def _write_index(pages: Pages, names: Sequence[str], results: Sequence[Result]) -> None:
    """The index of runs: one page, or one for each profile, setting and encoder."""

    def write(page: str, rows: Sequence[int]) -> None:
        lines, averages = run_lines([names[row] for row in rows], Chosen(results, rows))
        columns = {suite: f"{suite} {metric.name}" for suite, metric in averages.items()}
        shown = {"lines": lines, "columns": columns, "places": {}, "runs": len(rows), "is_earlier": is_earlier}
        pages.write("runs.html", f"runs/{page}.html", **shown)

    if len(results) <= MOST_LINES:
        write("index", range(len(results)))
        return
    by_place: dict[tuple[str, str, str], list[int]] = {}
    for row, result in enumerate(results):
        by_place.setdefault((result.profile, result.spec.setting, result.spec.encoder), []).append(row)
    stems = slugs("/".join(place) for place in by_place)
    places = {f"index-{stems['/'.join(place)]}": (*place, len(rows)) for place, rows in by_place.items()}
    pages.write("runs.html", "runs/index.html", lines=[], columns={}, places=places, runs=len(results))
    for page, rows in zip(places, by_place.values(), strict=True):
        write(page, rows)


def run_lines(names: Sequence[str], results: Sequence[Result]) -> tuple[list[RunLine], dict[str, Metric]]:
    """The lines of runs whose pages have these `names`, and for each suite the metric whose average is shown.

    This is the first metric with an average, in the first run that has any average in the suite.
    """
    shown: dict[str, Metric] = {}
    lines = []
    for name, result in zip(names, results, strict=True):
        averages = {}
        for evaluation in result.current:
            suite, scores = evaluation.suite, evaluation.scores.get(AVERAGE, {})
            if suite not in shown and scores:
                shown[suite] = _columns(evaluation, {(AVERAGE,): scores})[0][0]
            if metric := shown.get(suite):
                averages[suite] = fixed(scores[metric.name], metric.digits) if metric.name in scores else ABSENT
        lines.append(RunLine(name, result, averages))
    return lines, shown


def run_names(results: Sequence[Result]) -> list[str]:
    """A unique stem for the page of each run, made of its key and fingerprint, in the order of the results."""
    return numbered(f"{slug(result.spec.key)}-{slug(result.fingerprint[:12])}" for result in results)


def score_tables(result: Result) -> Iterator[ScoreTable]:
    """For the newest evaluation of each suite: its tasks, further metrics, and the parts of its tasks."""
    for evaluation in result.current:
        suite, title = evaluation.suite, f"{evaluation.suite}, protocol {evaluation.protocol.version}"
        tasks: Rows = {(task,): scores for task, scores in evaluation.scores.items()}
        main, others = _columns(evaluation, tasks)
        if main:
            yield _table(title, suite, ("task",), main, tasks)
        if others:
            yield _table("other metrics", suite, ("task",), others, tasks, folded=True)
        parts: Rows = {(task, part): of for task, by_part in evaluation.parts.items() for part, of in by_part.items()}
        if parts:
            main, others = _columns(evaluation, parts)
            about = BY_TRAINING if any(is_by_training(part) for _, part in parts) else ""
            yield _table(f"parts of the tasks{about}", suite, ("task", "part"), [*main, *others], parts, folded=True)


def _columns(evaluation: Evaluation, rows: Rows) -> tuple[list[Metric], list[Metric]]:
    """The metrics to show at once, first those that tables show, and the metrics to fold away."""
    names = dict.fromkeys(name for scores in rows.values() for name in scores)
    declared = {metric.name: metric for metric in evaluation.protocol.metrics if metric.name in names}
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
    def cells(scores: Mapping[str, float]) -> tuple[str, ...]:
        return tuple(
            fixed(scores[metric.name], metric.digits) if metric.name in scores else ABSENT for metric in columns
        )

    texts = tuple((at, cells(scores)) for at, scores in rows.items())
    return ScoreTable(title, suite, heads, tuple(metric.name for metric in columns), texts, folded)


def _teacher_text(use: TeacherUse) -> str:
    source = {"": "", "computed": "; features computed"}.get(use.source, f"; features from {use.source}")
    return f"{use.teacher} (reads the {use.of}{source})"


def _content(result: Result, log: str, commands: Commands) -> dict[str, object]:
    best, spec = result.dev.best_score, result.spec
    teachers = {role: _teacher_text(use) for role, use in result.teachers.items()}
    values: dict[str, Mapping[str, object]] = {**result.hyperparameters, **({"teachers": teachers} if teachers else {})}
    return {
        "variant": spec.variant,
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

    place = 950
    title = "Failures"
    overview = "overview/failures.html"

    @property
    def is_shown(self) -> bool:
        return bool(self.contents.failures or self.contents.unscored)
