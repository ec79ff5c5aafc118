"""Jobs for the tests of SLURM that need no torch in their processes: they write down what happens to them."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from harness.planning.events import Event, Listener, Stage
from harness.planning.inventory import Inventory
from harness.profiles import load_profile
from harness.runs.environment import Allocation, DeviceChoice, Resources
from harness.store import Store
from harness.work.estimates import Estimates
from harness.work.job import End, Job, Prepared


@dataclass(frozen=True, eq=False)
class Errand(Job):
    """Appends what it does to RESULTS/notes/NAME.

    It may fail, be killed, or wait for a signal until it was asked to stop as often as `stops` says.
    """

    name: str
    memory_mb: int = 0
    fails: bool = False
    killed: bool = False
    stops: int = 0

    @property
    def id(self) -> str:
        return f"{self.name:0<64}"

    @property
    def key(self) -> str:
        return self.name

    def resources(self, known: Estimates) -> Resources:
        return Resources(memory_mb=700, gpu_memory_mb=self.memory_mb)

    def check(self, device: DeviceChoice) -> None:
        """Runs anywhere."""

    def note(self, text: str) -> None:
        path = self.store.root / "notes" / self.name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as stream:
            stream.write(f"{text}\n")

    def carry_out(self, allocation: Allocation, listen: Listener) -> End:
        self.note(f"{allocation.device} {allocation.cpus}")
        listen(Event("start", self.key, device="cpu"))
        if self.killed:
            os.kill(os.getpid(), signal.SIGKILL)
        while notes(self.store.root, self.name).count("stopped") < self.stops:
            try:
                listen(Event("prepare", self.key, stage=Stage("tokens", "stub", 0)))
            except BaseException:
                self.note("stopped")
                raise
            time.sleep(0.02)
        if self.fails:
            raise ValueError("no such luck")
        listen(Event("prepared", self.key))
        return Prepared(self.id)

    def fail(self, error: BaseException | str, listen: Listener) -> Prepared:
        self.note(f"failed: {error}")
        listen(Event("prepared", self.key, error=str(error)))
        return Prepared(self.id, str(error))


def errand(results: Path, name: str, *needs: Job, memory_mb: int = 0, **about: int) -> Errand:
    """A job that needs others."""
    place = (Inventory(load_profile("tiny"), None, {}), Store(results), frozenset(need.id for need in needs))
    return Errand(*place, name, memory_mb, **about)  # type: ignore[arg-type]


def notes(results: Path, name: str) -> list[str]:
    """What a job has written down."""
    path = results / "notes" / name
    return path.read_text().splitlines() if path.is_file() else []
