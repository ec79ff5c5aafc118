"""The schema of reports/papers/NAME.toml. Unknown keys are refused; the printed numbers are in
published.csv.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from harness.metrics import Column, Metric
from harness.profiles.schema import check_registered
from harness.spec import UNTRAINED, Variant, parse_setting
from harness.stats import ALPHA
from harness.store import list_unjudged_metrics
from harness.tomlfiles import Name

Count = Annotated[int, Field(ge=1)]
Decimals = Annotated[int, Field(ge=0, le=6)]

#: suite -> column and metric of the numbers that every run has: its best dev score, and the minutes
#: of its training
WITH_EVERY_RUN = {
    "dev": (Column("best", "spearman"), Metric("spearman", unit="points of Spearman")),
    "cost": (
        Column("training", "minutes"),
        Metric("minutes", larger_is_better=False, unit="minutes"),
    ),
}


class PaperPart(BaseModel):
    """A table of a paper file."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def _check_spelling(parse: Callable[[str], Variant]) -> AfterValidator:

    def check(text: str) -> str:
        spelling = str(parse(text))
        if text != spelling:
            raise ValueError(f"'{text}' is spelled '{spelling}' in results; use that")
        return text

    return AfterValidator(check)


OwnVariant = Annotated[Name, _check_spelling(Variant.parse)]
OwnSetting = Annotated[Name, _check_spelling(parse_setting)]


class PaperColumn(PaperPart):
    """One column: the score of a run that fills it, and its words in published.csv.

    `suite`, `metric`, `decimals`, `better` and `points` default to the table's, `task` and
    `printed` to the column's name, and `benchmark` to the suite.
    """

    name: Name
    suite: Name
    metric: Name
    task: Name
    benchmark: Name
    printed: Name
    decimals: Decimals
    better: Literal["higher", "lower"] = "higher"
    points: Annotated[
        bool, Field(description="a score x 100, which a margin in points can judge")
    ] = True
    published_only: Annotated[
        bool, Field(description="a value of the configuration: printed, not measured")
    ] = False

    @property
    def measure(self) -> Metric:
        """The column's metric as the paper prints it."""
        judged = self.metric not in list_unjudged_metrics(self.suite)
        return Metric(
            self.metric,
            larger_is_better=self.better == "higher",
            digits=self.decimals,
            judged=judged,
        )


class Definition(PaperPart):
    """One of several ways to compute a table's numbers, where public programs differ or the paper
    is silent.
    """

    label: str = ""
    metrics: Annotated[
        dict[Name, Name], Field(description="column -> metric; without any, the columns' own")
    ] = {}
    part: Annotated[
        str, Field(description="the part of the task that is scored; the whole task by default")
    ] = ""
    compared: Annotated[
        bool, Field(description="compared with print in rows that are not known to be made by it")
    ] = False


class PaperRow(PaperPart):
    """One row of a table, repeated for each of its encoders: the runs that fill it and its printed
    numbers.
    """

    variant: OwnVariant
    setting: OwnSetting
    published: Annotated[Name, Field(description="METHOD or METHOD:VARIANT in published.csv")]
    source: Annotated[Name, Field(description="the column of that name in published.csv")] = "own"
    encoders: Annotated[
        tuple[Name, ...] | None, Field(description="only these of the table's encoders")
    ] = None
    seeds: Annotated[
        Count | None, Field(description="runs that fill the row; the table's by default")
    ] = None
    against: Annotated[
        OwnVariant | None, Field(description="variant of the row that the paper tests against")
    ] = None
    published_only: Annotated[bool, Field(description="printed, not measured")] = False
    quoted: Annotated[
        bool, Field(description="quoted from another paper: shown if other tables run it")
    ] = False
    task: Annotated[
        Name | None, Field(description="the task measured, where the row decides it")
    ] = None
    printed: Annotated[Name | None, Field(description="that task in published.csv")] = None
    mark: Annotated[str, Field(description="a remark beside the row's name")] = ""
    definition: Annotated[
        Name | None,
        Field(
            description="label of the definition that made its printed numbers; the table's first"
        ),
    ] = None

    @property
    def planned(self) -> bool:
        return not (self.published_only or self.quoted)


