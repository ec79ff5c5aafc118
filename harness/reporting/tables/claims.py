"""What the papers' ablation tables claim, each with the verdict of this store's own runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from statistics import mean
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from harness.formatting import count_of, fixed, p_value, signed
from harness.metrics import AVERAGE, Column
from harness.papers.published import Published, PublishedKey
from harness.profiles.load import read_toml
from harness.reporting.formats import ABSENT, CellText
from harness.reporting.seeds.summary import Block, Cell, SummaryTable, compare
from harness.reporting.tables.grids import Grid, Line, Section
from harness.stats import ALPHA

SUITE = "sts"
COLUMN = Column(AVERAGE, "spearman")
#: verdict of a test -> what it says of the claim
VERDICTS = {"better": "holds", "worse": "the other way round", None: "not seen"}
Name = Annotated[str, Field(min_length=1)]


class Claim(BaseModel):
    """A variant that a paper finds better than another, and where its two numbers are printed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: Name
    better: Name
    worse: Name
    paper: Name
    tables: Annotated[tuple[Name, ...], Field(min_length=1)]
    printed: tuple[Name, Name]


class _Claims(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name
    claim: tuple[Claim, ...]


def read_claims() -> tuple[Claim, ...]:
    """The claims of reports/ablations.toml. Raises UserError naming the file and the key."""
    claims: _Claims = read_toml(Path(str(files("harness_reports") / "ablations.toml")), "claims file", _Claims)
    return claims.claim


def claims_grid(
    claims: Sequence[Claim], tables: Sequence[SummaryTable], published: Mapping[PublishedKey, Published]
) -> Grid | None:
    """A table of the claims whose two variants were both run, setting by setting; None where there is none."""
    sections = []
    for table in tables:
        for block in table.blocks if table.suite == SUITE else ():
            lines = tuple(_lines(claims, block, published))
            if lines:
                sections.append(Section(f"profile {table.profile}: {block.setting} / {block.encoder}", lines))
    if not sections:
        return None
    return Grid(
        "ablations",
        "What the papers' ablations claim, and what these runs show",
        ("claim", "better", "than"),
        ("printed difference", "measured difference", "verdict"),
        (False, False, False),
        tuple(sections),
        (
            "Differences of the average of sts, Spearman x 100; printed ones are means over encoders and settings.",
            f"A claim holds where the difference is above zero with p < {ALPHA} (independent two-sample t-test, "
            "two-sided, equal variances, not corrected for the number of claims).",
        ),
    )


def printed_difference(claim: Claim, published: Mapping[PublishedKey, Published]) -> float | None:
    """The mean over a paper's encoders and settings of the two rows' difference; None where nothing matches."""
    (first, variant), (second, other) = (text.split(":", 1) for text in claim.printed)
    numbers = dict(_averages(claim, published))
    pairs = []
    for (table, method, name, encoder, setting), value in numbers.items():
        if (method, name) == (first, variant):
            # a text-only method has no row in a setting with unpaired images: its text alone is the same
            places = (setting, setting.partition("+")[0])
            pairs += [
                (value, numbers[table, second, other, encoder, place])
                for place in places
                if (table, second, other, encoder, place) in numbers
            ][:1]
    return mean(better - worse for better, worse in pairs) if pairs else None


def _averages(
    claim: Claim, published: Mapping[PublishedKey, Published]
) -> Iterator[tuple[tuple[str, str, str, str, str], float]]:
    for key, number in published.items():
        if (key.paper, key.benchmark, key.task) == (claim.paper, SUITE, AVERAGE) and key.table in claim.tables:
            yield (key.table, key.method, key.variant, key.encoder, key.setting), number.value


def _lines(claims: Sequence[Claim], block: Block, published: Mapping[PublishedKey, Published]) -> Iterator[Line]:
    rows = {row.label.variant: row for row in block.rows if not row.label.overrides}
    for claim in claims:
        pair = [rows[name].cells.get(COLUMN) for name in (claim.better, claim.worse) if name in rows]
        if len(pair) == 2 and pair[0] and pair[1]:
            printed = printed_difference(claim, published)
            cells = (CellText(ABSENT if printed is None else signed(printed, 2)), *_measured(pair[0], pair[1]))
            where = f"{claim.text} ({claim.paper} {', '.join(claim.tables)})"
            yield Line((where, claim.better, claim.worse), cells, "plain")


def _measured(better: Cell, worse: Cell) -> tuple[CellText, CellText]:
    tested = compare(better, worse, COLUMN)
    difference = better.summary.mean - worse.summary.mean
    if tested.test is None:
        return CellText(signed(difference, 2)), CellText("too few seeds to say")
    seeds = count_of(min(better.summary.n, worse.summary.n), "seed")
    interval = f"{fixed(tested.test.low, 2)} to {fixed(tested.test.high, 2)}"
    return (
        CellText(signed(difference, 2), extra=f"{interval}, {seeds}"),
        CellText(VERDICTS[tested.verdict], extra=p_value(tested.test.p)),
    )
