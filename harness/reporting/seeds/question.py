"""The question that a report answers first: which method is best in one setting with one encoder,
by how much, and whether its controls explain it.

An answer is made from the rows of a forest and their tests alone; pages, files and the terminal
print its words and compute nothing of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from harness.errors import UserError
from harness.formatting import at_most, count_of, fixed, interval_text
from harness.method.declared import get_declared_method
from harness.method.naming import VariantName, name_of, title_of
from harness.metrics import AVERAGE, Significance
from harness.reporting.seeds.cells import Cell, Label, Row
from harness.reporting.seeds.conclusion import Conclusion
from harness.reporting.seeds.controls import (
    SAME_TEXT,
    TEACHER_ALONE,
    TEXT_OTHERWISE,
    TWICE_THE_TEXT,
    UNMATCHED,
    UNMATCHED_OBJECTS,
    UNTRAINED_ENCODER,
    UNTRAINED_NETWORK,
    Rival,
    find_rivals,
    list_controls,
)
from harness.reporting.seeds.gains import Forest, Gain, select_methods
from harness.reporting.seeds.wording import name_suite
from harness.stats import FEWEST_SEEDS, TTest

#: most words of a verdict
MOST_WORDS = 9
#: the suite that is asked about first
FIRST_SUITE = "sts"
#: longest name of a row in a figure, in characters
LONGEST_NAME = 52
#: what a stream has beside text, in words
_MEDIA_WORDS = {"pairs": "pictures", "images": "pictures", "audio": "recordings"}

#: kinds of controls as a verdict names them
_SHORT_CONTROLS = {
    TEACHER_ALONE: "its text teacher",
    UNTRAINED_ENCODER: "the untrained encoder",
    TWICE_THE_TEXT: "twice the text",
    TEXT_OTHERWISE: "text alone",
    SAME_TEXT: "text alone",
    UNTRAINED_NETWORK: "an untrained network",
    UNMATCHED_OBJECTS: "phrases with other objects",
}
#: kinds of controls as a sentence names one that was not run
_MISSING_CONTROLS = {
    UNTRAINED_NETWORK: "a run with images through an untrained network",
    SAME_TEXT: "a run on the same text alone",
}


class Answer(StrEnum):
    """What the data say about the best method."""

    NOTHING = "no method was trained"
    ALONE = "one method only"
    TOO_FEW = "too few seeds"
    OPEN = "no method is shown to be best"
    CONFOUNDED = "a control explains the score"
    UNCONTROLLED = "a control was not run"
    TIED = "several methods share the first rank"
    BEST = "best, and beyond its controls"


#: answers that hold where no control is missing
_BELIEVED = (Answer.TIED, Answer.BEST)


@dataclass(frozen=True)
class Question:
    """The methods of one profile, setting and encoder, in one column.

    `tuned` are the variants that a tuning picked. `parts` are the rows of the same labels with
    their scores on test pairs that training has seen, and on the others.
    """

    forest: Forest
    tuned: Collection[str] = ()
    parts: Mapping[Label, Row] = field(default_factory=dict)

    @cached_property
    def methods(self) -> Sequence[Gain]:
        """One row for each method, best first."""
        return select_methods(self.forest)

    @property
    def leader(self) -> Gain | None:
        """The method with the best mean."""
        return self.methods[0] if self.methods else None

    @cached_property
    def baseline(self) -> Gain | None:
        """The baseline among the methods."""
        for gain in self.methods:
            if gain.row is self.forest.base:
                return gain
        return None

    @cached_property
    def following(self) -> Gain | None:
        """The best method beside the leader and the baseline."""
        for gain in self.methods[1:]:
            if gain is not self.baseline:
                return gain
        return None

    @property
    def reference(self) -> Gain | None:
        """What the leader is compared with first: the baseline, or without one the next method."""
        if self.baseline and self.baseline is not self.leader:
            return self.baseline
        return self.following

    @property
    def place(self) -> str:
        """Where it was asked: `small · wiki+flickr8k · all-minilm-l6-v2`."""
        block = self.forest.block
        return " · ".join((self.forest.table.profile, block.setting, block.encoder))

    @property
    def digits(self) -> int:
        return self.forest.metric.digits

    @property
    def score_title(self) -> str:
        """What the score is: `Average of 7 STS tasks, points of Spearman`."""
        return f"{self.score_name[0].upper()}{self.score_name[1:]}, {self.forest.metric.title}"

    @property
    def score_name(self) -> str:
        """The column in words: `average of 7 STS tasks`."""
        column = self.forest.column
        table = self.forest.table
        suite = name_suite(table.suite)
        if column.task != AVERAGE:
            return f"{column.task} of {suite}"

        tasks = table.list_tasks(column.metric)
        return f"average of {len(tasks)} {suite} tasks" if len(tasks) > 1 else f"{suite} average"

    @property
    def title(self) -> str:
        """The question in words."""
        if len(self.methods) < 2:
            return "How good is the one method that was trained?"
        media = dict.fromkeys(find_medium(gain.row) for gain in self.methods)
        media.pop("", None)
        if not media:
            return "Which method is best?"
        return f"Which method is best, and is it the {' or the '.join(media)}?"

    def rivals_of(self, gain: Gain) -> list[Rival]:
        """The controls of a method that have scores, those that explain its score first."""
        forest = self.forest
        return find_rivals(gain.row, forest.rows, forest.column, forest.metric)

    @cached_property
    def rivals(self) -> Sequence[Rival]:
        """The controls of the leader."""
        return self.rivals_of(self.leader) if self.leader else ()

    @property
    def strongest(self) -> Rival | None:
        """The control of the leader that it has to beat first: the best one that explains its
        score, or without such a one the best of all.
        """
        return self.rivals[0] if self.rivals else None

    @cached_property
    def blind(self) -> Rival | None:
        """The strongest control of the leader without matching pictures: unmatched ones, or none."""
        if self.leader is None:
            return None
        for rival in self.rivals:
            is_own = rival.row.label.method == self.leader.row.label.method
            if is_own and rival.control.what.startswith((UNMATCHED, SAME_TEXT)):
                return rival
        return None

    @cached_property
    def missing(self) -> Sequence[str]:
        """The kinds of controls that the leader needs and that have no score, or too few seeds for a
        test.
        """
        if self.leader is None:
            return ()

        untested = {rival.row.label for rival in self.rivals if rival.tested.test is None}
        kinds: dict[str, None] = {}
        for control in list_controls(self.leader.row):
            row = self.forest.rows.get(control.label)
            has_score = row is not None and self.forest.column in row.cells
            if control.needed and (not has_score or control.label in untested):
                kinds[control.what] = None

        # whatever a profile's own pictures are: a gain is theirs only if other pictures do not give it
        is_blind_tested = self.blind is not None and self.blind.tested.test is not None
        if find_medium(self.leader.row) and not is_blind_tested:
            kinds[UNMATCHED] = None
        return list(kinds)

    def conclude(self, gain: Gain, other: Gain) -> Conclusion:
        """What the data say of a method beside another one: the one conclusion that tables,
        `compare` and files have too.
        """
        return self.forest.conclude(gain.row, other.row)

    def find_test(self, gain: Gain, other: Gain) -> Cell:
        """The cell of a method in the conclusion on the two, corrected in their family."""
        return self.conclude(gain, other).cell

    @cached_property
    def ranks(self) -> Mapping[Label, tuple[int, int]]:
        """The first and the last rank that the tests of all pairs of methods leave to each method.

        Methods with fewer than FEWEST_SEEDS have none.
        """
        ranked = [gain for gain in self.methods if gain.cell.summary.n >= FEWEST_SEEDS]

        ranks = {}
        for gain in ranked:
            # the verdicts of the others beside it
            verdicts = [
                self.find_test(rival, gain).verdict for rival in ranked if rival is not gain
            ]
            better = verdicts.count(Significance.BETTER)
            worse = verdicts.count(Significance.WORSE)
            ranks[gain.row.label] = (1 + better, len(ranked) - worse)
        return ranks

    def rank_text(self, label: Label) -> str:
        """`1`, or `2–4` where tests leave several ranks; empty with too few seeds."""
        if label not in self.ranks:
            return ""
        first, last = self.ranks[label]
        return str(first) if first == last else f"{first}–{last}"

    @cached_property
    def top(self) -> Sequence[Gain]:
        """The leader and the methods that no test tells from it."""
        if self.leader is None:
            return ()

        level = [self.leader]
        for gain in self.methods[1:]:
            is_ranked = gain.row.label in self.ranks
            if is_ranked and self.find_test(self.leader, gain).verdict is not Significance.BETTER:
                level.append(gain)
        return level

    @cached_property
    def answer(self) -> Answer:
        """What the data say about the best method."""
        leader = self.leader
        if leader is None:
            return Answer.NOTHING
        if len(self.methods) < 2:
            return Answer.ALONE
        if leader.row.label not in self.ranks or len(self.ranks) < 2:
            return Answer.TOO_FEW

        if self.baseline in self.top or (self.baseline and not leader.cell.holds):
            return Answer.OPEN
        if any(rival.confounds for rival in self.rivals):
            return Answer.CONFOUNDED
        if len(self.top) > 1:
            return Answer.TIED
        return Answer.UNCONTROLLED if self.missing else Answer.BEST

    @property
    def is_believed(self) -> bool:
        """Whether a reader may repeat the verdict as it stands."""
        return self.answer in _BELIEVED and not self.missing

    @cached_property
    def verdict(self) -> str:
        """The answer in at most MOST_WORDS words: the first of its wordings that is short enough."""
        wordings = list(self._list_wordings())
        for text in wordings:
            if len(text.split()) <= MOST_WORDS:
                return text
        return wordings[-1]

    def _list_wordings(self) -> Iterator[str]:
        """The answer in words, the clearest wording first, the shortest last."""
        if self.leader is None:
            yield "No method was trained here."
            return

        name = start_sentence(title_of(self.leader.row.label.method))
        size = self._lead
        match self.answer:
            case Answer.ALONE:
                yield f"{name} alone: nothing to compare it with."
                yield "One method alone: nothing to compare it with."
            case Answer.TOO_FEW:
                yield f"{name} leads by {size}, on too few seeds."
                yield "The best mean has too few seeds."
            case Answer.OPEN if self.leader is self.baseline:
                yield f"{name}: no method is shown to beat it."
                yield "No method is shown to beat the baseline."
            case Answer.OPEN if float(size) == 0:
                yield f"{name}: not shown to beat {self._baseline_name}."
                yield "No method is shown to beat the baseline."
            case Answer.OPEN:
                yield f"{name}, by {size}: not shown to beat {self._baseline_name}."
                yield f"{name}, by {size}: not shown to be better."
                yield "No method is shown to beat the baseline."
            case Answer.CONFOUNDED:
                for reason in self._list_explanations():
                    yield f"{name}, by {size}, but {reason}."
                    yield f"{name}, by {size}: {reason}."
                yield "A control does as well as the best method."
            case Answer.TIED:
                yield from self._list_tied_wordings(name)
            case Answer.UNCONTROLLED:
                medium = find_medium(self.leader.row)
                if UNMATCHED in self.missing:
                    yield f"{name}, by {size}, but its {medium} are untested."
                    yield f"{name}, by {size}: its {medium} are untested."
                yield f"{name}, by {size}, but a control is missing."
                yield "The best method lacks a control."
            case _:
                yield f"{name}, by {size}, and beyond every control."
                yield f"{name}, beyond every control."
                yield "The best method is beyond every control."

    def _list_tied_wordings(self, name: str) -> Iterator[str]:
        """Methods that share the first rank; two have their names."""
        methods = [f"{len(self.top)} methods tie"]
        if len(self.top) == 2:
            methods.insert(0, f"{name} and {title_of(self.top[1].row.label.method)} tie")
        lead = f", {self._lead} above {self._baseline_name}" if self.baseline else ""

        for subject in methods:
            if self.missing:
                yield f"{subject}{lead}, but a control is missing."
                yield f"{subject}, but a control is missing."
            else:
                yield f"{subject}{lead}."
                yield f"{subject}."

    def _list_explanations(self) -> Iterator[str]:
        """Why the leader's score is not its own: what its pictures do, then its other controls."""
        if self.leader and self.blind and self.blind.confounds:
            yield f"not because of its {find_medium(self.leader.row)}"

        for rival in self.rivals:
            if not rival.confounds:
                continue
            comparison = "scores higher" if self.is_ahead(rival) else "does as well"
            for kind, subject in _SHORT_CONTROLS.items():
                if kind in rival.control.what:
                    yield f"{subject} {comparison}"
                    break

    def is_ahead(self, rival: Rival) -> bool:
        """Whether a control is better than the leader."""
        return self._measure_lead(rival) > 0

    @property
    def _lead(self) -> str:
        """By how much the leader is ahead of its reference."""
        if self.leader is None or self.reference is None:
            return ""
        return fixed(abs(self.lead_over(self.leader, self.reference)), self.digits)

    def lead_over(self, gain: Gain, other: Gain) -> float:
        """By how much a method is better than another one, as the two are tested."""
        difference = self.conclude(gain, other).difference
        return difference if self.forest.metric.larger_is_better else -difference

    @property
    def _baseline_name(self) -> str:
        return self.short_name(self.baseline.row).text if self.baseline else ""

    @cached_property
    def sentences(self) -> Sequence[str]:
        """The answer in two sentences with intervals; one where there is nothing to control."""
        if self.leader is None:
            return (f"No method was trained on {self.forest.place}.",)
        sentences = [self._compare_leader(self.leader)]
        controls = self._describe_controls(self.leader)
        if controls:
            sentences.append(f"{start_sentence(controls)}.")
        return sentences

    def _compare_leader(self, leader: Gain) -> str:
        """`DALR scores 77.20 ± 0.24, 1.46 (1.15 to 1.78) above SimCSE and 0.97 (0.67 to 1.27) above
        RankCSE, the next method.`
        """
        name = start_sentence(self.short_name(leader.row).text)
        start = f"{name} scores {self.score_text(leader.cell)}"
        if len(self.methods) < 2:
            seeds = count_of(leader.cell.summary.n, "seed")
            return f"{start} over {seeds}; no other method was trained."

        parts = []
        if self.baseline and self.baseline is not leader:
            parts.append(self._place_method(leader, self.baseline))
        opponent = self.top[1] if self.answer is Answer.TIED else self.following
        is_next = opponent is self.methods[1]
        if opponent and (is_next or opponent in self.top):
            role = ", the next method" if is_next and len(self.methods) > 2 else ""
            parts.append(self._place_method(leader, opponent) + role)
        return f"{start}, {' and '.join(parts)}."

    def _place_method(self, gain: Gain, other: Gain) -> str:
        """`1.46 (1.15 to 1.78) above SimCSE`."""
        name = self.short_name(other.row).text
        return self._describe_place(self.lead_over(gain, other), self.find_test(gain, other), name)

    def place_beside(self, rival: Rival, name: str) -> str:
        """`1.67 (1.34 to 1.99) above DALR`, of a control beside the method with this name."""
        return self._describe_place(self._measure_lead(rival), rival.tested, name)

    def _measure_lead(self, rival: Rival) -> float:
        """By how much a control is better than the leader, as the two are tested."""
        return -rival.difference if self.forest.metric.larger_is_better else rival.difference

    def _describe_place(self, size: float, cell: Cell, name: str) -> str:
        """`1.46 (1.15 to 1.78) above SimCSE`, or `level with SimCSE (0.00, -0.31 to 0.32)`; a positive
        size is the better side. `cell` has the test of the two, either against the other.
        """
        text = fixed(abs(size), self.digits)
        details = self._describe_interval(cell)
        if float(text) == 0:
            return f"level with {name} ({text}, {details})"
        side = self._choose_side(size, ("above", "below"), ("better than", "worse than"))
        return f"{text} ({details}) {side} {name}"

    def _choose_side(
        self, size: float, sides_of_scores: tuple[str, str], sides_of_errors: tuple[str, str]
    ) -> str:
        """The word for a difference: of the better side if it is positive, of a score, which is
        better where it is larger, or of an error.
        """
        is_score = self.forest.metric.larger_is_better
        better, worse = sides_of_scores if is_score else sides_of_errors
        return better if size > 0 else worse

    def _describe_interval(self, cell: Cell) -> str:
        """`1.15 to 1.78`, the interval of a distance, with what its test does not show."""
        if cell.test is None:
            return "too few seeds to test"

        test = cell.test if cell.test.difference >= 0 else cell.test.reversed()
        interval = interval_text(test.low, test.high, self.digits)

        if cell.verdict is Significance.EQUAL and cell.equivalence:
            return f"{interval}; equal within {at_most(cell.equivalence.bound, self.digits)}"
        if cell.is_alone:
            return f"{interval}; not significant after the correction"
        return interval if cell.holds else f"{interval}; not significant"

    def difference_text(self, test: TTest) -> str:
        """`1.46 (1.15 to 1.78)`, positive where the first side is better."""
        sign = 1 if self.forest.metric.larger_is_better else -1
        low, high = sorted((sign * test.low, sign * test.high))
        size = fixed(sign * test.difference, self.digits)
        return f"{size} ({interval_text(low, high, self.digits)})"

    def _describe_controls(self, leader: Gain) -> str:
        """What the controls of the leader say; empty where it has none and needs none."""
        parts = []
        strongest = self.strongest
        if self.blind and self.blind is not strongest:
            parts.append(self.blind_text(self.blind))
        if strongest and strongest.row is self.forest.base:
            parts.append(f"its strongest control is {self._baseline_name}")
        elif strongest:
            place = self.place_beside(strongest, "it")
            parts.append(f"its strongest control, {name_control(strongest)}, is {place}")
        text = ", and ".join(parts)

        # without a gain, there is nothing that a control could explain
        if self.answer in (Answer.OPEN, Answer.ALONE, Answer.TOO_FEW):
            return text
        lack = self._list_missing(leader)
        return f"{text}; {lack}" if text and lack else text or lack

    def _list_missing(self, leader: Gain) -> str:
        """`a run with other pictures and the text teacher alone are missing`; empty for none."""
        # a control with too few seeds has been named
        kinds = [kind for kind in self.missing if kind != UNMATCHED or self.blind is None]
        # what a verdict speaks of comes first
        kinds.sort(key=lambda kind: kind != UNMATCHED)
        if not kinds:
            return ""

        names = [name_missing_controls(kind, find_medium(leader.row)) for kind in kinds]
        *first_names, last = names
        if not first_names:
            return f"{last} is missing"
        return f"{', '.join(first_names)} and {last} are missing"

    def blind_text(self, rival: Rival) -> str:
        """`with shuffled pictures its score is 4.10 (2.87 to 5.33) lower`."""
        difference = self._describe_blind(rival)
        tested = rival.tested
        if tested.test is None:
            return f"{difference} it has too few seeds to test"
        if tested.verdict is Significance.EQUAL and tested.equivalence:
            within = at_most(tested.equivalence.bound, self.digits)
            return f"{difference} it scores the same (equal within {within})"

        size = self._measure_lead(rival)
        text = fixed(abs(size), self.digits)
        details = self._describe_interval(tested)
        if float(text) == 0:
            return f"{difference} its score is the same ({text}, {details})"
        side = self._choose_side(size, ("higher", "lower"), ("better", "worse"))
        return f"{difference} its score is {text} ({details}) {side}"

    def _describe_blind(self, rival: Rival) -> str:
        """`with shuffled pictures`, or `without its pictures`."""
        medium = find_medium(self.leader.row) if self.leader else ""
        if not rival.control.what.startswith(UNMATCHED):
            return f"without its {medium}"

        kind = "other"
        variant = rival.row.label.parsed
        for option, value in variant.options if variant else ():
            if option.startswith("image"):
                kind = value
                break
        return f"with noise as {medium}" if kind == "noise" else f"with {kind} {medium}"

    def score_text(self, cell: Cell) -> str:
        """`77.20 ± 0.24`, the mean and the sample deviation over seeds."""
        summary = cell.summary
        mean = fixed(summary.mean, self.digits)
        return mean if summary.std is None else f"{mean} ± {fixed(summary.std, self.digits)}"

    def short_name(self, row: Row) -> VariantName:
        """A row's name as a reader of the papers knows it, with the whole code on hover.

        Values without which a method cannot be run are left out, a tuned variant says so, and of
        many values the first are named, with the number of others.
        """
        label = row.label
        variant = label.parsed
        name = label.name
        if label.variant in self.tuned:
            return VariantName(f"{title_of(label.method)}, tuned", name.code)
        if variant is None or not row.is_trained:
            return name

        # a variant without numbers that stands for its method has values that the method needs
        title = name_of(f"{variant.name}@{variant.reading}").text
        has_number = any(value[:1].isdigit() for _, value in variant.options)
        is_stand_in = any(gain.row is row for gain in self.methods) and not label.overrides
        if is_stand_in and not has_number:
            return VariantName(title, name.code)
        if len(name.text) <= LONGEST_NAME:
            return name

        return VariantName(_shorten_values(name.text, title), name.code)


