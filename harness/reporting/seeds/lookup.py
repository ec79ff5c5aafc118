"""Look up the runs that a user names: the two sides and the score of a comparison, and groups of
runs in a folder.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain, product
from string import hexdigits
from typing import TYPE_CHECKING

from harness.errors import UserError
from harness.metrics import Column, Metric, Metrics, Score
from harness.registry import suggest
from harness.reporting.seeds.cells import Label, Row, compare_in_any_metric
from harness.reporting.seeds.choose import choose_evaluations, find_groups, make_rows
from harness.reporting.seeds.comparison import Comparison
from harness.reporting.seeds.conclusion import Conclusion
from harness.reporting.seeds.controls import TableRows
from harness.reporting.seeds.summary import SummaryTable, make_summary_tables
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

    name, group = split_group(a)
    other_name, other_group = split_group(b)
    descriptions = (parse_side(name, fields), parse_side(other_name, fields))
    chosen_evaluations = _choose_evaluations(frames, score)
    groups = (group, other_group)
    evaluations = [
        _choose_evaluations(frames, score, group) if group else chosen_evaluations
        for group in groups
    ]

    labels = _choose_pair(list(map(find_groups, evaluations)), *descriptions)
    sides = []
    for label, typed, evaluations_of_side in zip(labels, groups, evaluations, strict=True):
        [row] = _make_rows(frames, evaluations_of_side, [label])
        sides.append(replace(row, asked=typed))
    first, second = sides

    own_frames = frames.where(profile={label.profile for label in labels})
    tables = make_summary_tables(own_frames, metrics, only=score.suite, points=points)
    # runs of a named group are not those of the tables, so that no family has their test
    outcome = None
    if not any(groups):
        outcome = _find_conclusion(tables, first, second, score, declared)
    if outcome is None:
        cell = compare_in_any_metric(first, second, score.column, declared, points)
        rows = TableRows((row.label, row) for table in tables for row in table.rows)
        outcome = Conclusion(first, second, score.column, declared, cell, rows)
    untrained = _find_untrained_rows(frames, chosen_evaluations, labels)
    return Comparison(outcome, score, tuple(untrained))


def _find_untrained_rows(
    frames: Frames, kept: pandas.DataFrame, labels: Collection[Label]
) -> list[Row]:
    """The rows of the untrained encoders of some labels, without these labels themselves."""
    encoders = {(label.profile, label.encoder) for label in labels}
    untrained = []
    for label in find_groups(kept):
        is_theirs = (label.profile, label.encoder) in encoders
        if label.setting == UNTRAINED and is_theirs and label not in labels:
            untrained.append(label)
    return _make_rows(frames, kept, untrained)


def _find_conclusion(
    tables: Sequence[SummaryTable], first: Row, second: Row, score: Score, metric: Metric
) -> Conclusion | None:
    """The conclusion on two rows from the table that has both of them with these scores; None
    without one.
    """
    column = score.column
    for table in tables:
        rows = {row.label: row for row in table.rows}
        sides = [(row, rows.get(row.label)) for row in (first, second)]
        if all(table_row and _has_scores(table_row, row, column) for row, table_row in sides):
            for block in table.blocks:
                if {first.label, second.label} <= {row.label for row in block.every}:
                    return block.conclude(first, second, column, metric)
    return None


def _has_scores(row: Row, other: Row, column: Column) -> bool:
    """Whether a row has the scores of another one in a column."""
    cell = row.cells.get(column)
    return cell is not None and cell.by_seed == other.cells[column].by_seed


def split_group(text: str) -> tuple[str, str]:
    """Split NAME#GROUP, where GROUP is the start of a fingerprint or of a group's name; empty if
    not given.
    """
    name, mark, group = text.rpartition("#")
    is_hexadecimal = set(group) <= set(hexdigits.lower())
    if mark and group and is_hexadecimal:
        return name, group
    return text, ""


def _choose_evaluations(frames: Frames, score: Score, group: str = "") -> pandas.DataFrame:
    """The evaluations with a score, of the group that stands for each label among all or those
    found by the start of a `group`.

    It begins a group's name or a fingerprint in it. Raises UserError if none fits.
    """
    runs = frames.runs
    evaluations = frames.evaluations
    scores = frames.scores
    is_wanted = evaluations["suite"] == score.suite
    if group:
        begins = runs["group"].astype(str).str.startswith(group)
        begins |= runs["fingerprint"].astype(str).str.startswith(group)
        is_in_group = runs["group"].isin(set(runs["group"][begins])).to_numpy()
        is_wanted &= is_in_group[evaluations["run"].to_numpy()]

    is_score = (scores["task"] == score.task) & (scores["metric"] == score.metric)
    is_score &= scores["evaluation"].isin(evaluations.index[is_wanted])
    if group and not is_score.any():
        raise UserError(
            f"no run with this score has a group or fingerprint that begins with {group}"
        )
    return choose_evaluations(frames, scores[is_score])


def _make_rows(frames: Frames, kept: pandas.DataFrame, wanted: Collection[Label]) -> list[Row]:
    """The rows of some labels, in order of these."""
    fields = kept[[*Label._fields]].itertuples(index=False, name=None)
    is_wanted = [Label._make(label) in wanted for label in fields]
    rows = make_rows(frames, kept[is_wanted], frames.scores)
    return sorted(rows, key=lambda row: row.label)


def parse_side(text: str, shared: LabelFields) -> dict[str, str]:
    """Return the label fields that VARIANT or VARIANT/SETTING/ENCODER gives, beside those shared by
    both sides.

    Raises UserError and SpecError.
    """
    parts = split(text, "/")
    variant = Variant.parse(parts[0])
    fields = dict(shared)
    if len(parts) == 1:
        # an untrained encoder has no setting
        if variant.name == UNTRAINED:
            fields.pop("setting", None)
        return {**fields, "variant": str(variant)}

    if len(parts) == 2 or parts[-1].startswith("seed-"):
        raise UserError(
            f"'{text}' is neither a variant nor VARIANT/SETTING/ENCODER; write one of them, without a seed"
        )
    fields["setting"] = str(parse_setting(parts[1]))
    fields["encoder"] = parse_encoder("/".join(parts[2:]))
    return {**fields, "variant": str(variant)}


def find_score(text: str, frames: Frames, metrics: Metrics) -> Score:
    """Look up SUITE.TASK[.METRIC]; the metric defaults to the only one that the suite's tables
    show.

    Raises UserError with what there is.
    """
    scores = frames.scores.join(frames.evaluations["suite"], on="evaluation")
    distinct = scores[["suite", "task", "metric"]].drop_duplicates()
    known_scores = sorted(Score(*map(str, place)) for place in distinct.itertuples(index=False))
    matching = [score for score in known_scores if text in _list_score_names(score)]
    if not matching:
        names = sorted({f"{score.suite}.{score.task}" for score in known_scores})
        raise UserError(f"no result has the metric '{text}'; {suggest(text, names)}")

    tasks = sorted({f"{score.suite}.{score.task}" for score in matching})
    if len(tasks) > 1:
        raise UserError(f"'{text}' may be {', '.join(tasks)}; choose with --metric")
    if len(matching) == 1:
        return matching[0]

    named_scores = []
    for score in matching:
        declared = metrics.get(score.suite, {}).get(score.metric)
        if declared and declared.shown:
            named_scores.append(score)
    if len(named_scores) != 1:
        names = [".".join(score) for score in matching]
        raise UserError(f"'{text}' may be {', '.join(names)}; choose with --metric")
    return named_scores[0]


def _list_score_names(score: Score) -> tuple[str, str, str]:
    """What a user may call a score: with its metric, without it, or by its suite alone."""
    return ".".join(score), f"{score.suite}.{score.task}", score.suite


def _choose_pair(
    groups_of_each_side: Sequence[Mapping[Label, str]], first: LabelFields, second: LabelFields
) -> tuple[Label, Label]:
    """The only pair of labels that match; fields that neither description gives must be equal in
    both.
    """
    labels_of_each_side = []
    for groups, fields in zip(groups_of_each_side, (first, second), strict=True):
        labels = [label for label in groups if _has_fields(label, fields)]
        if not labels:
            raise UserError(_explain_no_label(fields, groups))
        labels_of_each_side.append(labels)

    groups, other_groups = groups_of_each_side
    free = {name for name in ("setting", "encoder") if name in first and name in second}
    pairs = []
    for a, b in product(*labels_of_each_side):
        is_same_run = a == b and groups[a] == other_groups[b]
        if not is_same_run and _is_comparable(a, b, free):
            pairs.append((a, b))

    without_overrides = [(a, b) for a, b in pairs if not a.overrides and not b.overrides]
    if without_overrides:
        pairs = without_overrides
    if not pairs:
        raise UserError(
            f"'{first['variant']}' and '{second['variant']}' have no runs with the same profile, setting, encoder and "
            "overrides; write each as VARIANT/SETTING/ENCODER"
        )
    if len(pairs) > 1:
        raise UserError(_explain_several_pairs(pairs))
    return pairs[0]


def _has_fields(label: Label, fields: LabelFields) -> bool:
    return all(getattr(label, name) == text for name, text in fields.items())


def _is_comparable(a: Label, b: Label, free: set[str]) -> bool:
    """Whether two labels agree in all fields but the variant and `free`; an untrained encoder
    matches any setting.
    """
    ignored = {"variant", *free}
    if UNTRAINED in (a.setting, b.setting):
        ignored.add("setting")
    fields = [name for name in Label._fields if name not in ignored]
    return all(getattr(a, name) == getattr(b, name) for name in fields)


def _explain_no_label(fields: LabelFields, groups: Mapping[Label, object]) -> str:
    """Why no label has these fields: the first of them that none has."""
    variant = fields["variant"]
    other_fields = {name: text for name, text in fields.items() if name != "variant"}
    variants = sorted({label.variant for label in groups if _has_fields(label, other_fields)})
    if variants:
        return f"no runs of '{variant}' have this metric; {suggest(variant, variants)}"

    for name in _OPTIONS:
        if name not in fields:
            continue
        text = fields[name]
        values = sorted({getattr(label, name) for label in groups})
        if text not in values:
            return f"no runs with the {name} {text} have this metric; {suggest(text, values)}"

    places = {f"{label.setting}/{label.encoder} ({label.profile})" for label in groups}
    description = ", ".join(f"{name} {text}" for name, text in other_fields.items())
    return f"no runs with {description} have this metric; known: {', '.join(sorted(places))}"


def _explain_several_pairs(pairs: Sequence[tuple[Label, Label]]) -> str:
    """What tells several pairs of labels apart, and the option that chooses one."""
    labels = list(chain.from_iterable(pairs))
    for name in _OPTIONS:
        values = sorted({getattr(label, name) for label in labels} - {UNTRAINED})
        if len(values) > 1:
            return (
                f"both have runs with several {name}s ({', '.join(values)}); choose with --{name}"
            )
    values = sorted({a.overrides or "none" for a, _ in pairs})
    return f"both have runs with several overrides ({' | '.join(values)}); choose with --set"


#: characters of a group, and of a time, that are shown
_DIGITS = 8
_MINUTES = 16


def list_groups(frames: Frames) -> list[tuple[str, ...]]:
    """The groups of runs with scores, those of one label together, the newest first.

    As texts: how commands name it, its overrides, profile and seeds, when the last of its scores
    was made, and whether it is present or what has changed since.
    """
    evaluations = frames.evaluations.assign(state=frames.present)
    evaluations = evaluations[evaluations.index.isin(frames.scores["evaluation"])]
    evaluations = evaluations.join(frames.runs[[*Label._fields, "group", "seed"]], on="run")
    by_group = evaluations.groupby([*Label._fields, "group"], sort=False, observed=True)
    groups = by_group.agg(
        seeds=("seed", "unique"), finished=("finished", "max"), states=("state", "unique")
    )
    newest_first = groups.reset_index().sort_values("finished", ascending=False, kind="stable")

    lines = list[tuple[str, ...]]()
    for group in sorted(lines_of(newest_first), key=lambda group: group[1:6]):
        place = f"{group.variant}/{group.setting}/{group.encoder}"
        line = (
            f"{place}#{group.group[:_DIGITS]}",
            group.overrides,
            group.profile,
            ",".join(map(str, sorted(group.seeds))),
            group.finished[:_MINUTES],
            _describe_states(group.states),
        )
        lines.append(line)
    return lines


def _describe_states(states: Sequence[str]) -> str:
    """Whether a group with these states is present, or what has changed since; unknown otherwise."""
    changed = [state for state in states if state not in (PRESENT, UNKNOWN)]
    if changed:
        return f"changed since: {' and '.join(changed)}"
    return "unknown" if UNKNOWN in states else PRESENT


def find_named_runs(results: Sequence[Result], text: str) -> list[Result]:
    """The runs of a key, or of a NAME#GROUP. Raises UserError if there are none, or several groups."""
    name, group = split_group(text)
    frames = frames_of(results)
    rows = list[int]()
    names_of_groups = dict[tuple[str, str], str]()
    columns = map(frames.texts, ("variant", "profile", "group", "fingerprint"))
    runs = zip(frames.keys, *columns, strict=True)
    for row, (key, variant, profile, group_of_run, fingerprint) in enumerate(runs):
        place = key.rpartition("/")[0]
        is_in_group = group_of_run.startswith(group) or fingerprint.startswith(group)
        if is_in_group and name in ("", key, variant, place):
            rows.append(row)
            names_of_groups[profile, group_of_run] = f"{place}#{group_of_run[:_DIGITS]}"

    if not rows:
        known_names = {*frames.keys, *frames.texts("variant")}
        hint = suggest(text, known_names, "`harness results list` shows the groups of runs")
        raise UserError(f"no result is named {text}; {hint}")
    if len(names_of_groups) > 1:
        groups = ", ".join(names_of_groups.values())
        raise UserError(f"{text} names several groups of runs: {groups}; choose one of them")
    return [*frames.take_rows(rows)]
