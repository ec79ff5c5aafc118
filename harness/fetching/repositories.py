"""Repositories of the hub: models and files of data sets, downloaded into the client's own cache at
one commit, and uploads.

The commit of `main` at the time a model is fetched is recorded below the data root and used from
then on. Uploads use huggingface_hub, which finds the access token; this project stores none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property, partial
from glob import escape
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from harness.errors import UserError
from harness.fetching.folder import Say, books, hash_of, hold_entry
from harness.fetching.transfer import Progress, ask_hub, explain_hub_errors
from harness.files import DamagedError, add_seal, remove_seal, write_text
from harness.formatting import first_of

RepositoryKind = Literal["model", "dataset"]
#: weights that transformers and timm read, the preferred first
_WEIGHTS = (
    "model.safetensors",
    "model-*-of-*.safetensors",
    "pytorch_model.bin",
    "pytorch_model-*-of-*.bin",
)
#: kind of teacher -> weight files that it prefers to `_WEIGHTS`
_FIRST = {"open-clip": ("open_clip_model.safetensors", "open_clip_pytorch_model.safetensors")}
#: configurations, tokenizers, and the card, which can name the pooling
_TEXTS = ("README.md", "*.json", "vocab.txt", "merges.txt", "*.model", "*.codes")
#: folders of the modules of sentence-transformers, such as 1_Pooling
_MODULE = re.compile(r"\d+_\w+")
_BY_HAND = "give a folder instead (an encoder's with --encoders NAME=FOLDER, a teacher's in a profile of your own)"
#: what to do without a repository
INSTEAD: Mapping[RepositoryKind, str] = {
    "model": _BY_HAND,
    "dataset": "name files of your own in the profile",
}


@dataclass(frozen=True)
class HubFile:
    """A file of a repository; size in bytes and SHA-256 where the hub states them."""

    name: str
    size: int | None = None
    sha256: str | None = None

    @property
    def folder(self) -> str:
        return self.name.rpartition("/")[0]


@dataclass(frozen=True)
class HubRepository:
    """A model or data set of the hub at a commit, with its licence as its card states it."""

    hub: str
    commit: str
    licence: str | None
    files: tuple[HubFile, ...]
    kind: RepositoryKind = "model"

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(file.name for file in self.files)


def look_up(
    hub: str, kind: RepositoryKind, revision: str | None, instead: str = ""
) -> HubRepository:
    """Ask the hub for the files of a repository, with their sizes.

    Raises UserError, which ends in what to do `instead`, if it does not exist or is not accessible.
    """
    from huggingface_hub import HfApi

    ask = partial(HfApi().repo_info, hub, repo_type=kind, revision=revision, files_metadata=True)
    with explain_hub_errors(hub, kind, f"{hub} at {revision or 'main'}", instead):
        info: Any = ask_hub(ask)

    files = []
    for sibling in info.siblings or ():
        if ".." in sibling.rfilename.split("/"):
            raise UserError(f"{hub} lists files outside the repository; name another one")
        sha256 = sibling.lfs.sha256 if sibling.lfs else None
        files.append(HubFile(sibling.rfilename, sibling.size, sha256))

    licence = (info.card_data or {}).get("license")
    if isinstance(licence, list):
        licence = " or ".join(licence)
    return HubRepository(hub, str(info.sha), licence, tuple(files), kind)


def select_files(repository: HubRepository, patterns: Collection[str]) -> list[HubFile]:
    """The files of a data set that have these names, in which `*` stands for any text. Raises
    UserError for none.
    """
    selected: dict[HubFile, None] = {}
    for pattern in patterns:
        files = [file for file in repository.files if _is_match(file, pattern)]
        if not files:
            raise UserError(
                f"{repository.hub} at {repository.commit[:7]} has no {pattern}, but "
                f"{first_of(sorted(repository.names), 10)}; correct its name in the profile"
            )
        selected |= dict.fromkeys(files)

    return list(selected)


def _is_match(file: HubFile, pattern: str) -> bool:
    if PurePosixPath(file.name).parent != PurePosixPath(pattern).parent:
        return False
    # `*` alone is special
    return fnmatchcase(file.name, escape(pattern).replace("[*]", "*"))


def select_model_files(
    repository: HubRepository, readers: Sequence[str], beside: Collection[str] = ()
) -> list[HubFile]:
    """The files that teachers of these kinds read ('' is an encoder), and the files `beside` them,
    small ones first.

    Only one format of the weights is included, preferably safetensors. Raises UserError for a
    repository without weights or without a file of `beside`.
    """
    selected: dict[HubFile, None] = {}
    for folder in sorted({file.folder for file in repository.files}):
        if folder and not _MODULE.fullmatch(folder):
            continue
        files = [file for file in repository.files if file.folder == folder]
        selected |= dict.fromkeys(file for file in files if _is_text(file))
        for reader in readers:
            patterns = (*_FIRST.get(reader, ()), *_WEIGHTS)
            selected |= dict.fromkeys(_select_weights(files, patterns))

    if all(_is_text(file) for file in selected):
        raise UserError(
            f"{repository.hub} at {repository.commit[:7]} has no readable weights: no model.safetensors and no "
            f"pytorch_model.bin; {_BY_HAND}"
        )

    for name in beside:
        files = [file for file in repository.files if file.name == name]
        if not files:
            raise UserError(
                f"{repository.hub} at {repository.commit[:7]} has no {name}; fetch another commit, or {_BY_HAND}"
            )
        selected |= dict.fromkeys(files)

    return sorted(selected, key=lambda file: (not _is_text(file), file.name))


def _select_weights(files: Sequence[HubFile], patterns: Sequence[str]) -> list[HubFile]:
    """The files of the first pattern that any file matches."""
    for pattern in patterns:
        weights = [file for file in files if _matches_any(file, (pattern,))]
        if weights:
            return weights
    return []


def _is_text(file: HubFile) -> bool:
    return _matches_any(file, _TEXTS)


def _matches_any(file: HubFile, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(file.name.rpartition("/")[2], pattern) for pattern in patterns)


def fetch_files(repository: HubRepository, files: Sequence[HubFile], progress: Progress) -> Path:
    """Download files into the hub cache and check their hashes; return the snapshot. Raises
    UserError.
    """
    from huggingface_hub import hf_hub_download

    hub = repository.hub
    kind = repository.kind
    commit = repository.commit
    total = sum(file.size or 0 for file in files) or None
    received = 0
    path = Path()
    for file in files:
        counter = _make_counter(progress, received, total)
        with explain_hub_errors(hub, kind, f"{hub}/{file.name} at {commit}", INSTEAD[kind]):
            path = Path(
                hf_hub_download(hub, file.name, repo_type=kind, revision=commit, tqdm_class=counter)
            )

        if file.sha256 is not None and hash_of(path) != file.sha256:
            path.resolve().unlink()
            path.unlink()
            raise UserError(
                f"{hub}: {file.name} has another SHA-256 than the hub states; it was removed, fetch it again"
            )

        received += file.size or 0
        progress(received, total)

    return path.parents[files[-1].name.count("/")]


def _make_counter(progress: Progress, before: int, total: int | None) -> Any:
    """A progress bar class of the client that draws nothing and reports the bytes of one file."""
    from huggingface_hub.utils import tqdm  # type: ignore[attr-defined]

    class Counter(tqdm):
        def __init__(self, *words: Any, **options: Any) -> None:
            super().__init__(*words, **{**options, "disable": True})  # type: ignore[no-untyped-call]
            self.received = int(options.get("initial", 0))

        def update(self, n: float | None = 1) -> bool | None:
            self.received += int(n or 0)
            progress(before + self.received, total)
            return None

        def update_transfer(self, n: float) -> None:
            """Ignore bytes on the wire, which the client reports in addition to bytes of the file."""

    return Counter


def read_commit(root: Path | None, hub: str) -> str | None:
    """The commit recorded when a model was fetched. Raises UserError for a damaged record."""
    if root is None:
        return None
    return _read_commits(root).get(hub)


def record_commit(root: Path, hub: str, commit: str, say: Say) -> None:
    """Record the commit to be used as a model's `main` from now on."""
    with hold_entry(root, "models", say):
        commits = _read_commits(root)
        commits[hub] = commit
        text = add_seal(json.dumps(commits, indent=2, sort_keys=True))
        write_text(_commits_path(root), text)


