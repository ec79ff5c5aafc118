"""Uploads to repositories of the hub through huggingface_hub, which finds the token; none is stored here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.errors import UserError
from harness.fetching.hub import plain_errors

RepositoryKind = Literal["model", "dataset"]
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True)
class Remote:
    """A repository at a commit, and its files by name."""

    name: str
    kind: RepositoryKind
    commit: str
    files: frozenset[str]


def check_repository(name: str) -> str:
    """The name of a repository. Raises UserError for one that is not OWNER/NAME."""
    if not _REPOSITORY.fullmatch(name):
        raise UserError(f"'{name}' is not the name of a repository; give OWNER/NAME")
    return name


def find_remote(name: str, kind: RepositoryKind, revision: str | None = None) -> Remote:
    """Look up a repository. Raises UserError where the hub does not show it."""
    from huggingface_hub import HfApi

    with _plain(name, kind, f"{name} at {revision or 'main'}"):
        found: Any = HfApi().repo_info(check_repository(name), repo_type=kind, revision=revision)
    return Remote(name, kind, str(found.sha), frozenset(one.rfilename for one in found.siblings or ()))


def find_or_make(name: str, kind: RepositoryKind) -> Remote:
    """Look up a repository that is to be written to; one that is not there is made, and is private."""
    from huggingface_hub import HfApi

    with _plain(name, kind, name):
        HfApi().create_repo(check_repository(name), repo_type=kind, private=True, exist_ok=True)
    return find_remote(name, kind)


def download(remote: Remote, patterns: list[str], folder: Path) -> None:
    """Download the files of a repository that match, at its commit."""
    from huggingface_hub import snapshot_download

    with _plain(remote.name, remote.kind, f"{remote.name} at {remote.commit}"):
        snapshot_download(
            remote.name, repo_type=remote.kind, revision=remote.commit, local_dir=folder, allow_patterns=patterns
        )


def upload(remote: Remote, files: Mapping[str, Path], message: str) -> str:
    """Write files by their names in one commit on top of the one that was looked up; return the new commit.

    Raises UserError, with nothing written, where somebody else has written meanwhile.
    """
    from huggingface_hub import CommitOperationAdd, HfApi

    operations = [CommitOperationAdd(name, str(path)) for name, path in sorted(files.items())]
    with _plain(remote.name, remote.kind, remote.name):
        done = HfApi().create_commit(
            remote.name, operations, commit_message=message, repo_type=remote.kind, parent_commit=remote.commit
        )
    return str(done.oid)


@contextmanager
def _plain(name: str, kind: RepositoryKind, place: str) -> Iterator[None]:
    """Errors of the client as one line; those of writing say what writing needs."""
    from huggingface_hub.errors import HfHubHTTPError

    try:
        with plain_errors(name, kind, place, "check its name"):
            yield
    except UserError as error:
        cause = error.__cause__
        status = cause.response.status_code if isinstance(cause, HfHubHTTPError) else 0
        if status in (401, 403):
            login = "log in with `hf auth login` or HF_TOKEN, with a token that may write there"
            raise UserError(f"the hub does not let you write to {name} ({status}); {login}") from cause
        if status in (409, 412):
            raise UserError(
                f"{name} was changed by someone else in the meantime; run the same command again"
            ) from cause
        raise
