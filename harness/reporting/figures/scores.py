"""Figures that are drawn from scores: curves over an option of the setting or the method, gains by subset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.metrics import AVERAGE, Score
from harness.papers.schema import FigureSpec
from harness.reporting.figures.look import COLOURS, INK, PRINTED, legend_below, panels, size_of, style
from harness.reporting.figures.runs import Material, Run
from harness.spec import Variant, parse_setting
from harness.stats import Summary, summarise

#: Options of a setting that take a part of its data; the setting without them comes last, as all of it.
PARTS = ("shot", "size")
POINTS = "Spearman × 100"


@dataclass(frozen=True)
class Drawing:
    """What puts a figure on the paper, its size in inches, what it shows in words, and the runs that it shows."""

    draw: Callable[[Figure], None]
    size: tuple[float, float]
    text: str
    runs: Sequence[Run]


@dataclass(frozen=True)
class Curve:
    """Means over seeds at places on the axis, with their deviations."""

    name: str
    xs: tuple[float, ...]
    points: tuple[Summary, ...]
    line: bool = False


def data_scale(
    spec: FigureSpec, runs: Sequence[Run], material: Material, lines: Sequence[tuple[str, float]]
) -> Drawing | str:
    """MCSE Figure 3, NonLing Figures 2 and 3: the average STS against an option of the setting.

    A variant without the option is a line to compare with; a printed number is a line at its level.
    """
    score = Score(spec.suite, AVERAGE, spec.metric)
    shown = [run for run in runs if score in run.scores]
    axis = _axes_of(shown)
    if not axis:
        return "no run on a part or a noisy copy of a setting yet"

    def draw(figure: Figure) -> None:
        for axes, (base, key) in zip(panels(figure, len(axis), min(3, len(axis)), share=True), axis, strict=True):
            ticks = _levels(shown, base, key)
            for index, curve in enumerate(_curves(shown, base, key, score)):
                _line(axes, curve, index)
            levels = [_number(text) for text in ticks]
            vertical(axes, [(name, value, levels.index(value)) for name, value in lines if value in levels])
            axes.set_xticks(range(len(ticks)), ticks)
            axes.set_title(base)
            axes.set_xlabel({"shot": "training pairs", "size": "training triplets"}.get(key, key))
            axes.set_ylabel(f"average STS, {POINTS}")
        legend_below(figure, 2)

    text = "Average STS, means over seeds with their deviations; the levels of the axis are evenly spaced."
    return Drawing(draw, size_of(len(axis), min(3, len(axis)), 0.5), text, shown)


def _axes_of(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """A panel for each setting and each of its options."""
    settings = [parse_setting(run.label.setting) for run in runs]
    return list(dict.fromkeys((setting.name, key) for setting in settings for key, _ in setting.options))


def _levels(runs: Sequence[Run], base: str, key: str) -> list[str]:
    """The texts of the axis: the option's values in order, and the setting without it at the end that is like it."""
    settings = {parse_setting(run.label.setting) for run in runs}
    values = {
        dict(setting.options)[key] for setting in settings if setting.name == base and key in dict(setting.options)
    }
    ordered = sorted(values, key=lambda text: (_number(text) is None, _number(text) or 0.0, text))
    if all(setting != Variant(base) for setting in settings):
        return ordered
    return [*ordered, "all"] if key in PARTS else ["none", *ordered]


def _curves(runs: Sequence[Run], base: str, key: str, score: Score) -> Iterator[Curve]:
    levels = _levels(runs, base, key)
    plain = "all" if key in PARTS else "none"
    whole = {parse_setting(run.label.setting).name for run in runs if parse_setting(run.label.setting).options}
    found: dict[str, dict[int, Summary]] = {}
    for run in runs:
        setting, summary = parse_setting(run.label.setting), run.summary(score)
        level = dict(setting.options).get(key, plain if not setting.options else "")
        if setting.name == base and level in levels and summary is not None:
            found.setdefault(run.label.variant, {})[levels.index(level)] = summary
        elif setting.name not in whole and summary is not None:
            yield Curve(f"{run.label.variant} / {setting}", (0.0, len(levels) - 1.0), (summary, summary), line=True)
    for variant, points in found.items():
        xs = sorted(points)
        yield Curve(variant, tuple(map(float, xs)), tuple(points[x] for x in xs))


def margin_sweep(
    spec: FigureSpec, runs: Sequence[Run], material: Material, lines: Sequence[tuple[str, float]]
) -> Drawing | str:
    """KDMCSE Figure 7: the average STS against an option of the method, in each setting."""
    key = next((name for text in spec.variants for name, _ in Variant.parse(text).options), "")
    score = Score(spec.suite, AVERAGE, spec.metric)
    found: dict[str, dict[float, Summary]] = {}
    for run in runs:
        summary, x = run.summary(score), _value(run, key)
        if summary is not None and x is not None:
            found.setdefault(f"{run.label.setting} / {run.label.encoder}", {})[x] = summary
    if not found:
        return f"no run of a {key} yet"

    def draw(figure: Figure) -> None:
        (axes,) = panels(figure, 1, 1)
        for index, (place, points) in enumerate(found.items()):
            xs = sorted(points)
            _line(axes, Curve(place, tuple(xs), tuple(points[x] for x in xs)), index)
        vertical(axes, [(name, value, value) for name, value in lines])
        axes.set_xlabel(f"{key}, radians" if key == "margin" else key)
        axes.set_ylabel(f"average STS, {POINTS}")
        legend_below(figure, 2)

    return Drawing(draw, (5.4, 3.8), f"Average STS against the {key}, means over seeds with their deviations.", runs)


