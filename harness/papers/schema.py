"""The shape of reports/papers/NAME.toml, checked by pydantic: unknown keys are refused, numbers have no place in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from harness.spec import Variant, parse_setting

Name = Annotated[str, Field(min_length=1)]
Names = tuple[Name, ...]
Seeds = Annotated[int, Field(ge=1)]

#: Suites whose numbers come with every run: the dev score of the checkpoint that is kept, and what training cost.
BY_THE_WAY = {"dev": ("best", "spearman"), "cost": ("training", "minutes")}


class Entry(BaseModel):
    """A table of a paper file."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def own_variant(text: str) -> str:
    """A method variant as results spell it. Raises ValueError with the right spelling."""
    if str(Variant.parse(text)) != text:
        raise ValueError(f"'{text}' is written '{Variant.parse(text)}' in results; write it so")
    return text


def own_setting(text: str) -> str:
    """A setting as results spell it. Raises ValueError with the right spelling."""
    if str(parse_setting(text)) != text:
        raise ValueError(f"'{text}' is written '{parse_setting(text)}' in results; write it so")
    return text


class PaperColumn(Entry):
    """One column: the score of a run that fills it, and the words that published.csv has for it.

    `suite`, `metric` and `decimals` are the table's unless given, `task` and `printed` the column's name, and
    `benchmark` the suite.
    """

    name: Name
    suite: Name
    metric: Name
    task: Name
    benchmark: Name
    printed: Name
    decimals: Annotated[int, Field(ge=0, le=6)]
    published_only: Annotated[bool, Field(description="a value of the configuration: printed, not measured")] = False


class PaperRow(Entry):
    """One row of a table, once for each of its encoders: the runs that fill it and its printed numbers."""

    variant: Name
    setting: Name
    published: Annotated[Name, Field(description="METHOD or METHOD:VARIANT in published.csv")]
    source: Annotated[Name, Field(description="the column of that name in published.csv")] = "own"
    encoders: Annotated[Names | None, Field(description="where the table's others have no such row")] = None
    seeds: Annotated[Seeds | None, Field(description="runs that fill the row; the table's by default")] = None
    against: Annotated[Name, Field(description="variant of the row that the paper's test compares with")] | None = None
    published_only: Annotated[bool, Field(description="nothing is measured for it")] = False
    quoted: Annotated[bool, Field(description="from another paper: shown where other tables run it")] = False
    task: Annotated[Name | None, Field(description="the task measured, where the row decides it")] = None
    printed: Annotated[Name | None, Field(description="that task in published.csv")] = None
    mark: Annotated[str, Field(description="what is said beside the row's name")] = ""

    @field_validator("variant", "against")
    @classmethod
    def _variant(cls, text: str | None) -> str | None:
        return None if text is None else own_variant(text)

    @field_validator("setting")
    @classmethod
    def _setting(cls, text: str) -> str:
        return own_setting(text)

    @property
    def planned(self) -> bool:
        """Whether the table itself asks for its runs."""
        return not (self.published_only or self.quoted)


class PaperTest(Entry):
    """The paper's own test of significance."""

    kind: Literal["independent-t"]
    alpha: Annotated[float, Field(gt=0, lt=1)]


class LeftOut(Entry):
    """Lines of published.csv that no cell shows, and why."""

    published: Name
    benchmark: Name
    reason: Name


