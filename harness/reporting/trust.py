"""How far the numbers of a report can be trusted, and the runs that would say more."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from harness.command_line import list_of_seeds
from harness.formatting import count_of
from harness.reporting.contents import Contents
from harness.reporting.seeds.caveats import COLLAPSED, SELECTED
from harness.reporting.seeds.cells import Label, Row
from harness.reporting.seeds.evaluated import is_unevaluated
from harness.reporting.seeds.gains import find_missing_controls
from harness.stats import ALPHA, CORRECTION, FEWEST_SEEDS
from harness.store import UNKNOWN


def describe_trust(contents: Contents, missing: Mapping[str, str]) -> Mapping[str, str]:
    """What weakens the numbers of a report, or holds for all of them, by subject; `missing` as
    `find_controls_to_run`.
    """
    rows = [row for table in contents.tables for row in table.rows]
    marked = _count_marked_rows(rows)
    collapsed = count_of(marked[COLLAPSED], "row")
    selected = count_of(marked[SELECTED], "row")
    failed_runs = count_of(len(contents.failures), "failed run")
    bad_files = count_of(len(contents.problems), "bad file")
    family = "within a column, setting and encoder"

    return {
        "seeds": _describe_seeds(rows),
        "tests": f"two-sided over seeds at {ALPHA}, {CORRECTION.name} {family}",
        "stale": _describe_stale(rows, marked["stale"]),
        "collapsed, selected on a test": f"{collapsed}, {selected}",
        "controls missing": "; ".join(missing.values()) or "none of a leader",
        "left out": f"{failed_runs}, {bad_files}",
        "precision": _count_runs(_list_precisions(contents)),
        "hardware": _count_runs(_list_machines(contents)),
    }


def _count_marked_rows(rows: Sequence[Row]) -> Counter[str]:
    """How many rows have each caveat, or are stale."""
    # a row of several suites counts once
    labels_by_mark: dict[str, set[Label]] = {}
    for row in rows:
        marks = [caveat.mark for caveat in row.weakness().caveats]
        if row.freshness.is_stale:
            marks.append("stale")
        for mark in marks:
            labels_by_mark.setdefault(mark, set()).add(row.label)
    return Counter({mark: len(labels) for mark, labels in labels_by_mark.items()})


def _describe_seeds(rows: Sequence[Row]) -> str:
    """The seeds of trained rows, and how many rows have too few."""
    seeds = {row.label: len(row.seeds) for row in rows if row.is_trained}
    fewest_seeds = min(seeds.values(), default=0)
    most_seeds = max(seeds.values(), default=0)
    too_few = [label for label, number in seeds.items() if number < FEWEST_SEEDS]
    return (
        f"{fewest_seeds} to {most_seeds} a trained row; {len(too_few)} of "
        f"{count_of(len(seeds), 'row')} with fewer than {FEWEST_SEEDS} are neither tested nor ranked"
    )


def _describe_stale(rows: Sequence[Row], stale_rows: int) -> str:
    text = f"{count_of(stale_rows, 'row')} of other code, data or values than the present ones"
    if any(row.freshness.state == UNKNOWN for row in rows):
        text += "; some rows could not be compared"
    return text


def _list_precisions(contents: Contents) -> Iterator[str]:
    """The precision of each trained run."""
    for values in map(json.loads, contents.frames.runs["hyperparameters"]):
        training = values.get("training", {})
        if "precision" in training:
            yield training["precision"]


def _list_machines(contents: Contents) -> Iterator[str]:
    """The card of each run, or its processor."""
    for machine in map(json.loads, contents.frames.runs["hardware"]):
        yield str(machine.get("accelerator") or machine.get("processor") or machine.get("device"))


def _count_runs(texts: Iterable[str]) -> str:
    """`fp32 (20 runs), bf16 (1 run)`."""
    by_number = Counter(texts).most_common()
    return ", ".join(f"{text} ({count_of(runs, 'run')})" for text, runs in by_number) or "–"


def list_runs_to_start(contents: Contents, missing: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The runs that would say more, as pairs of a reason and a command; `missing` as
    `find_controls_to_run` gives them.

    Each command has something to do, and what it adds is used: its reason is then gone.
    """
    yield from _list_failed_runs(contents)
    yield from _list_weak_rows(contents)
    for command, control in missing.items():
        yield f"control missing: {control}", command


def _list_failed_runs(contents: Contents) -> Iterator[tuple[str, str]]:
    """The failed runs that have no result; one with `--set` is not known by its failure's name."""
    frames = contents.frames
    finished = set(zip(frames.runs["profile"], frames.keys, strict=True))
    for failure in contents.failures:
        spec = failure.spec
        if (failure.profile, spec.key) in finished:
            continue

        command = contents.commands.run(
            profile=failure.profile,
            methods=str(spec.variant),
            settings=str(spec.setting),
            encoders=spec.encoder,
            seeds=list_of_seeds([spec.seed]),
        )
        yield f"{spec.key} failed", command


def _list_weak_rows(contents: Contents) -> Iterator[tuple[str, str]]:
    """The trained rows that are stale, or that have too few seeds in a suite, which more runs can
    change.
    """
    rows_by_label: dict[Label, list[Row]] = {}
    for table in contents.tables:
        for row in table.rows:
            if row.is_trained:
                rows_by_label.setdefault(row.label, []).append(row)

    for label, rows in rows_by_label.items():
        place = f"{label.name} on {label.place}, profile {label.profile}"
        stale_rows = [row for row in rows if row.freshness.is_stale]
        if stale_rows:
            seeds = set[int]().union(*(row.seeds for row in stale_rows))
            command = _make_row_command(contents, stale_rows, list_of_seeds(sorted(seeds)))
            yield f"{place}: stale", command
            continue

        rows_of_few = [row for row in rows if _has_use_for_seeds(row)]
        if rows_of_few:
            fewest_seeds = min(len(row.seeds) for row in rows_of_few)
            command = _make_row_command(contents, rows_of_few, str(FEWEST_SEEDS))
            yield f"{place}: {count_of(fewest_seeds, 'seed')}", command


def _has_use_for_seeds(row: Row) -> bool:
    """Whether a row has too few seeds, and more of them have not been evaluated."""
    if len(row.seeds) >= FEWEST_SEEDS:
        return False
    seeds = range(FEWEST_SEEDS)
    return row.frames is None or is_unevaluated(row.frames, row.label, row.suite, seeds)


def _make_row_command(contents: Contents, rows: Sequence[Row], seeds: str) -> str:
    """The command that runs the label of some rows with these seeds, and evaluates it on the suites
    of the rows.
    """
    label = rows[0].label
    overrides = json.loads(contents.frames.runs["overrides_json"][rows[0].runs[0]])
    return contents.commands.run(
        profile=label.profile,
        methods=label.variant,
        settings=label.setting,
        encoders=label.encoder,
        seeds=seeds,
        suites=contents.commands.select_suites(label.profile, [row.suite for row in rows]),
        set=overrides,
    )


def find_controls_to_run(contents: Contents) -> Mapping[str, str]:
    """The controls of all leaders that were not run, by the commands that run them."""
    controls = {}
    for forest in contents.forests:
        place = f"{forest.place}, profile {forest.table.profile}"
        for control, command in find_missing_controls(forest, contents.commands):
            controls[command] = f"{control} for {place}"
    return controls
