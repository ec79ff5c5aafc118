"""Rules of a profile: values for the runs that they match."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from harness.errors import UserError
from harness.inputs import OptionValue

Name = Annotated[str, Field(min_length=1)]


class Rule(BaseModel):
    """Values for the runs that it matches; an absent list matches everything, and a later rule wins."""

    model_config = ConfigDict(extra="allow", frozen=True)

    methods: tuple[Name, ...] = ()
    readings: tuple[Name, ...] = ()
    settings: tuple[Name, ...] = ()
    encoders: tuple[Name, ...] = ()
    source: Annotated[Name, Field(description="where the values are published, or why they were chosen")]

    @property
    def values(self) -> dict[str, OptionValue]:
        """The values that the rule sets, of the training or of the method."""
        return dict(self.__pydantic_extra__ or {})

    def matches(self, method: str, reading: str, setting: str, encoder: str) -> bool:
        """Whether the rule applies to a run."""
        pairs = ((self.methods, method), (self.readings, reading), (self.settings, setting), (self.encoders, encoder))
        return all(not listed or value in listed for listed, value in pairs)

    @model_validator(mode="after")
    def _plain_values(self) -> Rule:
        for key, value in self.values.items():
            if not isinstance(value, OptionValue):
                raise ValueError(f"'{key}' must be a number, a string or true/false")
        return self


#: method -> reading -> values that the reading sets
ReadingValues = Mapping[str, Mapping[str, Mapping[str, object]]]


def check_readings(profile: str, rules: Sequence[Rule], readings: ReadingValues) -> None:
    """Refuse a rule without `readings` that would replace a value set by a reading of a method it matches.

    Raises UserError.
    """
    for rule in rules:
        for method in () if rule.readings else rule.methods or readings:
            for reading, own in readings.get(method, {}).items():
                for name in sorted(rule.values.keys() & own.keys()):
                    raise UserError(
                        f"the profile '{profile}', rule with source '{rule.source}': {name} = {rule.values[name]} "
                        f"would also replace {name} = {own[name]} of {method}@{reading}; add the readings that it "
                        'applies to, such as readings = ["paper"]'
                    )