def _commits_path(root: Path) -> Path:
    return books(root) / "models.json"


def _read_commits(root: Path) -> dict[str, str]:
    path = _commits_path(root)
    if not path.is_file():
        return {}

    try:
        content = path.read_bytes()
        if b'"digest"' in content:  # older files: no digest
            content = remove_seal(content)
        commits = json.loads(content)
        return {str(hub): str(commit) for hub, commit in commits.items()}
    except (OSError, DamagedError, ValueError, AttributeError, RecursionError) as error:
        raise UserError(
            f"{path} is not a record of commits: {error}; remove it and fetch the models again"
        ) from error


_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def find_or_make(name: str) -> HubRepository:
    """Look up the repository of a model; create it, as a private one, if it does not exist.

    Raises UserError unless the name is OWNER/NAME.
    """
    from huggingface_hub import HfApi

    if not _REPOSITORY.fullmatch(name):
        raise UserError(f"'{name}' is not the name of a repository; give OWNER/NAME")

    with explain_hub_errors(name, "model", name):
        HfApi().create_repo(name, repo_type="model", private=True, exist_ok=True)
    return look_up(name, "model", None)


def upload(remote: HubRepository, files: Mapping[str, Path], message: str) -> str:
    """Upload files by name in one commit on top of the commit that was looked up; return the new
    commit.

    Raises UserError, and uploads nothing, if the repository has changed meanwhile.
    """
    from huggingface_hub import CommitOperationAdd, HfApi

    operations = [CommitOperationAdd(name, str(path)) for name, path in sorted(files.items())]
    with explain_hub_errors(remote.hub, remote.kind, remote.hub):
        commit = HfApi().create_commit(
            remote.hub,
            operations,
            commit_message=message,
            repo_type=remote.kind,
            parent_commit=remote.commit,
        )

    return str(commit.oid)