def subset_gain(spec: FigureSpec, runs: Sequence[Run], material: Material) -> Drawing | str:
    """MCSE Figure 4: how much better the second variant is than the first on each subset, a panel a setting."""
    worse, better = spec.variants[:2]
    by = {run.label: run for run in runs}
    pairs = [(by[other], run) for run in runs if run.label.variant == better
             if (other := run.label._replace(variant=worse)) in by]  # fmt: skip
    gains = [(run.label.setting, _gains(spec, first, run)) for first, run in pairs]
    if not any(bars for _, bars in gains):
        return f"no setting in which both {worse} and {better} were run yet"

    def draw(figure: Figure) -> None:
        for axes, (setting, bars) in zip(panels(figure, len(gains), 1, share=True), gains, strict=True):
            _bars(axes, bars)
            axes.set_title(setting)
            axes.set_ylabel(f"gain, {POINTS} ({n_of(bars.values())})")
        legend_below(figure, 5)

    width = max(5.4, 0.28 * max(len(bars) for _, bars in gains) + 1.6)
    text = (
        f"Spearman of {better} less that of {worse} on each subset, means over the seeds of both with the deviation of "
        "the difference by seed."
    )
    return Drawing(draw, (width, 3.4 * len(gains) + 0.5), text, [run for pair in pairs for run in pair])


def _gains(spec: FigureSpec, worse: Run, better: Run) -> dict[tuple[str, str], Summary]:
    """Differences by task and subset; where no task has subsets, by task."""
    named = {
        (score.task, part): (worse.parts[score, part], values)
        for (score, part), values in better.parts.items()
        if (score, part) in worse.parts and (score.suite, score.metric) == (spec.suite, spec.metric)
    } or {
        (score.task, ""): (worse.scores[score], values)
        for score, values in better.scores.items()
        if score in worse.scores and (score.suite, score.metric) == (spec.suite, spec.metric) and score.task != AVERAGE
    }
    gains = {}
    for place, (first, second) in named.items():
        common = [second[seed] - first[seed] for seed in sorted(first.keys() & second.keys())]
        if common:
            gains[place] = summarise(common)
    return gains


def _bars(axes: Axes, bars: Mapping[tuple[str, str], Summary]) -> None:
    tasks = list(dict.fromkeys(task for task, _ in bars))
    hatches = ("", "//", "..", "\\\\", "xx")
    for place, ((task, _), gain) in enumerate(bars.items()):
        index = tasks.index(task)
        new = place == 0 or list(bars)[place - 1][0] != task
        axes.bar(
            place, gain.mean, yerr=gain.std or None, color=COLOURS[index % len(COLOURS)], edgecolor="white", capsize=2,
            hatch=hatches[index % len(hatches)], ecolor=INK, label=task if new else None, gid=f"bar-{place}",
        )  # fmt: skip
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set_xticks(range(len(bars)), [subset or task for task, subset in bars], rotation=50, ha="right", fontsize=7)
    for text in axes.get_xticklabels():
        text.set_rotation_mode("anchor")
    axes.grid(axis="x", visible=False)


def n_of(summaries: Iterable[Summary]) -> str:
    """How many seeds means are over: `n = 5`, or `n = 2 to 5` where they differ."""
    counts = sorted({summary.n for summary in summaries})
    return f"n = {counts[0]}" if len(counts) == 1 else f"n = {counts[0]} to {counts[-1]}"


def vertical(axes: Axes, lines: Sequence[tuple[str, float, float]]) -> None:
    """Printed numbers as grey lines: name, number and place on the axis of each."""
    for index, (name, value, place) in enumerate(lines):
        axes.axvline(
            place, color=PRINTED, linewidth=1, linestyle=(0, (2 + 2 * index, 2)), label=f"printed: {name}, {value:g}"
        )


def _line(axes: Axes, curve: Curve, index: int) -> None:
    means, name = [point.mean for point in curve.points], f"{curve.name} ({n_of(curve.points)})"
    if curve.line:
        axes.axhline(means[0], color=INK, linewidth=1, linestyle=(0, (4, 2)), label=name)
        return
    spread = [point.std or 0.0 for point in curve.points]
    axes.errorbar(curve.xs, means, yerr=spread if any(spread) else None, capsize=2, label=name, **style(index)).lines[
        0
    ].set_gid(f"curve-{index}")


def _value(run: Run, key: str) -> float | None:
    """What a run has for an option: by its name, else among its hyperparameters."""
    told = dict(Variant.parse(run.label.variant).options).get(key)
    if told is not None:
        return _number(told)
    known = getattr(run.result, "hyperparameters", {}).get("method", {})
    return float(known[key]) if key in known else None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
