"""Downloads of single files: over HTTP, from Google Drive, and from the hub.

Over HTTP (urllib), bytes go to a .part file, next to a note with the server's ETag or date, so that
a download resumes only if the content is the same (If-Range); a complete file is renamed to its
final name. gdown handles the drive's confirmation for large files. huggingface_hub reads its own
variables for mirrors, proxies, tokens and offline use; it resumes cut connections while it runs,
but not between commands. The ETag of a large file on the hub is its SHA-256, which is checked if
the catalogue has no checksum. Proxies come from the environment.
"""

from __future__ import annotations

import http.client
import json
import logging
import os
import re
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager
from email.message import Message
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Literal, TypeVar

from harness.errors import UserError
from harness.fetching.entries import Entry, Origin
from harness.fetching.folder import Say
from harness.files import flush, write_text
from harness.seeds import make_generator

TRIES = 5
TIMEOUT = 30.0
BLOCK = 1 << 20
#: called with bytes received and bytes in total, None if unknown
Progress = Callable[[int, int | None], None]
#: HTTP status for which retrying is pointless -> its meaning
REFUSALS = {
    401: "the server requires a login (401)",
    403: "the server refuses (403)",
    404: "not found at its address (404)",
    410: "it has been removed (410)",
}
#: seconds after which a word says that the hub has not answered a question, and after which it is
#: asked no longer
PATIENCE_S = 5.0
ANSWER_S = 30.0
T = TypeVar("T")

log = logging.getLogger(__name__)
_CUT = (http.client.HTTPException, urllib.error.URLError, ConnectionError, TimeoutError)


