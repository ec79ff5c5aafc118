"""Average against an option: of the setting (MCSE Figure 3, NonLing Figures 2 and 3) or of the method (KDMCSE 7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.metrics import Score
from harness.reporting.figures.kinds import Drawing, FigureData, FigureKind, FigureRun
from harness.reporting.figures.look import INK, legend_below, n_of, panels, printed_lines, size_of, style
from harness.spec import Variant, parse_setting
from harness.stats import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Options of a setting that take a part of its data; the setting without them comes last on the axis.
PARTS = {"shot": "training pairs", "size": "training triplets"}


@dataclass(frozen=True)
class LevelCurve:
    """Means over seeds at places on the axis. A `constant` curve is a horizontal line."""

    name: str
    constant: bool = False
    points: dict[float, Summary] = field(default_factory=dict)


@dataclass(frozen=True)
class LevelPanel:
    """An option of a setting: its values in order, as texts, and the curves over them."""

    setting: str
    option: str
    levels: list[str]
    curves: list[LevelCurve]


def data_scale(data: FigureData) -> Drawing | str:
    """The average against an option of the setting, one panel for each setting and option.

    A variant that was trained on a setting without options is a horizontal line.
    """
    shown = [run for run in data.runs if data.average in run.scores]
    settings = [parse_setting(run.label.setting) for run in shown]
    pairs = dict.fromkeys((setting.name, option) for setting in settings for option, _ in setting.options)
    every = [_panel(shown, data.average, *pair) for pair in pairs]
    if not every:
        return "no run on a part or a noisy copy of a setting yet"

    def on(figure: Figure) -> None:
        for axes, panel in zip(panels(figure, len(every), 3, share=True), every, strict=True):
            for index, curve in enumerate(panel.curves):
                _line(axes, curve, index)
            places = {_number(text): at for at, text in enumerate(panel.levels)}
            printed_lines(axes, [(name, value, places[value]) for name, value in data.printed if value in places])
            axes.set_xticks(range(len(panel.levels)), panel.levels)
            axes.set(title=panel.setting, xlabel=PARTS.get(panel.option, panel.option), ylabel=_y_label(data))
        legend_below(figure, 2)

    text = (
        f"Average of {data.spec.suite}, mean ± standard deviation over seeds. The values on the axis are evenly spaced."
    )
    return Drawing(on, size_of(len(every), 3, 0.5), text, shown)


def _panel(runs: Sequence[FigureRun], score: Score, base: str, option: str) -> LevelPanel:
    """The curves over one option of one setting.

    The setting without the option comes first as `none`, or last as `all` if the option takes a part of the data.
    """
    settings = {run.label: parse_setting(run.label.setting) for run in runs}
    values = {value for one in settings.values() if one.name == base for name, value in one.options if name == option}
    levels = sorted(values, key=lambda text: (_number(text) is None, _number(text) or 0.0, text))
    plain = "all" if option in PARTS else "none"
    if Variant(base) in settings.values():
        levels = [*levels, plain] if option in PARTS else [plain, *levels]
    varied = {setting.name for setting in settings.values() if setting.options}
    curves: dict[str, LevelCurve] = {}
    for run in runs:
        setting, summary = settings[run.label], run.summary(score)
        if summary is None:
            continue
        if setting.name not in varied:
            name = f"{run.label.variant} / {setting}"
            curves[name] = LevelCurve(name, True, {0.0: summary})
        level = dict(setting.options).get(option, "" if setting.options else plain)
        if setting.name == base and level in levels:
            curve = curves.setdefault(run.label.variant, LevelCurve(run.label.variant))
            curve.points[float(levels.index(level))] = summary
    return LevelPanel(base, option, levels, sorted(curves.values(), key=lambda curve: not curve.constant))


def margin_sweep(data: FigureData) -> Drawing | str:
    """The average against an option of the method, one curve for each setting and encoder."""
    option = next((name for text in data.spec.variants for name, _ in Variant.parse(text).options), "")
    curves: dict[str, LevelCurve] = {}
    for run in data.runs:
        summary, x = run.summary(data.average), _value(run, option)
        if summary is not None and x is not None:
            name = f"{run.label.setting} / {run.label.encoder}"
            curves.setdefault(name, LevelCurve(name)).points[x] = summary
    if not any(len(curve.points) > 1 for curve in curves.values()):
        return f"fewer than two values of {option} run in any setting yet"

    def on(figure: Figure) -> None:
        (axes,) = panels(figure, 1)
        for index, curve in enumerate(curves.values()):
            _line(axes, curve, index)
        printed_lines(axes, [(name, value, value) for name, value in data.printed])
        axes.set(xlabel=option, ylabel=_y_label(data))
        legend_below(figure, 2)

    text = f"Average of {data.spec.suite} against the {option}, mean ± standard deviation over seeds."
    return Drawing(on, (5.4, 3.8), text, data.runs)


def _y_label(data: FigureData) -> str:
    return f"average of {data.spec.suite}, {data.metric(data.spec.suite, data.spec.metric).title}"


def _line(axes: Axes, curve: LevelCurve, index: int) -> None:
    xs, points = zip(*sorted(curve.points.items()), strict=True)
    means, name = [point.mean for point in points], f"{curve.name} ({n_of(points)})"
    if curve.constant:
        axes.axhline(means[0], color=INK, linewidth=1, linestyle=(0, (4, 2)), label=name)
        return
    spread = [point.std or 0.0 for point in points]
    drawn = axes.errorbar(xs, means, yerr=spread if any(spread) else None, capsize=2, label=name, **style(index))
    drawn.lines[0].set_gid(f"curve-{index}")


def _value(run: FigureRun, option: str) -> float | None:
    """The value of a method's option: as the variant names it, or as the run used it."""
    used = run.result.hyperparameters.get("method", {}).get(option)
    return _number(dict(Variant.parse(run.label.variant).options).get(option, str(used)))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


DATA_SCALE = FigureKind(data_scale)
MARGIN_SWEEP = FigureKind(margin_sweep)
