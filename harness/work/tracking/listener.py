"""Events of runs as messages to trackers; an error of a tracker causes one warning and fails no
run.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from queue import SimpleQueue

from harness.events import Event, Listener
from harness.files import open_to_append, read_within
from harness.planning.plan import Plan, PlannedRun
from harness.processors import start_with_safe_path
from harness.sources import digest
from harness.store import BACKEND_VERSION, Store
from harness.within import refuse_links

#: Seconds that a tracker gets to finish its records after the last run, once QUIET_S seconds have
#: passed in silence.
FINISH_S = 120.0
QUIET_S = 5.0

COMMAND = "import sys; from harness.work.tracking.base import main; main(*sys.argv[1:])"

log = logging.getLogger(__name__)


@contextmanager
def track_runs(trackers: Sequence[str], plan: Plan) -> Iterator[Listener]:
    """Return a listener that records a plan's runs with trackers, and let the trackers finish at
    the end.
    """
    runs = {run.key: run for run in plan.todo}
    processes = []
    for name in trackers:
        try:
            processes.append(_Process(name, plan.store))
        except OSError as error:
            log.warning(
                "the tracker '%s' cannot start; the runs continue without it: %s", name, error
            )

    def listen(event: Event) -> None:
        run = runs.get(event.run)
        message = None if run is None else _make_message(event, run, plan.inventory.profile.name)
        if message is not None:
            for process in processes:
                process.send(message)

    wait = True
    try:
        yield listen
    except KeyboardInterrupt:
        wait = False
        raise
    finally:
        for process in processes:
            process.finish(wait)


class _Process:
    """A tracker's process and the thread that writes to it, so that a slow tracker holds up
    nothing.
    """

    def __init__(self, name: str, store: Store) -> None:
        self.name = name
        self._root = store.root
        folder = store.root / name
        refuse_links(store.root, folder)  # the library of the tracker would follow them
        self.log = folder / "tracker.log"
        with open_to_append(self.log, store.root) as out, start_with_safe_path():
            self.process = subprocess.Popen(
                # unbuffered: the last line is the error, not what was printed before it
                [sys.executable, "-u", "-c", COMMAND, name, str(folder)],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                start_new_session=True,  # Ctrl-C is for the runs; their records are finished
            )

        self._given_up = False
        self._messages: SimpleQueue[str | None] = SimpleQueue()
        self._writer = threading.Thread(target=self._write, daemon=True)
        self._writer.start()

    def send(self, message: Sequence[object]) -> None:
        """Queue a message; it is lost if the tracker has failed."""
        self._messages.put(json.dumps(message))

    def finish(self, wait: bool) -> None:
        """Wait until the tracker has recorded everything: QUIET_S seconds, and FINISH_S more with a
        message.

        Without `wait`, the tracker finishes by itself after the first.
        """
        self._messages.put(None)
        self._writer.join(QUIET_S)
        if wait and self._writer.is_alive():
            log.warning(
                "waiting for the tracker '%s' to finish (at most %.0f s)", self.name, FINISH_S
            )
            self._writer.join(FINISH_S)

        if wait and self._writer.is_alive():
            self._given_up = True
            self.process.kill()
            self._writer.join()
            log.warning(
                "the tracker '%s' did not finish within %.0f s and was stopped",
                self.name,
                QUIET_S + FINISH_S,
            )

    def _write(self) -> None:
        assert self.process.stdin is not None
        try:
            with self.process.stdin as stream:
                while (line := self._messages.get()) is not None:
                    stream.write(line + "\n")
                    stream.flush()
        except OSError:
            pass  # it ended early; its exit code shows why

        if self.process.wait() and not self._given_up:
            log.warning(
                "the tracker '%s' failed; the runs continue without it: %s (%s)",
                self.name,
                self._find_reason(),
                self.log,
            )

    def _find_reason(self) -> str:
        """The last line that the tracker printed."""
        text = read_within(self._root, self.log).decode("utf-8", "replace").rstrip()
        return text.rpartition("\n")[2].strip() or "it printed nothing"


def _make_message(event: Event, run: PlannedRun, profile: str) -> list[object] | None:
    """What `harness.work.tracking.base.serve` is told of an event; None of one that is not tracked."""
    if event.kind == "start":
        tracked_run = {
            "key": run.key,
            "id": digest(profile, run.fingerprint)[:16],
            "place": run.key.rpartition("/")[0],
            "config": _make_config(run, profile),
        }
        return ["begin", tracked_run]

    if event.progress is not None:
        progress = event.progress
        values = {f"loss/{name}": value for name, value in progress.terms.items()}
        if progress.scored and progress.dev is not None:
            values[f"dev/{run.resolved.dev}"] = progress.dev
        values["steps_per_second"] = progress.rate
        return ["log", run.key, progress.step, values]

    if event.kind == "failed":
        return ["end", run.key, "failed", {}]
    if event.result is None:
        return None

    scores = {}
    for evaluation in event.result.current:
        for task, values_by_metric in evaluation.scores.items():
            for metric, value in values_by_metric.items():
                scores[f"{evaluation.suite}/{task}/{metric}"] = value
    return ["end", run.key, "done", scores]


def _make_config(run: PlannedRun, profile: str) -> Mapping[str, object]:
    """What a run is, flat: its spec, its fingerprint and every hyperparameter."""
    resolved = run.resolved
    spec = resolved.spec
    config = {
        "profile": profile,
        "method": spec.variant.name,
        "variant": str(spec.variant),
        "setting": str(spec.setting),
        "encoder": spec.encoder,
        "seed": spec.seed,
        "fingerprint": run.fingerprint,
        "group": run.group,
        "backend": BACKEND_VERSION,
        "pooling": resolved.pooling,
    }
    for name, value in resolved.hyperparameters.named().items():
        config[f"method.{name}"] = value
    if resolved.trains:
        for name, value in resolved.training.model_dump().items():
            config[f"training.{name}"] = value
    return config
