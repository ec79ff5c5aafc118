"""Weights & Biases, and Trackio, whose functions have its names and arguments where both have a feature."""

from __future__ import annotations

import os
from abc import abstractmethod
from contextvars import copy_context
from pathlib import Path
from typing import Any, ClassVar

from harness.work.tracking.base import RunEnd, TrackedRun, TrackedValues, Tracker


class _Common(Tracker):
    """What both do alike: `init` gives a run, with `log` and `finish`."""

    project_variable: ClassVar[str]

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.project = os.environ.get(self.project_variable, "harness")
        self._runs: dict[str, Any] = {}

    @abstractmethod
    def init(self, run: TrackedRun) -> Any:
        """The library's run, new or continued."""

    @abstractmethod
    def reached(self, made: Any) -> int:
        """The last step that the library's run holds, or 0."""

    def begin(self, run: TrackedRun) -> int:
        """Start or continue a run."""
        # Trackio finishes the run that is current in its context when another one starts
        made = self._runs[run.key] = copy_context().run(self.init, run)
        return self.reached(made)

    def log(self, run: TrackedRun, step: int, values: TrackedValues) -> None:
        """Log values at a step."""
        self._runs[run.key].log(dict(values), step=step)


class WandB(_Common):
    """Weights & Biases; WANDB_MODE=offline records without a network."""

    module, install = "wandb", "pip install 'sentence-harness[wandb]'"
    project_variable = "WANDB_PROJECT"

    @staticmethod
    def place(folder: Path) -> str:
        """The project, or how to send what was recorded offline."""
        if os.environ.get("WANDB_MODE") == "offline":
            return f"offline; `wandb sync {os.environ.get('WANDB_DIR', folder)}/wandb/offline-run-*` sends it"
        return f"the project {os.environ.get('WANDB_PROJECT', 'harness')}"

    def init(self, run: TrackedRun) -> Any:
        """A run whose id is that of an earlier session, if there was one."""
        import wandb

        return wandb.init(
            project=self.project,
            dir=os.environ.get("WANDB_DIR", self.folder),
            id=run.id,
            name=run.key,
            group=run.place,
            config=dict(run.config),
            resume="allow",
            reinit="create_new",
            settings=wandb.Settings(console="off", x_disable_stats=True),  # not those of the run's machine
        )

    def reached(self, made: Any) -> int:
        """The step before the one at which W&B resumes."""
        return max(0, int(made.step) - 1)

    def end(self, run: TrackedRun, end: RunEnd, step: int, scores: TrackedValues) -> None:
        """Final scores are the run's summary."""
        made = self._runs.pop(run.key)
        made.summary.update(dict(scores))
        made.finish(exit_code=0 if end == "done" else 1)


class Trackio(_Common):
    """Trackio, a local database by default."""

    module, install = "trackio", "pip install 'sentence-harness[trackio]'"
    project_variable = "TRACKIO_PROJECT"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        os.environ.setdefault("TRACKIO_DIR", str(folder.resolve()))  # read when the library is imported

    @staticmethod
    def place(folder: Path) -> str:
        """The command that shows the project."""
        project = os.environ.get("TRACKIO_PROJECT", "harness")
        return f"`TRACKIO_DIR={os.environ.get('TRACKIO_DIR', folder)} trackio show --project {project}`"

    def init(self, run: TrackedRun) -> Any:
        """A run by its name, which holds the id: Trackio finds a run to resume by name."""
        import trackio

        return trackio.init(
            project=self.project,
            name=f"{run.key} {run.id[:8]}",
            group=run.place,
            config=dict(run.config),
            resume="allow",
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )

    def reached(self, made: Any) -> int:
        """The last step in the database."""
        from trackio.sqlite_storage import SQLiteStorage

        return SQLiteStorage.get_max_step_for_run(self.project, made.name) or 0

    def end(self, run: TrackedRun, end: RunEnd, step: int, scores: TrackedValues) -> None:
        """Final scores are logged at the last step."""
        made = self._runs.pop(run.key)
        if scores:
            made.log(dict(scores), step=step)
        made.finish()
