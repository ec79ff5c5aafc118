"""Runs, failures, the index of runs, and one page, run.html?KEY, that shows a whole result file
from KEY.js.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, groupby
from math import isnan
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from harness.formatting import duration, fixed
from harness.method.naming import name_of
from harness.metrics import AVERAGE, ArrayName, Metric, is_by_training
from harness.reporting.charts.curves import (
    ChartKey,
    Points,
    list_run_curves,
    make_run_spec,
    name_curve,
)
from harness.reporting.look import clean_value
from harness.reporting.pages import (
    TEMPLATES,
    Pages,
    anchor,
    dump_json,
    make_slugs,
    make_unique,
    minus,
    slug,
)
from harness.reporting.sections.base import ReportSection
from harness.reporting.seeds.controls import describe_teacher_fit
from harness.reporting.seeds.spent import Spent, read_json
from harness.reporting.seeds.wording import split_metric_heading
from harness.reporting.tables.grids import ABSENT
from harness.sources import digest
from harness.store import (
    Evaluation,
    Frames,
    Result,
    TeacherUse,
    format_overrides,
    lines_of,
    read_declared_metrics,
)

if TYPE_CHECKING:
    import pandas

#: Most lines of a log on a page, half from its start and half from its end.
LOG_LINES = 300
#: The index of more runs than this is split into several pages: one of 800 lines has half a MB.
MOST_LINES = 800
#: Of more runs than this, those of methods have pages of their own before those of their variants.
MOST_PAGES = 4_000
#: In evaluations with more metrics than this, all but the main ones are folded away.
MOST_COLUMNS = 8
#: Follows the title of a table with parts by training.
BY_TRAINING = "; [seen]: pairs of which training read a sentence, [unseen]: the others"
#: heads of a row -> metric -> score
Rows = Mapping[tuple[str, ...], Mapping[str, float]]


#: keys of a run's place in the list of what ran
_PLACE = ["profile", "setting", "encoder"]


class RunsSection(ReportSection):
    """What ran where, the index of runs, and the page of a run."""

    order = 200
    title = menu = "Runs"
    overview = "overview/runs.html"
    home = "runs/index.html"
    is_shown = True

    @cached_property
    def runs(self) -> pandas.DataFrame:
        return sort_runs(self.contents.frames)

    @property
    def ran(self) -> Sequence[Mapping[str, object]]:
        return list_what_ran(self.runs)

    def write(self, pages: Pages) -> None:
        """Write the index, the page of runs, and the file that it reads for each run."""
        _write_index(pages, self.runs, select_averages(self.contents.frames))
        pages.write("run.html", "runs/run.html", curve=make_run_spec())
        pages.put("runs/run.js", (TEMPLATES / "run.js").read_bytes())

        has_page = self.runs["page"] != ""
        runs = self.runs.loc[has_page, ["profile", "group", "seed", "page", "is_earlier"]]
        siblings: dict[tuple[str, str], dict[int, str]] = {}
        for run in lines_of(runs):
            siblings.setdefault((run.profile, run.group), {})[run.seed] = run.page
        for run in lines_of(runs):
            result = self.contents.result(run.Index)
            if result:
                shown_run = self._describe(result, run, siblings[run.profile, run.group], pages)
                content = f"showRun({dump_json(shown_run)});\n"
                pages.put(f"runs/{run.page}.js", content.encode())

    def _describe(
        self, result: Result, run: Any, siblings: Mapping[int, str], pages: Pages
    ) -> dict[str, object]:
        """All that the page of a run shows; `siblings` are the pages of its group by seed."""
        contents = self.contents
        spec = result.spec
        name = name_of(str(spec.variant), format_overrides(result.overrides))
        curves = [_make_run_curve(*curve) for curve in list_run_curves(result)]
        spent = Spent.of(contents.frames, [run.Index])
        return {
            "name": name.text,
            "key": spec.key,
            "about": f"{spec.setting} / {spec.encoder}, seed {spec.seed}",
            "seed": spec.seed,
            "warnings": result.all_warnings,
            "inputs": [census.line for census in result.inputs],
            "scores": [*make_score_tables(result)],
            "curves": curves,
            "best": _describe_best(result),
            "values": _list_values(result),
            "command": contents.commands.repeat(result),
            "facts": _list_facts(result, is_earlier=run.is_earlier),
            "log": _pick_log_lines(contents.log(result)),
            "machine": _describe_machine(result, spent),
            "crumbs": _make_crumbs(result, pages),
            "seeds": dict(sorted(siblings.items())),
            "judged": self._list_judged(result, pages),
        }

    def _list_judged(self, result: Result, pages: Pages) -> list[Mapping[str, object]]:
        """Of each task of the figures' data, what a run says of its pairs or captions, and the file
        that holds these.

        These are cosines of pairs, whose gold scores are in the file too, or ranks of captions' own
        images in the method's space. Runs share such a file. Without the tests' data at hand, it
        has no texts. What are no such arrays is left out.
        """
        contents = self.contents
        arrays = contents.arrays(result)
        judged: list[Mapping[str, object]] = []
        for name in arrays:
            if (name.what, name.space) not in _JUDGED:
                continue
            gold = _read_numbers(arrays.get(ArrayName(name.task, "gold")))
            values = _read_numbers(arrays[name])
            evaluation = self._find_evaluation(result, name.task)
            # pairs have gold scores, captions have none
            gold_scores = len(values) if name.what == "cosine" else 0
            if evaluation is None or not values or len(gold) != gold_scores:
                continue

            key = digest(result.profile, evaluation.protocol.key, name.task)
            file = f"judged-{key[:12]}"
            if not pages.has(f"runs/{file}.js"):
                texts = contents.sentences(result, evaluation, name.task)
                data = {"gold": gold, "texts": texts if len(texts) == len(values) else []}
                pages.put(f"runs/{file}.js", f"showJudged({dump_json(data)});\n".encode())
            values_key = _JUDGED[name.what, name.space]
            judged.append({"task": name.task, "file": file, values_key: values})
        return judged

    def _find_evaluation(self, result: Result, task: str) -> Evaluation | None:
        """The newest evaluation of a task whose arrays are kept."""
        for evaluation in reversed(result.evaluations):
            path = self.contents.store.arrays_path(result, evaluation)
            if task in evaluation.scores and path.is_file():
                return evaluation
        return None


#: arrays of what a run says of each pair or caption of a task: content and space -> their name on a
#: page
_JUDGED = {("cosine", ""): "cosines", ("rank", "own"): "ranks"}


def _read_numbers(values: np.ndarray | None) -> list[float]:
    """The numbers of an array (n,); none where others have put something else."""
    if values is None or values.ndim != 1 or values.dtype.kind not in "fiu":
        return []
    if not np.isfinite(values).all():
        return []
    return [float(f"{value:.6g}") for value in values.tolist()]


def sort_runs(frames: Frames) -> pandas.DataFrame:
    """The runs by profile, place and seed, with what the index says of them; the index is the row
    in `frames`.

    `page` is the name of a run's page, empty for one without, and `best` its best dev score as
    text; `suites` are those evaluated, and `seconds` and `told`, a number of warnings, are of
    training and tests.
    """
    runs = frames.runs
    tests = frames.evaluations
    suites: list[Any] = [[] for _ in runs.index]
    for run, suite in zip(tests["run"].tolist(), tests["suite"].tolist(), strict=True):
        suites[run].append(suite)

    tests = tests.assign(told=_count_warnings(tests["warnings"]))
    sums = tests.groupby("run")[["seconds", "told"]].sum()
    sums = sums.reindex(runs.index, fill_value=0)
    described = runs.assign(
        key=frames.keys,
        suites=suites,
        seconds=runs["train_seconds"] + sums["seconds"],
        told=_count_warnings(runs["warnings"]) + sums["told"],
        best=[ABSENT if isnan(dev) else fixed(dev, 2) for dev in runs["dev"]],
        is_earlier=frames.earlier,
    )

    order = [*_PLACE, "variant", "overrides", "seed", "finished"]
    # categories would be sorted by their codes
    texts = {name: object for name in order if name != "seed"}
    described = described.astype(texts).sort_values(order, kind="stable")
    names = name_runs(zip(described["key"], described["fingerprint"], strict=True))
    return described.assign(page=np.where(_select_pages(described), names, ""))


def _select_pages(runs: pandas.DataFrame) -> np.ndarray:
    """Whether each run has a page of its own, (R,)."""
    is_variant = runs["variant"].to_numpy() != runs["method"].astype(object).to_numpy()
    methods_first = np.argsort(is_variant, kind="stable")

    has_page = np.zeros(len(runs), bool)
    has_page[methods_first[:MOST_PAGES]] = True
    return has_page


def _count_warnings(warnings: pandas.Series) -> list[int]:
    return [len(read_json(text)) for text in warnings]


def _make_crumbs(result: Result, pages: Pages) -> list[tuple[str, str]]:
    method = result.spec.variant.name
    profile = result.profile
    return [
        ("Runs", "index.html"),
        (name_of(method).text, f"../methods/{pages.methods[method]}.html"),
        (f"profile {profile}", f"../profiles/{pages.profiles[profile]}.html"),
    ]


def select_averages(frames: Frames) -> pandas.DataFrame:
    """The averages in each suite's newest evaluation: `run` (a row of runs), suite, declared,
    metric, value.
    """
    newest = frames.newest()[["run", "suite", "declared"]]
    averages = frames.scores[frames.scores["task"] == AVERAGE]
    of_newest = averages.join(newest, on="evaluation", how="inner")
    return of_newest[["run", "suite", "declared", "metric", "value"]]


def _group_by_place(runs: pandas.DataFrame) -> dict[tuple[str, str, str], pandas.DataFrame]:
    """The runs of each profile, setting and encoder."""
    grouped: Iterable[tuple[Any, pandas.DataFrame]] = runs.groupby(_PLACE)
    return dict(iter(grouped))


def list_what_ran(runs: pandas.DataFrame) -> list[Mapping[str, object]]:
    """The variants, seeds, suites and number of runs of each profile, setting and encoder, of runs
    in order.
    """
    lines: list[Mapping[str, object]] = []
    for (profile, setting, encoder), runs_of_place in _group_by_place(runs).items():
        suites = dict.fromkeys(chain.from_iterable(runs_of_place["suites"]))
        line = {
            "profile": profile,
            "setting": setting,
            "encoder": encoder,
            "variants": sorted(runs_of_place["variant"].unique()),
            "seeds": format_spans(runs_of_place["seed"]),
            "suites": list(suites),
            "runs": len(runs_of_place),
        }
        lines.append(line)
    return lines


def format_spans(seeds: Iterable[int]) -> str:
    """`0–4, 7`."""
    texts: list[str] = []
    # numbers that follow each other are equally far from their places
    sorted_seeds = enumerate(sorted(set(seeds)))
    for _, group in groupby(sorted_seeds, key=lambda pair: pair[1] - pair[0]):
        numbers = [number for _, number in group]
        texts.append(str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}–{numbers[-1]}")
    return ", ".join(texts)


class _IndexPage(NamedTuple):
    """A page of the index: the runs that it lists, all of one profile, setting and encoder.

    `part` is its number among the pages of this place, empty where it is the only one.
    """

    setting: str
    encoder: str
    profile: str
    part: str
    runs: pandas.DataFrame

    @property
    def variants(self) -> str:
        return " ".join(sorted(self.runs["variant"].unique()))


def _write_index(pages: Pages, runs: pandas.DataFrame, averages: pandas.DataFrame) -> None:
    """The index of runs: one page, or where it is long a page for each profile, setting and
    encoder, and more than one for a place with many runs.
    """
    if len(runs) <= MOST_LINES:
        _write_index_page(pages, "index", runs, averages)
        return

    listed = list(_split_index(runs))
    names = [f"{page.profile}/{page.setting}/{page.encoder} {page.part}" for page in listed]
    stems = make_slugs(names)
    linked = {f"index-{stems[name]}": page for name, page in zip(names, listed, strict=True)}
    pages.write("runs.html", "runs/index.html", lines=[], columns={}, linked=linked, runs=runs)
    for stem, page in linked.items():
        _write_index_page(pages, stem, page.runs, averages)


def _split_index(runs: pandas.DataFrame) -> Iterator[_IndexPage]:
    """Pages of at most MOST_LINES runs, place by place."""
    for (profile, setting, encoder), runs_of_place in _group_by_place(runs).items():
        starts = range(0, len(runs_of_place), MOST_LINES)
        for number, start in enumerate(starts, 1):
            part = f"{number} of {len(starts)}" if len(starts) > 1 else ""
            runs_of_page = runs_of_place.iloc[start : start + MOST_LINES]
            yield _IndexPage(setting, encoder, profile, part, runs_of_page)


def _write_index_page(
    pages: Pages, stem: str, runs: pandas.DataFrame, averages: pandas.DataFrame
) -> None:
    lines, metrics = make_run_lines(runs, averages)
    columns = {suite: f"{suite} {name_metric(suite, metric)}" for suite, metric in metrics.items()}
    path = f"runs/{stem}.html"
    pages.write("runs.html", path, lines=lines, columns=columns, linked={}, runs=runs)


def make_run_lines(
    runs: pandas.DataFrame, averages: pandas.DataFrame
) -> tuple[list[tuple[Any, dict[str, str]]], dict[str, Metric]]:
    """The lines of a frame of runs, each with its averages as text by suite, and each suite's
    metric that is shown.

    This is the first metric with an average, in the first run that has any average in the suite.
    """
    means_by_run: dict[int, dict[tuple[str, str], dict[str, float]]] = {}
    for row in lines_of(averages[averages["run"].isin(runs.index)]):
        means_by_suite = means_by_run.setdefault(row.run, {})
        means_by_suite.setdefault((row.suite, row.declared), {})[row.metric] = row.value

    shown_metrics: dict[str, Metric] = {}
    lines = []
    for run in lines_of(runs):
        texts: dict[str, str] = {}
        for (suite, declared), means in means_by_run.get(run.Index, {}).items():
            if suite not in shown_metrics:
                main, _ = _split_metrics(read_declared_metrics(declared), [means])
                shown_metrics[suite] = main[0]
            texts[suite] = _format_run_score(means, shown_metrics[suite])
        lines.append((run, texts))
    return lines, shown_metrics


def name_runs(runs: Iterable[tuple[str, str]]) -> list[str]:
    """A unique stem for the page of each run, made of its key and its fingerprint."""
    return make_unique(f"{slug(key)}-{slug(fingerprint[:12])}" for key, fingerprint in runs)


def make_score_tables(result: Result) -> Iterator[dict[str, object]]:
    """For the newest evaluation of each suite: its tasks, further metrics, and the parts of its
    tasks.

    The heads and cells of rows are texts. `folded` tables are details.
    """
    for evaluation in result.current:
        suite = evaluation.suite
        metrics = evaluation.protocol.metrics
        title = f"{suite}, protocol {evaluation.protocol.version}"
        tasks: Rows = {(task,): scores for task, scores in evaluation.scores.items()}
        main, folded = _split_metrics(metrics, tasks.values())
        if main:
            yield _make_score_table(title, suite, ("task",), main, tasks)
        if folded:
            yield _make_score_table("other metrics", suite, ("task",), folded, tasks, folded=True)

        parts: dict[tuple[str, ...], Mapping[str, float]] = {}
        for task, scores_by_part in evaluation.parts.items():
            for part, scores in scores_by_part.items():
                parts[task, part] = scores
        if parts:
            main, folded = _split_metrics(metrics, parts.values())
            about = BY_TRAINING if any(is_by_training(part) for _, part in parts) else ""
            title = f"parts of the tasks{about}"
            columns = [*main, *folded]
            yield _make_score_table(title, suite, ("task", "part"), columns, parts, folded=True)


def _split_metrics(
    declared: Iterable[Metric], rows: Collection[Mapping[str, float]]
) -> tuple[list[Metric], list[Metric]]:
    """The metrics of rows of scores to show at once, first those that tables show, and the metrics
    to fold away.
    """
    names = dict.fromkeys(chain.from_iterable(rows))
    metrics = {metric.name: metric for metric in declared if metric.name in names}
    for name in names:
        if name not in metrics:
            metrics[name] = _make_undeclared_metric(name, rows)

    main = [metric for metric in metrics.values() if metric.shown]
    rest = [metric for metric in metrics.values() if not metric.shown]
    if len(metrics) <= MOST_COLUMNS or not main:
        return [*main, *rest], []
    return main, rest


def _make_undeclared_metric(name: str, rows: Iterable[Mapping[str, float]]) -> Metric:
    """A metric that the protocol does not declare: no decimals for counts, four if all are below
    10, else two.
    """
    values = [float(scores[name]) for scores in rows if name in scores]
    digits = 4
    if all(map(float.is_integer, values)):
        digits = 0
    elif max(map(abs, values)) >= 10:
        digits = 2
    return Metric(name, digits=digits, shown=False)


def _make_score_table(
    title: str,
    suite: str,
    heads: tuple[str, ...],
    columns: Sequence[Metric],
    rows: Rows,
    *,
    folded: bool = False,
) -> dict[str, object]:
    texts = []
    for row_heads, scores in rows.items():
        texts.append((row_heads, [_format_run_score(scores, metric) for metric in columns]))
    return {
        "title": title,
        "suite": suite,
        "heads": heads,
        "columns": [name_metric(suite, metric) for metric in columns],
        "rows": texts,
        "folded": folded,
    }


def name_metric(suite: str, metric: Metric) -> str:
    """A metric as the pages of runs head it, with its group: `image to text R@1`."""
    return " ".join(filter(None, split_metric_heading(suite, metric.name)))


def _format_run_score(scores: Mapping[str, float], metric: Metric) -> str:
    if metric.name not in scores:
        return ABSENT
    return minus(fixed(scores[metric.name], metric.digits))


def _describe_teacher(profile: str, use: TeacherUse) -> str:
    """A teacher with what it reads, where its features are from and how it fits."""
    fit = describe_teacher_fit(profile, use)
    remarks = ["beside the student" if use.of == "model" else f"reads the {use.of}"]
    if use.source == "computed":
        remarks.append("features computed")
    elif use.source:
        remarks.append(f"from {use.source}")
    if fit:
        remarks.append(fit)
    return f"{use.teacher} ({'; '.join(remarks)})"


def _list_facts(result: Result, *, is_earlier: bool) -> dict[str, str]:
    """What a run is, and what it is known by."""
    spec = result.spec
    facts = {
        "profile": result.profile,
        "profile read from": result.profile_origin,
        "variant": spec.variant,
        "setting": spec.setting,
        "encoder": spec.encoder,
        "seed": spec.seed,
        "changed with --set": format_overrides(result.overrides) or "nothing",
        "fingerprint of the training": result.fingerprint,
        "group, equal for all seeds": result.group,
        "code": result.revision or "unknown",
        "backend": f"{result.backend}, an earlier one" if is_earlier else result.backend,
        "started": result.started,
        "finished": result.finished,
    }
    return _format_facts(facts)


def _list_values(result: Result) -> dict[str, dict[str, str]]:
    """The values of hyperparameters, part by part, and the teachers."""
    values = {part: _format_facts(facts) for part, facts in result.hyperparameters.items()}
    if result.teachers:
        values["teachers"] = {
            role: _describe_teacher(result.profile, use) for role, use in result.teachers.items()
        }
    return values


def _describe_best(result: Result) -> str:
    """The best dev score, its step and the last score; empty without dev scores."""
    dev = result.dev
    if dev.best_score is None:
        return ""
    checkpoint = str(result.training.get("checkpoint", "best"))
    last = f"; {fixed(dev.scores[-1], 2)} at the last" if dev.scores else ""
    return f"{checkpoint.capitalize()} {fixed(dev.best_score, 2)} at step {dev.best_step}{last}."


def _describe_machine(result: Result, spent: Spent) -> dict[str, Mapping[str, str]]:
    """What a run took and where: times, budget, hardware and packages."""
    times = {"training": duration(result.train_seconds)}
    for evaluation in result.current:
        times[f"evaluation, {evaluation.suite}"] = duration(evaluation.seconds)
    times["total"] = duration(result.seconds)

    hardware = {**result.hardware, "peak memory": f"{result.peak_memory_mb:.0f} MB"}
    return {
        "Time": times,
        "Budget": spent.texts(),
        "Machine": _format_facts(hardware),
        "Packages": dict(sorted(result.packages.items())),
    }


def _format_facts(values: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items()}


def _make_run_curve(chart: ChartKey, points: Points) -> dict[str, object]:
    term, label = chart
    numbers = [(clean_value(x), clean_value(y)) for x, y in points]
    return {
        "id": anchor(f"curve-{term or 'dev'}"),
        "title": name_curve(term),
        "label": label,
        "points": numbers,
    }


def _pick_log_lines(log: str) -> str:
    """A log; in a long one, a single line replaces the middle."""
    lines = log.splitlines()
    half = LOG_LINES // 2
    omitted = len(lines) - 2 * half
    if omitted > 0:
        lines = [*lines[:half], f"({omitted} lines omitted)", *lines[-half:]]
    return "\n".join(lines)


class FailuresSection(ReportSection):
    """Failed runs and runs without some scores, on the overview."""

    order = 950
    title = "Failures"
    overview = "overview/failures.html"

    @property
    def is_shown(self) -> bool:
        return bool(self.contents.failures or self.contents.unscored)
