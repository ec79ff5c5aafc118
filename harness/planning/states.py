"""The states of runs, as `harness status` shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

RunState = Literal["done", "running", "queued", "trained", "failed", "missing", "damaged", "newer"]
#: states of runs that are not executed
LEFT_ALONE = ("done", "damaged", "newer")
#: the states of a run in the order of `status`; a plan knows all but `running` and `queued`, which jobs report
STATES: Mapping[RunState, str] = {
    "done": "trained and evaluated",
    "running": "in another process, or in SLURM",
    "queued": "submitted to SLURM, not yet started",
    "trained": "some suites are not yet evaluated",
    "failed": "the line shows the error, or how SLURM ended the job",
    "missing": "not yet trained, or to be trained again; the line shows why",
    "damaged": "its result cannot be read; restore it or move it away",
    "newer": "its result was written by a newer harness; update this one",
}
