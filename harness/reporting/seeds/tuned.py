"""Methods tuned at equal budgets: each seed picks its trial with the best dev score, without any
use of test scores.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, groupby
from typing import TYPE_CHECKING

from harness.method.naming import name_of
from harness.reporting.seeds.caveats import GroupState, Weakness, join_caveats
from harness.reporting.seeds.cells import Label, Row
from harness.reporting.seeds.choose import choose_evaluations, make_rows
from harness.reporting.seeds.summary import SummaryTable, make_blocks, make_table_of_blocks
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
        picks = {}
        for seed, score_by_trial in self.scores.items():
            picks[seed] = max(score_by_trial, key=score_by_trial.__getitem__)
        return picks

    @cached_property
    def expected(self) -> tuple[Summary, ...]:
        """The expected best dev score of 1, 2, ... trials over seeds."""
        curves = [expected_best(list(dev.values())) for dev in self.scores.values()]
        return tuple(summarise(values) for values in zip(*curves, strict=True))

    @property
    def weakness(self) -> Weakness:
        """What weakens the test scores of its picks."""
        cells = chain.from_iterable(row.cells.values() for row in self.rows.values())
        caveats = join_caveats(cell.caveats for cell in cells)
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
        by_place = groupby(self.lines, key=lambda line: line.place)
        return [list(lines) for _, lines in by_place]

    @property
    def title(self) -> str:
        """The methods, what was set, and the number of trials."""
        methods = ", ".join(name_of(method.base).text for method in self.tuning.methods)
        overrides = format_overrides(self.tuning.overrides)
        if overrides:
            methods += f" ({overrides})"
        return f"{methods}: {self.tuning.trials} trials each ({self.tuning.key}), profile {self.tuning.profile}"


def add_tuned_rows(table: SummaryTable, reports: Sequence[TunedReport]) -> SummaryTable:
    """A suite's table with the rows of tunings, in blocks of their own with their own tests."""
    words = "tested among themselves, by seed where marked 'paired', against"
    blocks = list(table.blocks)
    legend = list(table.legend)
    notes = dict.fromkeys(table.notes)

    for tuned in chain.from_iterable(report.tables for report in reports):
        if (tuned.profile, tuned.suite) != (table.profile, table.suite):
            continue

        about = f", {tuned.about}"
        blocks += [replace(block, rows=tuple(block.trained), about=about) for block in tuned.blocks]
        legend.append(f"Rows {tuned.about}: {words} {name_of(tuned.blocks[0].base)}.")
        notes |= dict.fromkeys(tuned.notes)
    return replace(table, blocks=tuple(blocks), legend=tuple(legend), notes=tuple(notes))


def make_tuned_reports(
    tunings: Sequence[Tuning], results: Sequence[Result], tables: Sequence[SummaryTable]
) -> list[TunedReport]:
    """Evaluate each tuning that has been run. Untrained encoders are taken from the summary
    `tables`.

    A tuning is left out of the places where only trials were run that another one has as well,
    which was run there with more methods. A search is reported in its place alone.
    """
    methods = dict[tuple[str, str | None, TunedMethod], None]()
    for tuning in tunings:
        for method in tuning.methods:
            methods[tuning.profile, tuning.sampler, method] = None
    names = [f"{profile}: {method.format_code()}" for profile, _, method in methods]

    frames_of_tunings = [_find_trials(tuning, results) for tuning in tunings]
    variants_run = [_list_variants_run(frames) for frames in frames_of_tunings]
    reports = []
    for tuning, frames, variants in zip(tunings, frames_of_tunings, variants_run, strict=True):
        places = _find_places(tuning, variants, variants_run)
        report = _make_report(tuning, frames, places, tables, names)
        if report.lines:
            reports.append(report)
    return reports


#: columns of runs: where the trials of a tuning are compared
_PLACE = ["profile", "overrides", "setting", "encoder"]
#: the variants that were run, by the values of these columns
VariantsRun = Mapping[tuple[str, ...], set[str]]


def _find_trials(tuning: Tuning, results: Sequence[Result]) -> Frames:
    """The runs of a tuning; of each trial those of one group, the same in all suites."""
    frames = frames_of(results).where(profile=[tuning.profile], variant=tuning.variants)
    is_trial = frames.runs["overrides"] == format_overrides(tuning.overrides)
    is_trial &= frames.runs["dev"].notna()
    frames = frames.take_rows(frames.runs.index[is_trial].tolist())

    firsts = choose_evaluations(frames, frames.scores).drop_duplicates([*Label._fields])
    return frames.where(group=set(firsts["group"]))


def _list_variants_run(frames: Frames) -> VariantsRun:
    """The variants that were run in each place."""
    by_place = frames.runs[[*_PLACE, "variant"]].astype(str).groupby(_PLACE)["variant"]
    return {tuple(map(str, place)): set(variants) for place, variants in by_place}


