"""The papers' claims as runs: the sides of each where the paper prints them, and the seeds that
decide it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from harness.errors import UserError
from harness.formatting import count_of, fixed, signed
from harness.metrics import Score
from harness.papers.needed import (
    Narrowing,
    NeededRuns,
    Runs,
    StandIns,
    check_part,
    collect_runs,
    find_table,
    list_claim_rows,
    make_stand_in_error,
    match_case,
    merge_runs,
)
from harness.papers.published import (
    ABLATION_SCORE,
    PAPER_PROFILE,
    Ablation,
    Interaction,
    Published,
    PublishedNumbers,
    list_claims,
    read_interactions,
    read_papers,
    read_published,
)
from harness.papers.schema import PaperColumn, PaperTable
from harness.profiles import Profile
from harness.registry import suggest
from harness.spec import Place
from harness.stats import ALPHA, FEWEST_SEEDS, detectable_difference, seeds_to_decide

#: more seeds than this decide nothing that is worth their time
MOST_WORTHWHILE_SEEDS = 20


class Side(NamedTuple):
    """One side of a claim: its printed row (METHOD:VARIANT), setting and encoder, and what is run
    for it.
    """

    printed: str
    setting: str
    encoder: str
    place: Place


class PrintedGain(NamedTuple):
    """A printed difference, or difference of differences, and the deviations over seeds of its two
    sides, None where the paper prints none.
    """

    size: float
    stds: tuple[float, float] | None


@dataclass(frozen=True)
class PlannedClaim:
    """A claim in one place: its sides (of an interaction, first those with the larger gain), and
    the seeds that decide it.

    `column` is the paper's, `score` what is measured in its place, and `usual_seeds` are as many as
    the paper has. `needed` are the seeds a side that show the printed difference with 80 % power at
    the level `alpha`, None where print does not tell, or where no number would.
    """

    name: str
    claim: Ablation
    column: PaperColumn
    score: Score
    sides: tuple[Side, ...]
    usual_seeds: int
    seeds: tuple[int, ...] = ()
    alpha: float = ALPHA
    gain: PrintedGain | None = None
    needed: int | None = None

    @property
    def is_interaction(self) -> bool:
        return isinstance(self.claim, Interaction)

    @property
    def where(self) -> str:
        """Setting and encoder of its sides; of an interaction, what all of them share."""
        place = self.sides[0].place
        if not isinstance(self.claim, Interaction):
            return f"{place.setting} / {place.encoder}"
        return place.setting if self.claim.varies == "encoder" else place.encoder

    @property
    def runs(self) -> list[NeededRuns]:
        """What its sides need."""
        rows = (self.claim.better, self.claim.worse)
        suites = (self.score.suite,)
        return [
            NeededRuns(rows, side.setting, side.encoder, side.place, len(self.seeds), suites)
            for side in self.sides
        ]

    def is_in(self, part: Narrowing) -> bool:
        """Whether all its sides belong to the wanted part of its table."""
        return all(runs.is_in(part) for runs in self.runs)

    def describe(self) -> str:
        """What is compared, and what its seeds will be able to show, before they are run."""
        sides = f"{self.claim.better} against {self.claim.worse}"
        return f"{self.claim.text}: {sides} in {self.where}{self._describe_print()}"

    def _describe_print(self) -> str:
        digits = self.column.decimals
        seeds = f"{count_of(len(self.seeds), 'seed')} each"
        if self.gain is None:
            return f"; {seeds}, since the paper's numbers say nothing of these data"
        printed = f", {signed(self.gain.size, digits)} in print"
        if self.gain.stds is None:
            return f"{printed} without deviations; {seeds}, from which nothing follows beforehand"

        # of two sides with one deviation, whose difference has the error of these two
        std = math.hypot(*self.gain.stds) / math.sqrt(2)
        least = detectable_difference(std, len(self.seeds), alpha=self.alpha)
        if least is None:
            return f"{printed}; {seeds} show nothing"
        text = f"{printed}; {seeds} show {fixed(least, digits)} or more with 80 % power"
        if self.needed is None:
            return f"{text}; no number of seeds would show what is printed"
        if self.needed > len(self.seeds):
            text += f", and so not what is printed, which takes {self.needed:,} each"
        return text


def find_claims(
    profile: Profile, texts: Sequence[str], part: Narrowing, seeds: Sequence[int] | None
) -> list[PlannedClaim]:
    """Return the claims PAPER:TABLE:COLUMN and PAPER:TABLE:NAME in each place that is wanted.

    Without `seeds`, each has those that show what is printed, under other profiles than the
    papers' the profile's own number. Raises UserError for an unknown name, and where nothing has a
    stand-in in the profile.
    """
    names = StandIns.of(profile)
    planned: list[PlannedClaim] = []
    for text in texts:
        planned += _find_claim(text, names)
    if not planned:
        raise make_stand_in_error(profile, texts)

    runs = [needed for claim in planned for needed in claim.runs]
    check_part(part, runs, texts)
    in_part = [claim for claim in planned if claim.is_in(part)]
    if not in_part:
        raise UserError(
            f"--claim {','.join(texts)}: --rows, --settings and --encoders leave no claim with all "
            "of its sides; name fewer of them"
        )

    if seeds is not None:
        in_part = [replace(claim, seeds=tuple(seeds)) for claim in in_part]
    # what is printed says nothing of the data of another profile
    if profile.name != PAPER_PROFILE:
        usual_seeds = max(profile.defaults.seeds, FEWEST_SEEDS)
        return [replace(claim, seeds=claim.seeds or tuple(range(usual_seeds))) for claim in in_part]

    published = read_published()
    return [_choose_seeds(claim, _count_tests(claim, in_part), published) for claim in in_part]


def list_claim_runs(claims: Sequence[PlannedClaim], names: StandIns) -> dict[str, Runs]:
    """Return the runs of claims by their names, each with the most seeds that a claim needs."""
    parts: dict[str, list[Runs]] = {}
    for claim in claims:
        parts.setdefault(claim.name, []).append(collect_runs(claim.runs, names, claim.seeds))
    return {name: merge_runs(runs) for name, runs in parts.items()}


def list_claim_names() -> Iterator[tuple[str, Ablation]]:
    """Yield the names that `--claim` takes, each with a claim."""
    for paper in read_papers():
        for table_name, table in paper.tables.items():
            name = f"{paper.name}:{table_name}"
            if any(column.task == "Avg" for column in table.columns):
                for claim in list_claims(name):
                    yield f"{name}:avg", claim

    for interaction in read_interactions():
        for table_name in interaction.tables:
            yield f"{interaction.paper}:{table_name}:{interaction.name}", interaction


def _find_claim(text: str, names: StandIns) -> Iterator[PlannedClaim]:
    """Yield a claim in all places of its table. Raises UserError for an unknown name."""
    paper_name, _, rest = text.strip().partition(":")
    table_name, _, column_or_claim = rest.partition(":")
    claim_names = dict.fromkeys(name for name, _ in list_claim_names())
    tables = {name.rpartition(":")[0] for name in claim_names}
    name = match_case(f"{paper_name}:{table_name}", tables)
    if name not in tables:
        hint = suggest(text, claim_names, "`harness list claims` lists them")
        raise UserError(f"--claim {text}: no such claim; {hint}")

    name, table = find_table(read_papers(), name)
    assert isinstance(table, PaperTable)
    for interaction in read_interactions():
        names_of_claim = [
            f"{interaction.paper}:{table_name}:{interaction.name}"
            for table_name in interaction.tables
        ]
        if f"{name}:{column_or_claim.strip().casefold()}" in names_of_claim:
            yield from _place_interaction(interaction, name, table, names)
            return

    column = _find_column(table, column_or_claim)
    if column is None:
        hint = suggest(column_or_claim, [column.name for column in table.columns])
        raise UserError(f"--claim {text}: {name} has no such column or claim; {hint}")
    for claim in list_claims(name):
        for row, encoder in list_claim_rows(claim, table):
            score = names.score(row, column, row.setting)
            sides = _make_sides(claim, row.setting, encoder, names)
            if score is not None and sides is not None:
                usual_seeds = row.seeds or table.seeds
                full_name = f"{name}:{column.name}"
                yield PlannedClaim(full_name, claim, column, score, sides, usual_seeds)


def _find_column(table: PaperTable, wanted: str) -> PaperColumn | None:
    """A column by its name, else by its task; case does not count."""
    folded = wanted.casefold()
    by_name = [column for column in table.columns if column.name.casefold() == folded]
    by_task = [column for column in table.columns if column.task.casefold() == folded]
    return next(iter(by_name + by_task), None)


def _make_sides(
    claim: Ablation, setting: str, encoder: str, names: StandIns
) -> tuple[Side, Side] | None:
    """The better and the worse side of a claim in one place; None without a stand-in."""
    sides = []
    for variant, printed in zip((claim.better, claim.worse), claim.printed, strict=True):
        place = names.place(variant, setting, encoder)
        if place is None:
            return None
        sides.append(Side(printed, setting, encoder, place))
    better, worse = sides
    return better, worse


def _place_interaction(
    claim: Interaction, name: str, table: PaperTable, names: StandIns
) -> Iterator[PlannedClaim]:
    """Yield an interaction wherever its table has the better variant with both of what varies."""
    places = {(row.setting, encoder) for row, encoder in list_claim_rows(claim, table)}
    column = next(
        column for column in table.columns if (column.suite, column.task) == ABLATION_SCORE[:2]
    )
    varies_by_encoder = claim.varies == "encoder"
    shared_names = {setting if varies_by_encoder else encoder for setting, encoder in places}
    for shared in sorted(shared_names):
        sides: list[Side] = []
        for varied in (claim.more, claim.less):
            place = (shared, varied) if varies_by_encoder else (varied, shared)
            if place in places:
                sides += _make_sides(claim, *place, names) or ()

        # two stand-ins that are the same leave nothing to compare
        if len({side.place for side in sides}) == 4:
            full_name = f"{name}:{claim.name}"
            yield PlannedClaim(full_name, claim, column, ABLATION_SCORE, tuple(sides), table.seeds)


def _count_tests(claim: PlannedClaim, wanted: Sequence[PlannedClaim]) -> int:
    """The claims that are tested together with one: those in its place and column."""
    if claim.is_interaction:
        return 1
    tests = 0
    for other_claim in wanted:
        is_in_place = other_claim.where == claim.where and other_claim.score == claim.score
        if is_in_place and not other_claim.is_interaction:
            tests += 1
    return tests


def _choose_seeds(claim: PlannedClaim, tests: int, published: PublishedNumbers) -> PlannedClaim:
    """A claim with what the paper prints of it and, unless it has seeds, those that would show this
    at the level of the strictest test of `tests`; the paper's number where none would.
    """
    alpha = ALPHA / tests
    gain = _find_printed_gain(claim, published)
    needed = None
    if gain is not None and gain.stds is not None and gain.size:
        needed = seeds_to_decide(gain.size, gain.stds, None, alpha=alpha)
    seeds = claim.seeds
    if not seeds:
        is_worthwhile = needed is not None and needed <= MOST_WORTHWHILE_SEEDS
        number = needed if needed is not None and is_worthwhile else claim.usual_seeds
        seeds = tuple(range(max(number, FEWEST_SEEDS)))
    return replace(claim, seeds=seeds, alpha=alpha, gain=gain, needed=needed)


def _find_printed_gain(claim: PlannedClaim, published: PublishedNumbers) -> PrintedGain | None:
    """The printed difference of the sides; None where one of them is not printed."""
    numbers = []
    for side in claim.sides:
        number = _find_printed(side, claim, published)
        if number is None:
            return None
        numbers.append(number)

    gains = [_subtract(*numbers[at : at + 2]) for at in range(0, len(numbers), 2)]
    if len(gains) == 1:
        return gains[0]
    more, less = gains
    stds = None
    if more.stds is not None and less.stds is not None:
        stds = (math.hypot(*more.stds), math.hypot(*less.stds))
    return PrintedGain(more.size - less.size, stds)


def _subtract(better: Published, worse: Published) -> PrintedGain:
    """The gain of one printed number over another; a deviation that one lacks is the other's."""
    stds = [std for std in (better.std, worse.std) if std is not None]
    size = better.value - worse.value
    return PrintedGain(size, (stds[0], stds[-1]) if stds else None)


def _find_printed(side: Side, claim: PlannedClaim, published: PublishedNumbers) -> Published | None:
    """The printed number of a side in the table of its claim, with the deviation that another table
    has of the same row where this one has none.

    A method that is trained on text alone may be printed for the text alone.
    """
    paper, table, _ = claim.name.split(":")
    method, _, variant = side.printed.partition(":")
    wanted_row = (
        paper,
        method,
        variant,
        side.encoder,
        claim.column.benchmark,
        claim.column.printed,
    )
    text_of_setting, _, _ = side.setting.partition("+")
    numbers_by_setting: dict[str, dict[str, Published]] = {side.setting: {}, text_of_setting: {}}
    for key, number in published.items():
        row = (key.paper, key.method, key.variant, key.encoder, key.benchmark, key.task)
        if row == wanted_row and key.setting in numbers_by_setting:
            numbers_by_setting[key.setting][key.table] = number

    for numbers_by_table in numbers_by_setting.values():
        if table not in numbers_by_table:
            continue
        number = numbers_by_table[table]
        stds = [other.std for other in numbers_by_table.values() if other.std is not None]
        if number.std or not stds:
            return number
        return replace(number, std=stds[0])
    return None