def _shorten_values(name: str, title: str) -> str:
    """`KDMCSE, λ = 0.1 and 2 other values`: the first values that fit, and the number of others."""
    # values of a variant follow commas, those of --set stand in brackets
    listed = name.removeprefix(title).removesuffix(")").replace(" (", ", ")
    values = listed.removeprefix(", ").split(", ")

    for count in range(len(values) - 1, 0, -1):
        short_name = ", ".join([title, *values[:count]])
        text = f"{short_name} and {count_of(len(values) - count, 'other value')}"
        if len(text) <= LONGEST_NAME:
            return text
    return f"{title} with {count_of(len(values), 'other value')}"


def pick_first_forests(forests: Iterable[Forest]) -> Mapping[tuple[str, str], Forest]:
    """The forest that is asked about in each profile and place with a trained row: the first one."""
    first: dict[tuple[str, str], Forest] = {}
    for forest in forests:
        if any(gain.row.is_trained for gain in forest.gains):
            first.setdefault((forest.table.profile, forest.place), forest)
    return first


def rank_suite(forest: Forest) -> tuple[bool, bool]:
    """The sort key of a place's forests: its first suite, and the first metric of that."""
    is_later_metric = forest.table.averages.index(forest.column) > 0
    return forest.table.suite != FIRST_SUITE, is_later_metric


