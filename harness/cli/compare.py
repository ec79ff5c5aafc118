"""`harness compare`: two variants on one metric, with every test of their seeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.options import results_option
from harness.cli.tables import plain_table
from harness.errors import UserError
from harness.grid import parse_overrides
from harness.profiles import load_profile
from harness.spec import Variant, parse_encoder, parse_setting, split
from harness.store import Store, frame_of, overrides_text

if TYPE_CHECKING:
    import pandas

    from harness.metrics import Column
    from harness.reporting.seeds.comparison import Comparison
    from harness.stats import Effect, Interval, TTest


@click.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("--metric", required=True, metavar="SUITE.TASK[.METRIC]", help="What to compare, such as sts.Avg.")
@click.option("--profile", metavar="NAME|FILE.toml", help="Only this profile's results.")
@click.option("--setting", metavar="S", help="Only runs of this setting.")
@click.option("--encoder", metavar="E", help="Only runs of this encoder.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Only runs with these overrides.")
@results_option
def compare(
    a: str,
    b: str,
    metric: str,
    profile: str | None,
    setting: str | None,
    encoder: str | None,
    sets: Sequence[str],
    results: Path,
) -> None:
    """Compare two variants, or two VARIANT/SETTING/ENCODER, over their seeds.

    A is measured against B. Without --set runs without overrides are preferred.
    """
    from harness.reporting.seeds.comparison import Comparison, find_sides

    store = Store(results)
    loaded, problems = store.load()
    for line in problems:
        click.echo(f"warning: {line}", err=True)
    if not loaded:
        raise UserError(f"{results} has no results; run `harness run --profile tiny` first, or give --results")
    frame = frame_of(loaded)
    suite, column = _column(metric, frame)
    shared = {}
    if profile:
        shared["profile"] = load_profile(profile).name
    if setting:
        shared["setting"] = str(parse_setting(setting))
    if encoder:
        shared["encoder"] = parse_encoder(encoder)
    if sets:
        shared["overrides"] = overrides_text(parse_overrides(sets))
    sides = find_sides(frame, loaded, (_fields(a, shared), _fields(b, shared)), suite, column)
    tasks = frozenset(str(task) for task in frame.loc[frame["suite"] == suite, "task"].unique())
    _show(Comparison(*sides, suite, column, tasks))


def _fields(text: str, shared: dict[str, str]) -> dict[str, str]:
    """What a variant or VARIANT/SETTING/ENCODER says of the runs it means, with what the options say."""
    from harness.spec import UNTRAINED

    parts = split(text, "/")
    if len(parts) == 1:
        fields = {name: value for name, value in shared.items() if name != "setting"}
        variant = Variant.parse(text)
        if "setting" in shared and variant.name != UNTRAINED:
            fields["setting"] = shared["setting"]
        return {**fields, "variant": str(variant)}
    if len(parts) == 2 or parts[-1].startswith("seed-"):
        raise UserError(f"'{text}' is neither a variant nor VARIANT/SETTING/ENCODER; leave the seed out")
    named = {"setting": str(parse_setting(parts[1])), "encoder": parse_encoder("/".join(parts[2:]))}
    return {**shared, **named, "variant": str(Variant.parse(parts[0]))}


def _column(text: str, frame: pandas.DataFrame) -> tuple[str, Column]:
    """The suite, task and metric that are meant. Raises UserError with what there is."""
    from harness.metrics import Column
    from harness.reporting.seeds.summary import MAIN_METRICS

    there = sorted(set(zip(frame["suite"], frame["task"], frame["metric"], strict=True)))
    found = [at for at in there if text in (".".join(at), ".".join(at[:2]), at[0])]
    main = [at for at in found if at[2] in MAIN_METRICS.get(at[0], ())]
    if len(found) > 1 and len({at[1] for at in found}) == 1 and len(main) == 1:
        found = main
    if not found:
        suites = ", ".join(sorted({f"{suite}.{task}" for suite, task, _ in there}))
        raise UserError(f"no result has the metric '{text}'; there are {suites}")
    if len(found) > 1:
        tasks = sorted({at[:2] for at in found})
        several = tasks if len(tasks) > 1 else found
        raise UserError(f"'{text}' may be {', '.join('.'.join(at) for at in several)}; choose with --metric")
    suite, task, metric = found[0]
    return suite, Column(task, metric)


def _show(found: Comparison) -> None:
    a, b = found.a, found.b
    places = " and ".join(dict.fromkeys(f"{side.label.setting} / {side.label.encoder}" for side in (a, b)))
    click.echo(
        f"{a.name} against {b.name}: {found.suite} {found.column.task} {found.column.metric}, "
        f"profile {a.label.profile}, {places}"
    )
    plain_table(("", "value", "95% interval", "p"), [*_means(found), *_tests(found)])
    for line in found.warnings():
        click.echo(f"warning: {line}")
    click.echo(found.conclusion())


def _means(found: Comparison) -> Iterator[tuple[str, str, str, str]]:
    from harness.formatting import count_of
    from harness.reporting.formats import digits_of, summary_text

    digits = digits_of(found.column.metric)
    for side, interval in zip((found.a, found.b), found.intervals, strict=True):
        text = str(summary_text(side.summary, digits, extra=count_of(len(side.scores), "seed")))
        yield side.name, text, _between(interval, digits), ""


def _tests(found: Comparison) -> Iterator[tuple[str, str, str, str]]:
    from harness.formatting import count_of, fixed, p_value, signed
    from harness.reporting.formats import ABSENT, digits_of

    digits, permuted = digits_of(found.column.metric), found.permutation
    named: tuple[tuple[str, TTest | None], ...] = (
        ("difference, t-test (pooled)", found.pooled),
        ("difference, t-test (Welch)", found.welch),
        (f"difference, paired by {count_of(len(found.common), 'seed')}", found.paired),
    )
    for name, test in named:
        if test is None:
            yield name, ABSENT, ABSENT, "too few seeds"
        else:
            yield name, signed(test.difference, digits), _between(test, digits), p_value(test.p)
    least = f"{p_value(permuted.p)} (least possible {permuted.smallest:.2g})"
    how = "exact" if permuted.exact else "20,000 draws"
    yield f"permutation test ({how})", signed(permuted.difference, digits), "", least
    yield "difference, bootstrap", "", _between(found.bootstrap, digits), ""
    effect, order = found.effect, found.dominance
    yield "Hedges' g", ABSENT if effect is None else fixed(effect.g, 2), _between(effect, 2), ""
    bound = ABSENT if order is None else f"at most {fixed(order, 2)} (below 0.5: {found.a.name} better)"
    yield "almost stochastic order", bound, "", ""


def _between(found: TTest | Interval | Effect | None, digits: int) -> str:
    from harness.formatting import fixed
    from harness.reporting.formats import ABSENT

    return ABSENT if found is None else f"{fixed(found.low, digits)} to {fixed(found.high, digits)}"
