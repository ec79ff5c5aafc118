"""How often conclusions are wrong, and how often the seeds said to decide do decide, in simulated
results.

Scores are drawn from distributions whose differences are known, and concluded from by the harness's
own functions. A share stands beside the level that is claimed. Tables beside print have the shape
and the deviations of DALR's Table 1, printed with its one decimal as population deviations, which
are the smaller ones.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import click
import numpy as np

from harness.metrics import Agreement, Column, Metric, Significance
from harness.papers.published import Published, read_published
from harness.reporting.seeds.cells import Cell, Label, Row, compare_pairs
from harness.reporting.tables.cells import FilledLine, LineOrigin, PaperCell, correct_verdicts
from harness.stats import ALPHA, paired_t_test, seeds_to_decide

COLUMN = Column("Avg", "spearman")
METRIC = Metric("spearman")
#: variants of one table
VARIANTS = 8
#: the margin beside print, in points
MARGIN = 1.0
#: the correlation of two rows that share their batches
CORRELATION = 0.9
#: half the width of an interval that is asked for, in points, and the seeds before the first look
BAR = 0.5
FIRST_SEEDS = 5
#: fewer seeds than this decide with more than the power asked for, as they are whole numbers
FEWEST = 8
#: a share, the level claimed, and what it is a share of
Line = tuple[float, str, str]


class Design(NamedTuple):
    """A table of variants and their baseline: seeds and deviations of both."""

    name: str
    base_seeds: int = 5
    seeds: int = 5
    base_std: float = 1.0
    std: float = 1.0
    paired: bool = False
    heavy: bool = False


DESIGNS = (
    Design("5 seeds each"),
    Design("5 seeds each, deviations 1 : 3", std=3.0),
    Design("9 and 5 seeds, deviations 1 : 3", 9, 5, std=3.0),
    Design("9 and 5 seeds, deviations 3 : 1", 9, 5, base_std=3.0),
    Design("3 seeds each", 3, 3),
    Design("9 seeds each, deviations 1 : 3", 9, 9, std=3.0),
    Design("9 and 3 seeds, deviations 1 : 3", 9, 3, std=3.0),
    Design("one missing seed: 5 and 4", 5, 4),
    Design("5 seeds each, heavy tails", heavy=True),
    Design("9 and 5 seeds, deviations 1 : 3, heavy tails", 9, 5, std=3.0, heavy=True),
    Design("5 pairs", paired=True),
    Design("5 pairs, deviations 1 : 3", std=3.0, paired=True),
    Design("pairs, one missing seed: 5 and 4", 5, 4, paired=True),
)


class PrintDesign(NamedTuple):
    """A table beside print: measured seeds, and their deviation as a share of print's."""

    name: str
    seeds: int
    share: float


PRINT_DESIGNS = (
    PrintDesign("5 measured seeds", 5, 1.0),
    PrintDesign("20 measured seeds, half of print's deviation", 20, 0.5),
    PrintDesign("3 measured seeds, twice print's deviation", 3, 2.0),
)


def make_cell(values: np.ndarray) -> Cell:
    return Cell.of(dict(enumerate(map(float, values))))


def make_row(name: str, values: np.ndarray, batches: str) -> Row:
    cell = make_cell(values)
    label = Label("paper", name, "wiki", "bert", "")
    return Row(label, cell.seeds, {COLUMN: cell}, batches=batches)


def draw(rng: np.random.Generator, size: tuple[int, ...], *, heavy: bool) -> np.ndarray:
    """Values of mean 0 and deviation 1: normal, or of Student's t with 5 degrees of freedom."""
    if heavy:
        return rng.standard_t(5, size) / math.sqrt(5 / 3)

    return rng.standard_normal(size)


def simulate_table(
    design: Design, difference: float, scale: float, rng: np.random.Generator
) -> list[Cell]:
    """The cells of variants that truly differ from their baseline, tested in one family."""
    seeds = max(design.base_seeds, design.seeds)
    noise = draw_noise(rng, (VARIANTS + 1, seeds), heavy=design.heavy, paired=design.paired)
    batches = "shared" if design.paired else ""
    base_values = 70.0 + scale * design.base_std * noise[0, : design.base_seeds]
    base = make_row("base", base_values, batches)
    pairs = []
    for number in range(1, VARIANTS + 1):
        values = 70.0 + difference + scale * design.std * noise[number, : design.seeds]
        pairs.append((make_row(f"variant-{number}", values, batches), base))

    return [cell for *_, cell in compare_pairs(pairs, COLUMN, METRIC, family="variants")]


