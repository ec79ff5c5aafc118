"""`harness power`: the number of seeds needed to detect a difference."""

from __future__ import annotations

import math

import click

from harness.cli.output import echo
from harness.cli.tables import plain_table
from harness.errors import UserError
from harness.formatting import fixed
from harness.spec import MOST_SEEDS

_POSITIVE = click.FloatRange(0.0, 1e6, True)


@click.command()
@click.option("--effect", required=True, type=_POSITIVE, help="The true difference of means.")
@click.option("--std", required=True, type=_POSITIVE, help="The standard deviation over seeds, on both sides.")
@click.option("--seeds", type=click.IntRange(2, MOST_SEEDS), help="One more number of seeds for the table.")
def power(effect: float, std: float, seeds: int | None) -> None:
    """Show how many seeds a difference needs.

    Two-sided two-sample t-test at 0.05, equal numbers of seeds on both sides.
    """
    from harness.stats import detectable_difference, power_of_t_test, seeds_needed

    for name, value in (("effect", effect), ("std", std)):
        if not math.isfinite(value):
            raise UserError(f"--{name} {value}: not a finite number; give another value")
    try:
        needed = seeds_needed(effect, std)
    except ValueError as error:
        raise UserError(f"--effect {effect:g} is too small for --std {std:g} ({error}); give a larger one") from error
    echo(
        f"a difference of {effect:g} with a deviation of {std:g} needs {needed} seeds of each variant "
        "(80% power, two-sided t-test at 0.05)"
    )
    counts = sorted({3, 5, 10, 20, *([seeds] if seeds else [])})
    plain_table(
        ("seeds each", "power", "minimum detectable difference (80% power)"),
        [
            (str(n), f"{fixed(100 * power_of_t_test(effect, std, n), 0)}%", f"{detectable_difference(std, n):.3g}")
            for n in counts
        ],
    )
