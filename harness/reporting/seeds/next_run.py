"""The run that would say most about the answer to a question, of those that have not been made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    controls_of,
)
from harness.reporting.seeds.gains import Gain
from harness.reporting.seeds.question import Answer, Question, medium_of
from harness.spec import BASELINE, UNTRAINED, Variant, split
from harness.stats import FEWEST_SEEDS

#: what the run of a control decides, by its kind, and of any other one
_DECISIONS = {
    TEACHER_ALONE: "Is {name} better than its text teacher alone?",
    UNTRAINED_NETWORK: "Does {name} need a trained image network?",
    SAME_TEXT: "Is {name} better than the same text alone?",
}
_DECISION = "Is {name} better than {what}?"


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


def next_run(question: Question, commands: Commands) -> NextRun | None:
    """The first idea that has not been carried out; None if all have been."""
    leader = question.leader
    if leader is None:
        return None
    for idea in _ideas(question, leader):
        missing = _missing_runs(question, idea)
        if missing:
            command = _command(question, idea, missing, commands)
            if command:
                return NextRun(idea.decides, command, missing, _minutes(question, missing))
    return None


def _ideas(question: Question, leader: Gain) -> Iterator[_Idea]:
    """What could be run, in the order of what it decides."""
    name = title_of(leader.row.label.method)
    yield from _seeds_of_sides(question, leader)
    if question.answer is Answer.ALONE and leader is not question.baseline:
        label = leader.row.label._replace(variant=BASELINE)
        yield _Idea(f"Is {name} better than {name_of(BASELINE)}?", [label], leader.row.seeds)
    if UNMATCHED in question.missing:
        yield from _other_media(leader, name)
    yield from _best_pooling(question, leader)
    yield from _needed_controls(leader, name)
    yield from _more_seeds(question, leader)
    yield from _equal_training(question, leader)
    for gain in question.methods[1:]:
        other = title_of(gain.row.label.method)
        yield from _other_media(gain, other)
        yield from _needed_controls(gain, other)


def _seeds_of_sides(question: Question, leader: Gain) -> Iterator[_Idea]:
    """The seeds that a test of the leader beside its reference still needs."""
    for gain in (leader, question.reference):
        if gain and len(gain.row.seeds) < FEWEST_SEEDS:
            name = title_of(gain.row.label.method)
            decides = f"Does {name} keep its place with {FEWEST_SEEDS} seeds?"
            yield _Idea(decides, [gain.row.label], range(FEWEST_SEEDS))


def _other_media(gain: Gain, name: str) -> Iterator[_Idea]:
    """The method with pictures that do not match: those that it needs, or else the first ones."""
    unmatched = [control for control in controls_of(gain.row) if control.what == UNMATCHED]
    needed = [control for control in unmatched if control.needed]
    for control in needed or unmatched[:1]:
        decides = f"Does {name} need its {medium_of(gain.row)}, or do others do as well?"
        yield _Idea(decides, [control.label], gain.row.seeds)


def _needed_controls(gain: Gain, name: str) -> Iterator[_Idea]:
    """The other controls that a method needs."""
    for control in controls_of(gain.row):
        if control.needed and control.what != UNMATCHED:
            decides = _DECISIONS.get(control.what, _DECISION).format(name=name, what=control.what)
            seeds = [0] if control.label.setting == UNTRAINED else gain.row.seeds
            yield _Idea(decides, [control.label], seeds)


def _more_seeds(question: Question, leader: Gain) -> Iterator[_Idea]:
    """The seeds that would tell the leader from the method that is level with it."""
    level = [gain for gain in question.top if gain is not leader]
    if not level:
        return
    other = level[0]
    conclusion = question.conclude(leader, other)
    needed = conclusion.seeds_to_decide
    if needed is None or needed > MOST_WORTHWHILE_SEEDS:
        return
    seeds = range(needed)
    names = " and ".join(title_of(gain.row.label.method) for gain in (leader, other))
    decides = f"Do {names} differ? {len(seeds)} seeds of each would show such a difference."
    yield _Idea(decides, [leader.row.label, other.row.label], seeds)


def _equal_training(question: Question, leader: Gain) -> Iterator[_Idea]:
    """The baseline at the training values of the leader."""
    baseline = question.baseline
    if baseline is None or baseline is leader:
        return
    training = leader.row.training
    base = baseline.row.training
    options = {
        name: training[name]
        for name in training
        if name in ("steps", "epochs", "learning_rate") and training[name] != base.get(name)
    }
    variant = baseline.row.label.parsed
    if options and variant:
        changed = Variant.make(variant.name, {**dict(variant.options), **options}, variant.reading)
        title = title_of(variant.name)
        decides = f"Does {title} close the gap with the training values of the leader?"
        label = baseline.row.label._replace(variant=str(changed))
        yield _Idea(decides, [label], baseline.row.seeds)


def _best_pooling(question: Question, leader: Gain) -> Iterator[_Idea]:
    """The baseline at the pooling at which the untrained encoder is ahead of the leader."""
    base = question.baseline
    for rival in question.rivals:
        variant = base and base.row.label.parsed
        pooled = rival.row.label.parsed
        if not (base and variant and pooled) or rival.row.is_trained or not rival.confounds:
            continue
        pooling = dict(pooled.options).get("pooling", "")
        if pooling and pooling != base.row.pooling:
            options = {**dict(variant.options), "pooling": pooling}
            changed = Variant.make(variant.name, options, variant.reading)
            title = title_of(variant.name)
            decides = f"Does {title} with {pooling} pooling close the gap?"
            label = base.row.label._replace(variant=str(changed))
            yield _Idea(decides, [label], base.row.seeds)


def _missing_runs(question: Question, idea: _Idea) -> Mapping[Label, Sequence[int]]:
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


def _command(
    question: Question, idea: _Idea, missing: Mapping[Label, Sequence[int]], commands: Commands
) -> str:
    """The command for missing runs; empty for values that no command can name."""
    label = next(iter(missing))
    try:
        values = parse_overrides(split(label.overrides)) if label.overrides else {}
    except UserError:
        return ""
    seeds = None if label.setting == UNTRAINED else list_of_seeds(idea.seeds)
    return commands.run(
        profile=label.profile,
        methods=[label.variant for label in missing],
        settings=label.setting,
        encoders=label.encoder,
        seeds=seeds,
        set=values,
    )


def _minutes(question: Question, missing: Mapping[Label, Sequence[int]]) -> float | None:
    """The minutes of missing runs, as those of their methods took, or else of all trained ones."""
    every = [minutes for gain in question.methods for minutes in gain.row.spent.minutes]
    total = 0.0
    for label, seeds in missing.items():
        if label.setting == UNTRAINED:
            continue
        of_method = [
            minutes
            for gain in question.forest.gains
            if gain.row.label.method == label.method
            for minutes in gain.row.spent.minutes
        ]
        like = of_method or every
        if not like:
            return None
        total += len(seeds) * median(like)
    return total
