"""Each variant's gain over the baseline of its setting and encoder, best first, and the sentences
on gains.

The untrained encoder is shown with the variants trained from it, preferably with their pooling.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.commands import DEFAULT_COMMANDS, Commands
from harness.formatting import count_of, fixed, interval_text
from harness.method.naming import VariantName, name_of
from harness.metrics import Column, Metric, Significance
from harness.profiles import Training
from harness.reporting.seeds.caveats import list_freshness_notes, list_weakness_notes
from harness.reporting.seeds.cells import (
    Cell,
    Label,
    Row,
    list_training_differences,
    measure_difference,
)
from harness.reporting.seeds.conclusion import Conclusion
from harness.reporting.seeds.controls import (
    UNMATCHED,
    Rival,
    TableRows,
    describe_controls,
    describe_rival,
    find_rivals,
    list_missing_controls,
)
from harness.reporting.seeds.summary import Block, SummaryTable
from harness.reporting.seeds.wording import Sentence, name_suite
from harness.reporting.tables.grids import format_summary
from harness.stats import CORRECTION, FEWEST_SEEDS, Interval, TTest, mean_interval

#: the kinds of gains by the test alone: a plot fills those that hold in their family too
_KINDS: Mapping[Significance | None, str] = {
    Significance.BETTER: str(Significance.BETTER),
    Significance.BETTER_ALONE: str(Significance.BETTER),
    Significance.WORSE: str(Significance.WORSE),
    Significance.WORSE_ALONE: str(Significance.WORSE),
    Significance.EQUAL: str(Significance.EQUAL),
}
#: kinds of gains without a test
_UNTESTED = {"not tested", "untrained", "other pooling", "baseline"}
#: more variants than these are counted, not named
MOST_NAMES = 5


def has_trained_pooling(block: Block, row: Row) -> bool:
    """Whether a row has the pooling of most trained rows of a block; in a tie, the pooling of the
    first row counts.
    """
    counts = Counter(row.pooling for row in block.trained)
    if not counts:
        return True
    [(most_common, _)] = counts.most_common(1)
    return row.pooling == most_common


def describe_untrained(forest: Forest) -> Iterator[str]:
    """Compare the untrained encoder with the trained rows of a block on the suite's average.

    The encoder is read at its best pooling. Yields nothing if the suite has several averages, or if
    smaller is better.
    """
    column = forest.column
    if forest.table.averages != [column] or not forest.metric.larger_is_better:
        return

    trained = [row for row in forest.block.trained if column in row.cells]
    untrained = [row for row in forest.block.untrained if column in row.cells]
    if trained and untrained:
        best_untrained = max(untrained, key=lambda row: row.cells[column].summary.mean)
        yield _compare_untrained(forest, best_untrained, trained)


def _compare_untrained(forest: Forest, untrained: Row, trained: Sequence[Row]) -> str:
    """The sentence on an untrained encoder beside the trained rows."""
    column = forest.column
    digits = forest.metric.digits

    def mean(row: Row) -> float:
        return row.cells[column].summary.mean

    def name_with_score(row: Row) -> str:
        return f"{format_summary(row.cells[column].summary, digits)} ({row.label.name})"

    pooling = ""
    if not has_trained_pooling(forest.block, untrained):
        pooling = ", at another pooling than the trained"
    best_trained = max(trained, key=mean)
    scores = (
        f"untrained {name_with_score(untrained)}{pooling}, "
        f"best trained {name_with_score(best_trained)}, "
        f"{forest.metric.title}, {name_suite(forest.table.suite)} average"
    )
    behind = [row for row in trained if mean(row) < mean(untrained)]
    if not behind:
        return f"Every trained variant beats the untrained encoder: {scores}."

    many = _count_behind(len(behind), len(trained))
    names = ""
    if len(behind) <= MOST_NAMES:
        names = f": {'; '.join(str(row.label.name) for row in behind)}"
    tests = _describe_untrained_tests(forest, untrained, trained)
    return f"The untrained encoder beats {many}{names} ({tests}): {scores}."


def _count_behind(behind: int, trained: int) -> str:
    """`3 of 5 trained variants`, or all of them."""
    if behind < trained:
        return f"{behind} of {count_of(trained, 'trained variant')}"
    if trained == 1:
        return "the one trained variant"
    return f"all {count_of(trained, 'trained variant')}"


def _describe_untrained_tests(forest: Forest, untrained: Row, trained: Sequence[Row]) -> str:
    """How many trained rows are significantly worse than an untrained one, and how many have too
    few seeds to tell.
    """
    tests = [
        forest.block.find_test(row, untrained, forest.column, forest.metric) for row in trained
    ]
    worse = [cell for cell in tests if cell.holds and cell.verdict is Significance.WORSE]
    few = sum(cell.test is None for cell in tests)

    parts = []
    if few < len(trained):
        count = len(worse) or "none"
        parts.append(f"{count} significantly, one-sample t-tests with {CORRECTION.name}")
    if few > 0:
        parts.append(f"{few} with too few seeds to test")
    return "; ".join(parts)


@dataclass(frozen=True)
class Gain:
    """A row of a forest: a variant's gain over the baseline, positive if the variant is better.

    `low` and `high` are the ends of the 95 % interval, equal to `size` where there is none. `kind`
    is the verdict before correction, or why there is none. `base` is the row that it is compared
    with.
    """

    row: Row
    cell: Cell
    size: float
    low: float
    high: float
    kind: str
    base: Row | None = None

    @property
    def name(self) -> VariantName:
        return self.row.label.name


@dataclass(frozen=True)
class Forest:
    """The rows of one setting and encoder against their baseline in one column, best first.

    Without a baseline, `base` is None and sizes are the scores themselves, with the sign of the
    better direction.
    """

    table: SummaryTable
    block: Block
    column: Column
    base: Row | None
    gains: tuple[Gain, ...]

    @property
    def metric(self) -> Metric:
        return self.table.metric(self.column)

    @property
    def place(self) -> str:
        return self.block.place

    @property
    def rows(self) -> TableRows:
        """All rows of its table, among which are the controls of its own."""
        return self.block.controls

    def conclude(self, row: Row, other: Row) -> Conclusion:
        """What the data say of a row against another one in the forest's column."""
        return self.block.conclude(row, other, self.column, self.metric)

    def words(self, gain: Gain) -> str:
        """What the data say of a gain: its verdict, p-values, family and control."""
        if gain.base is None or gain.kind in _UNTESTED:
            return "not tested"
        # its cell is tested against the base already
        sides = (gain.row, gain.base)
        return Conclusion(*sides, self.column, self.metric, gain.cell, self.rows).words

    @property
    def baseline(self) -> VariantName:
        """The baseline's name, whether it has runs or not."""
        return self.base.label.name if self.base else name_of(self.block.base)

    @property
    def notes(self) -> list[str]:
        return list(list_weakness_notes(gain.row.weakness([self.column]) for gain in self.gains))


