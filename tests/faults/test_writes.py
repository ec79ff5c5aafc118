"""Every place that writes, and what it does where it cannot: full, forbidden, read-only, cut short, gone, oddly named.

`faults_tools.places` lists them, and a test finds every module that writes in the list. The rule is the same for all:
what was there stays as it was or is replaced as a whole, nothing half-written has its name, nothing temporary is left,
and what cannot be written is said in an error, unless it is expendable.
"""

from __future__ import annotations

import ast
import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from faults_tools import READERS, Disk, Place, contents, in_child, outcome, places, short_run, small_disk

import harness
from harness.caches import cache_folder, remove_spare
from harness.errors import UserError
from harness.sources import replaced, write_bytes
from harness.store import Store

PLACES = places()
WRITES = {"write_text", "write_bytes", "replaced", "save_file", "memmap", "savefig", "copyfile", "copytree", "copyfileobj"}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "disk") as made:
        yield made


def test_every_module_that_writes_is_listed() -> None:
    root = Path(harness.__file__).parent
    writing = set()
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                modes = [arg.value for arg in node.args if isinstance(arg, ast.Constant)] if name == "open" else []
                opens = any(set(str(mode)) & set("wax+") and len(str(mode)) <= 3 for mode in modes)
                if opens or name in WRITES:
                    writing.add(path.relative_to(root).as_posix())
    listed = {module for place in PLACES for module in place.modules} | READERS.keys()
    assert writing - listed == set(), "list the place in faults_tools.places, or say in READERS why not"
    assert listed - writing == set(), "writes no longer"


def check(place: Place, folder: Path, before: dict[str, bytes], said: str) -> None:
    """What holds after an attempt to write that failed, or went on without."""
    assert said or place.expendable, f"{place.name} says nothing"
    after = contents(folder)
    after.pop("filler", None)
    for name, content in after.items():
        assert content == before.get(name) or place.appends or name.endswith(".lock"), f"{place.name}: {name} is cut"
    assert before.keys() <= after.keys()
    assert not [name for name in after if name.endswith(".tmp")], place.name


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
def test_no_place_leaves_half_a_file(place: Place, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = disk.path / "folder"
    folder.mkdir()
    monkeypatch.setenv("HARNESS_CACHE", str(folder / "cache"))
    nobody = in_child(lambda: place.write(folder), lambda: os.setuid(65534))
    check(place, folder, {}, nobody)
    limit = (place.cut_at, resource.RLIM_INFINITY)
    cut = in_child(lambda: place.write(folder), lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit))
    if not place.appends:
        check(place, folder, {}, cut)
    disk.fill()
    full = in_child(lambda: place.write(folder), lambda: None)
    if not place.appends:
        check(place, folder, {}, full)
    (disk.path / "filler").unlink()
    assert in_child(lambda: place.write(folder), lambda: None) == "", "it goes on once there is room"
    kept = contents(folder)
    assert kept
    disk.remount("ro")
    check(place, folder, kept, in_child(lambda: place.write(folder), lambda: None))
    disk.remount("rw")
    if not place.appends:
        for path in folder.rglob("*"):  # the entries of a rename that was not durable
            if path.is_file() and path.suffix != ".lock":
                path.unlink()
        assert in_child(lambda: place.write(folder), lambda: None) == ""
        assert contents(folder).keys() == kept.keys()


def test_two_writers_replace_each_other_whole_and_a_folder_may_go(tmp_path: Path) -> None:
    path = tmp_path / "file"
    texts = [bytes([letter]) * 200_000 for letter in b"ab"]
    write_bytes(path, texts[0])
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            write_bytes(path, texts[1])

    other = threading.Thread(target=lambda: in_child(lambda: [write_bytes(path, texts[0]) for _ in range(40)], int))
    other.start()
    threading.Thread(target=write).start()
    while other.is_alive():
        assert path.read_bytes() in texts
    stop.set()
    with pytest.raises(FileNotFoundError), replaced(tmp_path / "gone" / "file") as stream:
        stream.write(b"half")
        (hidden,) = (tmp_path / "gone").iterdir()
        hidden.unlink()
        hidden.parent.rmdir()
    long = tmp_path / ("n" * 255)
    write_bytes(long, b"whole")
    assert long.read_bytes() == b"whole"


ODD = f"a b\n'ü;$(x) {'n' * 200}"