def draw_noise(
    rng: np.random.Generator, size: tuple[int, int], *, heavy: bool, paired: bool
) -> np.ndarray:
    """The noise of rows over seeds; that of paired rows has a part that they share at each seed."""
    noise = draw(rng, size, heavy=heavy)
    if not paired:
        return noise

    shared = draw(rng, (1, size[1]), heavy=heavy)
    return math.sqrt(1 - CORRELATION) * noise + math.sqrt(CORRELATION) * shared


def simulate_print(
    design: PrintDesign, difference: float, rng: np.random.Generator
) -> list[PaperCell]:
    """The cells of a table whose measured means truly differ from the printed ones, corrected."""
    cells = {}
    for key, number in read_published().items():
        if key[:2] != ("dalr", "T1") or not (number.summary and number.std):
            continue

        printed = rng.normal(number.value, number.std, 5)
        mean = round(printed.mean(), 1)
        std = round(printed.std(), 1)
        measured = rng.normal(number.value + difference, design.share * number.std, design.seeds)
        published = Published(mean, std, 5, star=False)
        cells[str(key)] = PaperCell(published, make_cell(measured), MARGIN)

    label = Label("paper", "", "", "", "")
    line = FilledLine(label, LineOrigin(), {}, cells, "", None, "", due=False)
    correct_verdicts([line])
    return [*line.cells.values()]


def measure_share(number: int, is_wrong: Callable[[np.random.Generator], bool]) -> float:
    """The share of tables of which something is true, each with random numbers of its own."""
    wrong = 0
    for seed in range(number):
        if is_wrong(np.random.default_rng(seed)):
            wrong += 1

    return wrong / number


def has_false_difference(design: Design, rng: np.random.Generator) -> bool:
    return any(cell.holds for cell in simulate_table(design, 0.0, 0.5, rng))


def has_false_equality(design: Design, rng: np.random.Generator) -> bool:
    """Whether a row is called equal whose true difference is its margin or more.

    Deviations are small enough that rows are called equal at all.
    """
    scale = 0.1 if design.paired else 0.05 / max(design.std, design.base_std)
    difference = 0.1
    for cell in simulate_table(design, difference, scale, rng):
        is_equal = cell.verdict is Significance.EQUAL
        if is_equal and cell.equivalence and difference >= cell.equivalence.margin:
            return True

    return False


def is_reproduced(cell: PaperCell) -> bool:
    return cell.equal is not None and cell.equal.is_significant


def is_different(cell: PaperCell) -> bool:
    is_significant = cell.differs is not None and cell.differs.is_significant
    return is_significant and not is_reproduced(cell)


def list_false_print_verdicts(design: PrintDesign, number: int) -> Iterator[Line]:
    """The shares of tables beside print with a false verdict of each kind."""
    level = f"{100 * ALPHA:g} %"

    def has_false_difference(rng: np.random.Generator) -> bool:
        return any(map(is_different, simulate_print(design, 0.0, rng)))

    def has_false_reproduction(rng: np.random.Generator) -> bool:
        return any(map(is_reproduced, simulate_print(design, MARGIN, rng)))

    name = f"beside print, {design.name}"
    share = measure_share(number, has_false_difference)
    yield share, level, f"{name}, nothing different: any '{Agreement.DIFFERS}'"
    share = measure_share(number, has_false_reproduction)
    yield share, level, f"{name}, all {MARGIN:g} point off: any '{Agreement.REPRODUCED}'"


def list_false_verdicts(number: int) -> Iterator[Line]:
    """The shares of tables with a false verdict."""
    level = f"{100 * ALPHA:g} %"
    for design in DESIGNS:
        share = measure_share(number, partial(has_false_difference, design))
        yield share, level, f"{design.name}, nothing different: any 'better' or 'worse'"

    for design in DESIGNS:
        share = measure_share(number, partial(has_false_equality, design))
        yield share, level, f"{design.name}, all as far off as the margin: any 'equal'"

    for print_design in PRINT_DESIGNS:
        yield from list_false_print_verdicts(print_design, number)


class PowerDesign(NamedTuple):
    """Comparisons of which the seeds that would decide are asked for."""

    name: str
    ratio: float
    paired: bool
    family: int


