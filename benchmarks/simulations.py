"""How often conclusions are wrong, and how often the seeds said to decide do decide, in simulated
results.

Scores are drawn from normal distributions whose differences are known, and concluded from by the
harness's own functions. Tables beside print have the shape and the deviations of DALR's Table 1,
printed with its one decimal as population deviations, which are the smaller ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count

import click
import numpy as np

from harness.metrics import Agreement, Column, Metric, Significance
from harness.papers.published import Published, read_published
from harness.reporting.seeds.cells import Cell, Label, Row, compared, contrast
from harness.reporting.tables.cells import FilledLine, LineOrigin, PaperCell, correct_verdicts
from harness.stats import ALPHA, seeds_to_decide

COLUMN, METRIC, MARGIN, SEEDS = Column("Avg", "spearman"), Metric("spearman"), 1.0, 5
#: variants of one table; the deviation over seeds, and the correlation of two variants that share
#: their batches
VARIANTS, STD, CORRELATION = 8, 0.5, 0.9
#: fewer seeds than this decide with more than the power asked for, as they are whole numbers
FEWEST = 8


def cell(values: Sequence[float] | np.ndarray) -> Cell:
    return Cell.of(dict(enumerate(map(float, values))))


def row(name: str, values: np.ndarray, *, batches: str = "") -> Row:
    made = cell(values)
    return Row(
        Label("paper", name, "wiki", "bert", ""), made.seeds, {COLUMN: made}, batches=batches
    )


def printed_table(off: float, rng: np.random.Generator) -> list[PaperCell]:
    """The cells of a table whose measured means truly differ by `off` from the printed ones,
    corrected.
    """
    cells = {}
    for key, number in read_published().items():
        if key[:2] == ("dalr", "T1") and number.summary and number.std:
            draws = rng.normal(number.value, number.std, (2, SEEDS))
            mean, std = round(draws[0].mean(), 1), round(draws[0].std(), 1)
            cells[str(key)] = PaperCell(
                Published(mean, std, SEEDS, star=False), cell(draws[1] + off), MARGIN
            )
    line = FilledLine(
        Label("paper", "", "", "", ""), LineOrigin(), {}, cells, "", None, "", due=False
    )
    correct_verdicts([line])
    return [*line.cells.values()]


def own_table(off: float, std: float, correlation: float, rng: np.random.Generator) -> list[Cell]:
    """The cells of variants that truly differ by `off` from their baseline, tested in one family."""
    shared = rng.normal(0.0, std * correlation**0.5, SEEDS)
    own = rng.normal(70.0, std * (1 - correlation) ** 0.5, (VARIANTS + 1, SEEDS))
    batches = "shared" if correlation else ""
    base, *rows = (
        row(f"v{at}", own[at] + shared + off * (at > 0), batches=batches)
        for at in range(VARIANTS + 1)
    )
    return [cell for *_, cell in compared([(each, base) for each in rows], COLUMN, METRIC)]


def share(tables: int, wrong: Callable[[np.random.Generator], bool]) -> float:
    """The share of tables of which something is true, each with random numbers of its own."""
    return sum(wrong(np.random.default_rng(at)) for at in range(tables)) / tables


def differs(cells: Sequence[PaperCell], *, corrected: bool = True) -> bool:
    return any((one.differs.p if corrected else one.test.p) < ALPHA for one in cells if one.differs)


def reproduced(cells: Sequence[PaperCell]) -> bool:
    return any(one.equal and one.equal.p < ALPHA for one in cells)


def false_equal(cells: Sequence[Cell], off: float) -> bool:
    equal = (one.equivalence for one in cells if one.verdict is Significance.EQUAL)
    return any(test is not None and abs(off) >= test.margin for test in equal)


def errors(tables: int) -> Iterator[tuple[str, float]]:
    """The shares of tables with an error, by name."""
    yield (
        "beside print, nothing different: any 'differs' alone",
        share(tables, lambda rng: differs(printed_table(0.0, rng), corrected=False)),
    )
    yield (
        "beside print, nothing different: any 'differs'",
        share(tables, lambda rng: differs(printed_table(0.0, rng))),
    )
    yield (
        f"beside print, all {MARGIN:g} point apart: any 'reproduced'",
        share(tables, lambda rng: reproduced(printed_table(MARGIN, rng))),
    )
    for name, correlation in (("independent", 0.0), ("paired", CORRELATION)):
        yield (
            f"{VARIANTS} {name} variants, nothing different: any 'better' or 'worse'",
            share(
                tables,
                lambda rng, r=correlation: any(one.holds for one in own_table(0.0, STD, r, rng)),
            ),
        )
    for std, correlation in ((STD, 0.99), (4 * STD, 0.999), (0.05, 0.0)):
        off = max(0.1, std / 10)
        yield (
            f"{VARIANTS} variants, r = {correlation}, deviation {std:g}, all {off:g} apart: any false 'equal'",
            share(
                tables,
                lambda rng, s=std, r=correlation, o=off: false_equal(own_table(o, s, r, rng), o),
            ),
        )


def decided(grids: int, design: str) -> tuple[float, float]:
    """The share of grids that the seeds said to decide do decide, and of those that no number
    decides.
    """
    kept, never, right = 0, 0, 0
    for at in count():
        rng = np.random.default_rng(at)
        effect, std = rng.uniform(0.0, 1.5), rng.uniform(0.3, 1.5)
        values = rng.normal(70.0, std, SEEDS)
        print_ = PaperCell(
            Published(values.mean(), values.std(ddof=1), SEEDS, star=False), cell(values), 0.5
        )
        apart = std * (2 * (1 - CORRELATION)) ** 0.5
        if design == "print":
            n = seeds_to_decide(
                effect, std, 0.5, other=print_.sides[1] if print_.sides else "independent"
            )
        elif design == "paired":
            n = seeds_to_decide(effect, apart, 0.5, other="paired")
        else:
            n = seeds_to_decide(effect, std, 0.5)
        never += n is None
        if n is None or not FEWEST <= n <= 400:
            continue
        shared = rng.normal(0.0, std * CORRELATION**0.5, n) if design == "paired" else np.zeros(n)
        a, b = (
            rng.normal(0.0, (apart / 2**0.5) if design == "paired" else std, (2, n)) + shared
        ) + 70.0
        if design == "print":
            number = values.mean()
            one = PaperCell(print_.published, cell(a - 70.0 + number + effect), 0.5).judgement
            right += one is not None and one.verdict is not Agreement.UNDECIDED
        else:
            batches = "shared" if design == "paired" else ""
            found = contrast(
                row("a", a + effect, batches=batches),
                row("b", b, batches=batches),
                COLUMN,
                METRIC,
                0.5,
            )
            right += found.verdict is not Significance.NONE
        kept += 1
        if kept == grids:
            return right / grids, never / (at + 1)
    raise AssertionError


@click.command(help=__doc__)
@click.option("--number", default=1000, show_default=True, help="Tables, and grids of each design.")
def main(number: int) -> None:
    """Print the shares."""
    click.echo(f"Share of {number} tables (the level is {100 * ALPHA:g} %):")
    for name, found in errors(number):
        click.echo(f"  {100 * found:5.1f} %  {name}")
    click.echo(f"Share of {number} grids decided by the seeds that are said to decide 80 %:")
    for design in ("independent", "paired", "print"):
        found, never = decided(number, design)
        click.echo(
            f"  {100 * found:5.1f} %  {design}; no number of seeds decides {100 * never:.0f} % of grids"
        )


if __name__ == "__main__":
    main()