def make_forests(
    table: SummaryTable, column: Column | None = None, fewest: int = 2
) -> list[Forest]:
    """A forest for each setting and encoder of a table with at least the `fewest` rows in a column.

    The column is by default the first average that is judged.
    """
    if column is None and table.averages:
        column = table.averages[0]
    if column is None:
        return []

    forests_of_table = []
    for block in table.blocks:
        # a block of untrained encoders alone answers no question
        if not block.trained and fewest != 1:
            continue
        forest = _make_forest(table, block, column)
        if len(forest.gains) >= fewest:
            forests_of_table.append(forest)
    return forests_of_table


def rank_importance(forest: Forest) -> tuple[int, ...]:
    """The sort key of forests: those with a baseline first, then those with most tests."""
    tested = sum(gain.cell.test is not None for gain in forest.gains)
    return forest.base is None, -tested, -len(forest.gains)


def select_methods(forest: Forest) -> list[Gain]:
    """The methods themselves, best first, without their variants; where a method has variants only,
    its best one.

    Methods with other values of the training than their profile's, such as those that a tuning
    chose, count only where no other was trained: a leader leads among equals.
    """
    trained = [gain for gain in forest.gains if gain.row.is_trained]
    equals = [gain for gain in trained if not is_trained_otherwise(gain.row)]

    gains: dict[str, Gain] = {}
    for gain in equals or trained:
        name = gain.row.label.method
        if name not in gains or (gain.row.is_method and not gains[name].row.is_method):
            gains[name] = gain
    return sorted(gains.values(), key=lambda gain: -gain.size)


def compare_against(forest: Forest, variant: str, rows: Collection[Row]) -> Forest:
    """Some of its rows against another variant, each by the conclusion on the two."""
    labels = {row.label for row in rows}
    return _make_forest(forest.table, forest.block, forest.column, variant, labels)


def _make_forest(
    table: SummaryTable,
    block: Block,
    column: Column,
    variant: str = "",
    labels: Collection[Label] | None = None,
) -> Forest:
    """The rows of a block, or only those of some labels, against a variant, by default the
    baseline.
    """
    variant = variant or block.base
    metric = table.metric(column)
    rows = [row for row in block.rows if column in row.cells]
    has_several_trained = sum(row.is_trained for row in rows) > 1
    base = find_main_baseline(block, column, variant) if has_several_trained else None

    gains = []
    for row in rows:
        if labels is not None and row.label not in labels:
            continue

        # rows of the baseline itself and of the untrained encoder are compared with the main
        # baseline
        compared_row = base
        if row.is_trained and row.label.variant != variant:
            compared_row = block.by_label.get(row.label._replace(variant=variant))

        if base is None:
            gains.append(_measure_gain(block, row, None, column, metric))
        elif compared_row and column in compared_row.cells:
            gains.append(_measure_gain(block, row, compared_row, column, metric))
    gains.sort(key=lambda gain: -gain.size)
    return Forest(table, block, column, base, tuple(gains))


