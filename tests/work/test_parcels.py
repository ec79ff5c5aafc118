"""Files of runs that travel: what changed goes home, and is stored as if the run had been carried out here."""

from __future__ import annotations

from pathlib import Path

from executor_jobs import TAUGHT, ignore, jobs

from harness.runs.environment import Allocation
from harness.store import Failure, Result, Store
from harness.work.job import RunJob
from harness.work.ray.node import Changes, deliver, outgoing, receive, unpack


def tree(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_only_what_changed_is_sent_and_half_written_files_are_not(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (tmp_path / ".work" / "a").mkdir(parents=True)
    (tmp_path / ".work" / "a" / "old").write_text("1")
    changes = Changes(store)
    assert changes.take() is None
    for name in ("checkpoint.pt", ".checkpoint.pt.tmp"):
        (tmp_path / ".work" / "a" / name).write_text("2")
    (tmp_path / ".work" / "a" / "old").unlink()
    (tmp_path / ".locks").mkdir()
    (tmp_path / ".locks" / "a.lock").touch()
    parcel = changes.take()
    assert (dict(parcel.files), parcel.gone) == ({".work/a/checkpoint.pt": b"2"}, (".work/a/old",))
    assert changes.take() is None
    (tmp_path / ".work" / "a" / "checkpoint.pt").write_text("3")
    again = changes.take()
    assert dict(again.files) == {".work/a/checkpoint.pt": b"3"}


def away(job: RunJob, folder: Path, home: Store) -> Result | Failure:
    """Perform a run in another folder as a worker does, and deliver what it sends."""
    other = Store(folder)
    unpack(outgoing(job), other)
    changes = Changes(other)
    end = RunJob(job.inventory, other, job.needs, job.run).perform(Allocation("cpu", 1), ignore)
    parcel = changes.take()
    assert parcel is not None
    delivered = deliver(end, receive(parcel, home), home)
    assert isinstance(delivered, Result | Failure)
    return delivered


def test_a_run_elsewhere_is_stored_as_if_it_had_run_here_and_its_students_get_its_model(tmp_path: Path) -> None:
    home = Store(tmp_path / "home")
    teacher, student = jobs(home.root, TAUGHT)
    end = away(teacher, tmp_path / "away", home)
    assert isinstance(end, Result)
    assert home.find(teacher.inventory.profile.name, teacher.spec, teacher.id) == end
    assert "done" in home.log(end)
    sent = outgoing(student)
    model = home.work(teacher.id).relative_to(home.root).as_posix()
    assert tree(home.root / ".work") == tree(tmp_path / "away" / ".work")
    assert {f"{model}/trained.json", f"{model}/best/model.safetensors"} <= set(sent.files)
    # suites that are added later are evaluated on the trained model, and merged with the result
    assert {f"{model}/trained.json", home.path(end).relative_to(home.root).as_posix()} <= set(outgoing(teacher).files)


def test_a_failure_elsewhere_is_recorded_here_with_its_log(tmp_path: Path) -> None:
    home = Store(tmp_path / "home")
    (job,) = jobs(home.root, "simcse", learning_rate=1e30)
    end = away(job, tmp_path / "away", home)
    assert isinstance(end, Failure)
    assert home.failures() == [end]
    (log,) = (home.root / "failed").glob("*.log")
    assert "stopped by" in log.read_text()
