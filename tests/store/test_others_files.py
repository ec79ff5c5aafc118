"""Folders of results from others: nothing is read through a link, nor more than a bounded amount of
memory.
"""

from __future__ import annotations

import io
import os
import shutil
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from builders import failure, result, sts
from cases import mark_others_long
from click.testing import CliRunner

from harness.cli.main import cli
from harness.metrics import ArrayName
from harness.store import Store
from harness.store.merging import merge
from harness.store.tunings import read_tunings

RUN = result("mcse", 0, sts(ToySTS=70.0))
OTHER = result("simcse", 0, sts(ToySTS=60.0))
SECRET = "a private key"
#: bytes of memory that a command may take for a file that it leaves out
MOST = 3 * 10**8


@pytest.fixture
def theirs(tmp_path: Path) -> Store:
    store = Store(tmp_path / "theirs")
    for each in (RUN, OTHER):
        store.save_arrays(
            each, each.evaluations[0], {ArrayName("ToySTS", "cosines"): np.array([1.0])}
        )
        store.save_log(each, "a line\n")
        store.save(each)
    return store


@contextmanager
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MOST
    finally:
        tracemalloc.stop()


def log_of(store: Store) -> Path:
    return store.path(RUN).with_suffix(".log")


def arrays_of(store: Store) -> Path:
    return store.arrays_path(RUN, RUN.evaluations[0])


def tuning_of(store: Store) -> Path:
    return store.root / "tunings" / "0123456789ab.json"


def sparse(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(6 * 10**9)


@cache
def packed_arrays() -> bytes:
    """Arrays that unpack to a thousand times their size, under a limit of the packed size."""
    file, head = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": "|u1", "fortran_order": False, "shape": (6 * 10**8,)}
    )
    np.savez_compressed(file, index=np.array([["ToySTS", "cosines", ""]]))
    with (
        zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as packed,
        packed.open("0.npy", "w") as out,
    ):
        out.write(head.getvalue())
        for _ in range(600):
            out.write(bytes(10**6))
    return file.getvalue()


def bomb(path: Path) -> None:
    path.write_bytes(packed_arrays())


def nested(path: Path) -> None:
    path.write_text("[" * 10**6)


def linked(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(
        next(folder / "secret" for folder in path.parents if (folder / "secret").is_file())
    )


def merged(store: Store) -> tuple[Store, str]:
    into = Store(store.root.parent / "all")
    return into, " ".join(merge(into, [store]).problems)


@pytest.mark.parametrize(
    "change",
    mark_others_long([linked, sparse, bomb, nested], [linked, sparse, nested]),
    ids=lambda change: change.__name__,
)
@pytest.mark.parametrize(
    "of", [log_of, arrays_of, Store.path, tuning_of], ids=lambda of: of.__name__
)
def test_what_is_no_small_file_is_left_out_of_a_merge_and_named(
    theirs: Store, tmp_path: Path, of: Callable[..., Path], change: Callable[[Path], None]
) -> None:
    if change in (bomb, nested) and of is log_of:
        pytest.skip("text of any kind is a log")
    path = of(theirs, RUN) if of is Store.path else of(theirs)
    (tmp_path / "secret").write_text(SECRET)
    path.parent.mkdir(exist_ok=True)
    change(path)
    with nullcontext() if change is linked else little_memory():
        into, problems = merged(theirs)
    assert str(path) in problems
    assert [str(each.spec.variant) for each in into.load()[0]] == (
        ["simcse"] if of is Store.path else ["mcse", "simcse"]
    )
    assert not [
        each
        for each in into.root.rglob("*")
        if each.is_file() and SECRET in each.read_text("latin-1")
    ]


@pytest.mark.parametrize("level", range(4), ids=["profile", "variant", "setting", "encoder"])
def test_a_merge_follows_no_linked_folder(theirs: Store, tmp_path: Path, level: int) -> None:
    folder = theirs.path(RUN).parents[3 - level]
    shutil.move(folder, tmp_path / "private")
    folder.symlink_to(tmp_path / "private")
    into, problems = merged(theirs)
    assert str(theirs.path(RUN)) in problems
    assert RUN.fingerprint not in [each.fingerprint for each in into.load()[0]]


@pytest.mark.parametrize(
    "change", mark_others_long([linked, sparse], [linked]), ids=lambda change: change.__name__
)
def test_no_command_shows_or_publishes_what_lies_elsewhere(
    theirs: Store, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    failed = failure(result("mcse", 1))
    record = theirs.save_failure(failed, "a line\n")
    work = theirs.work("e" * 64)
    work.mkdir(parents=True)
    (tmp_path / "secret").write_text(SECRET)
    paths = (
        log_of(theirs),
        record.with_suffix(".log"),
        work / "run.log",
        work / "submitted.json",
        tuning_of(theirs),
    )
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        change(path)

    def said(*words: str, code: int) -> str:
        done = CliRunner().invoke(cli, [*words, "--results", str(theirs.root)])
        assert SECRET not in done.output
        assert (done.exit_code or 0) == code or isinstance(done.exception, Exception), done.output
        return f"{done.output} {done.exception}"

    with nullcontext() if change is linked else little_memory():
        assert str(log_of(theirs)) in said("logs", RUN.spec.key, code=2)
        assert str(record.with_suffix(".log")) in said("logs", failed.spec.key, code=2)
        said("show", RUN.spec.key, code=0)
        said("show", failed.spec.key, code=2)
        assert str(tuning_of(theirs)) in " ".join(read_tunings(theirs)[1])
        report = said("report", "--out", str(tmp_path / "report"), code=0)
    assert str(log_of(theirs)) in report
    for path in (tmp_path / "report").rglob("*"):
        assert not path.is_file() or SECRET not in path.read_text("latin-1"), path
    assert os.path.lexists(log_of(theirs)), "it stays as it is"
