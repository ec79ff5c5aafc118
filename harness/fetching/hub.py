"""Downloads from the hub through huggingface_hub, with its variables for mirrors, proxies, tokens and offline use.

The client resumes cut connections while it runs, but not between commands. The ETag of a large file on the hub is its
SHA-256, which is checked if the catalogue has no checksum.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from harness.errors import UserError
from harness.fetching.entries import Entry, Origin
from harness.seeds import generator


def fetch(origin: Origin, folder: Path, what: str, offline: bool) -> tuple[Path, str | None]:
    """Download a file of a data set at its pinned commit into a folder; return its path and checksum, if known.

    `offline` uses only the local hub cache, like HF_HUB_OFFLINE. Raises UserError for files that are missing, gated,
    unreachable, or served from another commit.
    """
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_download, hf_hub_url

    if offline or constants.HF_HUB_OFFLINE:
        return _cached(origin, folder, what)
    hub, revision = str(origin.hub), str(origin.revision)
    with _plain_errors(origin, what):
        found = Path(hf_hub_download(hub, origin.file, repo_type="dataset", revision=revision, local_dir=folder))
        if origin.checksum is not None:
            return found, origin.checksum
        served = get_hf_file_metadata(hf_hub_url(hub, origin.file, repo_type="dataset", revision=revision))
    if served.commit_hash != origin.revision:
        raise UserError(
            f"{what}: the hub serves {origin.file} of {served.commit_hash}, not {origin.revision}; try later"
        )
    tag = served.etag or ""
    return found, f"sha256:{tag}" if re.fullmatch(r"[0-9a-f]{64}", tag) else None


def _cached(origin: Origin, folder: Path, what: str) -> tuple[Path, str | None]:
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(str(origin.hub), origin.file, repo_type="dataset", revision=origin.revision)
    if not isinstance(found, str):
        raise UserError(
            f"{what}: offline, and {origin.file} of {origin.hub} is not in the local hub cache; run `hf download "
            f"{origin.hub} {origin.file} --repo-type dataset --revision {origin.revision}` where there is a network, "
            "or fetch without --offline and HF_HUB_OFFLINE"
        )
    target = folder / origin.file
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(found, target)
    return target, origin.checksum


def resolve(origin: Origin, what: str) -> list[Origin]:
    """The files of an origin: itself, or a seeded sample of the files that match its pattern, in order."""
    if origin.pick is None:
        return [origin]
    from huggingface_hub import HfApi

    with _plain_errors(origin, what):
        listed = HfApi().list_repo_files(str(origin.hub), repo_type="dataset", revision=origin.revision)
    files = sorted(name for name in listed if fnmatchcase(name, origin.file))
    if len(files) < origin.pick:
        raise UserError(f"{what}: the hub's {origin.hub} has {len(files)} files {origin.file}, needed {origin.pick}")
    chosen = sorted(generator(axis="pick files", files=origin.file).permutation(len(files))[: origin.pick])
    return [origin.model_copy(update={"file": files[row], "pick": None}) for row in chosen]


def size_of(entry: Entry) -> int | None:
    """Bytes of the files of an entry, if all of them are on the hub and it states them. Raises UserError."""
    from huggingface_hub import HfApi

    total = 0
    for origin in entry.origins:
        if origin.hub is None:
            return None
        files = [each.file for each in resolve(origin, entry.name)]
        with _plain_errors(origin, entry.name):
            found = HfApi().get_paths_info(origin.hub, files, repo_type="dataset", revision=origin.revision)
        total += sum(getattr(each, "size", 0) for each in found)
    return total


@contextmanager
def plain_errors(what: str, kind: Literal["model", "dataset"], place: str, by_hand: str) -> Iterator[None]:
    """Convert the client's errors into a UserError of one line.

    `place` is what is asked of the repository `what`; `by_hand` is what to do without the hub.
    """
    from huggingface_hub import errors

    word = "data set" if kind == "dataset" else "model"
    log_in = "log in with `hf auth login` or HF_TOKEN, or"
    found: Exception
    try:
        yield
    except errors.GatedRepoError as error:
        address = f"https://huggingface.co/{'datasets/' if kind == 'dataset' else ''}{what}"
        why, found = f"{what} is gated; accept its terms at {address} and {log_in}", error
    except errors.RepositoryNotFoundError as error:
        why, found = f"the hub has no {word} {what} that you may see; {log_in}", error
    except (errors.RevisionNotFoundError, errors.RemoteEntryNotFoundError) as error:
        why, found = f"the hub has no {place} (404);", error
    except (errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError) as error:
        where = "check HF_HUB_OFFLINE, HF_ENDPOINT and the proxy"
        why, found = f"the hub cannot be reached and {place} is not in its local cache; {where}, or", error
    except errors.HfHubHTTPError as error:
        why, found = f"the hub answers {error.response.status_code} for {place}; try later, or", error
    except (errors.HTTPError, OSError) as error:  # type: ignore[attr-defined]
        if isinstance(error, OSError) and error.errno is not None:
            raise
        text = " ".join(str(error).split())
        why, found = f"the connection to the hub failed: {text}; run the command again, or", error
    else:
        return
    raise UserError(f"{why} {by_hand}") from found


@contextmanager
def _plain_errors(origin: Origin, what: str) -> Iterator[None]:
    """`plain_errors` for an origin of an entry."""
    place = f"{origin.hub}/{origin.file} at {origin.revision}"
    by_hand = f"download {origin.name} manually and run `harness data import`"
    try:
        with plain_errors(str(origin.hub), "dataset", place, by_hand):
            yield
    except UserError as error:
        raise UserError(f"{what}: {error}") from error.__cause__
