"""SLURM without its Python packages: a user's options, the states of jobs, how they ended,
cancelling them.

This module imports none of the packages that the executor needs.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator

from harness.errors import UserError, describe_problems
from harness.tomlfiles import Name, Table, read_toml

#: States in which a job has ended through no fault of its own.
NOT_ITS_FAULT = frozenset({"BOOT_FAIL", "NODE_FAIL", "PREEMPTED", "TIMEOUT"})
#: States after which a job does not restart by itself; UNKNOWN is a job that SLURM has forgotten.
ENDED = NOT_ITS_FAULT | {
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "OUT_OF_MEMORY",
    "REVOKED",
    "UNKNOWN",
}
#: States in which a job waits for its turn.
WAITING = frozenset(
    {"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
)
#: Largest job array if SLURM does not report its limit: SLURM's default.
ARRAY = 1001
#: Ids in one command.
AT_A_TIME = 500
#: Seconds that a command may take.
ANSWER_S = 60.0


@dataclass(frozen=True)
class SlurmState:
    """Where a job is: its state in SLURM's words, why it waits, its node, for how long it has been
    there, and its name.
    """

    state: str
    reason: str = ""
    node: str = ""
    elapsed: str = ""
    name: str = ""

    @property
    def waits(self) -> bool:
        return self.state in WAITING

    @property
    def ended(self) -> bool:
        return self.state in ENDED


def read_states() -> dict[str, SlurmState]:
    """All jobs of this user by id, 12 or 12_3 in an array: those that wait, run, or ended minutes
    ago.

    Raises UserError where SLURM does not answer.
    """
    lines = _ask_slurm(
        "squeue",
        "--noheader",
        "--array",
        "--states=all",
        f"--user={os.getuid()}",
        "--format=%i|%T|%r|%N|%M|%j",
    )
    states = {}
    for line in lines:
        number, state, reason, *fields = line.strip().split("|")
        if reason == "None":
            reason = ""
        states[number] = SlurmState(state, reason, *fields)
    return states


def read_last_state(number: str) -> str:
    """The state in which a job ended, by SLURM's accounting; empty where it keeps none."""
    try:
        lines = _ask_slurm(
            "sacct",
            "--allocations",
            "--noheader",
            "--parsable2",
            "--format=State",
            f"--jobs={number}",
        )
    except UserError:
        return ""

    words = lines[0].split() if lines else []
    return words[0] if words else ""


def cancel(numbers: Iterable[str], signal: str | None = None) -> None:
    """Cancel jobs, or send a signal to their processes; jobs that have ended are left alone."""
    command = ["scancel", "--quiet"]
    if signal:
        command.append(f"--signal={signal}")
    all_numbers = list(numbers)
    for start in range(0, len(all_numbers), AT_A_TIME):
        _run([*command, *all_numbers[start : start + AT_A_TIME]])


def read_largest_array() -> int:
    """The number of jobs that one array can have."""
    try:
        lines = _ask_slurm("scontrol", "show", "config")
    except UserError:
        return ARRAY

    for line in lines:
        match = re.match(r"MaxArraySize\s*=\s*(\d+)", line)
        if match:
            return int(match[1])
    return ARRAY


def _ask_slurm(*command: str) -> list[str]:
    answer = _run(command)
    if answer.returncode:
        errors = answer.stderr.strip().splitlines()
        reason = errors[0] if errors else f"exit code {answer.returncode}"
        raise UserError(
            f"SLURM does not answer: {reason}; try again, or run this on a machine where `{command[0]}` works"
        )

    return answer.stdout.splitlines()


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = f"did not answer in {ANSWER_S:.0f} s"
        if isinstance(error, OSError):
            reason = "is not installed here"
        raise UserError(f"`{command[0]}` {reason}; run this where SLURM's commands work") from error


#: The formats of sbatch's --time: minutes[:seconds], hours:minutes:seconds,
#: days-hours[:minutes[:seconds]].
_TIME = re.compile(
    r"(?:(?P<d>\d+)-(?P<dh>\d+)(?::(?P<dm>\d+))?(?::\d+)?|(?:(?P<h>\d+):(?=\d+:))?(?P<m>\d+)(?::\d+)?)"
)


class SlurmTable(Table):
    """The resources of each job. Runs on a GPU use one."""

    partition: Annotated[Name | None, Field(description="partition, or several with commas")] = None
    account: Annotated[Name | None, Field(description="account that is charged")] = None
    qos: Annotated[Name | None, Field(description="quality of service")] = None
    constraint: Annotated[Name | None, Field(description="features that a node must have")] = None
    time: Annotated[int, Field(ge=1, description="time limit, in minutes or as D-HH:MM:SS")] = 240
    notice: Annotated[
        int, Field(ge=1, description="seconds before the time limit in which runs save")
    ] = 120
    gpus: Annotated[
        str, Field(pattern=r"^([\w.-]+:)?[01]$", description="0, 1, or a kind such as a100:1")
    ] = "1"
    cpus: Annotated[int, Field(ge=1, description="cores")] = 1
    memory: Annotated[
        str | None, Field(pattern=r"^\d+[KMGT]?$", description="memory, such as 24G")
    ] = None
    width: Annotated[int | None, Field(ge=1, description="runs at a time")] = None
    setup: Annotated[
        tuple[str, ...], Field(description="lines of the batch script before the run")
    ] = ()
    sbatch: Annotated[
        Mapping[Name, str | int | bool],
        Field(description="further options of sbatch by their long names"),
    ] = {}

    @field_validator("time", mode="before")
    @classmethod
    def _parse_minutes(cls, value: object) -> object:
        if not isinstance(value, str):
            return value

        match = _TIME.fullmatch(value)
        if match is None:
            raise ValueError(f"'{value}' is not a SLURM time; write minutes, or D-HH:MM:SS")

        parts = {name: int(text or 0) for name, text in match.groupdict().items()}
        # with days, hours and minutes have groups of their own
        hours = parts["d"] * 24 + parts["dh"] + parts["h"]
        return hours * 60 + parts["dm"] + parts["m"]

    @field_validator("gpus", mode="before")
    @classmethod
    def _write_gpus(cls, value: object) -> object:
        return str(value) if isinstance(value, int) else value


class SlurmFile(Table):
    """A file that holds the table."""

    name: str
    slurm: SlurmTable = SlurmTable()


#: The keys that an option can override, with what they mean.
OPTIONS = {
    name: str(about.description)
    for name, about in SlurmTable.model_fields.items()
    if name != "sbatch"
}


def read_slurm_options(file: str | None, options: Mapping[str, str]) -> SlurmTable:
    """Read the table of a file, if one is given, with options in place of its keys. Raises
    UserError.
    """
    table = SlurmTable()
    if file:
        table = read_toml(Path(file), "SLURM file", SlurmFile).slurm
    values: dict[str, Any] = {**table.model_dump(), **options}
    if "setup" in options:
        values["setup"] = [options["setup"]]
    try:
        return SlurmTable.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        raise UserError(
            f"--executor-option {name}={options.get(name)}: {describe_problems(first)}"
        ) from error
