"""The sentences on one leaderboard: who leads, the untrained encoder, controls, and what is stale."""

from __future__ import annotations

from collections.abc import Iterator

from harness.formatting import count_of, fixed, p_value
from harness.reporting.seeds.caveats import freshness_notes
from harness.reporting.seeds.forest import Forest, Gain, ahead, methods
from harness.reporting.seeds.groups import Cell, compare, trained_apart
from harness.reporting.seeds.summary import Block, Row
from harness.reporting.seeds.untrained import untrained_sentences
from harness.reporting.seeds.words import Sentence, certainty, judged
from harness.reporting.tables.grids import summary_text
from harness.spec import CONTROLS, SpecError, Variant
from harness.stats import FEWEST_SEEDS
from harness.verdicts import Significance


def headline(forest: Forest) -> list[Sentence]:
    """What a leaderboard says: the leader, then the untrained encoder, controls, and what is stale or incomplete."""
    place = f"{forest.place}, profile {forest.table.profile}"
    found = [Sentence(place, lead_text(forest), "lead")]
    found += untrained_sentences(forest.table, forest.block) if forest.is_primary else []
    found += [Sentence(place, text, "control") for text in _controls(forest)]
    stale = freshness_notes(row.weakness() for row in forest.block.rows)
    return found + [Sentence(place, note, "note") for note in stale]


def lead_text(forest: Forest) -> str:
    """The leader against the next method, with what their test says; nothing is claimed of fewer than three seeds."""
    where = f"on {forest.place}, profile {forest.table.profile} ({forest.table.suite} average)"
    ranked = methods(forest)
    if not ranked:
        return f"No method has been trained {where}."
    best, *others = ranked
    score = _score(forest, best)
    weak = str(best.row.weakness([forest.column]))
    weak = f" {best.name.text}: {weak}." * bool(weak)
    if not others:
        return f"{best.name} scores {score} {where}; no other method has been run there.{weak}"
    following = others[0]
    if min(best.cell.summary.n, following.cell.summary.n) < FEWEST_SEEDS:
        few = f"fewer than {FEWEST_SEEDS} seeds each, too few to compare"
        return f"{best.name} scores {score} {where}, {following.name} {_score(forest, following)}: {few}.{weak}"
    if best.row.data == following.row.data:
        return f"{best.name} and {following.name} have the same scores {where}: {score}.{weak}"
    metric = forest.table.metric(forest.column)
    base = next((one for one in ranked if one.row == forest.block.baseline(best.row.label)), None)
    cell = best.cell if base is following else compare(best.cell, following.cell, metric)
    said = _against(forest, best, following, cell)
    if base and base is not following:
        said += f"; {_against(forest, best, base, best.cell)}"
    claim = "leads" if cell.holds else "has the best mean"
    return f"{best.name} {claim} {where} with {score}: {said}.{weak}"


def _score(forest: Forest, gain: Gain) -> str:
    metric, summary = forest.table.metric(forest.column), gain.cell.summary
    return f"{summary_text(summary, metric.digits)} {metric.title} ({count_of(summary.n, 'seed')})"


def _against(forest: Forest, best: Gain, other: Gain, cell: Cell) -> str:
    """`0.29 better than DALR, the next method (95 % interval ..., p = ...)`."""
    digits, test = forest.table.metric(forest.column).digits, cell.test
    size = fixed(abs(best.cell.summary.mean - other.cell.summary.mean), digits)
    role = "the baseline" if other.kind == "baseline" else "the next method"
    if test is None:
        return f"{size} better than {other.name}, {role}"
    ends = sorted((test.low, test.high) if test.difference > 0 else (-test.low, -test.high))
    sure = certainty(cell) if cell.holds else judged(cell)
    sure += "" if cell.corrected else " in a test of the two alone"
    interval = f"95 % interval {fixed(ends[0], digits)} to {fixed(ends[1], digits)}"
    apart = trained_apart(best.row.training, other.row.training)
    apart = f", trained with {apart}" if apart else ""
    return f"{size} better than {other.name}, {role} ({interval}, {sure}{apart})"


def _controls(forest: Forest) -> Iterator[str]:
    """Each variant with scrambled features against the same variant with matching ones."""
    metric, column = forest.table.metric(forest.column), forest.column
    for gain in forest.gains:
        full = _unscrambled(forest.block, gain.row)
        if full is None or column not in full.cells:
            continue
        other = full.cells[column]
        cell = compare(gain.cell, other, metric)
        size = fixed(abs(cell.summary.mean - other.summary.mean), metric.digits)
        side = "below" if ahead(other.summary.mean, cell.summary.mean, metric) else "above"
        if cell.verdict is Significance.WORSE:
            gained = other.verdict is Significance.BETTER
            meaning = "; the gain depends on matching features" if gained else "; matching features matter"
        elif cell.verdict is Significance.BETTER:
            meaning = "; scrambled features do better than matching ones"
        else:
            meaning = "; no evidence that matching features matter" if cell.test else ""
        sure = p_value(cell.test.p) if cell.test else "too few seeds to test"
        apart = trained_apart(gain.row.training, full.training)
        sure += f", trained with {apart}" if apart else ""
        yield f"Control: {gain.name} scores {size} {metric.title} {side} {full.label.name} ({sure}){meaning}."


def _unscrambled(block: Block, row: Row) -> Row | None:
    try:
        variant = Variant.parse(row.label.variant)
    except SpecError:
        return None
    options = {key: value for key, value in variant.options if value not in CONTROLS}
    if len(options) == len(variant.options):
        return None
    wanted = row.label._replace(variant=str(Variant.make(variant.name, options, variant.reading)))
    return block.by_label.get(wanted)
