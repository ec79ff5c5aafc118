"""MLflow: a tracking server, or a folder."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from harness.work.tracking.base import RunEnd, TrackedRun, TrackedValues, Tracker

#: The tag that holds the id of a run; MLflow chooses ids of its own.
TAG = "harness.id"
_STATUS = {"done": "FINISHED", "failed": "FAILED", "stopped": "KILLED"}


class MLflow(Tracker):
    """Records runs through MLflow's client, in the experiment `harness` or that of MLFLOW_EXPERIMENT_NAME."""

    module, install = "mlflow", "pip install 'sentence-harness[mlflow]'"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        from mlflow import MlflowClient

        self._client = MlflowClient(_uri(folder))
        self._ids: dict[str, str] = {}
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "harness")
        found = self._client.get_experiment_by_name(name)
        self._experiment = found.experiment_id if found else self._client.create_experiment(name)

    @staticmethod
    def place(folder: Path) -> str:
        """The server, or the command that shows the folder."""
        uri = _uri(folder)
        return f"`mlflow ui --backend-store-uri {uri}`" if uri.startswith("sqlite:") else uri

    def begin(self, run: TrackedRun) -> int:
        """Find the run that has the id as a tag, or create it."""
        found = self._client.search_runs([self._experiment], f"tags.`{TAG}` = '{run.id}'", max_results=1)
        if found:
            id_ = self._ids[run.key] = found[0].info.run_id
            self._client.update_run(id_, status="RUNNING")
            return max((self._last_step(id_, name) for name in found[0].data.metrics), default=0)
        tags = {TAG: run.id, "group": run.place}
        id_ = self._client.create_run(self._experiment, tags=tags, run_name=run.key).info.run_id
        self._ids[run.key] = id_
        self._client.log_batch(id_, params=[_param(name, value) for name, value in run.config.items()])
        return 0

    def log(self, run: TrackedRun, step: int, values: TrackedValues) -> None:
        """Log values at a step."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        self._client.log_batch(self._ids[run.key], [Metric(name, value, now, step) for name, value in values.items()])

    def end(self, run: TrackedRun, end: RunEnd, step: int, scores: TrackedValues) -> None:
        """Final scores are metrics of the last step."""
        if scores:
            self.log(run, step, scores)
        self._client.set_terminated(self._ids.pop(run.key), _STATUS[end])

    def _last_step(self, run: str, metric: str) -> int:
        return max(int(each.step) for each in self._client.get_metric_history(run, metric))


def _param(name: str, value: object) -> Any:
    from mlflow.entities import Param

    return Param(name, str(value)[:6000])  # the longest that it stores


def _uri(folder: Path) -> str:
    return os.environ.get("MLFLOW_TRACKING_URI", f"sqlite:///{folder.resolve()}/mlflow.db")
