"""What papers printed and what their tables need: reports/published.csv and reports/papers/NAME.toml, checked."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from harness.errors import UserError
from harness.profiles.load import read_toml
from harness.spec import Variant, parse_setting
from harness.stats import Summary

Name = Annotated[str, Field(min_length=1)]


class PublishedKey(NamedTuple):
    """Which printed number is meant, by the columns of published.csv."""

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
    """A printed number with its spread, its number of seeds (None where not stated) and its star."""

    value: float
    std: float | None
    seeds: int | None
    star: bool
    note: str

    @property
    def summary(self) -> Summary | None:
        """For a test; None where the number of seeds is not stated. A printed std is taken as the sample form."""
        return Summary(self.value, self.std, self.seeds) if self.seeds else None


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PublishedRow(_Table):
    """Where a row's printed numbers are in published.csv."""

    method: Name
    variant: str = ""
    source: Name = "own"


class PaperRow(_Table):
    """One row of a table: the runs that fill it and its printed numbers."""

    variant: Name
    setting: Name
    published: PublishedRow
    seeds: Annotated[int | None, Field(ge=1, description="runs that fill the row; the table's by default")] = None
    against: Annotated[Name, Field(description="variant of the row that the paper's test compares with")] | None = None
    published_only: Annotated[bool, Field(description="quoted in the paper: nothing is measured for it")] = False
    mark: Annotated[str, Field(description="what is said beside the row's name")] = ""

    @field_validator("variant", "against")
    @classmethod
    def _variant(cls, text: str | None) -> str | None:
        if text is not None and str(Variant.parse(text)) != text:
            raise ValueError(f"'{text}' is written '{Variant.parse(text)}' in results; write it so")
        return text

    @field_validator("setting")
    @classmethod
    def _setting(cls, text: str) -> str:
        if str(parse_setting(text)) != text:
            raise ValueError(f"'{text}' is written '{parse_setting(text)}' in results; write it so")
        return text


class PaperTest(_Table):
    """The paper's own test of significance."""

    kind: Literal["independent-t"]
    alpha: Annotated[float, Field(gt=0, lt=1)]


class PaperTable(_Table):
    """One table of a paper."""

    title: Name
    suite: Name
    metric: Name
    decimals: Annotated[int, Field(ge=0, le=6)]
    seeds: Annotated[int, Field(ge=1)]
    encoders: Annotated[tuple[Name, ...], Field(min_length=1)]
    columns: Annotated[tuple[Name, ...], Field(min_length=1)]
    rows: Annotated[tuple[PaperRow, ...], Field(min_length=1)]
    test: PaperTest | None = None

    @model_validator(mode="after")
    def _compared_rows_exist(self) -> PaperTable:
        there = {(row.variant, row.setting) for row in self.rows if not row.published_only}
        for row in self.rows:
            if row.against is None:
                continue
            if self.test is None:
                raise ValueError(f"a row is compared with '{row.against}', but the table has no 'test'")
            if (row.against, row.setting) not in there:
                raise ValueError(f"a row is compared with '{row.against}', which has no row in {row.setting}")
        return self


class Paper(_Table):
    """A paper's tables. `name` is the file's stem and the paper's key in published.csv."""

    name: Name
    title: Name
    reference: Name
    tables: Annotated[dict[str, PaperTable], Field(min_length=1)]


def read_papers() -> list[Paper]:
    """The papers in reports/papers, by name."""
    folder = Path(str(files("reports") / "papers"))
    return [read_paper(path) for path in sorted(folder.glob("*.toml"))]


def read_paper(path: Path) -> Paper:
    """Read and check one paper file. Raises UserError naming the file, the table and the key."""
    return read_toml(path, "paper file", Paper)


def read_published(path: Path | None = None) -> dict[PublishedKey, Published]:
    """The printed numbers. Raises UserError naming the file and the line.

    Lines without a number of their own (positions on an axis, grids) may repeat a key; the first is kept.
    """
    path = path or Path(str(files("reports") / "published.csv"))
    numbers: dict[PublishedKey, Published] = {}
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            for line, row in enumerate(csv.DictReader(stream), start=2):
                key, value = _published(row, f"{path}, line {line}")
                numbers.setdefault(key, value)
    except OSError as error:
        raise UserError(f"the published numbers {path} cannot be read: {error.strerror}; check the path") from error
    return numbers


def _published(row: Mapping[str, Any], where: str) -> tuple[PublishedKey, Published]:
    try:
        key = PublishedKey(*(row[name] for name in PublishedKey._fields))
        std, seeds = row["std"], row["seeds"]
        value = Published(
            float(row["value"]),
            float(std) if std else None,
            int(seeds) if seeds else None,
            row["significant"] == "1",
            row["note"],
        )
    except KeyError as error:
        raise UserError(f"{where}: there is no column {error}; mend the file's first line") from error
    except (TypeError, ValueError) as error:
        raise UserError(f"{where}: {error}; value, std and seeds are numbers, the last two may be empty") from error
    return key, value
