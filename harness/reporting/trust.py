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
    marks = _count_marked_rows(rows)
    return {
        "seeds": _describe_seeds(rows),
        "tests": f"two-sided over seeds at {ALPHA}, {CORRECTION.name} within a column, setting and encoder",
        "stale": _describe_stale(rows, marks["stale"]),
        "collapsed, selected on a test": f"{count_of(marks[COLLAPSED], 'row')}, {count_of(marks[SELECTED], 'row')}",
        "controls missing": "; ".join(missing.values()) or "none of a leader",
        "left out": f"{count_of(len(contents.failures), 'failed run')}, {count_of(len(contents.problems), 'bad file')}",
        "precision": _count_runs(_list_precisions(contents)),
        "hardware": _count_runs(_list_machines(contents)),
    }


def _count_marked_rows(rows: Sequence[Row]) -> Counter[str]:
    """How many rows have each caveat, or are stale; a row of several suites counts once."""
    marked = set[tuple[str, Label]]()
    for row in rows:
        marked |= {(caveat.mark, row.label) for caveat in row.weakness().caveats}
        if row.freshness.is_stale:
            marked.add(("stale", row.label))
    return Counter(mark for mark, _ in marked)


def _describe_seeds(rows: Sequence[Row]) -> str:
    counts = {row.label: len(row.seeds) for row in rows if row.is_trained}
    fewest = min(counts.values(), default=0)
    most = max(counts.values(), default=0)
    too_few = sum(count < FEWEST_SEEDS for count in counts.values())
    return (
        f"{fewest} to {most} a trained row; {too_few} of {count_of(len(counts), 'row')} with fewer "
        f"than {FEWEST_SEEDS} are neither tested nor ranked"
    )


def _describe_stale(rows: Sequence[Row], stale: int) -> str:
    text = f"{count_of(stale, 'row')} of other code, data or values than the present ones"
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
        yield str(machine.get("gpu") or machine.get("processor") or machine.get("device"))


def _count_runs(texts: Iterable[str]) -> str:
    """`fp32 (20 runs), bf16 (1 run)`."""
    counts = Counter(texts).most_common()
    return ", ".join(f"{text} ({count_of(number, 'run')})" for text, number in counts) or "–"


def list_runs_to_start(contents: Contents, missing: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The runs that would say more, as pairs of a reason and a command; `missing` as
    `find_controls_to_run` gives them.

    Each command has something to do, and what it adds is used: its reason is then gone.
    """
    yield from _list_failed_runs(contents)
    yield from _list_weak_rows(contents)
    yield from ((f"control missing: {what}", command) for command, what in missing.items())


def _list_failed_runs(contents: Contents) -> Iterator[tuple[str, str]]:
    """The failed runs that have no result; one with `--set` is not known by its failure's name."""
    runs = contents.frames.runs
    done = set(zip(runs["profile"], contents.frames.keys, strict=True))
    for failure in contents.failures:
        spec = failure.spec
        if (failure.profile, spec.key) not in done:
            command = contents.commands.run(
                profile=failure.profile,
                methods=str(spec.variant),
                settings=str(spec.setting),
                encoders=spec.encoder,
                seeds=f"{spec.seed},",
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
        stale = [row for row in rows if row.freshness.is_stale]
        few = [row for row in rows if _has_use_for_seeds(row)]
        if stale:
            seeds = sorted({seed for row in stale for seed in row.seeds})
            yield from _make_row_command(contents, label, stale, list_of_seeds(seeds), "stale")
        elif few:
            fewest = min(len(row.seeds) for row in few)
            why = count_of(fewest, "seed")
            yield from _make_row_command(contents, label, few, str(FEWEST_SEEDS), why)


def _has_use_for_seeds(row: Row) -> bool:
    """Whether a row has too few seeds, and more of them have not been evaluated."""
    if len(row.seeds) >= FEWEST_SEEDS:
        return False
    wanted = range(FEWEST_SEEDS)
    return row.frames is None or is_unevaluated(row.frames, row.label, row.suite, wanted)


def _make_row_command(
    contents: Contents, label: Label, rows: Sequence[Row], seeds: str, why: str
) -> Iterator[tuple[str, str]]:
    """The command that runs a label with some seeds and evaluates it on the suites of its rows."""
    values = json.loads(contents.frames.runs["overrides_json"][rows[0].runs[0]])
    command = contents.commands.run(
        profile=label.profile,
        methods=label.variant,
        settings=label.setting,
        encoders=label.encoder,
        seeds=seeds,
        suites=contents.commands.suites(label.profile, [row.suite for row in rows]),
        set=values,
    )
    yield f"{label.name} on {label.place}, profile {label.profile}: {why}", command


def find_controls_to_run(contents: Contents) -> Mapping[str, str]:
    """The controls of all leaders that were not run, by the commands that run them."""
    return {
        command: f"{what} for {forest.place}, profile {forest.table.profile}"
        for forest in contents.forests
        for what, command in find_missing_controls(forest, contents.commands)
    }
