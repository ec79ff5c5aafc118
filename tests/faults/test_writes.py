"""Every place that writes, and what it does where it cannot: full, forbidden, read-only, cut short,
gone, oddly named.

`WRITERS` are those that write on their own, not into a folder that is renamed as a whole. The rule
is the same for all: what was there stays as it was or is replaced as a whole, nothing half-written
has its name, nothing temporary is left, and what cannot be written is said in an error, unless it
is expendable.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from faults_tools import SHORT, contents, files_up_to, outcome, short_run
from writers import APPENDING, EXPENDABLE, WRITERS

import harness
from harness.errors import UserError
from harness.files import replace_file, write_bytes
from harness.runs.export import export as write_export
from harness.store import Store
from harness.store.merging import merge


@dataclass(frozen=True)
class Disk:
    """A small file system in memory, mounted for a test."""

    path: Path

    def remount(self, options: str) -> None:
        """Change its size, or make it read-only."""
        subprocess.run(["mount", "-o", f"remount,{options}", str(self.path)], check=True)

    def fill(self) -> None:
        """Leave no room."""
        with (self.path / "filler").open("wb", buffering=0) as stream, suppress(OSError):
            while True:
                stream.write(bytes(4096))


@contextmanager
def small_disk(path: Path, size: str = "8m") -> Iterator[Disk]:
    """Mount one; the test is skipped where that is not permitted."""
    path.mkdir(parents=True, exist_ok=True)
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "none", str(path)],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(
            "no tmpfs can be mounted here; what a full or a read-only disk does was not tried"
        )
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without any permission, where this process is root's."""
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "disk") as made:
        yield made


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of an undisturbed run."""
    results = tmp_path_factory.mktemp("usual")
    assert len(short_run("simcse", results)) == 1
    return results


def written(folder: Path) -> dict[str, bytes]:
    """What lies below a folder and is neither a lock, nor unfinished under a name that says so, nor
    named by a time.
    """
    files = contents(folder)
    return {
        name: files[name]
        for name in files
        if not name.endswith((".lock", ".part")) and "/hashes/" not in name
    }


@pytest.mark.parametrize("name", WRITERS)
def test_no_place_leaves_half_a_file(
    name: str, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, appends = disk.path / "folder", name in APPENDING
    monkeypatch.setattr("secrets.token_hex", lambda size: "a" * 2 * size)

    def tried(under: AbstractContextManager[None] | None = None) -> str:
        try:
            with under or nullcontext():
                WRITERS[name](folder)
        except (OSError, UserError) as error:
            return f"{type(error).__name__}: {error}"
        return ""

    def check(before: dict[str, bytes], said: str) -> None:
        """What holds after an attempt that failed, or went on without; what is there need not be
        written again.
        """
        assert said or before or appends or name in EXPENDABLE, f"{name} says nothing"
        after = written(folder)
        assert before.keys() <= after.keys()
        for file, content in after.items():
            assert appends or content in (before.get(file), whole[file]), f"{name}: {file} is cut"

    folder.mkdir()
    monkeypatch.setenv("HARNESS_CACHE", str(folder / "cache"))
    assert tried() == ""
    whole = written(folder)
    assert whole or name == "hash"
    shutil.rmtree(folder)
    folder.mkdir()
    check({}, tried(as_nobody()))
    check({}, tried(files_up_to(10)))
    disk.fill()
    check({}, tried())
    (disk.path / "filler").unlink()
    assert tried() == "", "it goes on once there is room"
    kept = written(folder)
    assert appends or kept == whole
    disk.remount("ro")
    check(kept, tried())
    disk.remount("rw")
    for path in folder.rglob("*"):  # the entries of renames that were not durable
        if path.is_file() and path.suffix != ".lock":
            path.unlink()
    assert tried() == ""
    assert appends or written(folder) == whole


def test_two_writers_replace_each_other_whole_and_a_folder_may_go(tmp_path: Path) -> None:
    path = tmp_path / "file"
    texts = [bytes([letter]) * 200_000 for letter in b"ab"]
    write_bytes(path, texts[0])
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            write_bytes(path, texts[1])

    code = "import sys, pathlib; from harness.files import write_bytes\n"
    code += "for _ in range(40): write_bytes(pathlib.Path(sys.argv[1]), b'a' * 200_000)"
    other = subprocess.Popen([sys.executable, "-c", code, str(path)])
    ours = threading.Thread(target=write)
    ours.start()
    try:
        while other.poll() is None:
            assert path.read_bytes() in texts
    finally:
        stop.set()
        ours.join()
    assert other.returncode == 0
    with pytest.raises(FileNotFoundError), replace_file(tmp_path / "gone" / "file"):
        shutil.rmtree(tmp_path / "gone")
    long = tmp_path / ("n" * 255)
    write_bytes(long, b"whole")
    assert long.read_bytes() == b"whole"


ODD = f"a b\n'ü;$(x) {'n' * 200}"


def test_a_full_disk_costs_a_line_and_the_same_command_ends_as_if_nothing_had_been(
    tmp_path: Path, usual: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder with an odd name: train, report and export on a disk that is full at first."""
    monkeypatch.setattr(
        UserError, "__init__", Exception.__init__
    )  # errors quote the line feed of the name
    with small_disk(tmp_path / ODD, "600k") as disk:
        results = disk.path / "results"
        (failed,) = short_run("simcse", results).failures
        assert "No space left on device" in failed.error or "I/O error" in failed.error, (
            failed.error
        )
        disk.remount("size=30m")
        done = short_run("simcse", results)
        assert outcome(done) == outcome(harness.results(usual))
        assert not harness.results(results).failures
        kept = contents(results)
        disk.fill()
        for write in (
            lambda: harness.report(results, disk.path / ("r" * 250)),
            lambda: export(results, disk.path / ("e" * 250)),
            lambda: merge(Store(disk.path / "merged"), [Store(results)]),
        ):
            with pytest.raises(UserError, match="cannot be written"):
                write()
        (disk.path / "filler").unlink()
        shutil.rmtree(disk.path / "merged", ignore_errors=True)
        assert sorted(path.name for path in disk.path.iterdir()) == ["results"]
        assert contents(results) == kept
        assert harness.report(results, disk.path / ("r" * 250)).page.is_file()
        export(results, disk.path / ("e" * 250))
        assert harness.load_model(disk.path / ("e" * 250)).encode(["x"]).shape == (1, 64)


