"""Readers of reports/papers/NAME.toml, of the printed numbers in published.csv and of the claims in
ablations.toml.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from statistics import mean
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, model_validator

from harness.datarows import read_rows
from harness.errors import UserError
from harness.metrics import AVERAGE, Score
from harness.papers.schema import (
    Configuration,
    FigureSpec,
    NeighbourTable,
    OwnVariant,
    PaperColumn,
    PaperPart,
    PaperRow,
    PaperTable,
)
from harness.stats import Summary
from harness.tomlfiles import Name, read_toml

#: The only profile whose results may stand beside printed numbers, and only as it is shipped with
#: the package.
PAPER_PROFILE = "paper"
#: `source` of the numbers that a paper prints as its own
OWN = "own"
#: The folder reports/ as installed.
REPORTS = Path(str(files("harness_reports")))


class PublishedKey(NamedTuple):
    """The columns of published.csv that identify a printed number."""

    paper: str
    table: str
    method: str
    variant: str
    encoder: str
    setting: str
    benchmark: str
    task: str
    source: str


@dataclass(frozen=True)
class Published:
    """A printed number with its standard deviation, number of seeds (None where not stated) and
    star.
    """

    value: float
    std: float | None
    seeds: int | None
    star: bool

    @property
    def summary(self) -> Summary | None:
        """Mean, deviation (read as the sample form) and seeds for a test; None if the number of
        seeds is not stated.
        """
        return Summary(self.value, self.std, self.seeds) if self.seeds else None


PublishedNumbers = Mapping[PublishedKey, Published]
#: its columns in published.csv
_NUMBER = ("value", "std", "seeds", "significant")


class Paper(PaperPart):
    """The tables and figures of a paper. `name` is the file's stem and the paper's key in
    published.csv.
    """

    name: Name
    title: Name
    short: Annotated[str, Field(description="its name in headings; by default the file's")] = ""
    reference: Name
    tables: Annotated[dict[str, PaperTable], Field(min_length=1)]
    configuration: Annotated[
        dict[str, Configuration], Field(description="tables without runs")
    ] = {}
    neighbours: dict[str, NeighbourTable] = {}
    figures: dict[str, FigureSpec] = {}

    @model_validator(mode="after")
    def _check_table_names(self) -> Paper:
        names = [*self.tables, *self.configuration, *self.neighbours]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"'{twice[0]}' occurs twice; a table has one entry")
        return self

    @property
    def run_tables(self) -> dict[str, PaperTable | NeighbourTable]:
        return {**self.tables, **self.neighbours}

    @property
    def heading(self) -> str:
        return self.short or self.name


def read_papers() -> list[Paper]:
    """Read the papers in reports/papers, sorted by name."""
    return [read_paper(path) for path in sorted((REPORTS / "papers").glob("*.toml"))]


def read_paper(path: Path) -> Paper:
    """Read and check one paper file. Raises UserError naming the file, the table and the key."""
    return read_toml(path, "paper file", Paper)


def read_published(path: Path = REPORTS / "published.csv") -> dict[PublishedKey, Published]:
    """Read the printed numbers. Raises UserError naming the file and the line.

    Lines that repeat a key (positions on an axis, grids) are dropped; the first is kept.
    """
    numbers: dict[PublishedKey, Published] = {}
    for place, (value, std, seeds, star, *key) in read_rows(path, *_NUMBER, *PublishedKey._fields):
        try:
            number = Published(
                float(value),
                float(std) if std else None,
                int(seeds) if seeds else None,
                star == "1",
            )
        except ValueError as error:
            raise UserError(
                f"{place}: {error}; value, std and seeds are numbers, the last two may be empty"
            ) from error
        numbers.setdefault(PublishedKey(*key), number)
    return numbers


def make_published_key(
    paper: str, table: str, row: PaperRow, encoder: str, column: PaperColumn
) -> PublishedKey:
    """Return the key of a cell's printed number."""
    method, _, variant = row.published.partition(":")
    task = row.printed or column.printed
    return PublishedKey(
        paper, table, method, variant, encoder, row.setting, column.benchmark, task, row.source
    )