class PaperTable(Entry):
    """One table of a paper. `groups` says which rows compete for bold print."""

    title: Name
    suite: Name
    metric: Name
    decimals: Annotated[int, Field(ge=0, le=6)]
    seeds: Seeds
    encoders: Annotated[Names, Field(min_length=1)]
    columns: Annotated[tuple[PaperColumn, ...], Field(min_length=1)]
    rows: Annotated[tuple[PaperRow, ...], Field(min_length=1)]
    groups: Annotated[Literal["setting", "encoder"], Field(description="setting: within an encoder too")] = "setting"
    test: PaperTest | None = None
    left_out: tuple[LeftOut, ...] = ()
    note: str = ""

    @model_validator(mode="before")
    @classmethod
    def _whole_columns(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or not isinstance(data.get("columns"), list | tuple):
            return data
        shared = {key: data[key] for key in ("suite", "metric", "decimals") if key in data}
        return {**data, "columns": [_whole(column, shared) for column in data["columns"]]}

    @model_validator(mode="after")
    def _rows_fit(self) -> PaperTable:
        for row in self.rows:
            strangers = sorted(set(row.encoders or ()) - set(self.encoders))
            if strangers:
                raise ValueError(f"the row {row.variant} names the encoder '{strangers[0]}', the table does not")
            if row.against is not None:
                self.compared(row)
        return self

    def compared(self, row: PaperRow) -> PaperRow | None:
        """The row that the paper's test compares a row with: of its setting, else the only one of that variant.

        None for a row that is not compared. Raises ValueError where there is no such row.
        """
        if row.against is None:
            return None
        if self.test is None:
            raise ValueError(f"a row is compared with '{row.against}', but the table has no 'test'")
        found = [one for one in self.rows if one.variant == row.against and not one.published_only]
        here = [one for one in found if one.setting == row.setting]
        if here or len(found) == 1:
            return (here or found)[0]
        raise ValueError(f"a row is compared with '{row.against}', which has no row in {row.setting}")

    def rows_of(self, encoder: str) -> Iterator[tuple[int, PaperRow]]:
        """The rows that an encoder has, with their places."""
        return ((at, row) for at, row in enumerate(self.rows) if row.encoders is None or encoder in row.encoders)

    @property
    def suites(self) -> Names:
        """The suites that its columns read, in order.

        Numbers that come with every run need none of their own, but a result without any score is no line of a table:
        where there is nothing else, `sts` is evaluated.
        """
        named = (column.suite for column in self.columns if not column.published_only)
        return tuple(dict.fromkeys(name for name in named if name not in BY_THE_WAY)) or ("sts",)


class Configuration(Entry):
    """A table of hyperparameters: nothing is run for it."""

    title: Name
    note: str = ""


class Neighbours(Entry):
    """A table of nearest sentences: `queries` sentences, the `top` nearest of a pool, for each model.

    The sentences asked with are not in published.csv: they are to be read in the paper. Those shown here are drawn by
    the suite from the captions of `task`.
    """

    title: Name
    pool: Annotated[Name, Field(description="where the candidates come from")]
    queries: Seeds
    top: Seeds
    suite: Name
    task: Annotated[Name, Field(description="whose captions are the pool here")]
    seeds: Seeds
    encoders: Annotated[Names, Field(min_length=1)]
    settings: Annotated[Names, Field(min_length=1)]
    variants: Annotated[Names, Field(min_length=1)]
    pairs: Names = ()
    note: str = ""

    @model_validator(mode="after")
    def _own_grammar(self) -> Neighbours:
        check_product(self.variants, self.settings, self.pairs)
        return self


class FigureSpec(Entry):
    """A figure and the runs that it draws: variants x settings x encoders, or only the `pairs` 'VARIANT/SETTING'."""

    title: Name
    kind: Literal["alignment-uniformity", "data-scale", "subset-gain", "margin-sweep", "histogram", "scatter", "t-sne"]
    suite: Name
    metric: Name
    task: Annotated[str, Field(description="the task that is shown, where a suite has several")] = ""
    printed: Annotated[
        dict[Name, Name], Field(description="tasks of published.csv that are drawn as lines, and what they are called")
    ] = {}
    seeds: Seeds
    encoders: Annotated[Names, Field(min_length=1)]
    settings: Annotated[Names, Field(min_length=1)]
    variants: Annotated[Names, Field(min_length=1)]
    pairs: Annotated[Names, Field(description="the runs, where they are no product")] = ()
    note: str = ""

    @model_validator(mode="after")
    def _own_grammar(self) -> FigureSpec:
        check_product(self.variants, self.settings, self.pairs)
        return self


def check_product(variants: Names, settings: Names, pairs: Names) -> None:
    """Raise ValueError for a name that results spell otherwise, or a pair of unknown parts."""
    for variant in variants:
        own_variant(variant)
    for setting in settings:
        own_setting(setting)
    for pair in pairs:
        variant, _, setting = pair.rpartition("/")
        if variant not in variants or setting not in settings:
            raise ValueError(f"'{pair}' in 'pairs' is not one of the variants, '/', and one of the settings")


def pairs_of(entry: FigureSpec | Neighbours) -> list[tuple[str, str]]:
    """Variant and setting of each run, without its encoder and seed."""
    if not entry.pairs:
        return [(variant, setting) for setting in entry.settings for variant in entry.variants]
    cut = (pair.rpartition("/") for pair in entry.pairs)
    return [(variant, setting) for variant, _, setting in cut]


def _whole(column: Any, shared: Mapping[str, Any]) -> Any:
    if isinstance(column, str):
        column = {"name": column}
    if not isinstance(column, Mapping) or "name" not in column:
        return column
    column = {**shared, "task": column["name"], "printed": column["name"], **column}
    task, metric = BY_THE_WAY.get(column.get("suite", ""), (None, None))
    if task is not None:
        column |= {"task": task, "metric": metric}
    return {"benchmark": column.get("suite"), **column}
