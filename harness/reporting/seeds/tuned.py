"""Methods tuned at equal budgets: each seed picks its trial with the best dev score, without any
use of test scores.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING

from harness.method.naming import name_of
from harness.reporting.seeds.caveats import GroupState, Weakness, joined_caveats
from harness.reporting.seeds.cells import Label, Row
from harness.reporting.seeds.choose import chosen, rows_of
from harness.reporting.seeds.summary import SummaryTable, blocks_of, table_of_blocks
from harness.spec import BASELINE
from harness.stats import Summary, expected_best, summarise
from harness.store import Frames, Result, format_overrides, frames_of, lines_of
from harness.store.tunings import TunedMethod, Tuning

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class TunedLine:
    """A method in one setting with one encoder; its `rows`, one for each suite, have the test
    scores of its picks.

    `name` is that of the rows. `scores` are the dev scores, on the task and in the metric that
    `dev` names, of each trial by seed. `freshness` is that of all trials. `lacking` maps each
    incomplete seed to its number of missing trials; such a seed picks nothing and is in no other
    field.
    """

    method: TunedMethod
    name: str
    setting: str
    encoder: str
    dev: str
    scores: Mapping[int, Mapping[str, float]]
    lacking: Mapping[int, int]
    freshness: GroupState
    rows: Mapping[str, Row]

    @property
    def place(self) -> str:
        return f"{self.setting} / {self.encoder}"

    @property
    def picks(self) -> dict[int, str]:
        """The trial with the best dev score of each seed; of equal ones, the first drawn."""
        return {seed: max(dev, key=dev.__getitem__) for seed, dev in self.scores.items()}

    @cached_property
    def expected(self) -> tuple[Summary, ...]:
        """The expected best dev score of 1, 2, ... trials over seeds."""
        curves = [expected_best([*dev.values()]) for dev in self.scores.values()]
        return tuple(summarise(values) for values in zip(*curves, strict=True))

    @property
    def weakness(self) -> Weakness:
        caveats = joined_caveats(
            cell.caveats for row in self.rows.values() for cell in row.cells.values()
        )
        return Weakness(self.place, name_of(self.method.base).text, caveats, self.freshness)


@dataclass(frozen=True)
class TunedReport:
    """A tuning: its methods in each place where it was run, and the tables of the picked trials'
    test scores.
    """

    tuning: Tuning
    lines: tuple[TunedLine, ...]
    tables: tuple[SummaryTable, ...]

    @property
    def places(self) -> list[list[TunedLine]]:
        """The lines of each setting and encoder."""
        return [list(some) for _, some in groupby(self.lines, key=lambda line: line.place)]

    @property
    def title(self) -> str:
        methods = ", ".join(name_of(method.base).text for method in self.tuning.methods)
        overrides = format_overrides(self.tuning.overrides)
        more = f" ({overrides})" if overrides else ""
        return f"{methods}{more}: {self.tuning.trials} trials each ({self.tuning.key}), profile {self.tuning.profile}"


def with_tuned(table: SummaryTable, reports: Sequence[TunedReport]) -> SummaryTable:
    """A suite's table with the rows of tunings, in blocks of their own with their own tests."""
    same = table.profile, table.suite
    mine = [own for report in reports for own in report.tables if (own.profile, own.suite) == same]
    blocks = (
        replace(block, rows=tuple(block.trained), about=f", {own.about}")
        for own in mine
        for block in own.blocks
    )
    words = "tested among themselves, by seed where marked 'paired', against"
    legend = (f"Rows {own.about}: {words} {name_of(own.blocks[0].base)}." for own in mine)
    notes = dict.fromkeys([*table.notes, *(note for own in mine for note in own.notes)])
    return replace(
        table, blocks=(*table.blocks, *blocks), legend=(*table.legend, *legend), notes=tuple(notes)
    )


def tuned_reports(
    tunings: Sequence[Tuning], results: Sequence[Result], tables: Sequence[SummaryTable]
) -> list[TunedReport]:
    """Evaluate each tuning that has been run. Untrained encoders are taken from the summary
    `tables`.

    A tuning is left out of the places where only trials were run that another one has as well,
    which was run there with more methods. A search is reported in its place alone.
    """
    methods = (
        (tuning.profile, tuning.sampler, method) for tuning in tunings for method in tuning.methods
    )
    names = [f"{profile}: {method.format_code()}" for profile, _, method in dict.fromkeys(methods)]
    frames = [_trials(tuning, results) for tuning in tunings]
    ran = [_ran(mine) for mine in frames]
    places = [_places(tuning, mine, ran) for tuning, mine in zip(tunings, ran, strict=True)]
    reports = [_report(*each, tables, names) for each in zip(tunings, frames, places, strict=True)]
    return [report for report in reports if report.lines]


#: columns of runs: where the trials of a tuning are compared
_PLACE = ["profile", "overrides", "setting", "encoder"]
#: the variants that were run, by the values of these columns
VariantsRun = Mapping[tuple[str, ...], set[str]]


