"""How far the numbers of a report can be trusted, and the runs that would say more."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from harness.formatting import count_of
from harness.reporting.contents import Contents
from harness.reporting.seeds.caveats import COLLAPSED, SELECTED
from harness.reporting.seeds.gains import lacking
from harness.stats import ALPHA, FEWEST_SEEDS
from harness.store import UNKNOWN


def trust(contents: Contents, missing: Mapping[str, str]) -> Mapping[str, str]:
    """What weakens the numbers of a report, or holds for all of them, by subject; `missing` as
    `controls_to_run`.
    """
    runs, rows = contents.frames.runs, [row for table in contents.tables for row in table.rows]
    counts = {row.label: len(row.seeds) for row in rows if row.is_trained}
    few = sum(count < FEWEST_SEEDS for count in counts.values())
    weak = {(caveat.mark, row.label) for row in rows for caveat in row.weakness().caveats}
    weak |= {("stale", row.label) for row in rows if row.freshness.is_stale}
    marks = Counter(mark for mark, _ in weak)
    known = (
        ""
        if all(row.freshness.state != UNKNOWN for row in rows)
        else "; some rows could not be compared"
    )
    values, machines = (map(json.loads, runs[name]) for name in ("hyperparameters", "hardware"))
    return {
        "seeds": f"{min(counts.values(), default=0)} to {max(counts.values(), default=0)} a trained row; {few} of "
        f"{count_of(len(counts), 'row')} with fewer than {FEWEST_SEEDS} are neither tested nor ranked",
        "tests": f"two-sided over seeds at {ALPHA}, Holm's correction within a column, setting and encoder",
        "stale": f"{count_of(marks['stale'], 'row')} of other code, data or values than the present ones{known}",
        "collapsed, selected on a test": f"{count_of(marks[COLLAPSED], 'row')}, {count_of(marks[SELECTED], 'row')}",
        "controls missing": "; ".join(missing.values()) or "none of a leader",
        "left out": f"{count_of(len(contents.failures), 'failed run')}, {count_of(len(contents.problems), 'bad file')}",
        "precision": _counted(
            each["training"]["precision"]
            for each in values
            if "precision" in each.get("training", {})
        ),
        "hardware": _counted(
            str(each.get("gpu") or each.get("processor") or each.get("device")) for each in machines
        ),
    }


def _counted(texts: Iterable[str]) -> str:
    """`fp32 (20 runs), bf16 (1 run)`."""
    return (
        ", ".join(
            f"{text} ({count_of(number, 'run')})" for text, number in Counter(texts).most_common()
        )
        or "–"
    )


def to_run(contents: Contents, missing: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The runs that would say more, as pairs of a reason and a command; `missing` as
    `controls_to_run` gives them.
    """
    run = contents.commands.run
    for failed, spec in ((one, one.spec) for one in contents.failures):
        place = {"settings": str(spec.setting), "encoders": spec.encoder, "seeds": f"{spec.seed},"}
        yield f"{spec.key} failed", run(profile=failed.profile, methods=str(spec.variant), **place)
    for label, row in {
        row.label: row for table in contents.tables for row in table.rows if row.is_trained
    }.items():
        stale, count = row.freshness.is_stale, count_of(len(row.seeds), "seed")
        if stale or len(row.seeds) < FEWEST_SEEDS:
            seeds = ",".join(map(str, row.seeds)) + "," if stale else str(FEWEST_SEEDS)
            values = json.loads(contents.frames.runs["overrides_json"][row.runs[0]])
            place = {
                "settings": label.setting,
                "encoders": label.encoder,
                "seeds": seeds,
                "set": values,
            }
            command = run(profile=label.profile, methods=label.variant, **place)
            yield (
                f"{label.name} on {label.place}, profile {label.profile}: {'stale' if stale else count}",
                command,
            )
    yield from ((f"control missing: {what}", command) for command, what in missing.items())


def controls_to_run(contents: Contents) -> Mapping[str, str]:
    """The controls of all leaders that were not run, by the commands that run them."""
    return {
        command: f"{what} for {forest.place}, profile {forest.table.profile}"
        for forest in contents.forests
        for what, command in lacking(forest, contents.commands)
    }
