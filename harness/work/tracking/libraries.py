"""Trackers of this project: Weights & Biases, Trackio, TensorBoard and MLflow."""

from __future__ import annotations

import os
import time
from contextvars import copy_context
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from harness.work.tracking.base import RunEnd, TrackedRun, TrackedValues, Tracker

#: The tag that holds the id of a run; MLflow chooses ids of its own.
TAG = "harness.id"
_STATUS = {"done": "FINISHED", "failed": "FAILED", "stopped": "KILLED"}


class WandB(Tracker):
    """Weights & Biases; WANDB_MODE=offline records without a network."""

    module, install = "wandb", "pip install 'sentence-harness[wandb]'"
    project_variable: ClassVar[str] = "WANDB_PROJECT"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.project = os.environ.get(self.project_variable, "harness")
        self._runs: dict[str, Any] = {}

    @staticmethod
    def place(folder: Path) -> str:
        """The project, or how to upload offline records."""
        if os.environ.get("WANDB_MODE") == "offline":
            return f"offline; `wandb sync {os.environ.get('WANDB_DIR', folder)}/wandb/offline-run-*` sends it"
        return f"the project {os.environ.get('WANDB_PROJECT', 'harness')}"

    def begin(self, run: TrackedRun) -> int:
        # Trackio finishes the run that is current in its context when another one starts
        made = self._runs[run.key] = copy_context().run(self.init, run)
        return self.reached(made)

    def log(self, run: TrackedRun, step: int, values: TrackedValues) -> None:
        self._runs[run.key].log(dict(values), step=step)

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
            settings=wandb.Settings(
                console="off", x_disable_stats=True
            ),  # not those of the run's machine
        )

    def reached(self, made: Any) -> int:
        """The step before the one at which W&B resumes."""
        return max(0, int(made.step) - 1)

    def end(self, run: TrackedRun, end: RunEnd, step: int, scores: TrackedValues) -> None:
        made = self._runs.pop(run.key)
        made.summary.update(dict(scores))
        made.finish(exit_code=0 if end == "done" else 1)


class Trackio(WandB):
    """Trackio, which has the interface of W&B; a local database by default."""

    module, install = "trackio", "pip install 'sentence-harness[trackio]'"
    project_variable = "TRACKIO_PROJECT"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        os.environ.setdefault(
            "TRACKIO_DIR", str(folder.resolve())
        )  # read when the library is imported

    @staticmethod
    def place(folder: Path) -> str:
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
        from trackio.sqlite_storage import SQLiteStorage

        return SQLiteStorage.get_max_step_for_run(self.project, made.name) or 0

    def end(self, run: TrackedRun, end: RunEnd, step: int, scores: TrackedValues) -> None:
        made = self._runs.pop(run.key)
        if scores:
            made.log(dict(scores), step=step)
        made.finish()


class TensorBoard(Tracker):
    """Writes event files that `tensorboard --logdir` reads."""

    module, install = "tensorboard", "pip install 'sentence-harness[tensorboard]'"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._writers: dict[str, Any] = {}

    @staticmethod
    def place(folder: Path) -> str:
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
        for name, value in values.items():
            self._writers[run.key].add_scalar(name, value, step)

    def end(self, run: TrackedRun, end: RunEnd, step: int, scores: TrackedValues) -> None:
        self.log(run, step, scores)
        self._writers[run.key].add_text("end", end, step)
        self._writers.pop(run.key).close()


def _last_step(folder: Path) -> int:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    files = sorted(folder.glob("events.out.tfevents.*"))
    return max(
        (event.step for path in files for event in EventFileLoader(str(path)).Load()), default=0
    )


class MLflow(Tracker):
    """Records runs through MLflow's client, in the experiment `harness` or that of
    MLFLOW_EXPERIMENT_NAME.
    """

    module, install = "mlflow", "pip install 'sentence-harness[mlflow]'"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        from mlflow import MlflowClient

        self._client = MlflowClient(_uri(folder))
        self._ids: dict[str, str] = {}
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "harness")
        experiment = self._client.get_experiment_by_name(name)
        self._experiment = (
            experiment.experiment_id if experiment else self._client.create_experiment(name)
        )

    @staticmethod
    def place(folder: Path) -> str:
        uri = _uri(folder)
        return f"`mlflow ui --backend-store-uri {uri}`" if uri.startswith("sqlite:") else uri

    def begin(self, run: TrackedRun) -> int:
        """Find the run that has the id as a tag, or create it."""
        runs = self._client.search_runs(
            [self._experiment], f"tags.`{TAG}` = '{run.id}'", max_results=1
        )
        if runs:
            id_ = self._ids[run.key] = runs[0].info.run_id
            self._client.update_run(id_, status="RUNNING")
            histories = (
                self._client.get_metric_history(id_, name) for name in runs[0].data.metrics
            )
            return max((int(each.step) for history in histories for each in history), default=0)
        tags = {TAG: run.id, "group": run.place}
        id_ = self._client.create_run(self._experiment, tags=tags, run_name=run.key).info.run_id
        self._ids[run.key] = id_
        self._client.log_batch(
            id_, params=[_param(name, value) for name, value in run.config.items()]
        )
        return 0

    def log(self, run: TrackedRun, step: int, values: TrackedValues) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        self._client.log_batch(
            self._ids[run.key], [Metric(name, value, now, step) for name, value in values.items()]
        )

    def end(self, run: TrackedRun, end: RunEnd, step: int, scores: TrackedValues) -> None:
        if scores:
            self.log(run, step, scores)
        self._client.set_terminated(self._ids.pop(run.key), _STATUS[end])


def _param(name: str, value: object) -> Any:
    from mlflow.entities import Param

    return Param(name, str(value)[:6000])  # the longest that it stores


def _uri(folder: Path) -> str:
    return os.environ.get("MLFLOW_TRACKING_URI", f"sqlite:///{folder.resolve()}/mlflow.db")
