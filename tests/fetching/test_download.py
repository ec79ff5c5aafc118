"""Plain downloads: whole, cut and going on, refused, with the disk full; shown as plain lines
without a terminal.
"""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import pytest

from harness.errors import UserError
from harness.fetching.downloads import LINE_EVERY_S, show_downloads
from harness.fetching.entries import Entry, read_entries
from harness.fetching.entry_files import fetch
from harness.fetching.transfer import TRIES, download

CONTENT = os.urandom(3_000_000)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def get(standin, target: Path) -> tuple[list[str], list[tuple[int, int | None]]]:
    """What is said, and the progress."""
    said: list[str] = []
    seen: list[tuple[int, int | None]] = []
    url = f"{standin.address}/plain/data.bin"
    download(url, target, "data", said.append, lambda *pair: seen.append(pair), pause=0.0)
    return said, seen


def entry(standin, about: str = "") -> Entry:
    text = f"""
        [data]
        title = "data"
        licence = "none"
        {about}
        outputs = [{{ path = "data/data.bin", origin = "data.bin" }}]
        [[data.origins]]
        file = "data.bin"
        url = "{standin.address}/plain/data.bin"
        checksum = "md5:{hashlib.md5(CONTENT).hexdigest()}"
    """
    return read_entries(text)["data"]


def bring(root: Path, made: Entry) -> None:
    fetch(root, made, print, lambda _: lambda *_: None)


def test_several_cuts_go_on_at_the_byte_that_came_last(standin, tmp_path):
    standin.files["/plain/data.bin"] = CONTENT
    standin.cuts["/plain/data.bin"] = [1_000_000, 10, 1_500_000]
    lines, seen = get(standin, tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == CONTENT
    assert [item.name for item in tmp_path.iterdir()] == ["x"]
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert standin.gets("/plain/data.bin") == [
        "",
        "bytes=1000000-",
        "bytes=1000010-",
        "bytes=2500010-",
    ]
    assert len(lines) == 3


@pytest.mark.parametrize("now", [CONTENT, CONTENT[::-1]], ids=["same", "changed"])
def test_a_later_command_goes_on_or_starts_again_where_the_file_has_changed(standin, tmp_path, now):
    standin.files["/plain/data.bin"] = CONTENT
    standin.cuts["/plain/data.bin"] = [1_000_000] + [0] * TRIES
    with pytest.raises(UserError, match="1000000 bytes are kept"):
        get(standin, tmp_path / "x")
    assert not (tmp_path / "x").exists()
    standin.cuts.clear()
    standin.asked.clear()
    standin.files["/plain/data.bin"] = now
    get(standin, tmp_path / "x")
    assert standin.gets("/plain/data.bin") == ["bytes=1000000-"]
    assert (tmp_path / "x").read_bytes() == now


@pytest.mark.parametrize("now", [CONTENT, CONTENT[:-1]], ids=["same", "changed"])
def test_a_file_that_was_complete_when_the_process_died_is_taken(
    standin, tmp_path, monkeypatch, now
):
    def dies(_: int) -> None:
        raise KeyboardInterrupt

    standin.files["/plain/data.bin"] = CONTENT
    with monkeypatch.context() as patch:
        patch.setattr("harness.fetching.transfer.flush", dies)
        with pytest.raises(KeyboardInterrupt):
            get(standin, tmp_path / "x")
    assert (tmp_path / "x.part").read_bytes() == CONTENT
    standin.asked.clear()
    standin.files["/plain/data.bin"] = now
    get(standin, tmp_path / "x")
    assert standin.gets("/plain/data.bin") == [f"bytes={len(CONTENT)}-"]
    assert (tmp_path / "x").read_bytes() == now
    assert [item.name for item in tmp_path.iterdir()] == ["x"]


def test_a_server_without_ranges_starts_again(standin, tmp_path):
    standin.ranges = False
    standin.files["/plain/data.bin"] = CONTENT
    standin.cuts["/plain/data.bin"] = [1_000_000]
    get(standin, tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("status", "words", "times"),
    [
        (404, "404", 1),
        (401, "requires a login", 1),
        (403, "refuses", 1),
        (410, "removed", 1),
        (503, "503", TRIES),
    ],
)
def test_refusals_are_said_at_once_and_an_unsteady_server_is_asked_again(
    standin, tmp_path, status, words, times
):
    standin.refuse["/plain/data.bin"] = (status, "")
    with pytest.raises(UserError, match=words):
        get(standin, tmp_path / "x")
    assert len(standin.gets("/plain/data.bin")) == times
    assert list(tmp_path.iterdir()) == []


def test_nobody_there(tmp_path):
    with pytest.raises(UserError, match="cannot be reached"):
        download(
            "http://127.0.0.1:9/x",
            tmp_path / "x",
            "data",
            lambda _: None,
            lambda *_: None,
            pause=0.0,
        )


def test_an_entry_with_a_wrong_checksum(standin, tmp_path):
    standin.files["/plain/data.bin"] = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])
    made = entry(standin)
    with pytest.raises(UserError, match="moved to") as caught:
        bring(tmp_path, made)
    (aside,) = (tmp_path / ".catalogue" / "rejected").iterdir()
    assert str(aside) in str(caught.value)
    assert not (tmp_path / "data").exists()
    standin.files["/plain/data.bin"] = CONTENT
    bring(tmp_path, made)
    assert (tmp_path / "data" / "data.bin").read_bytes() == CONTENT


def test_a_full_disk_while_writing_outputs(standin, tmp_path, monkeypatch):
    """ENOSPC where the kernel reports it late: at the flush."""
    standin.files["/plain/data.bin"] = CONTENT
    made = entry(standin)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "data.bin.part"))

    with monkeypatch.context() as patch:
        patch.setattr("harness.files.os.fsync", full)
        with pytest.raises(UserError, match="No space left on device"):
            bring(tmp_path, made)
    assert not (tmp_path / "data").exists()
    assert not (tmp_path / ".catalogue" / "data.sha256").exists()
    bring(tmp_path, made)
    assert (tmp_path / "data" / "data.bin").read_bytes() == CONTENT


def test_what_cannot_fit_is_refused_before(standin, tmp_path, monkeypatch):
    made = entry(standin, "about = 5_000_000")
    usage = type("Usage", (), {"free": 4_000_000})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    with pytest.raises(UserError, match=r"needs about 5 MB, .* has only 4 MB free"):
        bring(tmp_path, made)
    assert standin.asked == []


def test_plain_lines_come_now_and_then_with_amount_and_rate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 100.0
    monkeypatch.setattr("harness.fetching.downloads.monotonic", lambda: now)
    with show_downloads() as (say, watch):
        say("data: fetching [it] from /somewhere")
        progress = watch("data.bin")
        progress(1_000_000, 50_000_000)
        now += LINE_EVERY_S - 1
        progress(9_000_000, 50_000_000)
        now += 1
        progress(21_000_000, 50_000_000)
        progress(22_000_000, None)
    assert capsys.readouterr().err.splitlines() == [
        "data: fetching [it] from /somewhere",
        "data.bin: 21 MB of 50 MB, 2 MB/s",
    ]