def download(
    url: str, target: Path, what: str, say: Say, progress: Progress, pause: float = 1.0
) -> None:
    """Download a file, resuming an interrupted download of this or an earlier call.

    `pause` is the wait in seconds before the first retry, doubled each time. Raises UserError if
    the server refuses, or after TRIES attempts in a row without progress.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    attempts = 0
    while True:
        previous_size = _get_size(part)
        try:
            _download_part(url, part, progress)
            break
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code not in (408, 429):
                refusal = REFUSALS.get(error.code, f"the server answers {error.code}")
                raise UserError(
                    f"{what}: {refusal} ({url}); download it manually and run `harness data import`"
                ) from error
            reason = _describe_cut(error)
        except _CUT as error:
            reason = _describe_cut(error)

        size = _get_size(part)
        attempts = 0 if size > previous_size else attempts + 1
        if attempts >= TRIES:
            raise UserError(
                f"{what}: {url} cannot be reached: {reason}; {size} bytes are kept; run the same command "
                "to resume (proxies: HTTPS_PROXY)"
            )
        say(f"{what}: {reason}; resuming at byte {size}")
        time.sleep(pause * 2**attempts)

    part.replace(target)
    _note_path(part).unlink(missing_ok=True)


def _download_part(url: str, part: Path, progress: Progress) -> None:
    """Download over one connection into the part file. Raises one of _CUT, or OSError."""
    validator = _read_validator(part)
    start = _get_size(part) if validator else 0
    headers = {"Accept-Encoding": "identity", "User-Agent": "harness"}
    if start:
        headers["Range"] = f"bytes={start}-"
        headers["If-Range"] = validator
    try:
        response = urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=TIMEOUT
        )
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        if error.headers.get("Content-Range") == f"bytes */{start}":
            return  # the last process died when the file was complete
        part.unlink()
        raise ConnectionError("the server does not support resuming at this position") from error

    with response:
        content_range = str(response.headers.get("Content-Range", ""))
        # otherwise the content has changed, or the server sends all of it
        if response.status != 206 or not content_range.startswith(f"bytes {start}-"):
            start = 0
        _write_validator(part, response.headers)
        length = response.headers.get("Content-Length")
        total = None if length is None else start + int(length)
        with part.open("r+b" if start else "wb") as out:
            out.seek(start)
            out.truncate()
            while block := response.read(BLOCK):
                out.write(block)
                progress(out.tell(), total)
            size = out.tell()
            out.flush()
            flush(out.fileno())

    if total is not None and size < total:
        raise ConnectionError("the connection was cut")


def _get_size(path: Path) -> int:
    if not path.is_file():
        return 0
    return path.stat().st_size


def _note_path(part: Path) -> Path:
    return part.with_name(f"{part.name}.from")


def _read_validator(part: Path) -> str:
    """The ETag or date of the partial file, or '' if the download cannot be resumed safely."""
    try:
        return str(json.loads(_note_path(part).read_text(encoding="utf-8"))["validator"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _write_validator(part: Path, headers: Message) -> None:
    """Save the strong ETag or the date of the content; weak ETags do not identify bytes."""
    tag = headers.get("ETag")
    validator = tag if tag and not tag.startswith("W/") else headers.get("Last-Modified")
    if validator is None:
        _note_path(part).unlink(missing_ok=True)
    else:
        write_text(_note_path(part), json.dumps({"validator": validator}))


def _describe_cut(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answers {error.code}"
    if isinstance(error, http.client.IncompleteRead):
        return "the connection was cut"
    reason = getattr(error, "reason", None)
    return " ".join(str(reason or error or type(error).__name__).split())


#: text that gdown adds around the drive's own message
_BEFORE = "Failed to retrieve file url: "
_AFTER = " You may still be able to access the file from the browser"


def fetch_from_drive(entry: Entry, origin: Origin, target: Path, progress: Progress) -> None:
    """Download a file of the drive. Raises UserError, with the manual steps, if the drive refuses
    or is unreachable.
    """
    import gdown
    import requests
    from gdown.exceptions import DownloadError, FileURLRetrievalError

    target.parent.mkdir(parents=True, exist_ok=True)
    for part in target.parent.glob(f"{target.name}????????.part"):
        os.truncate(part, max(0, part.stat().st_size - 1))  # gdown cannot resume a complete one
    by_hand = f"or open {origin.address} in a browser, save {origin.name} in a folder and run `{entry.import_command}`"
    try:
        gdown.download(
            id=origin.drive,
            output=str(target),
            quiet=True,
            use_cookies=False,
            resume=True,
            progress=progress,
            timeout=TIMEOUT,
            retries=TRIES - 1,
        )
    except FileURLRetrievalError as error:
        why = _join_words(error).removeprefix(_BEFORE).partition(_AFTER)[0].rstrip(".")
        raise UserError(
            f"{entry.name}: Google Drive refuses {origin.name}: {why}; the quota is reset after a day: run the "
            f"command again then, {by_hand}"
        ) from error
    except requests.HTTPError as error:
        why = f"answers {error.response.status_code} for"
        raise UserError(
            f"{entry.name}: Google Drive {why} {origin.name}; try later, {by_hand}"
        ) from error
    except (DownloadError, requests.RequestException) as error:
        raise UserError(
            f"{entry.name}: {origin.name} on Google Drive cannot be reached: {_join_words(error)}; received bytes are "
            f"kept, run the same command to resume (proxies: HTTPS_PROXY), {by_hand}"
        ) from error


def _join_words(error: Exception) -> str:
    return " ".join(str(error).split())


def fetch_from_hub(
    origin: Origin, folder: Path, what: str, offline: bool
) -> tuple[Path, str | None]:
    """Download a file of a data set at its pinned commit into a folder; return its path and
    checksum, if known.

    `offline` uses only the local hub cache, like HF_HUB_OFFLINE. Raises UserError for files that
    are missing, gated, unreachable, or served from another commit.
    """
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_download, hf_hub_url

    if offline or constants.HF_HUB_OFFLINE:
        return _copy_from_cache(origin, folder, what)

    hub = str(origin.hub)
    revision = str(origin.revision)
    with _explain_origin_errors(origin, what):
        path = Path(
            hf_hub_download(
                hub, origin.file, repo_type="dataset", revision=revision, local_dir=folder
            )
        )
        if origin.checksum is not None:
            return path, origin.checksum
        address = hf_hub_url(hub, origin.file, repo_type="dataset", revision=revision)
        metadata = ask_hub(lambda: get_hf_file_metadata(address))

    if metadata.commit_hash != origin.revision:
        raise UserError(
            f"{what}: the hub serves {origin.file} of {metadata.commit_hash}, not {origin.revision}; try later"
        )

    tag = metadata.etag or ""
    if not re.fullmatch(r"[0-9a-f]{64}", tag):
        return path, None
    return path, f"sha256:{tag}"


def _copy_from_cache(origin: Origin, folder: Path, what: str) -> tuple[Path, str | None]:
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(
        str(origin.hub), origin.file, repo_type="dataset", revision=origin.revision
    )
    if not isinstance(cached, str):
        raise UserError(
            f"{what}: offline, and {origin.file} of {origin.hub} is not in the local hub cache; run `hf download "
            f"{origin.hub} {origin.file} --repo-type dataset --revision {origin.revision}` where there is a network, "
            "or fetch without --offline and HF_HUB_OFFLINE"
        )

    target = folder / origin.file
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(cached, target)
    return target, origin.checksum


def resolve(origin: Origin, what: str) -> list[Origin]:
    """The files of an origin: itself, or a seeded sample of the files that match its pattern, in
    order.
    """
    if origin.pick is None:
        return [origin]

    from huggingface_hub import HfApi

    ask = partial(
        HfApi().list_repo_files, str(origin.hub), repo_type="dataset", revision=origin.revision
    )
    with _explain_origin_errors(origin, what):
        all_files = ask_hub(ask)
    files = sorted(name for name in all_files if fnmatchcase(name, origin.file))
    if len(files) < origin.pick:
        raise UserError(
            f"{what}: the hub's {origin.hub} has {len(files)} files {origin.file}, needed {origin.pick}"
        )

    order = make_generator(axis="pick files", files=origin.file).permutation(len(files))
    rows = sorted(order[: origin.pick])
    return [origin.model_copy(update={"file": files[row], "pick": None}) for row in rows]


def measure_on_hub(entry: Entry) -> int | None:
    """Bytes of an entry's files, if all are on the hub and the hub states their sizes. Raises
    UserError.
    """
    from huggingface_hub import HfApi

    total = 0
    for origin in entry.origins:
        if origin.hub is None:
            return None

        files = [file.file for file in resolve(origin, entry.name)]
        ask = partial(
            HfApi().get_paths_info,
            origin.hub,
            files,
            repo_type="dataset",
            revision=origin.revision,
        )
        with _explain_origin_errors(origin, entry.name):
            infos = ask_hub(ask)

        # a file that is not there is not among them
        if len(infos) < len(files):
            return None
        for info in infos:
            size = getattr(info, "size", None)
            if size is None:
                return None
            total += size

    return total


def ask_hub(ask: Callable[[], T]) -> T:
    """The hub's answer to a question. Logs whom it waits for; raises TimeoutError after ANSWER_S
    seconds.
    """
    from huggingface_hub import constants

    answer = Future[T]()

    def carry_out() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:
            answer.set_exception(error)

    # the client would wait for ever for an answer that comes byte by byte; this thread ends with
    # the process
    Thread(target=carry_out, daemon=True).start()
    if not wait([answer], PATIENCE_S).done:
        log.warning("waiting for the hub at %s, for %d s at most", constants.ENDPOINT, ANSWER_S)
    if not wait([answer], ANSWER_S - PATIENCE_S).done:
        raise TimeoutError(f"{constants.ENDPOINT} has not answered for {ANSWER_S:.0f} s")
    return answer.result()


@contextmanager
def explain_hub_errors(
    repository: str,
    kind: Literal["model", "dataset"],
    remote: str,
    by_hand: str = "",
    about: str = "",
) -> Iterator[None]:
    """Convert the client's errors into a UserError of one line, which begins with `about`.

    `remote` is what is asked of the repository; `by_hand` is what to do without the hub.
    """
    try:
        yield
    except Exception as error:
        reason = _explain_hub_error(error, repository, kind, remote)
        if not reason:
            raise
        advice = f", or {by_hand}" if by_hand else ""
        raise UserError(f"{about}{reason}{advice}") from error


def _explain_hub_error(error: Exception, repository: str, kind: str, remote: str) -> str:
    """What an error of the hub's client means and what to do; empty for any other error."""
    from huggingface_hub import constants, errors

    is_data_set = kind == "dataset"
    log_in = "log in with `hf auth login` or HF_TOKEN"
    if isinstance(error, errors.GatedRepoError):
        path = f"datasets/{repository}" if is_data_set else repository
        address = f"https://huggingface.co/{path}"
        return f"{repository} is gated; accept its terms at {address} and {log_in}"

    if isinstance(error, errors.RepositoryNotFoundError):
        word = "data set" if is_data_set else "model"
        return f"the hub has no {word} {repository} that you may see; check its name, {log_in}"
    if isinstance(error, errors.RevisionNotFoundError | errors.RemoteEntryNotFoundError):
        return f"the hub has no {remote} (404); check its name"
    if isinstance(error, errors.OfflineModeIsEnabled | errors.LocalEntryNotFoundError):
        advice = "check HF_HUB_OFFLINE, HF_ENDPOINT and the proxy"
        return f"the hub cannot be reached and {remote} is not in its local cache; {advice}"
    if isinstance(error, errors.HfHubHTTPError):
        status = error.response.status_code
        if status in (401, 403):
            return f"the hub does not let you use {repository} ({status}); {log_in}, with a token that may do this"
        if status in (409, 412):
            return f"{repository} was changed by someone else in the meantime; run the same command again"
        return f"the hub answers {status} for {remote}; try later"

    if isinstance(error, ValueError | LookupError | TypeError | AttributeError | RecursionError):
        advice = "check HF_ENDPOINT and the proxy, or try later"
        return f"{constants.ENDPOINT} does not answer as the hub does for {remote}; {advice}"

    is_cut = isinstance(error, errors.HTTPError)  # type: ignore[attr-defined]
    if is_cut or (isinstance(error, OSError) and error.errno is None):
        return f"the connection to the hub failed: {_join_words(error)}; run the command again"
    return ""


def _explain_origin_errors(origin: Origin, what: str) -> AbstractContextManager[None]:
    """`explain_hub_errors` for an origin of an entry."""
    remote = f"{origin.hub}/{origin.file} at {origin.revision}"
    by_hand = f"download {origin.name} manually and run `harness data import`"
    return explain_hub_errors(str(origin.hub), "dataset", remote, by_hand, f"{what}: ")