def _trials(tuning: Tuning, results: Sequence[Result]) -> Frames:
    """The runs of a tuning; of each trial those of one group, the same in all suites."""
    frames = frames_of(results).where(profile=[tuning.profile], variant=tuning.variants)
    fits = (frames.runs["overrides"] == format_overrides(tuning.overrides)) & frames.runs[
        "dev"
    ].notna()
    frames = frames.take_rows(frames.runs.index[fits].tolist())
    return frames.where(
        group={*chosen(frames, frames.scores).drop_duplicates([*Label._fields])["group"]}
    )


def _ran(frames: Frames) -> VariantsRun:
    runs = frames.runs[[*_PLACE, "variant"]].astype(str).groupby(_PLACE)["variant"]
    return {tuple(map(str, at)): {*some} for at, some in runs}


def _places(
    tuning: Tuning, mine: VariantsRun, every: Sequence[VariantsRun]
) -> list[tuple[str, ...]]:
    """Where a tuning is reported, from what was run of it and of `every` tuning."""
    if tuning.place:
        return [at for at in mine if "/".join(at[2:]) == tuning.place]
    return [at for at in mine if not any(mine[at] < other.get(at, set()) for other in every)]


def _report(
    tuning: Tuning,
    frames: Frames,
    places: Collection[object],
    tables: Sequence[SummaryTable],
    names: list[str],
) -> TunedReport:
    kept = chosen(frames, frames.scores)
    lines = list[TunedLine]()
    for at, runs in frames.runs.astype(dict.fromkeys(_PLACE, str)).groupby(_PLACE):
        if at in places:
            here = kept[kept["run"].isin(runs.index)]
            lines += [
                _tuned(tuning, method, names, frames, runs, here) for method in tuning.methods
            ]
    shown = (table for table in tables if table.profile == tuning.profile)
    return TunedReport(
        tuning,
        tuple(lines),
        tuple(filter(None, (_table(tuning, lines, metric) for metric in shown))),
    )


def _tuned(
    tuning: Tuning,
    method: TunedMethod,
    rows: list[str],
    frames: Frames,
    runs: pandas.DataFrame,
    kept: pandas.DataFrame,
) -> TunedLine:
    """A method in one place, from the runs there and their chosen evaluations; `rows` are the names
    in all tunings.
    """
    # where another tuning has the same short name, the values that were tried follow
    values = f"{method.space},sampler={tuning.sampler}" if tuning.sampler else method.space
    name = method.format_code(
        f"[{values}]" if rows.count(f"{tuning.profile}: {method.format_code()}") > 1 else ""
    )
    devs = {(run.variant, run.seed): run.dev for run in lines_of(runs)}
    first = runs.iloc[0]
    seeds = sorted({seed for _, seed in devs})
    done = {
        seed: {trial: devs[trial, seed] for trial in method.trials if (trial, seed) in devs}
        for seed in seeds
    }
    lacking = {
        seed: tuning.trials - len(some) for seed, some in done.items() if len(some) < tuning.trials
    }
    full = {seed: some for seed, some in done.items() if seed not in lacking}
    every = (
        state for trial in method.trials for state in kept["freshness"][kept["variant"] == trial]
    )
    stale = dict.fromkeys(freshness.state for freshness in every if freshness.is_stale)
    dev = f"{first['dev_metric']} on {first['dev_task']}"
    freshness = GroupState(len(full), " and ".join(stale))
    line = TunedLine(
        method, name, first["setting"], first["encoder"], dev, full, lacking, freshness, {}
    )
    return replace(line, rows=_picked(line, frames, kept))


def _picked(line: TunedLine, frames: Frames, kept: pandas.DataFrame) -> Mapping[str, Row]:
    """The row of the picked trials in each suite, under the name of the tuned method."""
    mine = kept[
        [trial in line.picks.items() for trial in zip(kept["seed"], kept["variant"], strict=True)]
    ]
    mine = mine.assign(variant=line.name, row=mine.groupby("suite", observed=True).ngroup())
    rows = rows_of(frames, mine.sort_values(["row", "seed"]), frames.scores)
    return {
        row.suite: replace(
            row, group="", freshness=line.freshness, training={}, pooling="", is_method=True
        )
        for row in rows
    }


def _table(tuning: Tuning, lines: Sequence[TunedLine], table: SummaryTable) -> SummaryTable | None:
    """The picked trials' test scores in the columns of a suite's table; None if there are none."""
    some = (row for line in lines if (row := line.rows.get(table.suite)))
    shown = ((row, {at: row.cells[at] for at in table.columns if at in row.cells}) for row in some)
    rows = [replace(row, cells=cells) for row, cells in shown if cells]
    if not rows:
        return None
    encoders = {row.label.encoder for row in rows}
    untrained = [row for row in table.rows if not row.is_trained and row.label.encoder in encoders]
    names = {line.method.base: line.name for line in lines}
    base = names.get(BASELINE, lines[0].name)
    blocks = blocks_of([*rows, *untrained], table.metrics, base)
    made = table_of_blocks(table.profile, table.suite, table.columns, table.metrics, blocks)
    return replace(made, about=f"tuned, {tuning.trials} trials each ({tuning.key})")
