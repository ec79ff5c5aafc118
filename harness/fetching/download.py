"""Resumable downloads.

Bytes go to a .part file, next to a note with the server's ETag or date, so that a range is requested only of the same
content (If-Range). Proxies come from the environment (urllib). A complete file is renamed to its final name.
"""

from __future__ import annotations

import http.client
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from email.message import Message
from pathlib import Path

from harness.errors import UserError
from harness.fetching.places import Say
from harness.files import write_text

TRIES = 5
TIMEOUT = 30.0
BLOCK = 1 << 20
#: called with bytes received and bytes in total, None if unknown
Progress = Callable[[int, int | None], None]
#: status of a server that will not answer otherwise later -> what it means
REFUSALS = {
    401: "the server requires a login (401)",
    403: "the server refuses (403)",
    404: "not found at its address (404)",
    410: "it has been removed (410)",
}
_CUT = (http.client.HTTPException, urllib.error.URLError, ConnectionError, TimeoutError)


class Cut(Exception):  # noqa: N818
    """The connection ended before the file was complete."""


def download(url: str, target: Path, what: str, say: Say, progress: Progress, pause: float = 1.0) -> None:
    """Download a file, resuming an interrupted download of this or an earlier call.

    `pause` is the wait in seconds before the first retry, doubled each time. Raises UserError if the server refuses,
    or after TRIES attempts in a row without progress.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    failed = 0
    while True:
        before = _size(part)
        try:
            _once(url, part, progress)
            break
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code not in (408, 429):
                why = REFUSALS.get(error.code, f"the server answers {error.code}")
                raise UserError(f"{what}: {why} ({url}); download it manually and run `harness data import`") from error
            reason = _reason(error)
        except (*_CUT, Cut) as error:
            reason = _reason(error)
        failed = 0 if _size(part) > before else failed + 1
        if failed >= TRIES:
            raise UserError(
                f"{what}: {url} cannot be reached: {reason}; {_size(part)} bytes are kept; run the same command "
                "to resume (proxies: HTTPS_PROXY)"
            )
        say(f"{what}: {reason}; resuming at byte {_size(part)}")
        time.sleep(pause * 2**failed)
    part.replace(target)
    _note(part).unlink(missing_ok=True)


def _once(url: str, part: Path, progress: Progress) -> None:
    """Download over one connection into the part file. Raises Cut, urllib's errors or OSError."""
    known = _known(part)
    have = _size(part) if known else 0
    request = urllib.request.Request(url, headers={"Accept-Encoding": "identity", "User-Agent": "harness"})
    if have:
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", known)
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        part.unlink()
        raise Cut("the server does not support resuming at this position") from error
    with response:
        goes_on = response.status == 206 and str(response.headers.get("Content-Range", "")).startswith(f"bytes {have}-")
        have = have if goes_on else 0
        _remember(part, response.headers)
        length = response.headers.get("Content-Length")
        total = have + int(length) if length is not None else None
        with part.open("r+b" if have else "wb") as out:
            out.seek(have)
            out.truncate()
            while block := response.read(BLOCK):
                out.write(block)
                progress(out.tell(), total)
            have = out.tell()
            out.flush()
            os.fsync(out.fileno())
    if total is not None and have < total:
        raise Cut("the connection was cut")


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _note(part: Path) -> Path:
    return part.with_name(f"{part.name}.from")


def _known(part: Path) -> str:
    """The ETag or date of the part's content, or '' if a range cannot be requested safely."""
    try:
        return str(json.loads(_note(part).read_text(encoding="utf-8"))["validator"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _remember(part: Path, headers: Message) -> None:
    """Save the strong ETag or the date of the content; weak ETags do not identify bytes."""
    tag = headers.get("ETag")
    validator = tag if tag and not tag.startswith("W/") else headers.get("Last-Modified")
    if validator is None:
        _note(part).unlink(missing_ok=True)
    else:
        write_text(_note(part), json.dumps({"validator": validator}))


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answers {error.code}"
    if isinstance(error, http.client.IncompleteRead):
        return "the connection was cut"
    return " ".join(str(getattr(error, "reason", None) or error or type(error).__name__).split())