def _find_places(
    tuning: Tuning, own: VariantsRun, of_all_tunings: Sequence[VariantsRun]
) -> list[tuple[str, ...]]:
    """Where a tuning is reported, from what was run of it and of all tunings."""
    if tuning.place:
        return [place for place in own if "/".join(place[2:]) == tuning.place]

    places = []
    for place, variants in own.items():
        is_part_of_another = any(
            variants < variants_run.get(place, set()) for variants_run in of_all_tunings
        )
        if not is_part_of_another:
            places.append(place)
    return places


def _make_report(
    tuning: Tuning,
    frames: Frames,
    places: Collection[object],
    tables: Sequence[SummaryTable],
    names: Sequence[str],
) -> TunedReport:
    """A tuning in its places; `names` are those of the methods of all tunings."""
    chosen_evaluations = choose_evaluations(frames, frames.scores)
    by_place = frames.runs.astype(dict.fromkeys(_PLACE, str)).groupby(_PLACE)
    lines = list[TunedLine]()
    for place, runs in by_place:
        if place not in places:
            continue
        kept_here = chosen_evaluations[chosen_evaluations["run"].isin(runs.index)]
        lines += [
            _make_line(tuning, method, names, frames, runs, kept_here) for method in tuning.methods
        ]

    tuned_tables = []
    for table in tables:
        if table.profile == tuning.profile:
            tuned = _make_table(tuning, lines, table)
            if tuned:
                tuned_tables.append(tuned)
    return TunedReport(tuning, tuple(lines), tuple(tuned_tables))


def _make_line(
    tuning: Tuning,
    method: TunedMethod,
    names: Sequence[str],
    frames: Frames,
    runs: pandas.DataFrame,
    kept: pandas.DataFrame,
) -> TunedLine:
    """A method in one place, from the runs there and their chosen evaluations; `names` are those of
    the methods of all tunings.
    """
    devs = {(run.variant, run.seed): run.dev for run in lines_of(runs)}
    scores = {}
    lacking = {}
    for seed in sorted({seed for _, seed in devs}):
        trials = [trial for trial in method.trials if (trial, seed) in devs]
        if len(trials) < tuning.trials:
            lacking[seed] = tuning.trials - len(trials)
        else:
            scores[seed] = {trial: devs[trial, seed] for trial in trials}

    stale = dict[str, None]()
    for trial in method.trials:
        for freshness in kept["freshness"][kept["variant"] == trial]:
            if freshness.is_stale:
                stale[freshness.state] = None

    first = runs.iloc[0]
    line = TunedLine(
        method=method,
        name=_name_line(tuning, method, names),
        setting=first["setting"],
        encoder=first["encoder"],
        dev=f"{first['dev_metric']} on {first['dev_task']}",
        scores=scores,
        lacking=lacking,
        freshness=GroupState(len(scores), " and ".join(stale)),
        rows={},
    )
    return replace(line, rows=_make_picked_rows(line, frames, kept))


def _name_line(tuning: Tuning, method: TunedMethod, names: Sequence[str]) -> str:
    """The name of a tuned method; the values that were tried follow where another tuning has the
    same short name.
    """
    short_name = method.format_code()
    if names.count(f"{tuning.profile}: {short_name}") < 2:
        return short_name
    values = method.space
    if tuning.sampler:
        values += f",sampler={tuning.sampler}"
    return method.format_code(f"[{values}]")


def _make_picked_rows(line: TunedLine, frames: Frames, kept: pandas.DataFrame) -> Mapping[str, Row]:
    """The row of the picked trials in each suite, under the name of the tuned method."""
    picks = line.picks.items()
    trials = zip(kept["seed"], kept["variant"], strict=True)
    picked = kept[[trial in picks for trial in trials]]
    row_numbers = picked.groupby("suite", observed=True).ngroup()
    picked = picked.assign(variant=line.name, row=row_numbers).sort_values(["row", "seed"])

    rows = {}
    for row in make_rows(frames, picked, frames.scores):
        # the picks of seeds share neither a group nor their values
        rows[row.suite] = replace(
            row, group="", freshness=line.freshness, training={}, pooling="", is_method=True
        )
    return rows


def _make_table(
    tuning: Tuning, lines: Sequence[TunedLine], table: SummaryTable
) -> SummaryTable | None:
    """The picked trials' test scores in the columns of a suite's table; None if there are none."""
    rows = []
    for line in lines:
        row = line.rows.get(table.suite)
        if row is None:
            continue
        cells = {column: row.cells[column] for column in table.columns if column in row.cells}
        if cells:
            rows.append(replace(row, cells=cells))
    if not rows:
        return None

    encoders = {row.label.encoder for row in rows}
    untrained = [row for row in table.rows if not row.is_trained and row.label.encoder in encoders]
    names = {line.method.base: line.name for line in lines}
    base = names.get(BASELINE, lines[0].name)
    blocks = make_blocks([*rows, *untrained], table.metrics, base)
    tuned = make_table_of_blocks(table.profile, table.suite, table.columns, table.metrics, blocks)
    return replace(tuned, about=f"tuned, {tuning.trials} trials each ({tuning.key})")