def test_a_full_disk_costs_a_line_and_the_same_command_ends_as_if_nothing_had_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In a folder with an odd name: train, report and export on a disk that is full at first."""
    with small_disk(tmp_path / ODD, "600k") as disk:
        results = disk.path / "results"
        (failure,) = short_run("simcse", results).failures
        assert "No space left on device" in failure.error or "I/O error" in failure.error, failure.error
        disk.remount("size=30m")
        done = short_run("simcse", results)
        assert outcome(done) == outcome(short_run("simcse", tmp_path / "plain"))
        assert not harness.results(results).failures
        kept, place = contents(results), disk.path / "n" * 250
        disk.fill()
        for write in (
            lambda: harness.report(results, disk.path / ("r" * 250)),
            lambda: export(results, disk.path / ("e" * 250)),
        ):
            with pytest.raises(UserError, match="cannot be written"):
                write()
        (disk.path / "filler").unlink()
        assert sorted(path.name for path in disk.path.iterdir()) == ["results"]
        assert contents(results) == kept
        assert harness.report(results, disk.path / ("r" * 250)).page.is_file()
        export(results, disk.path / ("e" * 250))
        assert harness.load_model(disk.path / ("e" * 250)).encode(["x"]).shape == (1, 64)


def export(results: Path, to: Path) -> None:
    from harness.execution.export import export as write

    write("simcse/toy-text/toy-bert/seed-0", to, results)


def test_an_export_deletes_nothing_that_it_did_not_make(tmp_path: Path) -> None:
    short_run("simcse", tmp_path / "results")
    precious = [tmp_path / name / "mine" for name in (".x.tmp", f".x.{os.getpid()}.tmp")]
    for path in precious:
        path.parent.mkdir()
        path.write_text("mine")
    with pytest.raises(UserError, match="File exists"):
        export(tmp_path / "results", tmp_path / "x")
    precious.pop().unlink()
    (tmp_path / f".x.{os.getpid()}.tmp").rmdir()
    export(tmp_path / "results", tmp_path / "x")
    assert precious[0].read_text() == "mine"
    assert (tmp_path / "x" / "README.md").is_file()


def test_what_a_killed_process_left_is_removed_with_its_run_alone(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (run,) = harness.plan("tiny", methods="simcse", settings="toy-text", seeds=1, results=tmp_path).runs
    ours = [
        store.work(run.fingerprint) / ".best.tmp" / "model.safetensors",
        store.work(run.fingerprint) / ".run.log.77.tmp",
        store.folder("tiny", harness_spec(run)) / f".seed-0-{run.fingerprint[:16]}.json.77.tmp",
        tmp_path / "failed" / f".{run.fingerprint[:16]}.log.77.tmp",
    ]
    others = [path.with_name(path.name.replace(run.fingerprint[:16], "f" * 16)) for path in ours[2:]]
    for path in (*ours, *others):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("half")
    assert len(short_run("simcse", tmp_path)) == 1
    assert not [path for path in ours if path.exists()]
    assert [path for path in others if path.exists()] == others


def harness_spec(run: object) -> object:
    from harness.store import Spec

    return Spec.of(run.resolved.spec)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["a file", "read-only", "full", "damaged"])
def test_a_run_goes_on_without_its_cache(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected = outcome(short_run("simcse", tmp_path / "usual"))
    with small_disk(tmp_path / "disk", "2m") as disk:
        cache = disk.path / "cache"
        monkeypatch.setenv("HARNESS_CACHE", str(cache))
        cache.write_text("") if kind == "a file" else cache.mkdir()
        if kind == "damaged":
            short_run("simcse", tmp_path / "first")
            for path in (path for path in cache.rglob("*") if path.is_file() and path.suffix != ".lock"):
                path.write_bytes(b"\xff" * 10)
        disk.remount("ro") if kind == "read-only" else None
        disk.fill() if kind == "full" else None
        try:
            assert outcome(short_run("simcse", tmp_path / "odd")) == expected
            warned = [record for record in caplog.records if "cannot be used" in record.getMessage()]
            assert len(warned) == (0 if kind == "damaged" else 1), [record.getMessage() for record in caplog.records]
            assert cache_folder() == cache
        finally:
            remove_spare()


def test_names_that_no_file_system_takes_are_refused_when_planning(tmp_path: Path) -> None:
    folder = tmp_path / "encoder"
    for options in (",".join(f"temperature=0.{'1' * 300}" for _ in range(1)),):
        with pytest.raises(UserError, match="makes a file name of 3.. bytes in the folder of results, and 255 are the m"):
            harness.plan("tiny", methods=f"simcse[{options}]", seeds=1, results=tmp_path)
    assert not folder.exists()
    assert not list(tmp_path.iterdir())
