"""Two more trackers: MLflow and Trackio."""

from __future__ import annotations

import os
import time
from contextvars import copy_context
from pathlib import Path
from typing import Any

from harness.work.tracking.base import RunEnd, TrackedRun, TrackedValues, Tracker

#: the tag that holds the id of a run; MLflow chooses ids of its own
TAG = "harness.id"
STATUS = {"done": "FINISHED", "failed": "FAILED", "stopped": "KILLED"}


class MLflow(Tracker):
    """Records runs in the experiment `harness`, below the folder or where MLFLOW_TRACKING_URI says."""

    module, install = "mlflow", "pip install -e examples/trackers"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        from mlflow import MlflowClient

        self._client = MlflowClient(self.place(folder))
        self._ids: dict[str, str] = {}
        experiment = self._client.get_experiment_by_name("harness")
        if experiment:
            self._experiment = experiment.experiment_id
        else:
            self._experiment = self._client.create_experiment("harness")

    @staticmethod
    def place(folder: Path) -> str:
        return os.environ.get("MLFLOW_TRACKING_URI", f"sqlite:///{folder.resolve()}/mlflow.db")

    def begin(self, run: TrackedRun) -> int:
        """Find the run that has the id as a tag, or create it."""
        from mlflow.entities import Param

        query = f"tags.`{TAG}` = '{run.id}'"
        known = self._client.search_runs([self._experiment], query, max_results=1)
        if known:
            self._ids[run.key] = known[0].info.run_id
            self._client.update_run(known[0].info.run_id, status="RUNNING")
            return self._last_step(known[0])

        tags = {TAG: run.id, "group": run.place}
        created = self._client.create_run(self._experiment, tags=tags, run_name=run.key)
        self._ids[run.key] = created.info.run_id
        params = [Param(name, str(value)) for name, value in run.config.items()]
        self._client.log_batch(created.info.run_id, params=params)
        return 0

    def _last_step(self, run: Any) -> int:
        steps = [0]
        for name in run.data.metrics:
            history = self._client.get_metric_history(run.info.run_id, name)
            steps += [metric.step for metric in history]
        return max(steps)

    def log(self, run: TrackedRun, step: int, values: TrackedValues) -> None:
        from mlflow.entities import Metric

        now_ms = int(time.time() * 1000)
        metrics = [Metric(name, value, now_ms, step) for name, value in values.items()]
        self._client.log_batch(self._ids[run.key], metrics)

    def end(self, run: TrackedRun, end: RunEnd, step: int, scores: TrackedValues) -> None:
        if scores:
            self.log(run, step, scores)
        self._client.set_terminated(self._ids.pop(run.key), STATUS[end])


class Trackio(Tracker):
    """Records runs in the project `harness` of a local database."""

    module, install = "trackio", "pip install -e examples/trackers"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        # read when the library is imported
        os.environ.setdefault("TRACKIO_DIR", str(folder.resolve()))
        self._runs: dict[str, Any] = {}

    @staticmethod
    def place(folder: Path) -> str:
        directory = os.environ.get("TRACKIO_DIR", folder)
        return f"`TRACKIO_DIR={directory} trackio show --project harness`"

    def begin(self, run: TrackedRun) -> int:
        """Start a run, or continue the one of its name, which holds the id."""
        import trackio
        from trackio.sqlite_storage import SQLiteStorage

        name = f"{run.key} {run.id[:8]}"
        # a context of its own: Trackio finishes the run that is current in its context
        self._runs[run.key] = copy_context().run(
            trackio.init,
            project="harness",
            name=name,
            group=run.place,
            config=dict(run.config),
            resume="allow",
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
        return SQLiteStorage.get_max_step_for_run("harness", name) or 0

    def log(self, run: TrackedRun, step: int, values: TrackedValues) -> None:
        self._runs[run.key].log(dict(values), step=step)

    def end(self, run: TrackedRun, end: RunEnd, step: int, scores: TrackedValues) -> None:
        if scores:
            self.log(run, step, scores)
        self._runs.pop(run.key).finish()