#: the score that all ablation claims are about
ABLATION_SCORE = Score("sts", AVERAGE, "spearman")


class Ablation(PaperPart):
    """A variant that a paper finds better than another, and its two printed rows, METHOD:VARIANT."""

    text: Name
    better: OwnVariant
    worse: OwnVariant
    paper: Name
    tables: Annotated[tuple[Name, ...], Field(min_length=1)]
    printed: tuple[Name, Name]


class Interaction(Ablation):
    """A difference of differences: `better` gains more over `worse` with one encoder, or in one
    setting, than with another.
    """

    name: Name
    varies: Literal["encoder", "setting"]
    more: Name
    less: Name


class _AblationFile(PaperPart):
    name: Name
    claim: tuple[Ablation, ...]
    interaction: tuple[Interaction, ...] = ()


@cache
def _read_ablation_file() -> _AblationFile:
    return read_toml(REPORTS / "ablations.toml", "claims file", _AblationFile)


def read_ablations() -> tuple[Ablation, ...]:
    """Read the claims of reports/ablations.toml. Raises UserError naming the file and the key."""
    return _read_ablation_file().claim


def list_claims(table: str) -> list[Ablation]:
    """The claims of the table PAPER:TABLE."""
    paper, _, name = table.partition(":")
    return [claim for claim in read_ablations() if claim.paper == paper and name in claim.tables]


def read_interactions() -> tuple[Interaction, ...]:
    """Read the differences of differences of reports/ablations.toml, with errors as
    `read_ablations`.
    """
    return _read_ablation_file().interaction


class PrintedPlace(NamedTuple):
    """The encoder and the setting of a printed row."""

    encoder: str
    setting: str


def find_printed_differences(
    ablation: Ablation, published: PublishedNumbers
) -> dict[PrintedPlace, float]:
    """Return better - worse in each encoder and setting, averaged over a paper's tables."""
    printed_better, printed_worse = ablation.printed
    better = _find_averages(ablation, printed_better, published)
    worse = _find_averages(ablation, printed_worse, published)
    differences: dict[PrintedPlace, list[float]] = {}
    for (table, encoder, setting), value in better.items():
        # a text-only method has no row in a setting with unpaired images: compare with its row on
        # the text alone
        text_of_setting, _, _ = setting.partition("+")
        for worse_setting in (setting, text_of_setting):
            worse_value = worse.get((table, encoder, worse_setting))
            if worse_value is not None:
                place = PrintedPlace(encoder, setting)
                differences.setdefault(place, []).append(value - worse_value)
                break

    return {place: mean(values) for place, values in differences.items()}


def find_printed_interaction(interaction: Interaction, published: PublishedNumbers) -> float | None:
    """Return how much larger better - worse is in `more` than in `less`, averaged over what does
    not vary; None where no two places match.
    """
    differences = find_printed_differences(interaction, published)
    values = []
    for place, difference in differences.items():
        if getattr(place, interaction.varies) == interaction.more:
            corner = place._replace(**{interaction.varies: interaction.less})
            if corner in differences:
                values.append(difference - differences[corner])
    return mean(values) if values else None


def _find_averages(
    ablation: Ablation, row: str, published: PublishedNumbers
) -> dict[tuple[str, str, str], float]:
    """The printed averages of a row METHOD:VARIANT, by table, encoder and setting."""
    method, _, variant = row.partition(":")
    wanted_row = (ablation.paper, method, variant, ABLATION_SCORE.suite, ABLATION_SCORE.task)
    averages = {}
    for key, number in published.items():
        row_key = (key.paper, key.method, key.variant, key.benchmark, key.task)
        if row_key == wanted_row and key.table in ablation.tables:
            averages[key.table, key.encoder, key.setting] = number.value
    return averages
