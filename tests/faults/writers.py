"""Every place that writes a file on its own, not into a folder that is renamed as a whole.

Each is a function of a folder, in which HARNESS_CACHE is too. Whatever an instrument of the fault
suite does, it does to all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from builders import failure, result

from harness.caches import read_or_compute_hash
from harness.code import Declarations
from harness.commands import LastPlaces, note_places
from harness.encoders.features import load_cached_features, load_cached_ragged
from harness.events import Event
from harness.files import write_note
from harness.metrics import ArrayName
from harness.planning.seen import load_hashes
from harness.runs.log import RunLog
from harness.store import Store
from harness.store.files import NamedArrays
from harness.store.folder import Submission, keep_evaluation, refuse_linked, write_submission
from harness.store.index import make_arrow_table, make_row, write_table
from harness.store.tunings import make_tuning, save_tuning
from harness.training.folder import TrainingFolder
from harness.work.ray.node import RunFiles, unpack
from harness.work.report import Report

RESULT, FINGERPRINT = result(), "ab" * 32
ARRAYS: NamedArrays = {ArrayName("task", "what", ""): np.arange(1000.0)}
TUNING = make_tuning("tiny", {}, ["simcse:temperature=0.1|0.2"], 2)
NOTE = Submission(system="SLURM", id="7", key="k", log=Path("l"))


def _declare(_: Path) -> None:
    known = Declarations()
    known._answers = {"a": 1}
    known._is_changed = True
    known.save()


def _log(folder: Path) -> None:
    with RunLog(folder / "work" / "run.log", folder) as log:
        log.write("a line")


def _rows(start: int, stop: int) -> np.ndarray:
    return np.ones((stop - start, 64), np.float32)


def _report(folder: Path) -> Report:
    return Report(folder / "work" / "7.jsonl", folder)


def _checkpoint(folder: Path) -> None:
    refuse_linked(Store(folder), folder / "work")  # as every job does before it starts
    TrainingFolder(folder / "work").save({"step": 1, "weights": torch.arange(100.0)})


#: into a folder of results, which others may have filled
OF_RESULTS: dict[str, Callable[[Path], object]] = {
    "result": lambda to: Store(to).save(RESULT),
    "arrays": lambda to: Store(to).save_arrays(RESULT, RESULT.evaluations[0], ARRAYS),
    "log of a result": lambda to: Store(to).save_log(RESULT, "a line\n" * 9),
    "failure": lambda to: Store(to).save_failure(failure(RESULT), "a line\n" * 9),
    "kept scores": lambda to: keep_evaluation(
        Store(to), FINGERPRINT, RESULT.evaluations[0], ARRAYS
    ),
    "submission": lambda to: write_submission(Store(to), FINGERPRINT, NOTE),
    "tuning": lambda to: save_tuning(Store(to), TUNING),
    "places": lambda to: note_places(to, "tiny", LastPlaces(data_root=str(to))),
    "index": lambda to: write_table(
        to / ".cache" / "index.bin", make_arrow_table([make_row(RESULT)]), to
    ),
    "note": lambda to: write_note(to / "work" / "trained.json", {"a": 1}, to),
    "files from a node": lambda to: unpack(RunFiles({"a/b.json": b"content" * 10}), Store(to)),
    "checkpoint": _checkpoint,
    "run's log": _log,
    "events": lambda to: _report(to).write(Event("start", "a key")),
    "end of a job": lambda to: _report(to).write_end(RESULT),
}
#: into the cache of the user
OF_CACHES: dict[str, Callable[[Path], object]] = {
    "features": lambda _: load_cached_features("key", 64, _rows),
    "recordings": lambda _: load_cached_ragged("key", 64, 8, lambda number: np.ones((4, 8))),
    "seen texts": lambda _: load_hashes("c", lambda: ["x"]),
    "hash": lambda _: read_or_compute_hash("hashes/key", lambda: "a" * 64),
    "declarations": _declare,
}
WRITERS = OF_RESULTS | OF_CACHES
#: work goes on without these
EXPENDABLE = {"events", "hash", "declarations", "places"}
#: these append to a file that is no result
APPENDING = {"run's log", "events", "end of a job"}
