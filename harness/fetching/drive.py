"""Downloads from Google Drive through gdown, which handles the drive's confirmation for large files.

Proxies come from the environment (requests). Received bytes are kept beside the file, and the next command goes on.
"""

from __future__ import annotations

from pathlib import Path

from harness.errors import UserError
from harness.fetching.download import TIMEOUT, TRIES, Progress
from harness.fetching.entries import Entry, Origin

#: what gdown writes around the drive's own words
_BEFORE, _AFTER = "Failed to retrieve file url: ", " You may still be able to access the file from the browser"


def fetch(entry: Entry, origin: Origin, target: Path, progress: Progress) -> None:
    """Download a file of the drive. Raises UserError, with the way by hand, if the drive refuses or is not reached."""
    import gdown
    import requests
    from gdown.exceptions import DownloadError, FileURLRetrievalError

    target.parent.mkdir(parents=True, exist_ok=True)
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
        why = _words(error).removeprefix(_BEFORE).partition(_AFTER)[0].rstrip(".")
        raise UserError(
            f"{entry.name}: Google Drive refuses {origin.name}: {why}; the quota is reset after a day: run the "
            f"command again then, {by_hand}"
        ) from error
    except requests.HTTPError as error:
        why = f"answers {error.response.status_code} for"
        raise UserError(f"{entry.name}: Google Drive {why} {origin.name}; try later, {by_hand}") from error
    except (DownloadError, requests.RequestException) as error:
        raise UserError(
            f"{entry.name}: {origin.name} on Google Drive cannot be reached: {_words(error)}; received bytes are kept, "
            f"run the same command to resume (proxies: HTTPS_PROXY), {by_hand}"
        ) from error


def _words(error: Exception) -> str:
    return " ".join(str(error).split())
