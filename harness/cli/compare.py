"""`harness compare` and `harness power`: differences of two variants, and the seeds that a difference needs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from harness.cli.options import any_profile_option, completer, from_profile, names_option, registered, results_option
from harness.cli.output import echo, plain_table, read_results
from harness.commands import Commands
from harness.errors import UserError
from harness.formatting import count_of, fixed, interval_text, p_value, signed
from harness.planning.names import stored_spelling
from harness.reporting.seeds.comparison import ORDERED, Comparison
from harness.reporting.seeds.lookup import of_group
from harness.reporting.tables.grids import ABSENT, summary_text
from harness.spec import MOST_SEEDS
from harness.stats import Effect, Interval, TTest, detectable_difference, power_of_t_test, seeds_needed

TextRow = tuple[str, str, str, str]

_POSITIVE = click.FloatRange(0.0, 1e6, True)


@click.command()
@click.argument("a", metavar="A", shell_complete=completer(registered("method")))
@click.argument("b", metavar="B", shell_complete=completer(registered("method")))
@click.option("--metric", required=True, metavar="SUITE.TASK[.METRIC]", help="The score to compare, such as sts.Avg.")
@any_profile_option
@names_option("--setting", "S", "Only runs of this setting.", from_profile("settings"))
@names_option("--encoder", "E", "Only runs of this encoder.", from_profile("encoders"))
@click.option("--set", "set", multiple=True, metavar="KEY=VALUE", help="Only runs with these overrides.")
@results_option
def compare(a: str, b: str, metric: str, results: Path, **only: Any) -> None:
    """Compare variant A with variant B over their seeds.

    Each may be a VARIANT/SETTING/ENCODER, and NAME#GROUP names the runs of an earlier state of code, data or values; a
    variant is found under any spelling of its options. Without --set, runs without overrides are preferred.
    """
    loaded = read_results(results, only["profile"])
    (a_name, a_group), (b_name, b_group) = map(of_group, (a, b))
    first, second = (stored_spelling(loaded.runs, text, only["profile"]) for text in (a_name, b_name))
    first, second = (f"{name}#{group}" if group else name for name, group in ((first, a_group), (second, b_group)))
    if first == second:
        raise UserError(f"{a} and {b} are the same variant; name two")
    _show(loaded.compare(first, second, metric, **only), Commands(loaded.folder))


def _show(found: Comparison, commands: Commands) -> None:
    a, b = found.a, found.b
    places = " and ".join(dict.fromkeys(f"{side.label.setting} / {side.label.encoder}" for side in (a, b)))
    score = " ".join(found.score)
    echo(f"{a.name} against {b.name}: {score}, profile {a.label.profile}, {places}")
    plain_table(("", "value", "95% interval", "p"), [*_means(found), *_tests(found)])
    if line := commands.untrained(found.a.label.profile, found.lacking):
        echo(line)
    for line in found.warnings():
        echo(f"warning: {line}")
    echo(found.conclusion())


def _means(found: Comparison) -> Iterator[TextRow]:
    digits = found.metric.digits
    for side in (found.a, found.b, *found.untrained):
        counted = ", ".join(filter(None, (count_of(len(side.scores), "seed"), side.freshness.mark)))
        text = str(summary_text(side.summary, digits, extra=counted))
        yield side.name, text, _between(side.interval, digits), ""


def _tests(found: Comparison) -> Iterator[TextRow]:
    digits, permuted = found.metric.digits, found.permutation
    paired = f"difference, paired by {count_of(len(found.common), 'seed')}"
    named: tuple[tuple[str, TTest | None], ...] = (
        (f"difference, t-test ({'one sample' if found.one_sample else 'pooled'})", found.deciding),
        *((("difference, t-test (Welch)", found.welch), (paired, found.paired)) if not found.one_sample else ()),
    )
    for name, test in named:
        if test is None:
            yield name, ABSENT, ABSENT, "too few seeds"
        else:
            yield name, signed(test.difference, digits), _between(test, digits), p_value(test.p)
    if found.one_sample:
        return
    least = f"{p_value(permuted.p)} (smallest possible {permuted.smallest:.2g})"
    how = "exact" if permuted.exact else "20,000 draws"
    yield f"permutation test ({how})", signed(permuted.difference, digits), "", least
    yield "difference, bootstrap", "", _between(found.bootstrap, digits), ""
    effect, order = found.effect, found.dominance
    yield "Hedges' g", ABSENT if effect is None else fixed(effect.g, 2), _between(effect, 2), ""
    ahead = f"{found.ahead.name} {'better' if found.metric.judged else 'ahead'}"
    bound = ABSENT if order is None else f"at most {fixed(order, 2)} (below {ORDERED}: {ahead})"
    yield "almost stochastic order", bound, "", ""


def _between(found: TTest | Interval | Effect | None, digits: int) -> str:
    return ABSENT if found is None else interval_text(found.low, found.high, digits)


@click.command()
@click.option("--effect", required=True, type=_POSITIVE, help="The true difference of means.")
@click.option("--std", required=True, type=_POSITIVE, help="The standard deviation over seeds, on both sides.")
@click.option("--seeds", type=click.IntRange(2, MOST_SEEDS), help="One more number of seeds for the table.")
def power(effect: float, std: float, seeds: int | None) -> None:
    """Show how many seeds a difference needs.

    Two-sided two-sample t-test at 0.05, equal numbers of seeds on both sides.
    """
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
