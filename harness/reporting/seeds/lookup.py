"""Look up the runs that a user names: the two sides and the score of a comparison, and groups of
runs in a folder.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from string import hexdigits
from typing import TYPE_CHECKING

from harness.errors import UserError
from harness.metrics import Column, Metric, Metrics, Score
from harness.registry import suggest
from harness.reporting.seeds.cells import Label, Row, contrast_any
from harness.reporting.seeds.choose import chosen, groups_of, rows_of
from harness.reporting.seeds.comparison import Comparison
from harness.reporting.seeds.conclusion import Conclusion
from harness.reporting.seeds.summary import SummaryTable, summary_tables
from harness.spec import UNTRAINED, Variant, parse_encoder, parse_setting, split
from harness.store import (
    PRESENT,
    UNKNOWN,
    Frames,
    Result,
    format_overrides,
    frames_of,
    lines_of,
    metrics_of,
)

if TYPE_CHECKING:
    import pandas

#: names of `Label` -> the text that they must have
LabelFields = Mapping[str, str]
#: fields of a label that an option can fix
_OPTIONS = ("profile", "encoder", "setting")


def compare_variants(
    results: Sequence[Result],
    a: str,
    b: str,
    metric: str,
    *,
    profile: str | None = None,
    setting: str | None = None,
    encoder: str | None = None,
    overrides: Mapping[str, object] | None = None,
    points: float | None = None,
) -> Comparison:
    """Compare two variants, or two VARIANT/SETTING/ENCODER, in SUITE.TASK[.METRIC].

    `mcse#1a2b3c` is the group of runs whose name, or a fingerprint in it, begins with 1a2b3c. The
    keyword arguments restrict the runs of both; without `overrides`, runs without any are
    preferred. `points` is the largest difference that counts as equal. Raises UserError when no
    runs match, with what there is, or when several do, with the option that tells them apart.
    """
    frames = frames_of(results)
    metrics = metrics_of(results)
    score = find_score(metric, frames, metrics)
    declared = metrics.get(score.suite, {}).get(score.metric, Metric(score.metric))
    shared = {
        "profile": profile,
        "setting": setting and str(parse_setting(setting)),
        "encoder": encoder and parse_encoder(encoder),
        "overrides": format_overrides(overrides or {}),
    }
    fields = {name: text for name, text in shared.items() if text}
    (a, first_group), (b, second_group) = map(of_group, (a, b))
    wanted = described(a, fields), described(b, fields)
    kept = _chosen(frames, score)
    asked = (first_group, second_group)
    sides = [_chosen(frames, score, group) if group else kept for group in asked]
    groups_of_each_side = [*map(groups_of, sides)]
    labels = _choose(groups_of_each_side, *wanted)
    found = (_rows(frames, side, [label]) for side, label in zip(sides, labels, strict=True))
    first, second = (replace(row, asked=group) for (row,), group in zip(found, asked, strict=True))
    encoders = {(label.profile, label.encoder) for label in labels}
    others = (
        label for label in groups_of(kept) if label.setting == UNTRAINED and label not in labels
    )
    untrained = _rows(
        frames, kept, [label for label in others if (label.profile, label.encoder) in encoders]
    )
    mine = frames.where(profile={label.profile for label in labels})
    tables = summary_tables(mine, metrics, only=score.suite, points=points)
    # runs of a named group are not those of the tables, so that no family has their test
    outcome = None
    if not (first_group or second_group):
        outcome = _conclude(tables, first, second, score, declared)
    if outcome is None:
        cell = contrast_any(first, second, score.column, declared, points)
        rows = {row.label: row for table in tables for row in table.rows}
        outcome = Conclusion(first, second, score.column, declared, cell, rows)
    return Comparison(outcome, score, tuple(untrained))


def _conclude(
    tables: Sequence[SummaryTable], first: Row, second: Row, score: Score, metric: Metric
) -> Conclusion | None:
    """The conclusion on two rows from the table that has both of them with these scores; None
    without one.
    """
    column = score.column
    for table in tables:
        rows = {row.label: row for row in table.rows}
        sides = [(row, rows.get(row.label)) for row in (first, second)]
        if all(shown and _has_scores(shown, row, column) for row, shown in sides):
            for block in table.blocks:
                if {first.label, second.label} <= {row.label for row in block.every}:
                    return block.conclude(first, second, column, metric)
    return None


def _has_scores(row: Row, other: Row, column: Column) -> bool:
    """Whether a row has the scores of another one in a column."""
    cell = row.cells.get(column)
    return cell is not None and cell.by_seed == other.cells[column].by_seed


def of_group(text: str) -> tuple[str, str]:
    """Split NAME#GROUP, where GROUP is the start of a fingerprint or of a group's name; empty if
    not given.
    """
    name, mark, group = text.rpartition("#")
    return (
        (name, group) if mark and group and not set(group) - set(hexdigits.lower()) else (text, "")
    )


def _chosen(frames: Frames, score: Score, asked: str = "") -> pandas.DataFrame:
    """The evaluations with a score, of the group that stands for each label among all or those
    found by `asked`.

    `asked` begins a group's name or a fingerprint in it. Raises UserError if none fits.
    """
    runs = frames.runs
    evaluations = frames.evaluations
    scores = frames.scores
    wanted = evaluations["suite"] == score.suite
    if asked:
        begins = [runs[name].astype(str).str.startswith(asked) for name in ("group", "fingerprint")]
        mine = runs["group"].isin(set(runs["group"][begins[0] | begins[1]]))
        wanted &= mine.to_numpy()[evaluations["run"].to_numpy()]
    here = scores["evaluation"].isin(evaluations.index[wanted])
    here &= (scores["task"] == score.task) & (scores["metric"] == score.metric)
    if asked and not here.any():
        raise UserError(
            f"no run with this score has a group or fingerprint that begins with {asked}"
        )
    return chosen(frames, scores[here])


def _rows(frames: Frames, kept: pandas.DataFrame, wanted: Collection[Label]) -> list[Row]:
    """The rows of some labels, in order of these."""
    labels = map(Label._make, kept[[*Label._fields]].itertuples(index=False, name=None))
    rows = rows_of(frames, kept[[label in wanted for label in labels]], frames.scores)
    return sorted(rows, key=lambda row: row.label)


def described(text: str, shared: LabelFields) -> dict[str, str]:
    """Return the label fields that VARIANT or VARIANT/SETTING/ENCODER gives, beside those shared by
    both sides.

    Raises UserError and SpecError.
    """
    parts = split(text, "/")
    variant = Variant.parse(parts[0])
    if len(parts) == 1:
        # an untrained encoder has no setting
        fixed = {
            name: value
            for name, value in shared.items()
            if name != "setting" or variant.name != UNTRAINED
        }
        return {**fixed, "variant": str(variant)}
    if len(parts) == 2 or parts[-1].startswith("seed-"):
        raise UserError(
            f"'{text}' is neither a variant nor VARIANT/SETTING/ENCODER; write one of them, without a seed"
        )
    given = {"setting": str(parse_setting(parts[1])), "encoder": parse_encoder("/".join(parts[2:]))}
    return {**shared, **given, "variant": str(variant)}


def find_score(text: str, frames: Frames, metrics: Metrics) -> Score:
    """Look up SUITE.TASK[.METRIC]; the metric defaults to the only one that the suite's tables
    show.

    Raises UserError with what there is.
    """
    scores = frames.scores.join(frames.evaluations["suite"], on="evaluation")
    distinct = scores[["suite", "task", "metric"]].drop_duplicates()
    there = sorted(Score(*map(str, at)) for at in distinct.itertuples(index=False))
    matching = [at for at in there if text in (".".join(at), ".".join(at[:2]), at.suite)]
    if not matching:
        known = sorted({f"{at.suite}.{at.task}" for at in there})
        raise UserError(f"no result has the metric '{text}'; {suggest(text, known)}")
    tasks = sorted({f"{at.suite}.{at.task}" for at in matching})
    shown = [
        at
        for at in matching
        if at.metric in metrics.get(at.suite, {}) and metrics[at.suite][at.metric].shown
    ]
    if len(tasks) > 1 or (len(matching) > 1 and len(shown) != 1):
        options = tasks if len(tasks) > 1 else [".".join(at) for at in matching]
        raise UserError(f"'{text}' may be {', '.join(options)}; choose with --metric")
    return matching[0] if len(matching) == 1 else shown[0]


def _choose(
    groups_of_each_side: Sequence[Mapping[Label, str]], first: LabelFields, second: LabelFields
) -> tuple[Label, Label]:
    """The only pair of labels that match; fields that neither description gives must be equal in
    both.
    """
    described = list(zip(groups_of_each_side, (first, second), strict=True))
    sides = [[label for label in groups if _fits(label, fields)] for groups, fields in described]
    for (groups, fields), labels in zip(described, sides, strict=True):
        if not labels:
            raise UserError(_unknown(fields, groups))
    here, there = groups_of_each_side
    free = {name for name in ("setting", "encoder") if name in first and name in second}
    pairs = [(a, b) for a in sides[0] for b in sides[1] if _comparable(a, b, free)]
    pairs = [(a, b) for a, b in pairs if a != b or here[a] != there[b]]
    pairs = [pair for pair in pairs if not any(label.overrides for label in pair)] or pairs
    if not pairs:
        raise UserError(
            f"'{first['variant']}' and '{second['variant']}' have no runs with the same profile, setting, encoder and "
            "overrides; write each as VARIANT/SETTING/ENCODER"
        )
    if len(pairs) > 1:
        raise UserError(_several(pairs))
    return pairs[0]


def _fits(label: Label, fields: LabelFields) -> bool:
    return all(getattr(label, name) == text for name, text in fields.items())


def _comparable(a: Label, b: Label, free: set[str]) -> bool:
    """Whether two labels agree in all fields but the variant and `free`; an untrained encoder
    matches any setting.
    """
    ignored = {"variant", *free, *({"setting"} if UNTRAINED in (a.setting, b.setting) else ())}
    return all(
        getattr(a, name) == getattr(b, name) for name in Label._fields if name not in ignored
    )


def _unknown(fields: LabelFields, groups: Mapping[Label, object]) -> str:
    there = sorted(
        {label.variant for label in groups if _fits(label, {**fields, "variant": label.variant})}
    )
    if there:
        return f"no runs of '{fields['variant']}' have this metric; {suggest(fields['variant'], there)}"
    for name in (name for name in _OPTIONS if name in fields):
        values = sorted({getattr(label, name) for label in groups})
        if fields[name] not in values:
            return f"no runs with the {name} {fields[name]} have this metric; {suggest(fields[name], values)}"
    where = ", ".join(
        sorted({f"{label.setting}/{label.encoder} ({label.profile})" for label in groups})
    )
    given = ", ".join(f"{name} {text}" for name, text in fields.items() if name != "variant")
    return f"no runs with {given} have this metric; known: {where}"


def _several(pairs: Sequence[tuple[Label, Label]]) -> str:
    for name in _OPTIONS:
        values = sorted({getattr(label, name) for pair in pairs for label in pair} - {UNTRAINED})
        if len(values) > 1:
            return (
                f"both have runs with several {name}s ({', '.join(values)}); choose with --{name}"
            )
    values = sorted({a.overrides or "none" for a, _ in pairs})
    return f"both have runs with several overrides ({' | '.join(values)}); choose with --set"


#: characters of a group, and of a time, that are shown
_DIGITS = 8
_MINUTES = 16


def listed_groups(frames: Frames) -> list[tuple[str, ...]]:
    """The groups of runs with scores, those of one label together, the newest first.

    As texts: how commands name it, its overrides, profile and seeds, when the last of its scores
    was made, and whether it is present or what has changed since.
    """
    evaluations = frames.evaluations.assign(state=frames.present)
    evaluations = evaluations[evaluations.index.isin(frames.scores["evaluation"])]
    evaluations = evaluations.join(frames.runs[[*Label._fields, "group", "seed"]], on="run")
    grouped = evaluations.groupby([*Label._fields, "group"], sort=False, observed=True)
    groups = grouped.agg(
        seeds=("seed", "unique"), finished=("finished", "max"), states=("state", "unique")
    )
    newest = groups.reset_index().sort_values("finished", ascending=False, kind="stable")
    return [
        (
            f"{group.variant}/{group.setting}/{group.encoder}#{group.group[:_DIGITS]}",
            group.overrides,
            group.profile,
            ",".join(map(str, sorted(group.seeds))),
            group.finished[:_MINUTES],
            _said(group.states),
        )
        for group in sorted(lines_of(newest), key=lambda group: group[1:6])
    ]


def _said(states: Sequence[str]) -> str:
    """Whether a group with these states is present, or what has changed since; unknown otherwise."""
    changed = [state for state in states if state not in (PRESENT, UNKNOWN)]
    return (
        f"changed since: {' and '.join(changed)}"
        if changed
        else "unknown"
        if UNKNOWN in states
        else PRESENT
    )


def named_runs(results: Sequence[Result], text: str) -> list[Result]:
    """The runs of a key, or of a NAME#GROUP. Raises UserError if there are none, or several groups."""
    name, group = of_group(text)
    frames = frames_of(results)
    rows = list[int]()
    groups = dict[tuple[str, str], str]()
    columns = map(frames.texts, ("variant", "profile", "group", "fingerprint"))
    for row, (key, variant, profile, *ids) in enumerate(zip(frames.keys, *columns, strict=True)):
        place = key.rpartition("/")[0]
        if name in ("", key, variant, place) and any(each.startswith(group) for each in ids):
            rows.append(row)
            groups[profile, ids[0]] = f"{place}#{ids[0][:_DIGITS]}"
    if not rows:
        known = {*frames.keys, *frames.texts("variant")}
        hint = suggest(text, known, "`harness results list` shows the groups of runs")
        raise UserError(f"no result is named {text}; {hint}")
    if len(groups) > 1:
        raise UserError(
            f"{text} names several groups of runs: {', '.join(groups.values())}; choose one of them"
        )
    return [*frames.take_rows(rows)]