class PaperTest(PaperPart):
    """The paper's own test of significance."""

    kind: Literal["independent-t"]
    alpha: Annotated[float, Field(gt=0, lt=1)]


class LeftOut(PaperPart):
    """Lines of published.csv that no cell shows, and why."""

    published: Name
    benchmark: Name
    reason: Name


class PaperTable(PaperPart):
    """One table of a paper. `groups` says which rows compete for bold print."""

    title: Name
    suite: Name
    metric: Name
    decimals: Decimals
    better: Literal["higher", "lower"] = "higher"
    points: bool = True
    seeds: Count
    encoders: Annotated[tuple[Name, ...], Field(min_length=1)]
    columns: Annotated[tuple[PaperColumn, ...], Field(min_length=1)]
    rows: Annotated[tuple[PaperRow, ...], Field(min_length=1)]
    groups: Annotated[
        Literal["setting", "encoder"], Field(description="setting: within an encoder too")
    ] = "setting"
    test: PaperTest | None = None
    definitions: Annotated[
        tuple[Definition, ...], Field(description="the first is that of the printed numbers")
    ] = ()
    left_out: tuple[LeftOut, ...] = ()
    note: str = ""

    @model_validator(mode="before")
    @classmethod
    def _fill_columns(cls, data: object) -> object:
        # pydantic says what is wrong with anything else
        if not isinstance(data, Mapping) or not isinstance(data.get("columns"), list | tuple):
            return data

        shared = {
            key: data[key]
            for key in ("suite", "metric", "decimals", "better", "points")
            if key in data
        }
        columns = [_fill_column(column, shared) for column in data["columns"]]
        return {**data, "columns": columns}

    @model_validator(mode="after")
    def _check_rows(self) -> PaperTable:
        for row in self.rows:
            unknown = sorted(set(row.encoders or ()) - set(self.encoders))
            if unknown:
                raise ValueError(
                    f"the row {row.variant} has the encoder '{unknown[0]}', which the table does not list"
                )
            self.find_compared(row)
        return self

    @model_validator(mode="after")
    def _check_definitions(self) -> PaperTable:
        columns = {column.name for column in self.columns}
        labels = [definition.label for definition in self.definitions]
        for definition in self.definitions:
            unknown = sorted(set(definition.metrics) - columns)
            if unknown:
                raise ValueError(
                    f"the definition '{definition.label}' names the column '{unknown[0]}', which is not there"
                )

        for row in self.rows:
            if row.definition is not None and row.definition not in labels:
                raise ValueError(
                    f"the row {row.variant} has the definition '{row.definition}', which is not there"
                )
        return self

    def list_definitions(self, row: PaperRow) -> tuple[Definition, ...]:
        """Return the table's definitions, first the one that made a row's printed numbers."""
        if not self.definitions:
            return (Definition(),)

        of_print = self.definitions[0]
        for definition in self.definitions:
            if definition.label == row.definition:
                of_print = definition
                break
        others = [definition for definition in self.definitions if definition is not of_print]
        return (of_print, *others)

    def find_compared(self, row: PaperRow) -> PaperRow | None:
        """Return the row that the paper's test compares with `row`: in its setting, else the only
        one of the variant.

        None for a row that is not compared. Raises ValueError when there is no such row.
        """
        if row.against is None:
            return None
        if self.test is None:
            raise ValueError(f"a row is compared with '{row.against}', but the table has no 'test'")

        candidates = [
            candidate
            for candidate in self.rows
            if candidate.variant == row.against and not candidate.published_only
        ]
        in_setting = [candidate for candidate in candidates if candidate.setting == row.setting]
        if in_setting:
            return in_setting[0]
        if len(candidates) == 1:
            return candidates[0]
        raise ValueError(
            f"a row is compared with '{row.against}', which has no row in {row.setting}"
        )

    def add_rows(self, variants: Sequence[str]) -> PaperTable:
        """The table with rows of these variants too, in each of its settings; no number of theirs
        is printed.
        """
        # the row of each setting that the new ones are like: one that is compared, if there is one
        models = {row.setting: row for row in self.rows if not row.published_only}
        models |= {row.setting: row for row in self.rows if row.against}
        unprinted = {"published": "", "quoted": True, "encoders": None, "seeds": None, "mark": ""}

        rows = list(self.rows)
        for variant in sorted(set(variants) - {row.variant for row in self.rows}):
            rows += [
                model.model_copy(update={**unprinted, "variant": variant})
                for model in models.values()
                if model.setting != UNTRAINED
            ]
        return self.model_copy(update={"rows": tuple(rows)})

    def select_rows(self, encoder: str) -> Iterator[tuple[int, PaperRow]]:
        """Yield the numbered rows that the table has for an encoder."""
        for number, row in enumerate(self.rows):
            if row.encoders is None or encoder in row.encoders:
                yield number, row

    @property
    def alpha(self) -> float:
        """The level of significance of its tests."""
        return self.test.alpha if self.test else ALPHA

    @property
    def suites(self) -> tuple[str, ...]:
        """The suites of its columns, in order.

        Numbers that come with every run need no suite, but a run needs at least one to have a
        result: `sts`.
        """
        suites = dict.fromkeys(
            column.suite
            for column in self.columns
            if not column.published_only and column.suite not in WITH_EVERY_RUN
        )
        return tuple(suites) or ("sts",)


