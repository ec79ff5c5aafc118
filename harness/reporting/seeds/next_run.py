"""The run that would say most about the answer to a question, of those that have not been made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from statistics import median
from typing import NamedTuple

from harness.command_line import list_of_seeds, parse_overrides
from harness.commands import Commands
from harness.errors import UserError
from harness.method.naming import name_of, title_of
from harness.papers.claims import MOST_WORTHWHILE_SEEDS
from harness.reporting.seeds.cells import Label
from harness.reporting.seeds.controls import (
    SAME_TEXT,
    TEACHER_ALONE,
    UNMATCHED,
    UNTRAINED_NETWORK,
    list_controls,
)
from harness.reporting.seeds.gains import Gain
from harness.reporting.seeds.question import Answer, Question, find_medium
from harness.spec import BASELINE, UNTRAINED, Variant, split
from harness.stats import FEWEST_SEEDS

#: what the run of a control decides, by its kind, and of any other one
_DECISIONS = {
    TEACHER_ALONE: "Is {name} better than its text teacher alone?",
    UNTRAINED_NETWORK: "Does {name} need a trained image network?",
    SAME_TEXT: "Is {name} better than the same text alone?",
}
_DECISION = "Is {name} better than {what}?"
#: values of a training that say how long and how fast it learns
_BUDGET_OPTIONS = ("steps", "epochs", "learning_rate")


class NextRun(NamedTuple):
    """Runs that have not been made: the question that they decide, their command, and the minutes
    that like runs took here, None where there are none.
    """

    decides: str
    command: str
    runs: Mapping[Label, Sequence[int]]
    minutes: float | None

    @property
    def number(self) -> int:
        """How many runs it has."""
        return sum(map(len, self.runs.values()))


class _Idea(NamedTuple):
    """Variants to run at these seeds; an untrained encoder has the seed 0 alone."""

    decides: str
    labels: Sequence[Label]
    seeds: Sequence[int]


def find_next_run(question: Question, commands: Commands) -> NextRun | None:
    """The first idea that has not been carried out; None if all have been."""
    leader = question.leader
    if leader is None:
        return None

    for idea in _list_ideas(question, leader):
        missing = _find_missing_runs(question, idea)
        command = _make_command(idea, missing, commands) if missing else ""
        if command:
            minutes = _estimate_minutes(question, missing)
            return NextRun(idea.decides, command, missing, minutes)
    return None


def _list_ideas(question: Question, leader: Gain) -> Iterator[_Idea]:
    """What could be run, in the order of what it decides."""
    name = title_of(leader.row.label.method)
    yield from _suggest_seeds(question, leader)
    if question.answer is Answer.ALONE and leader is not question.baseline:
        label = leader.row.label._replace(variant=BASELINE)
        yield _Idea(f"Is {name} better than {name_of(BASELINE)}?", [label], leader.row.seeds)
    if UNMATCHED in question.missing:
        yield from _suggest_other_media(leader, name)
    yield from _suggest_best_pooling(question)
    yield from _suggest_needed_controls(leader, name)
    yield from _suggest_more_seeds(question, leader)
    yield from _suggest_equal_training(question, leader)

    for gain in question.methods[1:]:
        other_title = title_of(gain.row.label.method)
        yield from _suggest_other_media(gain, other_title)
        yield from _suggest_needed_controls(gain, other_title)


def _suggest_seeds(question: Question, leader: Gain) -> Iterator[_Idea]:
    """The seeds that a test of the leader beside its reference still needs."""
    sides = [gain.row for gain in (leader, question.reference) if gain is not None]
    with_few_seeds = [row.label for row in sides if len(row.seeds) < FEWEST_SEEDS]
    if not with_few_seeds:
        return

    name = title_of(with_few_seeds[0].method)
    decides = f"Does {name} keep its place with {FEWEST_SEEDS} seeds?"
    # both sides in one command, since a test needs both; values of --set hold for all its runs
    overrides = with_few_seeds[0].overrides
    together = [label for label in with_few_seeds if label.overrides == overrides]
    yield _Idea(decides, together, range(FEWEST_SEEDS))


def _suggest_other_media(gain: Gain, name: str) -> Iterator[_Idea]:
    """The method with pictures that do not match: those that it needs, or else the first ones."""
    unmatched = [control for control in list_controls(gain.row) if control.what == UNMATCHED]
    needed = [control for control in unmatched if control.needed]
    decides = f"Does {name} need its {find_medium(gain.row)}, or do others do as well?"
    for control in needed or unmatched[:1]:
        yield _Idea(decides, [control.label], gain.row.seeds)


def _suggest_needed_controls(gain: Gain, name: str) -> Iterator[_Idea]:
    """The other controls that a method needs."""
    for control in list_controls(gain.row):
        if not control.needed or control.what == UNMATCHED:
            continue
        wording = _DECISIONS.get(control.what, _DECISION)
        decides = wording.format(name=name, what=control.what)
        seeds = [0] if control.label.setting == UNTRAINED else gain.row.seeds
        yield _Idea(decides, [control.label], seeds)


def _suggest_more_seeds(question: Question, leader: Gain) -> Iterator[_Idea]:
    """The seeds that would tell the leader from the method that is level with it."""
    level = [gain for gain in question.top if gain is not leader]
    if not level:
        return
    other_gain = level[0]
    needed = question.conclude(leader, other_gain).seeds_to_decide
    if needed is None or needed > MOST_WORTHWHILE_SEEDS:
        return

    names = " and ".join(title_of(gain.row.label.method) for gain in (leader, other_gain))
    decides = f"Do {names} differ? {needed} seeds of each would show such a difference."
    yield _Idea(decides, [leader.row.label, other_gain.row.label], range(needed))


def _suggest_equal_training(question: Question, leader: Gain) -> Iterator[_Idea]:
    """The baseline at the training values of the leader."""
    baseline = question.baseline
    if baseline is None or baseline is leader:
        return

    training = leader.row.training
    budget = {name: training[name] for name in training if name in _BUDGET_OPTIONS}
    own_training = baseline.row.training
    options = {name: value for name, value in budget.items() if value != own_training.get(name)}
    variant = baseline.row.label.parsed
    if options and variant:
        title = title_of(variant.name)
        decides = f"Does {title} close the gap with the training values of the leader?"
        label = _change_label(baseline.row.label, variant, options)
        yield _Idea(decides, [label], baseline.row.seeds)


def _suggest_best_pooling(question: Question) -> Iterator[_Idea]:
    """The baseline at the pooling at which the untrained encoder is ahead of the leader."""
    baseline = question.baseline
    variant = baseline.row.label.parsed if baseline else None
    if baseline is None or variant is None:
        return

    for rival in question.rivals:
        untrained = rival.row.label.parsed
        if untrained is None or rival.row.is_trained or not rival.confounds:
            continue
        pooling = dict(untrained.options).get("pooling", "")
        if pooling and pooling != baseline.row.pooling:
            decides = f"Does {title_of(variant.name)} with {pooling} pooling close the gap?"
            label = _change_label(baseline.row.label, variant, {"pooling": pooling})
            yield _Idea(decides, [label], baseline.row.seeds)


def _change_label(label: Label, variant: Variant, options: Mapping[str, str]) -> Label:
    """The label of a variant with other values of some options."""
    changed_options = {**dict(variant.options), **options}
    changed = Variant.make(variant.name, changed_options, variant.reading)
    return label._replace(variant=str(changed))


def _find_missing_runs(question: Question, idea: _Idea) -> Mapping[Label, Sequence[int]]:
    """The runs of an idea that have no score yet, by label."""
    missing = {}
    for label in idea.labels:
        row = question.forest.rows.get(label)
        done = row.seeds if row and question.forest.column in row.cells else ()
        seeds = [seed for seed in idea.seeds if seed not in done]
        # an untrained encoder is one number, whatever its seed is
        if seeds and not (done and label.setting == UNTRAINED):
            missing[label] = seeds
    return missing


def _make_command(idea: _Idea, missing: Mapping[Label, Sequence[int]], commands: Commands) -> str:
    """The command for missing runs; empty for values that no command can name."""
    label = next(iter(missing))
    try:
        values = parse_overrides(split(label.overrides)) if label.overrides else {}
    except UserError:
        return ""

    return commands.run(
        profile=label.profile,
        methods=[label.variant for label in missing],
        settings=label.setting,
        encoders=label.encoder,
        seeds=None if label.setting == UNTRAINED else list_of_seeds(idea.seeds),
        set=values,
    )


def _estimate_minutes(question: Question, missing: Mapping[Label, Sequence[int]]) -> float | None:
    """The minutes of missing runs, as those of their methods took, or else of all trained ones."""
    minutes_of_methods = chain.from_iterable(gain.row.spent.minutes for gain in question.methods)
    minutes_of_any = list(minutes_of_methods)

    total = 0.0
    for label, seeds in missing.items():
        if label.setting == UNTRAINED:
            continue

        minutes: list[float] = []
        for gain in question.forest.gains:
            if gain.row.label.method == label.method:
                minutes += gain.row.spent.minutes
        minutes = minutes or minutes_of_any
        if not minutes:
            return None

        total += len(seeds) * median(minutes)
    return total
