"""What jobs report: events and an end in files, read whole, of one process."""

from __future__ import annotations

import itertools
from pathlib import Path

from builders import result
from executor_jobs import errand
from faults_tools import files_up_to

from harness.planning.events import Event, Stage
from harness.training.record import TrainingProgress
from harness.work.crew import STAGE_S, EventReader, EventWriter, Report
from harness.work.job import Again, Prepared


def test_events_are_read_whole_even_after_a_process_was_killed_in_a_line(tmp_path: Path) -> None:
    now = [0.0]
    path = tmp_path / "work" / "events"
    reader, stage = EventReader(path), Stage("tokens", "toy", 0)
    assert list(reader) == []
    with EventWriter(path, lambda: now[0]) as write:
        write(Event("start", "a"))
        for _ in range(5):
            now[0] += STAGE_S / 2
            write(Event("prepare", "a", stage=stage))
        assert [event.kind for event in reader] == ["start", "prepare", "prepare", "prepare"]
    with path.open("ab") as stream:
        stream.write(b'{"kind":"fai')
    assert list(reader) == []
    with EventWriter(path) as write:
        write(Event("failed", "a", error="x"))
    assert [event.error for event in reader] == ["x"]


def test_reports_of_two_processes_on_a_job_are_apart_and_removed_with_its_folder(tmp_path: Path) -> None:
    mine, other = (Report.of(errand(tmp_path, "job"), number) for number in ("1", "2"))
    other.write_end(Again.HELD)
    for end in (Prepared("job"), Again.HELD, result()):
        mine.write_end(end)
        assert mine.end() == end
    other.remove()
    assert mine.end() == result()
    mine.write_end(KeyError("x"))
    assert mine.end() == "KeyError: 'x'"
    (mine.folder / ".1.end.4711.tmp").touch()  # of a process that was killed while it wrote
    mine.remove()
    assert mine.end() is None
    assert not mine.folder.exists()


def test_a_disk_that_is_full_costs_events_and_not_the_job(tmp_path: Path) -> None:
    with EventWriter(tmp_path / "events") as write, files_up_to(10):
        write(Event("start", "a"))


def test_an_event_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = TrainingProgress(3, 9, 1.5, {"text": 0.25}, dev=1.0, scored=True)
    events = [
        Event("progress", "a", "cpu", progress=made, memory_mb=7.5),
        Event("evaluate", "a", stage=Stage("tasks", "sts", 1, None, "é")),
        Event("done", "a", result=result()),
    ]
    with EventWriter(tmp_path / "events", itertools.count(step=10.0).__next__) as write:
        for event in events:
            write(event)
    assert list(EventReader(tmp_path / "events")) == events