@pytest.mark.faults
@pytest.mark.parametrize(
    "kilobytes", [8, 40, 120, 300, 500, 700, 1000, 1400, 1800, 2200, 2600, 3000]
)
def test_a_disk_may_be_full_at_any_moment_of_a_run(
    kilobytes: int, tmp_path: Path, usual: Path
) -> None:
    with small_disk(tmp_path / "disk", f"{kilobytes}k") as disk:
        results = disk.path / "results"
        with suppress(UserError):  # too small to begin
            first = short_run("simcse", results)
            assert len(first.failures) + len(first.runs) == 1
        disk.remount("size=30m")
        assert outcome(short_run("simcse", results)) == outcome(harness.results(usual))
        assert not list(results.rglob(".*.tmp"))


def export(results: Path, to: Path) -> None:
    write_export("simcse/toy-text/toy-bert/seed-0", to, results)


def test_an_export_removes_what_a_killed_one_to_its_place_left_a_day_later_and_nothing_else(
    tmp_path: Path, usual: Path
) -> None:
    left = {
        name: tmp_path / name / "half" for name in (".x.1.tmp", ".x.2.tmp", ".y.1.tmp", ".x.tmp")
    }
    for name, path in left.items():
        path.parent.mkdir()
        path.write_text("half")
        if name != ".x.2.tmp":
            os.utime(path.parent, (0, 0))
    export(usual, tmp_path / "x")
    assert [name for name, path in left.items() if path.exists()] == [
        ".x.2.tmp",
        ".y.1.tmp",
        ".x.tmp",
    ]
    assert (tmp_path / "x" / "README.md").is_file()


def test_what_a_killed_process_left_is_removed_with_its_run_alone(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (run,) = harness.plan(methods="simcse", seeds=1, results=tmp_path, **SHORT).runs
    ours = [
        store.work(run.fingerprint) / ".best.tmp" / "model.safetensors",
        store.work(run.fingerprint) / ".run.log.77.tmp",
        store.folder("tiny", run.resolved.spec) / f".seed-0-{run.fingerprint[:16]}.json.77.tmp",
        tmp_path / "failed" / f".{run.fingerprint[:16]}.log.77.tmp",
    ]
    others = [
        path.with_name(path.name.replace(run.fingerprint[:16], "f" * 16)) for path in ours[2:]
    ]
    for path in (*ours, *others):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("half")
    assert len(short_run("simcse", tmp_path)) == 1
    assert not [path for path in ours if path.exists()]
    assert [path for path in others if path.exists()] == others


@pytest.mark.parametrize("kind", ["read-only", "full", "a file"])
def test_a_cache_that_cannot_be_written_is_one_line(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path / "disk", "2m") as disk:
        cache = disk.path / "cache"
        monkeypatch.setenv("HARNESS_CACHE", str(cache))
        cache.write_text("") if kind == "a file" else cache.mkdir()
        disk.remount("ro") if kind == "read-only" else None
        disk.fill() if kind == "full" else None
        try:
            said = short_run("simcse", tmp_path / "odd").failures[0].error
            assert kind != "a file", "no run begins where nothing can be cached"
        except UserError as error:
            said = str(error)
        assert f"the cache {cache} cannot be used" in said
        assert "HARNESS_CACHE" in said


def test_names_that_no_file_system_takes_are_refused_when_planning(tmp_path: Path) -> None:
    named = f"{'n' * 300}={harness.plan('tiny').inventory.find_encoder('toy-bert').source.path()}"
    with pytest.raises(
        UserError, match=r"the encoder 'n+...' makes a file name of 300 bytes .* shorten it"
    ):
        harness.plan("tiny", encoders=named, results=tmp_path)
    assert not list(tmp_path.iterdir())
