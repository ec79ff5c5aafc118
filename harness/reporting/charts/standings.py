"""The figure of a question: a row for each method and control, with its seeds, its mean and the 95 %
interval of the mean.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.formatting import fixed, interval_text, visible
from harness.method.naming import title_of
from harness.reporting import look
from harness.reporting.seeds.question import Question, name_control
from harness.reporting.seeds.standings import RankedRow, Standings

#: heights of a row in pixels, of few rows and of many, whose names have one line of so many
#: characters; offsets of the columns of differences and of ranks
ROW = 27
FEW_ROWS = 12
LOW_ROW = 22
LONGEST_LINE = 36
DIFFERENCE = 116
RANK = 186
METHOD = "var(--c0)"
CONTROL = look.SOFT
BOUND = "var(--c1)"


def draw_standings(question: Question, standings: Standings, key: str) -> look.Plot:
    """Draw the rows of a question: methods filled, controls hollow, a dashed line at the leader's
    strongest control.

    The scores, the differences to the baseline and the ranks stand at the right; on a narrow page,
    the means alone. Layers for one kind of page begin with `wide` or `narrow` in their names.
    """
    rows = standings.rows
    layers: list[look.ChartSpec] = []
    if question.strongest:
        bound = {"datum": question.strongest.cell.summary.mean, "type": "quantitative"}
        dashed = {"color": BOUND, "strokeDash": [5, 4], "strokeWidth": 1.5}
        layers.append(look.draw_line({"x": bound, **look.UPRIGHT}, **dashed))
    layers.append(_draw_standing_intervals(len(rows)))
    layers += _draw_seed_dots(question, rows)
    layers.append(_draw_mean_points())

    layers.append(_make_text_column("narrow means", "mean", 0))
    layers.append(_make_text_column("wide scores", "mean ± deviation", 0))
    rank_offset = DIFFERENCE
    base = question.forest.base
    if base is not None:
        layers.append(_make_text_column("wide differences", f"to {base.label.name}", DIFFERENCE))
        rank_offset = RANK
    layers.append(_make_text_column("wide ranks", "rank", rank_offset))

    values = [_make_mean_row(question, at, row) for at, row in enumerate(rows)]
    y = look.encode_nominal("i", sort=None, scale=_make_row_scale(len(rows)), axis=None)
    spec: look.ChartSpec = {
        **look.make_data(values, look.DIGITS),
        "params": _make_row_texts(question, rows),
        "height": (ROW if len(rows) <= FEW_ROWS else LOW_ROW) * len(rows),
        "description": f"{question.score_title}: {question.verdict}",
        "encoding": {"y": y},
        "layer": layers,
        "resolve": {"axis": {"y": "independent"}},
    }
    return look.Plot(key, question.score_title, spec, _explain_standings(question, standings))


def _make_mean_row(question: Question, at: int, row: RankedRow) -> dict[str, object]:
    mean = row.cell.summary.mean
    low = high = mean
    interval = "none of one seed"
    if row.interval:
        low = row.interval.low
        high = row.interval.high
        interval = interval_text(low, high, question.digits)
    return {
        "i": at,
        "x": mean,
        "lo": low,
        "hi": high,
        "name": row.name.text,
        "code": row.name.code,
        "score": question.score_text(row.cell),
        "interval": interval,
        "seeds": ", ".join(map(str, row.cell.seeds)),
        "control": row.is_control,
    }


def _make_row_texts(question: Question, rows: Sequence[RankedRow]) -> list[look.ChartSpec]:
    """The parameters with the texts beside the rows."""
    is_low = len(rows) > FEW_ROWS
    texts: dict[str, list[object]] = {
        "names": [_name_lines(row.name.text, is_low=is_low) for row in rows],
        "controls": [row.is_control for row in rows],
        "means": [fixed(row.cell.summary.mean, question.digits) for row in rows],
        "scores": [question.score_text(row.cell) for row in rows],
        "differences": [row.difference.replace("-", "−") for row in rows],
        "ranks": [row.rank for row in rows],
    }
    return [{"name": name, "value": value} for name, value in texts.items()]


def _name_lines(name: str, *, is_low: bool) -> list[str]:
    """A name in lines: in two where a row is high enough, else in one, cut if it is long."""
    if not is_low:
        return look.wrap_name(name)
    line = visible(name)
    is_long = len(line) > LONGEST_LINE
    return [f"{line[: LONGEST_LINE - 1]}…" if is_long else line]


def _make_row_scale(count: int) -> look.ChartSpec:
    return {"domain": list(range(count))}


def _make_name_axis(count: int) -> look.ChartSpec:
    """The axis of names at the left; controls are in italics."""
    axis = {
        "title": None,
        "labelExpr": "names[datum.value]",
        "labelLimit": 0,
        "labelFontStyle": _choose_for_controls("italic", "normal"),
        "labelColor": _choose_for_controls(look.SOFT, look.INK),
        "domain": False,
        "ticks": False,
        "grid": False,
    }
    return look.encode_nominal("i", sort=None, scale=_make_row_scale(count), axis=axis)


def _choose_for_controls(control: str, method: str) -> look.ChartSpec:
    return {"condition": {"test": "controls[datum.value]", "value": control}, "value": method}


def _make_text_column(name: str, title: str, offset: int) -> look.ChartSpec:
    """A column of texts at the right of the rows, as an axis without marks of its own."""
    axis = {
        "orient": "right",
        "offset": offset,
        "labelExpr": f"{name.split()[1]}[datum.value]",
        "labelColor": _choose_for_controls(look.SOFT, look.INK),
        "labelLimit": 0,
        "domain": False,
        "ticks": False,
        "grid": False,
        "title": title,
        "titleColor": look.SOFT,
        "titleAngle": 0,
        "titleAlign": "left",
        "titleAnchor": "start",
        "titleX": 5,
        "titleY": -6,
    }
    encoding = {
        "y": look.encode_nominal("i", sort=None, axis=axis),
        "x": {"field": "x", "type": "quantitative"},
    }
    return {"name": name, **look.make_layer("tick", encoding, opacity=0)}


def _draw_standing_intervals(count: int) -> look.ChartSpec:
    """The 95 % intervals, with the axes of names and of scores."""
    axis = {"orient": "bottom", "tickCount": {"expr": "clamp(floor(width / 90), 2, 7)"}}
    scale = {"zero": False, "padding": 14}
    x = {"field": "lo", "type": "quantitative", "title": None, "axis": axis, "scale": scale}
    ends = {"x": x, "x2": {"field": "hi"}, "y": _make_name_axis(count), "color": _choose_colour()}
    return look.make_layer("rule", ends, strokeWidth=3)


def _choose_colour() -> look.ChartSpec:
    return {"condition": {"test": "datum.control", "value": CONTROL}, "value": METHOD}


def _draw_seed_dots(question: Question, rows: Sequence[RankedRow]) -> list[look.ChartSpec]:
    """The layer of a dot for each seed, if a row has several; one number is its mean alone."""
    dots = []
    for at, row in enumerate(rows):
        if len(row.cell.values) > 1:
            for seed, value in row.cell.by_seed.items():
                dots.append({"i": at, "x": value, "seed": seed, "control": row.is_control})
    if not dots:  # an empty layer has no extent, of which Vega warns
        return []
    lines = look.make_tooltip(("seed", "seed"), ("x", "score", f".{question.digits}f"))
    x = {"field": "x", "type": "quantitative"}
    encoding = {"x": x, "color": _choose_colour(), "tooltip": lines}
    layer = look.make_layer("point", encoding, filled=True, size=16, opacity=0.4)
    return [{**look.make_data(dots, look.DIGITS), **layer}]


def _draw_mean_points() -> look.ChartSpec:
    """A point for each mean: filled for methods, hollow for controls."""
    lines = look.make_tooltip(
        ("name", "row"),
        ("code", "code"),
        ("score", "mean ± deviation"),
        ("interval", "95 % interval"),
        ("seeds", "seeds"),
    )
    encoding = {
        "x": {"field": "x", "type": "quantitative"},
        "stroke": _choose_colour(),
        "fill": {"condition": {"test": "datum.control", "value": look.GROUND}, "value": METHOD},
        "tooltip": lines,
    }
    return look.make_layer("point", encoding, size=70, strokeWidth=2, opacity=1)


def _explain_standings(question: Question, standings: Standings) -> str:
    """How the figure is read, and what is not in it."""
    text = "Dots: seeds. Bar: 95 % interval of the mean. Filled: methods; hollow, in italics: controls."
    if question.leader and question.strongest:
        name = title_of(question.leader.row.label.method)
        text += f" Dashed: {name_control(question.strongest)}, the strongest control of {name}."
    text += " Methods that no test tells apart share ranks."

    not_drawn = []
    if standings.more_methods:
        not_drawn.append(f"{standings.more_methods} methods")
    if standings.more_controls:
        not_drawn.append(f"{standings.more_controls} controls")
    if not_drawn:
        text += f" Not drawn: {' and '.join(not_drawn)}."
    return text
