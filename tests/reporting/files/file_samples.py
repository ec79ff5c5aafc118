"""A table whose texts are hard to escape."""

from __future__ import annotations

from harness.reporting.tables.grids import CellText, Grid, Line, Section

NASTY = r"a_b&c%d#e[f]{g}$h~i^j\k|l<m>n*"


def grid(name: str = NASTY) -> Grid:
    lines = (
        Line((name, "3"), (CellText("-0.25", "0.10", "*"), CellText("71.00", "", "†", "n = 2")), "plain", 2),
        Line((name, "4"), (CellText("–"), CellText("1.00")), "plain", 0),
    )
    return Grid(
        "tiny-sts", f"sts, {name}", ("variant", "seeds"), (name, "Avg"), (False, True), (Section(name, lines),), ()
    )
