"""What jobs report: events and an end in a file, read whole, of one process."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from builders import result
from executor_jobs import errand
from faults_tools import files_up_to

from harness.events import Event, Stage, TrainingProgress
from harness.files import add_seal
from harness.work.job import Again, Prepared
from harness.work.report import STAGE_S, Report


def read(report: Report) -> list[Event]:
    """The new events of a report."""
    events: list[Event] = []
    report.read(events.append)
    return events


def test_events_are_read_whole_even_after_a_process_was_killed_in_a_line(tmp_path: Path) -> None:
    now = [0.0]
    path = tmp_path / "work" / "7.jsonl"
    reader, write, stage = (
        Report(path),
        Report(path, clock=lambda: now[0]).write,
        Stage("tokens", "toy", 0),
    )
    assert read(reader) == []
    write(Event("start", "a"))
    for _ in range(5):
        now[0] += STAGE_S / 2
        write(Event("prepare", "a", stage=stage))
    assert [event.kind for event in read(reader)] == ["start", "prepare", "prepare", "prepare"]
    with path.open("ab") as stream:
        stream.write(b'{"kind":"fai')
    assert read(reader) == []
    Report(path).write(Event("failed", "a", error="x"))
    assert [event.error for event in read(reader)] == ["x"]


def test_reports_of_two_processes_on_a_job_are_apart_and_removed_with_its_folder(
    tmp_path: Path,
) -> None:
    mine, other = (Report.of(errand(tmp_path, "job"), number) for number in ("1", "2"))
    other.write_end(Again.HELD)
    for end in (Prepared("job"), Again.HELD, result()):
        mine.write_end(end)
        assert mine.read() == end
    other.remove()
    assert mine.read() == Report(mine.path).read() == result()
    mine.write_end(KeyError("x"))
    assert mine.read() == "KeyError: 'x'"
    mine.remove()
    assert Report(mine.path).read() is None
    assert not mine.path.parent.exists()


@pytest.mark.parametrize("harm", ["cut", "flip", "other kind", "event"])
def test_only_a_sealed_line_that_is_whole_is_an_end(harm: str, tmp_path: Path) -> None:
    report = Report(tmp_path / "7.jsonl")
    report.write(Event("start", "a"))
    report.write_end(Prepared("job", "no luck"))
    whole = report.path.read_bytes()
    changed = {
        "cut": whole[:-2],
        "flip": whole.replace(b"no luck", b"no lack"),
        "other kind": add_seal('{"kind":"Seat","end":{}}').encode(),
        "event": add_seal('{"kind":"start","run":"a"}').encode(),
    }
    report.path.write_bytes(changed[harm])
    assert Report(report.path).read() is None
    report.write_end(Again.STOPPED)
    assert Report(report.path).read() is Again.STOPPED, (
        "the next process is not in the way of what it left"
    )


def test_a_report_that_was_read_can_be_cut_to_its_end(tmp_path: Path) -> None:
    report = Report(tmp_path / "7.jsonl")
    report.write(Event("start", "a"))
    report.keep_end()
    assert read(Report(report.path)) == [Event("start", "a")], "it has none yet"
    report.write_end(Prepared("job"))
    assert report.read() == Prepared("job")
    report.keep_end()
    assert Report(report.path).read() == Prepared("job")
    assert read(Report(report.path)) == []


def test_a_disk_that_is_full_costs_events_and_not_the_job_but_the_end_is_an_error(
    tmp_path: Path,
) -> None:
    report = Report(tmp_path / "7.jsonl")
    with files_up_to(10):
        report.write(Event("start", "a"))
        with pytest.raises(OSError, match="File too large"):
            report.write_end(Prepared("job"))
    assert Report(report.path).read() is None


def test_an_event_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = TrainingProgress(3, 9, 1.5, {"text": 0.25}, dev=1.0, scored=True)
    events = [
        Event("progress", "a", "cpu", progress=made, memory_mb=7.5),
        Event("evaluate", "a", stage=Stage("tasks", "sts", 1, None, "é\u2028\n")),
        Event("evaluated", "a", suite="sts", seconds=0.5),
    ]
    report = Report(tmp_path / "7.jsonl", clock=itertools.count(step=10.0).__next__)
    for event in events:
        report.write(event)
    assert read(report) == events
