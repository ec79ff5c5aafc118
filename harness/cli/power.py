"""`harness power`: how many seeds a difference takes."""

from __future__ import annotations

import click

from harness.cli.tables import plain_table
from harness.errors import UserError

#: What a table of seeds shows when nothing else is asked for.
SEEDS = (3, 5, 10, 20)
_POSITIVE = click.FloatRange(0.0, None, True)


@click.command()
@click.option("--effect", required=True, type=_POSITIVE, help="The true difference of means to be seen.")
@click.option("--std", required=True, type=_POSITIVE, help="The standard deviation over seeds, of either side.")
@click.option("--seeds", type=click.IntRange(min=2), help="One more number of seeds for the table.")
def power(effect: float, std: float, seeds: int | None) -> None:
    """Show how many seeds a difference takes, and what a few seeds can show.

    Two-sided two-sample t-test at 0.05, equal numbers of seeds on both sides.
    """
    from harness.formatting import fixed
    from harness.stats import detectable_difference, power_of_t_test, seeds_needed

    try:
        needed = seeds_needed(effect, std)
    except ValueError as error:
        raise UserError(f"--effect {effect:g} is too small for --std {std:g} ({error}); give a larger one") from error
    click.echo(
        f"a difference of {effect:g} with a deviation of {std:g} takes {needed} seeds of each variant "
        "(80% power, two-sided t-test at 0.05)"
    )
    rows = []
    for count in sorted({*SEEDS, *([seeds] if seeds else [])}):
        share = f"{fixed(100 * power_of_t_test(effect, std, count), 0)}%"
        rows.append((str(count), share, f"{detectable_difference(std, count):.3g}"))
    plain_table(("seeds each", "chance to see it", "smallest difference seen with 80%"), rows)
