"""Methods tuned at equal budgets: each seed picks the trial with its best dev score, and no test has a say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.method.naming import name_of
from harness.metrics import Column
from harness.reporting.seeds.caveats import Freshness, Weakness, joined_caveats
from harness.reporting.seeds.groups import Cell, Group, Label, kept_groups
from harness.reporting.seeds.summary import BASELINE, Row, SummaryTable, blocks_of, legend_of, notes_on
from harness.stats import Summary, expected_best, summarise
from harness.store import Result, frame_of, overrides_text, some_of
from harness.store.tunings import TunedMethod, Tuning


class Pick(NamedTuple):
    """The trial that one seed picked, with its dev score, the mean of all trials', and its test scores by suite."""

    seed: int
    variant: str
    dev: float
    mean: float
    scores: Mapping[str, Mapping[Column, Cell]]


@dataclass(frozen=True)
class TunedLine:
    """A method in one setting with one encoder.

    `expected` is the expected best dev score of 1, 2, ... trials over seeds, `freshness` that of all trials. `lacking`
    counts the trials that a seed lacks, by seed; such a seed picks nothing.
    """

    method: TunedMethod
    picks: tuple[Pick, ...]
    expected: tuple[Summary, ...]
    lacking: Mapping[int, int]
    freshness: Freshness


@dataclass(frozen=True)
class TunedPlace:
    """The methods of a tuning in one setting with one encoder, and the dev task that picks."""

    setting: str
    encoder: str
    dev: str
    lines: tuple[TunedLine, ...]

    def weaknesses(self) -> Iterator[Weakness]:
        """What weakens the scores of each method's picks."""
        for line in self.lines:
            caveats = joined_caveats(
                cell.caveats for pick in line.picks for some in pick.scores.values() for cell in some.values()
            )
            yield Weakness(f"{self.setting} / {self.encoder}", name_of(line.method.base).text, caveats, line.freshness)

    @property
    def incomplete(self) -> list[int]:
        """The seeds in which some method lacks trials."""
        return sorted({seed for line in self.lines for seed in line.lacking})


@dataclass(frozen=True)
class TunedReport:
    """A tuning in all places where it was run, and the tables of the test scores of what was picked."""

    tuning: Tuning
    places: tuple[TunedPlace, ...]
    tables: tuple[SummaryTable, ...]

    @property
    def title(self) -> str:
        """What it is about."""
        methods = ", ".join(name_of(method.base).text for method in self.tuning.methods)
        overrides = overrides_text(self.tuning.overrides)
        more = f" ({overrides})" if overrides else ""
        return f"{methods}{more}: {self.tuning.trials} trials each, profile {self.tuning.profile}"


def tuned_reports(
    tunings: Sequence[Tuning], results: Sequence[Result], tables: Sequence[SummaryTable]
) -> list[TunedReport]:
    """Evaluate each tuning that has been run. Untrained encoders are taken from the summary `tables`."""
    found = [_report(tuning, results, tables) for tuning in tunings]
    return [report for report in found if report.places]


def _report(tuning: Tuning, results: Sequence[Result], tables: Sequence[SummaryTable]) -> TunedReport:
    wanted, overrides = set(tuning.variants), overrides_text(tuning.overrides)
    fits = [
        one.profile == tuning.profile
        and one.spec.variant in wanted
        and one.best_dev is not None
        and overrides_text(one.overrides) == overrides
        for one in results
    ]
    mine = some_of(results, fits)
    frame = frame_of(mine, ())
    chosen = {place[:4]: group.group for (place, _), group in reversed(kept_groups(frame).items())}
    runs = {
        (one.spec.variant, one.spec.setting, one.spec.encoder, one.spec.seed): one
        for one in mine
        if chosen.get((one.profile, one.spec.variant, one.spec.setting, one.spec.encoder)) == one.group
    }
    kept = kept_groups(frame[frame["group"].isin(set(chosen.values()))])
    spots = sorted({(one.spec.setting, one.spec.encoder) for one in runs.values()})
    places = tuple(_place(tuning, *spot, runs, kept) for spot in spots)
    shown = (table for table in tables if table.profile == tuning.profile)
    return TunedReport(tuning, places, tuple(filter(None, (_table(tuning, places, one) for one in shown))))


