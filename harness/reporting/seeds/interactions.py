"""Differences of differences: whether a variant gains more with one encoder, or in one setting, than
with another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.commands import Commands
from harness.papers.needed import StandIns
from harness.papers.published import (
    ABLATION_SCORE,
    Interaction,
    PublishedNumbers,
    find_printed_differences,
)
from harness.profiles import Profile
from harness.reporting.seeds.cells import Cell, Label, Row
from harness.reporting.seeds.summary import SummaryTable
from harness.stats import FEWEST_SEEDS, Summary, summarise
from harness.stats.contrasts import ContrastTest, contrast_test


class Corner(NamedTuple):
    """The labels of the better and the worse variant in one place."""

    better: Label
    worse: Label


@dataclass(frozen=True)
class InteractionTest:
    """An interaction in one place: the gains where it should be larger and where smaller.

    `more` and `less` are empty where rows are missing; `command` then runs these.
    """

    interaction: Interaction
    where: str
    more: Summary | None
    less: Summary | None
    test: ContrastTest | None
    seeds: int
    command: str = ""

    @property
    def difference(self) -> float | None:
        """How much larger the gain is."""
        if self.more is None or self.less is None:
            return None
        return self.more.mean - self.less.mean


def measure_interactions(
    interactions: Sequence[Interaction],
    table: SummaryTable,
    profile: Profile,
    published: PublishedNumbers,
    commands: Commands,
) -> Iterator[InteractionTest]:
    """Test each interaction in the places of a profile's table where some of its rows are.

    The places are those of the printed rows, or what stands for them under the profile.
    """
    rows = {row.label: row for row in table.rows}
    names = StandIns.of(profile)
    for interaction in interactions:
        places = find_printed_differences(interaction, published)
        if interaction.varies == "setting":
            levels = {place.encoder for place in places}
        else:
            levels = {place.setting for place in places}

        # several printed places may have one stand-in
        tested: set[tuple[Corner, Corner]] = set()
        for level in sorted(levels):
            more = _find_corner(interaction, interaction.more, level, profile, names)
            less = _find_corner(interaction, interaction.less, level, profile, names)
            if more is None or less is None or more == less or (more, less) in tested:
                continue
            tested.add((more, less))
            if _is_run(more, rows) or _is_run(less, rows):
                yield _test_interaction(interaction, more, less, rows, commands)


def _find_corner(
    interaction: Interaction, varied: str, other: str, profile: Profile, names: StandIns
) -> Corner | None:
    """The labels of an interaction in one place; None where the profile has no stand-in for it."""
    encoder, setting = (varied, other) if interaction.varies == "encoder" else (other, varied)

    labels = []
    for variant in (interaction.better, interaction.worse):
        place = names.place(variant, setting, encoder)
        if place is None:
            return None
        labels.append(Label(profile.name, place.variant, place.setting, place.encoder, ""))
    return Corner(*labels)


def _is_run(corner: Corner, rows: Mapping[Label, Row]) -> bool:
    column = ABLATION_SCORE.column
    return all(label in rows and column in rows[label].cells for label in corner)


def _test_interaction(
    interaction: Interaction,
    more: Corner,
    less: Corner,
    rows: Mapping[Label, Row],
    commands: Commands,
) -> InteractionTest:
    """An interaction between two places, of which at least one has runs."""
    shared = more.better.setting if interaction.varies == "encoder" else more.better.encoder
    for corner in (more, less):
        if not _is_run(corner, rows):
            command = _make_corner_command(corner, commands)
            return InteractionTest(interaction, shared, None, None, None, 0, command)

    larger = _measure_gain(rows[more.better], rows[more.worse])
    smaller = _measure_gain(rows[less.better], rows[less.worse])
    summaries = [*larger.summaries, *smaller.summaries]
    weights = [*larger.weights, *(-weight for weight in smaller.weights)]
    fewest = min(summary.n for summary in summaries)
    test = contrast_test(weights, summaries) if fewest >= FEWEST_SEEDS else None
    return InteractionTest(interaction, shared, larger.gain, smaller.gain, test, fewest)


def _make_corner_command(corner: Corner, commands: Commands) -> str:
    """The command that runs both variants in a place."""
    place = corner.better
    return commands.run(
        profile=place.profile,
        methods=[corner.worse.variant, corner.better.variant],
        settings=place.setting,
        encoders=place.encoder,
        seeds=str(FEWEST_SEEDS),
        suites=commands.select_suites(place.profile, [ABLATION_SCORE.suite]),
    )


class GainSide(NamedTuple):
    """A gain, and the independent summaries that it is the difference of: of one where it is by
    seed.
    """

    gain: Summary
    summaries: Sequence[Summary]

    @property
    def weights(self) -> list[int]:
        """The weights of its summaries in a contrast."""
        return [1, -1][: len(self.summaries)]


def _measure_gain(better: Row, worse: Row) -> GainSide:
    """The gain of a row over another one: by seed where their runs read the same batches."""
    column = ABLATION_SCORE.column
    first: Cell = better.cells[column]
    second: Cell = worse.cells[column]
    values, other_values = first.pairs(second)
    is_paired = bool(better.batches) and better.batches == worse.batches
    if is_paired and len(values) >= FEWEST_SEEDS:
        differences = [a - b for a, b in zip(values, other_values, strict=True)]
        gain = summarise(differences)
        return GainSide(gain, [gain])

    size = first.summary.mean - second.summary.mean
    fewest = min(first.summary.n, second.summary.n)
    return GainSide(Summary(size, None, fewest), [first.summary, second.summary])
