"""Plain downloads that go on where they stopped.

Bytes go to a .part file; beside it lies what the server said of the file, so that a range is only asked for of the
same content (If-Range). Proxies are those of the environment (urllib). A file that is whole is renamed; nothing else
ever has its name.
"""

from __future__ import annotations

import http.client
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.catalogue.places import Say
from harness.errors import UserError
from harness.sources import write_text

TRIES = 5
TIMEOUT = 30.0
BLOCK = 1 << 20
#: told bytes that are there and bytes in all, None where the server does not say
Progress = Callable[[int, int | None], None]
_CUT = (http.client.HTTPException, urllib.error.URLError, ConnectionError, TimeoutError)


class Cut(Exception):  # noqa: N818
    """The connection ended before the file did."""


def download(url: str, target: Path, what: str, say: Say, progress: Progress, pause: float = 1.0) -> None:
    """Fetch an address into a file; an interrupted download goes on, here and in a later call.

    `pause` is the wait before the second try in seconds, doubled each time. Raises UserError for what the server
    refuses, and when the connection was cut as often as TRIES without a byte more.
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
                raise UserError(f"{what}: {_refusal(error.code)} ({url})") from error
            why: Exception = error
        except (*_CUT, Cut) as error:
            why = error
        failed = 0 if _size(part) > before else failed + 1
        if failed >= TRIES:
            raise UserError(
                f"{what}: {url} cannot be reached: {_reason(why)}; {_size(part)} bytes are kept, the same command "
                "goes on with them (proxies: HTTPS_PROXY)"
            ) from why
        say(f"{what}: {_reason(why)}; going on at byte {_size(part)}")
        time.sleep(pause * 2**failed)
    part.replace(target)
    _note(part).unlink(missing_ok=True)


def _once(url: str, part: Path, progress: Progress) -> None:
    """One connection. Raises Cut, urllib's errors or OSError; the part keeps what came."""
    have, known = _size(part), _known(part)
    if have and known is None:
        have = 0
    request = urllib.request.Request(url, headers={"Accept-Encoding": "identity", "User-Agent": "harness"})
    if have:
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", str(known))
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        part.unlink()
        raise Cut("the server has no such range") from error
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


def _known(part: Path) -> str | None:
    """What names the content of the part; None where a range cannot safely be asked for."""
    try:
        return str(json.loads(_note(part).read_text(encoding="utf-8"))["validator"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _remember(part: Path, headers: Any) -> None:
    """Keep the strong ETag or the date of the content; weak tags name no bytes."""
    tag = headers.get("ETag")
    validator = tag if tag and not tag.startswith("W/") else headers.get("Last-Modified")
    if validator is None:
        _note(part).unlink(missing_ok=True)
    else:
        write_text(_note(part), json.dumps({"validator": validator}))


def _refusal(code: int) -> str:
    known = {
        401: "the server wants a login (401); get it by hand and run `harness data import`",
        403: "the server refuses (403); get it by hand and run `harness data import`",
        404: "it is not at its address any more (404); get it by hand and run `harness data import`",
        410: "it has been taken down (410); get it by hand and run `harness data import`",
    }
    return known.get(code, f"the server answers {code}; try later, or get it by hand and run `harness data import`")


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answers {error.code}"
    if isinstance(error, http.client.IncompleteRead):
        return "the connection was cut"
    return " ".join(str(reason or error or type(error).__name__).split())
