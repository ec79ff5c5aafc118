"""A user's options for SLURM: the table `[slurm]` of a TOML file, and options that override it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator

from harness.errors import UserError
from harness.tomlfiles import Name, Table, read_toml

#: The formats of sbatch's --time: minutes[:seconds], hours:minutes:seconds, days-hours[:minutes[:seconds]].
_TIME = re.compile(r"(?:(?P<d>\d+)-(?P<dh>\d+)(?::(?P<dm>\d+))?(?::\d+)?|(?:(?P<h>\d+):(?=\d+:))?(?P<m>\d+)(?::\d+)?)")


class SlurmTable(Table):
    """The resources of each job. Runs on a GPU use one."""

    partition: Annotated[Name | None, Field(description="partition, or several with commas")] = None
    account: Annotated[Name | None, Field(description="account that is charged")] = None
    qos: Annotated[Name | None, Field(description="quality of service")] = None
    constraint: Annotated[Name | None, Field(description="features that a node must have")] = None
    time: Annotated[int, Field(ge=1, description="time limit, in minutes or as D-HH:MM:SS")] = 240
    notice: Annotated[int, Field(ge=1, description="seconds before the time limit in which runs save")] = 120
    gpus: Annotated[str, Field(pattern=r"^([\w.-]+:)?[01]$", description="0, 1, or a kind such as a100:1")] = "1"
    cpus: Annotated[int, Field(ge=1, description="cores")] = 1
    memory: Annotated[str | None, Field(pattern=r"^\d+[KMGT]?$", description="memory, such as 24G")] = None
    width: Annotated[int | None, Field(ge=1, description="runs at a time")] = None
    setup: Annotated[tuple[str, ...], Field(description="lines of the batch script before the run")] = ()
    sbatch: Annotated[
        Mapping[Name, str | int | bool], Field(description="further options of sbatch by their long names")
    ] = {}

    @field_validator("time", mode="before")
    @classmethod
    def _minutes(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        if (found := _TIME.fullmatch(value)) is None:
            raise ValueError(f"'{value}' is not a SLURM time; write minutes, or D-HH:MM:SS")
        days, hours, minutes = (found["d"], found["dh"], found["dm"]) if found["d"] else (0, found["h"], found["m"])
        return (int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)

    @field_validator("gpus", mode="before")
    @classmethod
    def _text(cls, value: object) -> object:
        return str(value) if isinstance(value, int) else value


class SlurmFile(Table):
    """A file that holds the table."""

    name: str
    slurm: SlurmTable = SlurmTable()


#: The keys that an option can override, with what they mean.
OPTIONS = {name: str(about.description) for name, about in SlurmTable.model_fields.items() if name != "sbatch"}


def slurm_table(file: str | None, options: Mapping[str, str]) -> SlurmTable:
    """Read the table of a file, if one is given, with options in place of its keys. Raises UserError."""
    table = read_toml(Path(file), "SLURM file", SlurmFile).slurm if file else SlurmTable()
    given: dict[str, Any] = {**options, **({"setup": [options["setup"]]} if "setup" in options else {})}
    try:
        return SlurmTable.model_validate({**table.model_dump(), **given})
    except ValidationError as error:
        first = error.errors()[0]
        name, message = str(first["loc"][0]), first["msg"].removeprefix("Value error, ")
        raise UserError(f"--executor-option {name}={options.get(name)}: {message}") from error
