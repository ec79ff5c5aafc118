"""Finding the log of a run by its key or fingerprint, and following it until the run ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import failure, result

from harness.errors import UserError
from harness.store import Result, Store
from harness.store.folder import Submission, forget_submission, write_submission
from harness.store.logs import FOLLOW_S, failed_log, find_log, find_logs, follow, running_log

MINE = result("mcse[lambda=0.05]", 3)
OTHER = result("simcse", 0)


def line(text: str) -> str:
    return f"2026-01-02T03:04:05Z  {text}\n"


def begun(store: Store, of: Result = MINE, more: str = "") -> Path:
    """The log of a run in progress."""
    path = running_log(store, of.fingerprint)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(line(f"start {of.spec.key} on cpu") + more)
    return path


def fail(store: Store) -> None:
    store.save_failure(failure(MINE), running_log(store, MINE.fingerprint).read_text())


def finished(store: Store, of: Result = MINE) -> None:
    store.save_log(of, line("done"))
    store.save(of)


def found(store: Store, text: str = MINE.spec.key) -> tuple[str, Path]:
    log = find_log(store, text)
    assert log.key == MINE.spec.key
    return log.state, log.path


def test_a_run_has_the_log_of_its_last_state(tmp_path: Path) -> None:
    store = Store(tmp_path)
    work = begun(store)
    assert found(store) == ("unfinished", work)
    fail(store)
    assert found(store) == ("failed", work)
    begun(store, more=line("step 1"))
    assert found(store) == ("unfinished", work), "it is tried again"
    work.unlink()
    assert found(store) == ("failed", failed_log(store, MINE.fingerprint))
    finished(store)
    assert found(store) == ("finished", store.path(MINE).with_suffix(".log"))
    assert len(find_logs(store)) == 1
    assert "".join(follow(find_log(store, "seed-3"), store, pytest.fail)) == line("done"), (
        "nothing is waited for"
    )


def test_a_key_a_part_of_it_or_a_fingerprint_finds_a_run_and_several_are_listed(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path)
    begun(store)
    finished(store, OTHER)
    for text in (MINE.spec.key, "lambda=0.05", "seed-3", MINE.fingerprint[:6], MINE.fingerprint):
        assert found(store, text)[0] == "unfinished"
    assert find_log(store, "simcse").state == "finished"
    for seed in range(1, 8):
        finished(store, result("simcse", seed))
    second = result("mcse[lambda=0.05]", 3, data="second")
    finished(store, second)
    for text, said in {
        "cse": "no log of 'cse'",
        "simcs/toy": r"'simcs/toy' in .*did you mean simcse/toy/toy-bert/seed-",
        "zzz": r"no log of 'zzz' .*harness status",
        "toy-bert": r"^'toy-bert' matches 10 runs; give the key or fingerprint of one: mcse\[.* and 4 more$",
        MINE.spec.key: r"matches 2 runs.*\(unfinished, .*\(finished, " + second.fingerprint[:12],
    }.items():
        with pytest.raises(UserError, match=said):
            find_log(store, text)
    assert found(store, second.fingerprint[:12])[0] == "finished"


@pytest.mark.parametrize("end", ["finished", "failed"])
@pytest.mark.parametrize("is_replaced", [False, True])
def test_following_ends_with_the_run_and_misses_no_line(
    tmp_path: Path, end: str, is_replaced: bool
) -> None:
    store = Store(tmp_path)
    store.save_log(MINE, line("an earlier session"))
    work = begun(store)
    parts = [
        line("step 1").encode(),
        "é".encode()[:1],
        "é".encode()[1:] + b"\n" + line("done").encode(),
    ]
    waits: list[float] = []

    def go_on(seconds: float) -> None:
        """What the run does meanwhile: lines, one cut in the middle of a character, then its end."""
        waits.append(seconds)
        text = work.read_bytes() + parts[len(waits) - 1]
        if is_replaced:
            work.unlink()
        work.write_bytes(text)
        if len(waits) == 3 and end == "finished":
            store.save_log(MINE, work.read_text())
            work.unlink()
        elif len(waits) == 3:
            fail(store)

    text = "".join(follow(find_log(store, MINE.spec.key), store, go_on))
    assert text == line(f"start {MINE.spec.key} on cpu") + line("step 1") + "é\n" + line("done")
    assert waits == [FOLLOW_S] * 3


def test_a_submitted_run_is_followed_from_the_queue(tmp_path: Path) -> None:
    store = Store(tmp_path)
    printed = tmp_path / "12_0_log.out"
    note = Submission(system="SLURM", id="12_3", key=MINE.spec.key, folder=tmp_path, log=printed)
    begun(store)
    fail(store)
    write_submission(store, MINE.fingerprint, note)
    assert found(store)[0] == "unfinished", "it failed earlier, and waits for another attempt"
    running_log(store, MINE.fingerprint).unlink()
    assert found(store) == ("submitted", printed)
    steps = iter([lambda: printed.write_text("set up\n"), lambda: begun(store), lambda: end(store)])

    def end(store: Store) -> None:
        forget_submission(store, MINE.fingerprint, "12_2")
        assert found(store)[0] == "unfinished", "submitted again since: the note is another's"
        finished(store)
        running_log(store, MINE.fingerprint).unlink()
        forget_submission(store, MINE.fingerprint, "12_3")

    text = "".join(follow(find_log(store, MINE.spec.key), store, lambda seconds: next(steps)()))
    assert text.startswith("set up\n" + line(f"start {MINE.spec.key} on cpu"))
    assert found(store)[0] == "finished"


def test_a_note_that_came_with_the_folder_of_another_shows_no_file_outside_it(
    tmp_path: Path,
) -> None:
    store, secret = Store(tmp_path / "results"), tmp_path / "secret"
    secret.write_text("secret")
    store.root.mkdir()
    (store.root / "link").symlink_to(secret)
    for log in (secret, store.root / ".." / "secret", store.root / "link"):
        note = Submission(system="SLURM", id="12", key=MINE.spec.key, folder=tmp_path, log=log)
        write_submission(store, MINE.fingerprint, note)
        assert found(store) == ("submitted", running_log(store, MINE.fingerprint))