class Configuration(PaperPart):
    """A table of hyperparameters: it needs no runs."""

    title: Name
    note: str = ""


class RunProduct(PaperPart):
    """An entry that shows variants x settings x encoders, or only the `pairs` 'VARIANT/SETTING'."""

    title: Name
    suite: Name
    seeds: Count
    encoders: Annotated[tuple[Name, ...], Field(min_length=1)]
    settings: Annotated[tuple[OwnSetting, ...], Field(min_length=1)]
    variants: Annotated[tuple[OwnVariant, ...], Field(min_length=1)]
    pairs: Annotated[
        tuple[Name, ...], Field(description="the runs, where they are no product")
    ] = ()
    note: str = ""

    @model_validator(mode="after")
    def _check_pairs(self) -> RunProduct:
        for variant, setting in list_pairs(self):
            if variant not in self.variants or setting not in self.settings:
                pair = f"{variant}/{setting}"
                raise ValueError(
                    f"'{pair}' in 'pairs' is not one of the variants, '/', and one of the settings"
                )
        return self


class NeighbourTable(RunProduct):
    """A table of nearest sentences: `queries` sentences, the `top` nearest of a pool, for each
    model.

    The paper's queries are not in published.csv; the suite draws its own from the captions of
    `task`.
    """

    pool: Annotated[Name, Field(description="the paper's pool of candidates")]
    queries: Count
    top: Count
    task: Annotated[Name, Field(description="the task whose captions are the pool here")]


class FigureSpec(RunProduct):
    """A figure: its kind, and the runs that it draws."""

    kind: Annotated[Name, AfterValidator(partial(check_registered, "figure kind"))]
    metric: Name
    task: Annotated[str, Field(description="the task that is shown, where a suite has several")] = (
        ""
    )
    printed: Annotated[
        dict[Name, Name],
        Field(description="tasks of published.csv that are drawn as lines, and their labels"),
    ] = {}


def list_pairs(entry: RunProduct) -> list[tuple[str, str]]:
    """Return variant and setting of each run of an entry, without its encoder and seed."""
    if not entry.pairs:
        return [(variant, setting) for setting in entry.settings for variant in entry.variants]

    pairs = []
    for pair in entry.pairs:
        variant, _, setting = pair.rpartition("/")
        pairs.append((variant, setting))
    return pairs


def _fill_column(column: object, shared: Mapping[str, object]) -> object:
    """A column with its defaults; anything else is returned unchanged, for pydantic to reject."""
    if isinstance(column, str):
        column = {"name": column}
    if not isinstance(column, Mapping) or "name" not in column:
        return column
    column = {**shared, "task": column["name"], "printed": column["name"], **column}
    if column.get("suite") in WITH_EVERY_RUN:
        (task, metric), measure = WITH_EVERY_RUN[column["suite"]]
        column |= {
            "task": task,
            "metric": metric,
            "better": "higher" if measure.larger_is_better else "lower",
        }
    return {"benchmark": column.get("suite"), **column}