def _place(
    tuning: Tuning,
    setting: str,
    encoder: str,
    runs: Mapping[tuple[str, str, str, int], Result],
    kept: Mapping[tuple[Label, str], Group],
) -> TunedPlace:
    here = {(key[0], key[3]): one for key, one in runs.items() if key[1:3] == (setting, encoder)}
    groups: dict[str, dict[str, Group]] = {}
    for (label, suite), group in kept.items():
        if (label.setting, label.encoder) == (setting, encoder):
            groups.setdefault(label.variant, {})[suite] = group
    lines = tuple(_line(tuning, method, here, groups) for method in tuning.methods)
    dev = next(iter(here.values())).dev
    return TunedPlace(setting, encoder, f"{dev.metric} on {dev.task}", lines)


def _line(
    tuning: Tuning,
    method: TunedMethod,
    here: Mapping[tuple[str, int], Result],
    groups: Mapping[str, Mapping[str, Group]],
) -> TunedLine:
    """A method in one place; `here` are its runs by trial and seed, `groups` by trial and suite."""
    seeds = sorted({seed for _, seed in here})
    done = {seed: [here[trial, seed] for trial in method.trials if (trial, seed) in here] for seed in seeds}
    lacking = {seed: tuning.trials - len(some) for seed, some in done.items() if len(some) < tuning.trials}
    full = {seed: [one.best_dev or 0.0 for one in some] for seed, some in done.items() if seed not in lacking}
    curves = [expected_best(scores) for scores in full.values()]
    picks = tuple(_pick(done[seed], scores, groups) for seed, scores in full.items())
    expected = tuple(summarise(values) for values in zip(*curves, strict=True))
    every = (group.freshness for trial in method.trials for group in groups.get(trial, {}).values())
    stale = dict.fromkeys(freshness.state for freshness in every if freshness.is_stale)
    return TunedLine(method, picks, expected, lacking, Freshness(len(picks), " and ".join(stale)))


def _pick(trials: Sequence[Result], dev: Sequence[float], groups: Mapping[str, Mapping[str, Group]]) -> Pick:
    """The trial with the best dev score, of equal ones that which was drawn first."""
    best = max(range(len(dev)), key=dev.__getitem__)
    spec = trials[best].spec
    scores = {
        suite: {
            column: Cell.of([values[spec.seed]], group.caveats(column, seeds=[spec.seed]))
            for column, values in group.scores.items()
            if spec.seed in values
        }
        for suite, group in groups.get(spec.variant, {}).items()
    }
    return Pick(spec.seed, spec.variant, dev[best], summarise(dev).mean, scores)


def _table(tuning: Tuning, places: Sequence[TunedPlace], table: SummaryTable) -> SummaryTable | None:
    """The test scores of what was picked in the columns of a suite's table; None if there are none."""
    overrides = overrides_text(tuning.overrides)
    rows = [
        _row(line, Label(tuning.profile, line.method.name, place.setting, place.encoder, overrides), table)
        for place in places
        for line in place.lines
        if line.picks
    ]
    rows = [row for row in rows if row.cells]
    if not rows:
        return None
    encoders = {row.label.encoder for row in rows}
    untrained = [row for row in table.rows if not row.is_trained and row.label.encoder in encoders]
    names = {method.base: method.name for method in tuning.methods}
    base = names.get(BASELINE, tuning.methods[0].name)
    blocks = blocks_of([*rows, *untrained], table.metrics, base)
    legend = legend_of(table.columns, table.metrics, blocks)
    notes = tuple(notes_on(blocks, table.suite, table.metrics))
    about = f"tuned, {tuning.trials} trials each ({tuning.key})"
    return SummaryTable(table.profile, table.suite, table.columns, table.metrics, blocks, legend, notes, about)


def _row(line: TunedLine, label: Label, table: SummaryTable) -> Row:
    scores = [pick.scores.get(table.suite, {}) for pick in line.picks]
    found = {column: [some[column] for some in scores if column in some] for column in table.columns}
    cells = {
        column: Cell.of([cell.values[0] for cell in some], joined_caveats(cell.caveats for cell in some))
        for column, some in found.items()
        if some
    }
    return Row(label, "", tuple(pick.seed for pick in line.picks), line.freshness, {}, cells, is_method=True)
