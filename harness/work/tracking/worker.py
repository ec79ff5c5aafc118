"""The process of one tracker: reads messages, one JSON list a line, from standard input until that closes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

from harness.registry import get_class
from harness.work.tracking.base import TrackedRun, Tracker


def serve(tracker: Tracker, lines: Iterable[str]) -> None:
    """Pass on messages to a tracker; runs that have not ended when the lines do are stopped.

    A run that resumes repeats the steps since its checkpoint; those that its record holds are left out.
    """
    runs: dict[str, TrackedRun] = {}
    reached: dict[str, int] = {}
    for line in lines:
        what, *rest = json.loads(line)
        if what == "begin":
            run = TrackedRun(**rest[0])
            if run.key not in runs:
                runs[run.key], reached[run.key] = run, tracker.begin(run)
            continue
        key, *values = rest
        if key not in runs:
            continue  # another process finished it before it started here
        if what == "log" and values[0] > reached[key]:
            reached[key] = values[0]
            tracker.log(runs[key], *values)
        elif what == "end":
            tracker.end(runs.pop(key), values[0], reached[key], values[1])
    for key, run in runs.items():
        tracker.end(run, "stopped", reached[key], {})


def main() -> None:
    """Serve the tracker of a name, with the folder for its files."""
    name, folder = sys.argv[1:]
    serve(get_class("tracker", name, Tracker)(Path(folder)), sys.stdin)


if __name__ == "__main__":
    main()