def find_medium(row: Row) -> str:
    """`pictures` or `recordings`, whatever a row is trained on beside text; empty for text alone, or
    a method that is not installed.
    """
    variant = row.label.parsed
    if variant is None or not row.is_trained:
        return ""
    try:
        streams = get_declared_method(variant.name).streams
    except UserError:
        return ""

    for stream in streams:
        if stream in _MEDIA_WORDS:
            return _MEDIA_WORDS[stream]
    return ""


def name_control(rival: Rival) -> str:
    """A control as a sentence names it: `the text teacher alone`, `the untrained encoder (mean)`,
    `MCSE with shuffled images`.
    """
    name = rival.row.label.name.text
    if TEACHER_ALONE in rival.control.what:
        return "the text teacher alone"
    if rival.control.what.startswith(SAME_TEXT) and find_medium(rival.row):
        return f"{title_of(rival.row.label.method)} without {find_medium(rival.row)}"
    if UNTRAINED_ENCODER in rival.control.what:
        return f"the untrained encoder ({name.removeprefix('untrained, ')})"

    # commas would end the place of a name within a sentence
    method, *values = name.split(", ")
    return f"{method} with {' and '.join(values)}" if values else method


def name_missing_controls(kind: str, medium: str) -> str:
    """A kind of controls as a sentence names one that was not run, of a method with this medium."""
    if kind == UNMATCHED:
        return f"a run with other {medium}"
    return _MISSING_CONTROLS.get(kind, kind)


def start_sentence(text: str) -> str:
    """A text with a capital at its start; a name of one word stays as its authors write it."""
    return f"{text[0].upper()}{text[1:]}" if " " in text else text
