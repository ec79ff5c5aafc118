"""The location of an encoder or a teacher: a folder, or a hub model in the local cache; nothing is
loaded.

Nothing here imports torch or transformers, so that planning a run is fast.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from harness.encoders.modules import list_module_files
from harness.errors import MissingData, UserError
from harness.files import read_regular
from harness.sources import Missing, Source, digest, hash_file
from harness.spec import RUN

#: Files that a model's output depends on; a README or a second weight format does not count.
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
_SHARD = re.compile(r"(.+)-\d+-of-(\d+)\.")
_PATTERNS = (*_WEIGHTS, "*.json", "vocab.txt", "merges.txt", "*.model", "*.codes")
#: every model has one of these: that of transformers and timm, of sentence-transformers or of
#: open_clip
_CONFIGURATIONS = ("config.json", "modules.json", "open_clip_config.json")
#: names of files in the hub's cache: the SHA-256 of their bytes, or git's id of small ones
_SHA256 = re.compile(r"[0-9a-f]{64}")
_GIT_ID = re.compile(r"[0-9a-f]{40}")
#: stands for the commit of main in the local cache, which then counts as pinned
MAIN = "main"


@dataclass(frozen=True)
class MissingModel(Missing):
    """A hub model that is not in the local cache, at a commit or MAIN.

    `reader` is the kind of teacher that reads the model, '' for an encoder; `beside` is an
    additional file to read, '' for none; `about` is the approximate size in bytes.
    """

    hub: str
    revision: str
    reader: str = ""
    beside: str = ""
    about: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class FolderModel(Source):
    """A model in a local folder; its fingerprint is its content.

    `trusted` allows code in the folder to be executed, and that code is then part of the content;
    `beside` is an additional file, read if it exists.
    """

    folder: Path
    how: str = "give the folder of a saved model, with config.json and its weights"
    trusted: bool = False
    beside: str = ""

    @property
    def typed(self) -> str:
        """The model as `--encoders` takes it after NAME=."""
        return str(self.folder)

    def missing(self, root: Path | None) -> list[Missing]:
        if _has_weights(self.folder):
            return []
        return [Missing(f"model weights in {self.folder}", self.how)]

    def fingerprint(self, root: Path | None) -> str:
        """Hash weights, configurations and tokenizer files by name, and the files of
        sentence-transformers' modules.
        """
        files = set(list_model_files(self.folder))
        if self.trusted:
            files.update(self.folder.glob("*.py"))
        if self.has_beside:
            files.add(self.folder / self.beside)

        names = [path.relative_to(self.folder).as_posix() for path in sorted(files)]
        return digest(*([name, hash_file(self.folder / name)] for name in names))

    @property
    def has_beside(self) -> bool:
        return bool(self.beside) and (self.folder / self.beside).is_file()

    def path(self) -> Path:
        self.require(None)
        return self.folder


class RunModelFolder(FolderModel):
    """The best model of an earlier run, in that run's work folder, which is named by the run's
    fingerprint.
    """

    @property
    def run(self) -> str:
        return self.folder.parent.name

    @property
    def typed(self) -> str:
        return f"{RUN}{self.folder}"

    def fingerprint(self, root: Path | None) -> str:
        """A hash of the run's fingerprint and of its model's content."""
        return digest("run", self.run, super().fingerprint(root))


@dataclass(frozen=True)
class HubModel(Source):
    """A hub model at a pinned commit, or at the cached commit of 'main'; nothing is downloaded.

    `about` is the approximate size of its files in bytes, where it is known; `trusted` allows code
    in its repository to be executed; `beside` is an additional file to read, '' for none.
    """

    hub: str
    revision: str
    trusted: bool = False
    beside: str = ""
    about: int | None = field(default=None, compare=False)

    def missing(self, root: Path | None) -> list[Missing]:
        if self._find_snapshot():
            return []
        missing = MissingModel(
            f"the weights of {self.hub} at {self.revision}",
            f"run `hf download {self.hub} --revision {self.revision}`, or give a folder "
            "(an encoder's with --encoders NAME=FOLDER, a teacher's in a profile of your own)",
            self.hub,
            self.revision,
            beside=self.beside,
            about=self.about,
        )
        return [missing]

    def fingerprint(self, root: Path | None) -> str:
        """A hash of the commit. Raises UserError where a file in the cache is not that of the hub."""
        snapshot = self._find_snapshot()
        if snapshot is not None:
            check_snapshot(snapshot)
        commit = self.path().name if self.revision == MAIN else self.revision
        if self.trusted:
            return digest(self.hub, commit, "trusted")
        return digest(self.hub, commit)

    def path(self) -> Path:
        snapshot = self._find_snapshot()
        if snapshot is None:
            raise MissingData(str(self.missing(None)[0]))
        return snapshot

    def _find_snapshot(self) -> Path | None:
        """The folder of the model in the hub's cache; None if it is not there, or not whole."""
        from huggingface_hub import constants

        # in the layout of the cache, since the hub's function for it takes long to import
        stored = Path(constants.HF_HUB_CACHE, f"models--{self.hub.replace('/', '--')}")
        named_commit = stored / "refs" / self.revision
        commit = named_commit.read_text("utf-8") if named_commit.is_file() else self.revision
        folder = stored / "snapshots" / commit
        if not any((folder / name).exists() for name in _CONFIGURATIONS):
            return None

        has_files = _has_weights(folder) and (folder / self.beside).exists()
        return folder if has_files and _is_whole(folder) else None

    @property
    def has_beside(self) -> bool:
        """Whether there is a file beside the weights; a snapshot without it counts as missing."""
        return bool(self.beside)


ModelSource = FolderModel | HubModel


def list_model_files(folder: Path) -> list[Path]:
    """Weights, configurations and tokenizer files of a model, and the files of its modules."""
    files = {path for pattern in _PATTERNS for path in folder.glob(pattern)}
    return sorted({*files, *list_module_files(folder)})


def check_snapshot(folder: Path) -> None:
    """Raise UserError for a file of a model whose bytes are not those that the hub's cache states.

    The files of a snapshot are links to files that are named by their content; copies state nothing.
    """
    for path in list_model_files(folder):
        stored = path.resolve()
        if _SHA256.fullmatch(stored.name):
            content = hash_file(stored)
        elif _GIT_ID.fullmatch(stored.name):
            content = compute_git_id(read_regular(stored))
        else:
            continue
        if content != stored.name:
            raise UserError(
                f"{path} is not the file that the hub stated, its bytes have changed since; remove "
                f"{stored} and fetch the model again"
            )


def compute_git_id(content: bytes) -> str:
    """The id that git gives a file of this content, 40 hex digits."""
    header = f"blob {len(content)}\0".encode()
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()


def parse_model(typed: str) -> FolderModel:
    """The model that `typed` names: a folder, or that of a run."""
    folder = Path(typed.removeprefix(RUN))
    return RunModelFolder(folder) if typed.startswith(RUN) else FolderModel(folder)


def _is_whole(folder: Path) -> bool:
    """Whether a download has ended: no link leads nowhere, and weights in several files have all of
    them.
    """
    shards = Counter[tuple[str, ...]]()
    for file in folder.iterdir():
        if not file.exists():
            return False
        match = _SHARD.match(file.name)
        if match:
            shards[match.groups()] += 1

    return all(count == int(stated) for (_, stated), count in shards.items())


def _has_weights(folder: Path) -> bool:
    for pattern in _WEIGHTS:
        if any(folder.glob(pattern)):
            return True
    return any(map(_is_weights, list_module_files(folder)))


def _is_weights(file: Path) -> bool:
    return any(map(file.match, _WEIGHTS))
