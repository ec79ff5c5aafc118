"""Files on Google Drive by the real gdown, whose requests to Google go to a stand-in."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import requests
from standin import DRIVE_HOSTS, QUESTION

from harness.errors import UserError
from harness.fetching.entries import Entry, read_entries
from harness.fetching.transfer import fetch_from_drive as fetch

ID = "1TBNIM9-zL-wXb2kH8YtuYPig2oYInSSm"
CONTENT = os.urandom(3_000_000)
PAGE = {"Content-Type": "text/html; charset=utf-8"}
QUOTA = '<html><p class="uc-error-subcaption">Too many users have viewed or downloaded this file recently.</p></html>'


@pytest.fixture(autouse=True)
def _google_is_here(standin, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = requests.Session.get

    def here(session: requests.Session, url: str, **options: Any) -> requests.Response:
        for host in DRIVE_HOSTS:
            url = url.replace(host, standin.address)
        assert url.startswith(standin.address), f"{url} is not of the drive"
        return ask(session, url, **options)

    monkeypatch.setattr(requests.Session, "get", here)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("harness.fetching.transfer.TRIES", 2)


def serve(standin, path: str, content: bytes) -> None:
    standin.files[path] = content
    disposition = 'attachment; filename="words.txt"'
    standin.headers[path] = {
        "Content-Type": "application/octet-stream",
        "Content-Disposition": disposition,
    }


def serve_page(standin, text: str) -> None:
    standin.files["/uc"] = text.encode()
    standin.headers["/uc"] = PAGE


def words() -> Entry:
    origins = f'[{{ file = "words.txt", drive = "{ID}" }}]'
    text = f'[words]\ntitle="t"\nlicence="l"\norigins={origins}\noutputs=[{{ path = "a", origin = "words.txt" }}]'
    return read_entries(text)["words"]


def get(target: Path) -> list[tuple[int, int | None]]:
    seen: list[tuple[int, int | None]] = []
    fetch(words(), words().origins[0], target, lambda *pair: seen.append(pair))
    return seen


@pytest.mark.parametrize("large", [False, True])
def test_a_file_comes_and_the_question_about_a_large_one_is_answered(standin, tmp_path, large):
    if large:
        serve_page(standin, QUESTION.format(id=ID))
    serve(standin, "/download" if large else "/uc", CONTENT)
    assert get(tmp_path / "files" / "words.txt")[-1] == (len(CONTENT), len(CONTENT))
    assert (tmp_path / "files" / "words.txt").read_bytes() == CONTENT
    assert [item.name for item in (tmp_path / "files").iterdir()] == ["words.txt"]


def test_a_cut_connection_goes_on_in_the_same_and_in_the_next_command(standin, tmp_path):
    serve(standin, "/uc", CONTENT)
    standin.cuts["/uc"] = [1_000_000, 1_000_000]
    with pytest.raises(UserError, match=r"cannot be reached.*run the same command to resume"):
        get(tmp_path / "words.txt")
    get(tmp_path / "words.txt")
    assert (tmp_path / "words.txt").read_bytes() == CONTENT
    assert standin.gets("/uc") == ["", "bytes=524288-", "", "bytes=1048575-"]


def test_a_file_that_was_complete_when_the_process_died_is_taken(standin, tmp_path):
    serve(standin, "/uc", CONTENT)
    (tmp_path / "words.txtabcd1234.part").write_bytes(CONTENT)
    get(tmp_path / "words.txt")
    assert (tmp_path / "words.txt").read_bytes() == CONTENT
    assert [item.name for item in tmp_path.iterdir()] == ["words.txt"]
    assert standin.gets("/uc") == ["", "bytes=2999999-"]


@pytest.mark.parametrize(
    ("page", "why"),
    [
        (
            QUOTA,
            r"refuses words.txt: Too many users have viewed or downloaded this file recently; the quota",
        ),
        ("<html>Sign in</html>", r"refuses words.txt: Cannot retrieve the public link"),
    ],
)
def test_a_refusal_is_one_line_with_the_way_by_hand(standin, tmp_path, page, why):
    serve_page(standin, page)
    by_hand = (
        f"open https://drive.google.com/file/d/{ID} in a browser.*harness data import words FOLDER"
    )
    with pytest.raises(UserError, match=f"{why}.*{by_hand}"):
        get(tmp_path / "words.txt")
    standin.refuse["/uc"] = (404, "")
    with pytest.raises(UserError, match=f"words.txt.*{by_hand}"):
        get(tmp_path / "words.txt")