def find_main_baseline(block: Block, column: Column, variant: str = "") -> Row | None:
    """The row of a variant, by default the baseline, without overrides, or else its first one; None
    where it has no score in a column.
    """
    name = variant or block.base
    baselines = [row for row in block.rows if row.label.variant == name and column in row.cells]
    return min(baselines, key=lambda row: bool(row.label.overrides), default=None)


def _measure_gain(block: Block, row: Row, base: Row | None, column: Column, metric: Metric) -> Gain:
    """The gain of a row over a baseline; without one, its score."""
    cell = row.cells[column]
    sign = 1 if metric.larger_is_better else -1
    ends: TTest | Interval | None = None
    if row.is_trained:
        kind = "not tested"
    elif has_trained_pooling(block, row):
        kind = "untrained"
    else:
        kind = "other pooling"

    if base is None:
        size = cell.summary.mean
        ends = mean_interval(cell.summary)
    elif row.data == base.data:
        size = measure_difference(cell, base.cells[column])
        kind = "baseline"
    else:
        # the baseline with `--set` values and untrained encoders have no verdict, but an interval
        tested = block.find_test(row, base, column, metric)
        size = measure_difference(tested, base.cells[column])
        ends = tested.test
        is_judged = metric.judged and row.label.variant != base.label.variant
        if row.is_trained and tested.test and is_judged:
            cell = tested
            kind = _KINDS.get(cell.verdict, str(Significance.NONE))

    low = high = sign * size
    if ends:
        low, high = sorted((sign * ends.low, sign * ends.high))
    return Gain(row, cell, sign * size, low, high, kind, base)


def find_missing_controls(forest: Forest, commands: Commands) -> Iterator[tuple[str, str]]:
    """The controls of the leader that were not run, and the commands that run them."""
    for best in select_methods(forest)[:1]:
        yield from list_missing_controls(best.row, forest.rows, forest.column, commands)


def make_headline(forest: Forest, commands: Commands = DEFAULT_COMMANDS) -> list[Sentence]:
    """The sentences of a leaderboard: on the leader, the untrained encoder, controls, and stale or
    incomplete runs.
    """
    texts = [describe_lead(forest), *describe_otherwise_trained(forest)]
    for subject, command in find_missing_controls(forest, commands):
        texts.append(f"Control missing: {subject}; run `{command}`.")
    texts += describe_untrained(forest)
    texts += _describe_unmatched(forest)
    texts += list_freshness_notes(row.weakness() for row in forest.block.rows)

    place = f"{forest.place}, profile {forest.table.profile}"
    return [Sentence(place, text) for text in texts]


def is_trained_otherwise(row: Row) -> bool:
    """Whether a row's variant or its `--set` changes values of the training."""
    variant = row.label.parsed
    options = {name for name, _ in variant.options} if variant else set()
    return bool(row.label.overrides) or not options.isdisjoint(Training.model_fields)


def describe_otherwise_trained(forest: Forest) -> Iterator[str]:
    """The best row that was trained with other values than the leader, if its mean is better, with
    what differs.
    """
    leaders = select_methods(forest)[:1]
    trained = [gain for gain in forest.gains if gain.row.is_trained]
    if not leaders or not trained:
        return

    leader = leaders[0]
    best = trained[0]
    if best.size <= leader.size or not is_trained_otherwise(best.row):
        return
    apart = list_training_differences(best.row.training, leader.row.training)
    differs = f", trained with {apart}" if apart else ""
    score = _format_gain_score(forest, best)
    yield f"{best.name} has a better mean than {leader.name}, {score}{differs}: they are no equals."


