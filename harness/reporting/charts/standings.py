"""The figure of a question: a row for each method and control, with its seeds, its mean and the 95 %
interval of the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from harness.formatting import fixed, interval_text, visible
from harness.method.naming import title_of
from harness.reporting import look
from harness.reporting.seeds.cells import Row
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
    row_height = ROW if len(rows) <= FEW_ROWS else LOW_ROW
    scale = {"domain": list(range(len(rows)))}
    values = [_make_mean_row(question, at, row) for at, row in enumerate(rows)]
    spec: look.ChartSpec = {
        **look.make_data(values, look.DIGITS),
        "params": _make_row_texts(question, rows),
        "height": row_height * len(rows),
        "description": f"{question.score_title}: {question.verdict}",
        "encoding": {"y": _encode_rows(scale=scale, axis=None)},
        "layer": [
            *_draw_bound(question),
            _draw_standing_intervals(_encode_rows(scale=scale, axis=_make_name_axis())),
            *_draw_seed_dots(question, rows),
            _draw_mean_points(),
            *_draw_text_columns(question.forest.base),
        ],
        "resolve": {"axis": {"y": "independent"}},
    }
    return look.Plot(key, question.score_title, spec, _explain_standings(question, standings))


#: whether a row is a control: where a label knows its number alone, and in the data
_IS_CONTROL_LABEL = "controls[datum.value]"
_IS_CONTROL_ROW = "datum.control"


def _choose(is_control: str, control: str, method: str) -> look.ChartSpec:
    """A value for controls, by the expression that tells them, and one for methods."""
    return {"condition": {"test": is_control, "value": control}, "value": method}


_COLOUR = _choose(_IS_CONTROL_ROW, CONTROL, METHOD)


def _encode_rows(**more: object) -> look.ChartSpec:
    """The encoding of rows by their number `i`, in the order of the data."""
    return look.encode_nominal("i", sort=None, **more)


def _draw_bound(question: Question) -> list[look.ChartSpec]:
    """The layer of a dashed line at the leader's strongest control; none without one."""
    if not question.strongest:
        return []
    mean = {"datum": question.strongest.cell.summary.mean, "type": "quantitative"}
    line = look.draw_line(
        {"x": mean, **look.UPRIGHT}, color=BOUND, strokeDash=[5, 4], strokeWidth=1.5
    )
    return [line]


def _draw_text_columns(base: Row | None) -> list[look.ChartSpec]:
    """The layers of texts beside the rows; of differences only where there is a baseline."""
    columns = [
        _make_text_column("means", "narrow", "mean", 0),
        _make_text_column("scores", "wide", "mean ± deviation", 0),
    ]
    if base is None:
        return [*columns, _make_text_column("ranks", "wide", "rank", DIFFERENCE)]

    differences = _make_text_column("differences", "wide", f"to {base.label.name}", DIFFERENCE)
    return [*columns, differences, _make_text_column("ranks", "wide", "rank", RANK)]


def _make_mean_row(question: Question, at: int, row: RankedRow) -> dict[str, object]:
    """The data of a row; of one seed, the interval is its mean alone."""
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
    digits = question.digits
    return [
        _make_param("names", [_name_lines(row.name.text, is_low=is_low) for row in rows]),
        _make_param("controls", [row.is_control for row in rows]),
        _make_param("means", [fixed(row.cell.summary.mean, digits) for row in rows]),
        _make_param("scores", [question.score_text(row.cell) for row in rows]),
        _make_param("differences", [row.difference.replace("-", "−") for row in rows]),
        _make_param("ranks", [row.rank for row in rows]),
    ]


def _make_param(name: str, value: Sequence[object]) -> look.ChartSpec:
    return {"name": name, "value": value}


def _name_lines(name: str, *, is_low: bool) -> list[str]:
    """A name in lines: in two where a row is high enough, else in one, cut if it is long."""
    if not is_low:
        return look.wrap_name(name)
    line = visible(name)
    is_long = len(line) > LONGEST_LINE
    return [f"{line[: LONGEST_LINE - 1]}…" if is_long else line]


def _make_name_axis() -> look.ChartSpec:
    """The axis of names at the left; controls are in italics."""
    return {
        "title": None,
        "labelExpr": "names[datum.value]",
        "labelLimit": 0,
        "labelFontStyle": _choose(_IS_CONTROL_LABEL, "italic", "normal"),
        "labelColor": _choose(_IS_CONTROL_LABEL, look.SOFT, look.INK),
        **look.NO_LINES,
    }


def _make_text_column(
    texts: str, widths: Literal["narrow", "wide"], title: str, offset: int
) -> look.ChartSpec:
    """A column of texts at the right of the rows, as an axis without marks of its own; `texts` is
    their parameter, `widths` the figures that show it.
    """
    axis = {
        "orient": "right",
        "offset": offset,
        "labelExpr": f"{texts}[datum.value]",
        "labelColor": _choose(_IS_CONTROL_LABEL, look.SOFT, look.INK),
        "labelLimit": 0,
        **look.NO_LINES,
        "title": title,
        "titleColor": look.SOFT,
        "titleAngle": 0,
        "titleAlign": "left",
        "titleAnchor": "start",
        "titleX": 5,
        "titleY": -6,
    }
    encoding = {"y": _encode_rows(axis=axis), "x": look.encode_quantity("x")}
    layer = look.make_layer("tick", encoding, opacity=0)
    return {"name": f"{widths} {texts}", **layer}


def _draw_standing_intervals(names: look.ChartSpec) -> look.ChartSpec:
    """The 95 % intervals, with the axes of names and of scores."""
    axis = {"orient": "bottom", "tickCount": {"expr": "clamp(floor(width / 90), 2, 7)"}}
    scale = {"zero": False, "padding": 14}
    x = look.encode_quantity("lo", title=None, axis=axis, scale=scale)
    encoding = {**look.encode_interval("x", x), "y": names, "color": _COLOUR}
    return look.make_layer("rule", encoding, strokeWidth=3)


def _draw_seed_dots(question: Question, rows: Sequence[RankedRow]) -> list[look.ChartSpec]:
    """The layer of a dot for each seed, if a row has several; one number is its mean alone."""
    dots: list[dict[str, object]] = []
    for at, row in enumerate(rows):
        if len(row.cell.values) > 1:
            for seed, value in row.cell.by_seed.items():
                dots.append({"i": at, "x": value, "seed": seed, "control": row.is_control})
    # an empty layer has no extent, of which Vega warns
    if not dots:
        return []

    tooltip = look.make_tooltip(("seed", "seed"), ("x", "score", f".{question.digits}f"))
    encoding = {"x": look.encode_quantity("x"), "color": _COLOUR, "tooltip": tooltip}
    layer = look.make_layer("point", encoding, filled=True, size=16, opacity=0.4)
    return [{**look.make_data(dots, look.DIGITS), **layer}]


def _draw_mean_points() -> look.ChartSpec:
    """A point for each mean: filled for methods, hollow for controls."""
    tooltip = look.make_tooltip(
        ("name", "row"),
        ("code", "code"),
        ("score", "mean ± deviation"),
        ("interval", "95 % interval"),
        ("seeds", "seeds"),
    )
    encoding = {
        "x": look.encode_quantity("x"),
        "stroke": _COLOUR,
        "fill": _choose(_IS_CONTROL_ROW, look.GROUND, METHOD),
        "tooltip": tooltip,
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