POWER_DESIGNS = (
    PowerDesign("independent, alone", 1.0, paired=False, family=1),
    PowerDesign("paired, alone", 1.0, paired=True, family=1),
    PowerDesign("independent, deviations 1 : 3, alone", 3.0, paired=False, family=1),
    PowerDesign(f"independent, one of {VARIANTS}", 1.0, paired=False, family=VARIANTS),
    PowerDesign(f"paired, one of {VARIANTS}", 1.0, paired=True, family=VARIANTS),
    PowerDesign(f"independent, deviations 1 : 3, one of {VARIANTS}", 3.0, False, VARIANTS),
)


def measure_decided(design: PowerDesign, number: int) -> float:
    """The share of comparisons that the seeds said to decide do decide, in their family.

    The other variants of the family do not differ from the baseline.
    """
    tried = 0
    decided = 0
    for seed in itertools.count():
        if tried == number:
            break

        rng = np.random.default_rng(seed)
        effect = rng.uniform(0.3, 1.5)
        std = rng.uniform(0.3, 1.0)
        seeds = find_deciding_seeds(design, effect, std)
        if seeds is None or not FEWEST <= seeds <= 200:
            continue

        sides = Design("", seeds, seeds, 1.0, design.ratio, paired=design.paired)
        tried += 1
        if simulate_family(sides, effect, std, design.family, rng):
            decided += 1

    return decided / number


def find_deciding_seeds(design: PowerDesign, effect: float, std: float) -> int | None:
    """The seeds that are said to decide a comparison in its family."""
    level = ALPHA / design.family
    if design.paired:
        std_of_differences = math.sqrt(2 * (1 - CORRELATION)) * std
        return seeds_to_decide(effect, std_of_differences, None, alpha=level, other="paired")

    stds = (design.ratio * std, std)
    return seeds_to_decide(effect, stds, None, alpha=level, other="independent")


def simulate_family(
    design: Design, effect: float, std: float, family: int, rng: np.random.Generator
) -> bool:
    """Whether the first of a family's variants, the only one that differs, is found to differ."""
    noise = draw_noise(rng, (family + 1, design.seeds), heavy=False, paired=design.paired)
    batches = "shared" if design.paired else ""
    base = make_row("base", 70.0 + std * noise[0], batches)
    pairs = []
    for variant in range(family):
        difference = effect if variant == 0 else 0.0
        values = 70.0 + difference + std * design.std * noise[variant + 1]
        pairs.append((make_row(f"variant-{variant}", values, batches), base))

    first, *_ = compare_pairs(pairs, COLUMN, METRIC, family="variants")
    return first[-1].holds


def measure_missed_by_stopping(number: int) -> float:
    """The share of intervals that do not hold the true difference, after a rule for stopping.

    After the first seeds, as many are run as promise an interval of the bar's width by their
    deviation; then the test is made once, over all of them.
    """
    missed = 0
    for seed in range(number):
        rng = np.random.default_rng(seed)
        std = rng.uniform(0.3, 1.2)
        seeds = FIRST_SEEDS
        differences = rng.normal(0.0, std, 400)
        promised = differences[:FIRST_SEEDS].std(ddof=1)
        while seeds < len(differences) and compute_half_width(promised, seeds) > BAR:
            seeds += 1

        test = paired_t_test([*differences[:seeds]], [0.0] * seeds)
        if test is not None and test.p < ALPHA:
            missed += 1

    return missed / number


def compute_half_width(std: float, seeds: int) -> float:
    """Half the width of the 95 % interval of the mean of some seeds with a deviation."""
    from harness.stats.t_tests import quantile

    return quantile(float(seeds - 1), 1 - ALPHA / 2) * std / math.sqrt(seeds)


def list_lines(number: int) -> Iterator[Line]:
    """Every share that is printed."""
    yield from list_false_verdicts(number)
    for design in POWER_DESIGNS:
        share = measure_decided(design, number)
        yield share, "80 %", f"{design.name}: decided by the seeds that were said to decide"

    rule = f"{FIRST_SEEDS} seeds, then the fewest that promise an interval of ±{BAR:g} points"
    share = measure_missed_by_stopping(number)
    yield share, f"{100 * ALPHA:g} %", f"{rule}: 95 % interval without the truth"


@click.command(help=__doc__)
@click.option("--number", default=1000, show_default=True, help="Tables of each design.")
def main(number: int) -> None:
    """Print the shares as a table of Markdown."""
    click.echo(f"| share of {number:,} simulated | claimed | |\n| ---: | ---: | --- |")
    for share, claimed, name in list_lines(number):
        click.echo(f"| {100 * share:.1f} % | {claimed} | {name} |")


if __name__ == "__main__":
    main()
