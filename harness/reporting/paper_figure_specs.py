"""What the papers' figures need: reports/figures.toml, checked."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from harness.profiles.load import read_toml
from harness.spec import Variant, parse_setting

Name = Annotated[str, Field(min_length=1)]
Names = tuple[Name, ...]


class FigureSpec(BaseModel):
    """A figure and the runs that it draws: variants x settings x encoders, or only the `pairs` 'VARIANT/SETTING'."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: Name
    kind: Literal["alignment-uniformity", "data-scale", "subset-gain", "margin-sweep", "histogram", "scatter", "t-sne"]
    suite: Name
    metric: Name
    task: Annotated[str, Field(description="the task that is shown, where a suite has several")] = ""
    seeds: Annotated[int, Field(ge=1)]
    encoders: Annotated[Names, Field(min_length=1)]
    settings: Annotated[Names, Field(min_length=1)]
    variants: Annotated[Names, Field(min_length=1)]
    pairs: Annotated[Names, Field(description="the runs, where they are no product")] = ()
    printed: Annotated[
        dict[Name, Name], Field(description="tasks of published.csv drawn as lines, and their names")
    ] = {}
    note: str = ""

    @property
    def runs(self) -> list[tuple[str, str]]:
        """Variant and setting of each run, without its encoder and seed."""
        if self.pairs:
            return [(variant, setting) for variant, _, setting in (pair.rpartition("/") for pair in self.pairs)]
        return [(variant, setting) for setting in self.settings for variant in self.variants]

    @model_validator(mode="after")
    def _own_grammar(self) -> FigureSpec:
        for text in self.variants:
            if str(Variant.parse(text)) != text:
                raise ValueError(f"'{text}' is written '{Variant.parse(text)}' in results; write it so")
        for text in self.settings:
            if str(parse_setting(text)) != text:
                raise ValueError(f"'{text}' is written '{parse_setting(text)}' in results; write it so")
        for variant, setting in self.runs:
            if variant not in self.variants or setting not in self.settings:
                raise ValueError(f"'{variant}/{setting}' in 'pairs' is not one of the variants and settings")
        return self


class _Figures(BaseModel):
    """The file: a table a paper, and in it one a figure."""

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, dict[str, FigureSpec]]

    name: Name


def read_figures(path: Path | None = None) -> dict[str, Mapping[str, FigureSpec]]:
    """Paper -> figure -> what it needs. Raises UserError naming the file, the table and the key."""
    found = read_toml(path or Path(str(files("reports") / "figures.toml")), "figures file", _Figures)
    return dict(found.__pydantic_extra__)
