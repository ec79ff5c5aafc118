"""Trackers of this project: Weights & Biases and TensorBoard."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness.work.tracking.base import RunEnd, TrackedRun, TrackedValues, Tracker


class WandB(Tracker):
    """Weights & Biases; WANDB_MODE=offline records without a network."""

    module = "wandb"
    install = "pip install 'sentence-harness[wandb]'"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._runs: dict[str, Any] = {}

    @staticmethod
    def place(folder: Path) -> str:
        """The project, or how to upload offline records."""
        if os.environ.get("WANDB_MODE") == "offline":
            return f"offline; `wandb sync {_get_wandb_folder(folder)}/wandb/offline-run-*` sends it"
        return f"the project {_get_wandb_project()}"

    def begin(self, run: TrackedRun) -> int:
        """Start a run, or continue the one with its id."""
        import wandb

        record = wandb.init(
            project=_get_wandb_project(),
            dir=_get_wandb_folder(self.folder),
            id=run.id,
            name=run.key,
            group=run.place,
            config=dict(run.config),
            resume="allow",
            reinit="create_new",
            # not those of the run's machine
            settings=wandb.Settings(console="off", x_disable_stats=True),
        )
        self._runs[run.key] = record
        # W&B resumes at the step after the last one
        return max(0, int(record.step) - 1)

    def log(self, run: TrackedRun, step: int, values: TrackedValues) -> None:
        self._runs[run.key].log(dict(values), step=step)

    def end(self, run: TrackedRun, end: RunEnd, step: int, scores: TrackedValues) -> None:
        record = self._runs.pop(run.key)
        record.summary.update(dict(scores))
        record.finish(exit_code=0 if end == "done" else 1)


def _get_wandb_project() -> str:
    return os.environ.get("WANDB_PROJECT", "harness")


def _get_wandb_folder(folder: Path) -> str:
    return os.environ.get("WANDB_DIR", str(folder))


class TensorBoard(Tracker):
    """Writes event files that `tensorboard --logdir` reads."""

    module = "tensorboard"
    install = "pip install 'sentence-harness[tensorboard]'"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._writers: dict[str, Any] = {}

    @staticmethod
    def place(folder: Path) -> str:
        return f"`tensorboard --logdir {folder}`"

    def begin(self, run: TrackedRun) -> int:
        """Open a new event file in the run's folder; earlier ones stay."""
        from torch.utils.tensorboard import SummaryWriter

        *places, seed = [quote(name, safe="[]=,+@.:-_") for name in run.key.split("/")]
        folder = self.folder.joinpath(*places, f"{seed}-{run.id}")
        last_step = _read_last_step(folder)
        writer = SummaryWriter(str(folder))
        self._writers[run.key] = writer
        if not last_step:
            rows = [f"| {name} | {value} |" for name, value in run.config.items()]
            writer.add_text("config", "\n".join(["| name | value |", "| --- | --- |", *rows]))
        return last_step

    def log(self, run: TrackedRun, step: int, values: TrackedValues) -> None:
        for name, value in values.items():
            self._writers[run.key].add_scalar(name, value, step)

    def end(self, run: TrackedRun, end: RunEnd, step: int, scores: TrackedValues) -> None:
        self.log(run, step, scores)
        writer = self._writers.pop(run.key)
        writer.add_text("end", end, step)
        writer.close()


def _read_last_step(folder: Path) -> int:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    last_step = 0
    for path in sorted(folder.glob("events.out.tfevents.*")):
        for event in EventFileLoader(str(path)).Load():
            last_step = max(last_step, event.step)
    return last_step
