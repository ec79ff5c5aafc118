"""TensorBoard: event files, one folder a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness.work.tracking.base import RunEnd, TrackedRun, TrackedValues, Tracker


class TensorBoard(Tracker):
    """Writes event files that `tensorboard --logdir` reads."""

    module, install = "tensorboard", "pip install 'sentence-harness[tensorboard]'"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._writers: dict[str, Any] = {}

    @staticmethod
    def place(folder: Path) -> str:
        """The command that shows the folder."""
        return f"`tensorboard --logdir {folder}`"

    def begin(self, run: TrackedRun) -> int:
        """Open a new event file in the run's folder; earlier ones stay."""
        from torch.utils.tensorboard import SummaryWriter

        names = [quote(name, safe="[]=,+@.:-_") for name in run.key.split("/")]
        folder = self.folder.joinpath(*names[:-1], f"{names[-1]}-{run.id}")
        reached = _last_step(folder)
        writer = self._writers[run.key] = SummaryWriter(str(folder))
        if not reached:
            table = "\n".join(f"| {name} | {value} |" for name, value in run.config.items())
            writer.add_text("config", f"| name | value |\n| --- | --- |\n{table}")
        return reached

    def log(self, run: TrackedRun, step: int, values: TrackedValues) -> None:
        """Add a scalar of each value."""
        for name, value in values.items():
            self._writers[run.key].add_scalar(name, value, step)

    def end(self, run: TrackedRun, end: RunEnd, step: int, scores: TrackedValues) -> None:
        """Final scores are scalars of the last step."""
        self.log(run, step, scores)
        self._writers[run.key].add_text("end", end, step)
        self._writers.pop(run.key).close()


def _last_step(folder: Path) -> int:
    """The last step of a run's event files, or 0."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    files = sorted(folder.glob("events.out.tfevents.*"))
    return max((event.step for path in files for event in EventFileLoader(str(path)).Load()), default=0)