def describe_lead(forest: Forest) -> str:
    """The leader against the next method and the baseline, with the conclusions on each.

    Methods with fewer than three seeds are named and not compared.
    """
    suite = name_suite(forest.table.suite)
    place = f"on {forest.place}, profile {forest.table.profile} ({suite} average)"
    ranked = select_methods(forest)
    if not ranked:
        return f"No method has been trained {place}."

    enough = [gain for gain in ranked if gain.cell.summary.n >= FEWEST_SEEDS]
    if len(ranked) > 1 and len(enough) < 2:
        return _describe_lead_of_few_seeds(forest, ranked, place)

    best, *next_gains = enough or ranked
    score = _format_gain_score(forest, best)
    controls = find_rivals(best.row, forest.rows, forest.column, forest.metric)
    explained = describe_controls(controls, best.row, forest.metric)
    tail = _describe_weakness(forest, best)
    if not next_gains:
        alone = "no other method has been run there"
        return f"{best.name} scores {score} {place}; {alone}.{explained}{tail}"

    few = [
        f"{gain.name} {_format_gain_score(forest, gain)}" for gain in ranked if gain not in enough
    ]
    if few:
        tail = f" Too few seeds to compare: {'; '.join(few)}.{tail}"
    following = next_gains[0]
    if best.row.data == following.row.data:
        return f"{best.name} and {following.name} have the same scores {place}: {score}.{tail}"

    baseline = forest.block.baseline(best.row.label)
    compared = [following, *(gain for gain in next_gains[1:] if gain.row == baseline)]
    conclusions = [forest.conclude(best.row, gain.row) for gain in compared]
    comparisons = [
        _compare_with(conclusion, gain)
        for conclusion, gain in zip(conclusions, compared, strict=True)
    ]

    # a control that a comparison has named is not explained again
    named_rows = [gain.row for gain in compared]
    confounding = [conclusion.confounded_by for conclusion in conclusions]
    named_rows += [rival.row for rival in confounding if rival]
    if controls and controls[0].row in named_rows:
        explained = ""

    is_confounded = any(rival.confounds for rival in controls)
    leads = conclusions[0].cell.holds and not is_confounded
    claim = "leads" if leads else "has the best mean"
    return f"{best.name} {claim} {place} with {score}: {'; '.join(comparisons)}.{explained}{tail}"


def _describe_weakness(forest: Forest, gain: Gain) -> str:
    """What weakens a score, as a sentence; empty for nothing."""
    weak = str(gain.row.weakness([forest.column]))
    return f" {gain.name.text}: {weak}." if weak else ""


def _describe_lead_of_few_seeds(forest: Forest, ranked: Sequence[Gain], where: str) -> str:
    """The two best methods, of which fewer than two have the seeds for a test."""
    best, following = ranked[:2]
    seeds = f"{best.cell.summary.n} and {count_of(following.cell.summary.n, 'seed')}"
    few = f"{seeds}, too few to compare ({FEWEST_SEEDS} each are the fewest)"
    score = _format_gain_score(forest, best)
    next_score = _format_gain_score(forest, following)
    scores = f"{score} {where}, {following.name} {next_score}"
    return f"{best.name} scores {scores}: {few}.{_describe_weakness(forest, best)}"


def _format_gain_score(forest: Forest, gain: Gain) -> str:
    """`77.20 ± 0.24 points of Spearman (5 seeds)`."""
    summary = gain.cell.summary
    text = format_summary(summary, forest.metric.digits)
    return f"{text} {forest.metric.title} ({count_of(summary.n, 'seed')})"


def _compare_with(conclusion: Conclusion, other: Gain) -> str:
    """`0.29 better than DALR, the next method (95 % interval ...; not significant, p = ...)`."""
    digits = conclusion.metric.digits
    size = fixed(abs(conclusion.difference), digits)
    role = "the baseline" if other.kind == "baseline" else "the next method"
    comparison = f"{size} better than {other.name}, {role}"
    if conclusion.interval is None:
        return comparison

    low, high = conclusion.interval
    if conclusion.difference < 0:
        low, high = -high, -low
    details = [f"95 % interval {interval_text(low, high, digits)}", conclusion.words]
    apart = list_training_differences(conclusion.a.training, conclusion.b.training)
    if apart:
        details.append(f"trained with {apart}")
    return f"{comparison} ({'; '.join(details)})"


def _describe_unmatched(forest: Forest) -> Iterator[str]:
    """Each variant against itself with images that do not match."""
    for gain in forest.gains:
        for rival in find_rivals(gain.row, forest.rows, forest.column, forest.metric):
            if rival.control.what == UNMATCHED:
                comparison = describe_rival(rival, gain.row, forest.metric)
                yield f"Control: {comparison}{_explain_unmatched(gain, rival)}."


def _explain_unmatched(gain: Gain, rival: Rival) -> str:
    """What a comparison with images that do not match means; empty without a test."""
    if rival.tested.test is None:
        return ""
    if rival.tested.verdict is Significance.WORSE:
        return "; scrambled features do better than matching ones"
    if rival.tested.verdict is not Significance.BETTER:
        return "; no evidence that matching features matter"
    if gain.cell.verdict is Significance.BETTER:
        return "; the gain depends on matching features"
    return "; matching features matter"
