"""Trials of folders, models and commands of others, and of what goes wrong on machines."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import tarfile
from pathlib import Path

import pytest
from builders import result
from trial import Trial, check_refused

from harness.commands import LastPlaces, note_places, read_places
from harness.encoders.student import Student
from harness.encoders.teachers import open_teacher
from harness.fetching.archives import unpack
from harness.files import make_temporary_path, write_bytes, write_note
from harness.profiles import load_profile
from harness.runs.execution import list_shared_variables
from harness.runs.log import RunLog
from harness.store import Store
from harness.store.folder import (
    Submission,
    add_session,
    find_checkpoint_step,
    read_submission,
    supersede,
)
from harness.store.logs import running_log
from harness.store.merging import merge
from harness.store.schema import Session
from harness.toy import clip_folder, student_folder
from harness.work.base import _describe_place
from harness.work.slurm.commands import SlurmState

RUN = result()


def write_nothing(folder: Path) -> None:
    """A trial that makes its inputs in its check."""


def write_clip_with_code(folder: Path) -> None:
    clip = Path(shutil.copytree(clip_folder(), folder / "clip"))
    settings = json.loads((clip / "open_clip_config.json").read_text())
    settings["model_cfg"]["text_cfg"]["tokenizer_kwargs"] = {"trust_remote_code": True}
    (clip / "open_clip_config.json").write_text(json.dumps(settings))
    tokenizer = json.loads((clip / "tokenizer_config.json").read_text())
    tokenizer |= {"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": ["own.Own", "own.Own"]}}
    (clip / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    mark = folder / "executed"
    (clip / "own.py").write_text(f"from pathlib import Path\nPath({str(mark)!r}).touch()\n")


def check_code_is_not_executed(folder: Path) -> None:
    check_refused(lambda: open_teacher("open-clip", folder / "clip"), "trust_remote_code")
    assert not (folder / "executed").exists()


def write_linked_log(folder: Path) -> None:
    (folder / "key").write_text("a private key\n")
    log = running_log(Store(folder / "results"), RUN.fingerprint)
    log.parent.mkdir(parents=True)
    log.symlink_to(folder / "key")


def check_linked_log_is_left_alone(folder: Path) -> None:
    store = Store(folder / "results")
    with (
        pytest.raises(OSError, match="links are not followed"),
        RunLog(running_log(store, RUN.fingerprint), store.root),
    ):
        pass
    assert (folder / "key").read_text() == "a private key\n"


def check_temporary_names(folder: Path) -> None:
    names = {make_temporary_path(folder / "note.json") for _ in range(600)}
    assert len(names) == 600, "processes of two machines have one id"


def check_saved_bytes(folder: Path) -> None:
    student = Student.load(student_folder(), "cls")
    student.save(folder / "undisturbed")
    student.tokenizer(["a red circle"], truncation=True, max_length=4, padding="max_length")
    student.save(folder / "interrupted")
    saved = [
        (folder / name / "tokenizer.json").read_bytes() for name in ("undisturbed", "interrupted")
    ]
    assert saved[0] == saved[1]


def check_no_secret_travels(folder: Path) -> None:
    assert list_shared_variables({"HF_TOKEN": "secret", "HF_HOME": "/hub"}) == {"HF_HOME": "/hub"}


def check_sessions(folder: Path) -> None:
    def session(host: str) -> Session:
        return Session(started="2026-01-01", host=host, hardware={}, packages={}, revision=None)

    store = Store(folder)
    add_session(store, RUN.fingerprint, session("first"))
    sessions = add_session(store, RUN.fingerprint, session("second"))
    assert [each.host for each in sessions] == ["first", "second"]


def write_archive(folder: Path) -> None:
    with (folder / "zeros").open("wb") as stream:
        stream.truncate(2 * 10**7)
    with tarfile.open(folder / "archive.tar.gz", "w:gz") as archive:
        archive.add(folder / "zeros", "zeros")


def check_archive_is_limited(folder: Path) -> None:
    check_refused(lambda: unpack(folder / "archive.tar.gz", folder / "out"), "100 times its size")
    assert not (folder / "out" / "zeros").exists()


def check_foreign_places(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_CACHE", str(folder / "their-cache"))
        note_places(folder, "tiny", LastPlaces(data_root="/"))
    assert read_places(folder, "tiny") == LastPlaces()


def write_linked_work(folder: Path) -> None:
    (folder / "private").mkdir()
    (folder / "private" / "key").write_text("a private key")
    store = Store(folder / "results")
    store.save(RUN)
    store.work(RUN.fingerprint).parent.mkdir()
    store.work(RUN.fingerprint).symlink_to(folder / "private")


def check_linked_work_stays(folder: Path) -> None:
    store = Store(folder / "results")
    run = (RUN.profile, RUN.spec, RUN.fingerprint)
    check_refused(lambda: supersede(store, [run]), "links are not followed")
    assert (folder / "private" / "key").is_file()
    assert store.load()[0] == [RUN]


def check_flush_error(folder: Path) -> None:
    real = os.fsync

    def fsync(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(handle)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            write_bytes(folder / "file", b"content")


def check_blocked_job(folder: Path) -> None:
    def note(number: str, key: str, after: tuple[str, ...] = ()) -> Submission:
        return Submission(system="SLURM", id=number, key=key, log=folder / "log", after=after)

    notes = [note("1", "tokens of wiki"), note("2", "a run", after=("1",))]
    there = {
        "1": SlurmState("PENDING", "JobHeldUser"),
        "2": SlurmState("PENDING", "Dependency"),
    }
    _, where = _describe_place(notes[1], notes, there)
    assert "tokens of wiki" in where
    assert "JobHeldUser" in where


def write_long_number(folder: Path) -> None:
    (folder / "own.toml").write_text(f"extends = 'tiny'\nsteps = {'9' * 5_000}\n")


def check_long_number(folder: Path) -> None:
    check_refused(lambda: load_profile(str(folder / "own.toml")), "not valid TOML")


def write_linked_log_of_others(folder: Path) -> None:
    (folder / "key").write_text("a private key\n")
    theirs = Store(folder / "theirs")
    theirs.save(RUN)
    theirs.path(RUN).with_suffix(".log").symlink_to(folder / "key")


def check_merge_copies_no_linked_log(folder: Path) -> None:
    merged = merge(Store(folder / "all"), [Store(folder / "theirs")])
    assert any(".log" in line for line in merged.problems)
    for path in (folder / "all").rglob("*"):
        assert not path.is_file() or b"a private key" not in path.read_bytes()


def write_huge_log_of_others(folder: Path) -> None:
    theirs = Store(folder / "theirs")
    theirs.save(RUN)
    with theirs.path(RUN).with_suffix(".log").open("wb") as stream:
        stream.truncate(6 * 10**9)


def check_huge_log_is_left_out(folder: Path) -> None:
    merged = merge(Store(folder / "all"), [Store(folder / "theirs")])
    assert any(".log" in line for line in merged.problems)
    assert Store(folder / "all").load()[0] == [RUN]


def write_odd_notes(folder: Path) -> None:
    work = Store(folder).work(RUN.fingerprint)
    work.mkdir(parents=True)
    (work / "checkpoint-\u00b2-0.pt").write_text("")
    write_note(work / "submitted.json", {"system": "SLURM", "id": 3, "key": "k", "log": "l"})


def check_odd_notes(folder: Path) -> None:
    assert find_checkpoint_step(Store(folder), RUN.fingerprint) == 0
    assert read_submission(Store(folder), RUN.fingerprint) is None


def write_results(folder: Path) -> None:
    Store(folder / "results").save(RUN)


def check_another_disk(folder: Path) -> None:
    """What cannot be renamed to another disk is copied."""
    real = os.replace

    def replace(source: object, target: object, **folders: int) -> None:
        if (folder / "results" / ".superseded").is_dir() and RUN.profile in str(source):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        real(source, target, **folders)  # type: ignore[type-var]

    store = Store(folder / "results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", replace)
        (place,) = supersede(store, [(RUN.profile, RUN.spec, RUN.fingerprint)])
    assert Store(place).load()[0] == [RUN]
    assert store.load()[0] == []


TRIALS = [
    # 4/C1, a class that a process changes: tests/runs/test_planned_and_found.py
    # 4/C2 needs a process in a folder of hostile modules: tests/test_import_path.py
    Trial("4/C3", write_linked_log_of_others, check_merge_copies_no_linked_log),
    Trial("4/C4", write_huge_log_of_others, check_huge_log_is_left_out),
    Trial("4/C5", write_results, check_another_disk),
    Trial("4/C6", write_odd_notes, check_odd_notes),
    # 4/C7 needs a hub that answers nonsense: tests/fetching/test_odd_hubs.py
    # 4/C8, every change of the schema has a number: tests/store/test_schema_versions.py
    Trial("5/F1", write_clip_with_code, check_code_is_not_executed),
    Trial("5/F2", write_linked_log, check_linked_log_is_left_alone),
    Trial("5/F3", write_nothing, check_temporary_names),
    Trial("5/F4", write_nothing, check_saved_bytes),
    # 5/F5 needs a stand-in for SLURM: tests/work/test_slurm.py
    Trial("5/F6", write_nothing, check_no_secret_travels),
    # 5/F7 needs an installed package: tests/plugins/test_plugin_code.py
    Trial("5/F8", write_nothing, check_sessions),
    Trial("5/F9", write_archive, check_archive_is_limited),
    Trial("5/F10", write_nothing, check_foreign_places),
    Trial("5/F11", write_linked_work, check_linked_work_stays),
    Trial("5/F12", write_nothing, check_flush_error),
    Trial("5/F13", write_nothing, check_blocked_job),
    Trial("5/F14", write_long_number, check_long_number),
]
