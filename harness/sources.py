"""Sources of data and their fingerprints.

A fingerprint depends on contents, never on paths. The hash of a file is computed once and cached by
path, size and times of modification and change: the latter cannot be set, so that new content of
the same size is noticed.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import re
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from harness.caches import get_cache_folder, keep_text, read_or_compute_hash, read_or_make_note
from harness.errors import MissingData, UserError
from harness.files import add_seal, expand, hash_text, open_regular, read_note
from harness.formatting import duration, fixed

if TYPE_CHECKING:
    from harness.census import Account

log = logging.getLogger(__name__)

#: Seconds between two lines about hashing, and seconds without hashing after which a new stretch
#: begins.
LINE_EVERY_S = 20.0
IDLE_S = 5.0
#: Stands for a missing data root: no path below it exists, and joining an absolute path gives that
#: path.
NOWHERE = Path(os.devnull)
#: How to get a missing file that is not part of a data set of the catalogue.
OWN_FILE = "correct its path in the profile ('./...' is relative to the profile, other paths to the data root)"

#: How names of files of the hub begin; several files of one table say how many they are.
HUB = "hf://"
_ADDRESS = re.compile(
    r"hf://datasets/([\w.-]+/[\w.-]+)@([0-9a-f]{40})/([^*]+|[^*]*-\*-of-\d+\.[^*/]+)"
)

#: Modules that read files of data, beside those of corpora.
_READERS = ("columnar.py", "datafiles.py", "datarows.py", "remarks.py")

#: Increased with every change of what is found in files.
EXAMINED_VERSION = 3


@dataclass(frozen=True)
class Missing:
    """A missing input of a run, and how to get it."""

    what: str
    how: str

    def __str__(self) -> str:
        return f"cannot find {self.what}; {self.how}"


@dataclass(frozen=True)
class MissingHubFile(Missing):
    """A file of a data set of the hub at a commit, or several (`file` has a `*`), that the local
    cache lacks.
    """

    hub: str
    revision: str
    file: str


@runtime_checkable
class Checkable(Protocol):
    """An input of a run: a `Source`, several, or an object of a plug-in with these two methods."""

    @abstractmethod
    def missing(self, root: Path | None) -> list[Missing]:
        """Inputs missing below the data root; empty if it can be loaded."""

    @abstractmethod
    def fingerprint(self, root: Path | None) -> str:
        """A hash of the content (hex). Called only if nothing is missing."""


class Source(Checkable):
    """Data that is read from disk or generated."""

    def examined(self, root: Path | None) -> Findings:
        """What reading the content shows; called when a run is planned and nothing is missing.
        Raises UserError.
        """
        return Findings()

    def require(self, root: Path | None) -> Path:
        """Return the data root, or `NOWHERE` if there is none and all files have absolute paths.

        Raises MissingData if anything is missing.
        """
        missing = self.missing(root)
        if missing:
            raise MissingData("; ".join(map(str, missing)))
        return NOWHERE if root is None else root


@dataclass(frozen=True)
class Findings:
    """What reading a source shows: its rows and images, if counted, and a line for each thing that
    a user should know.

    `equal_rows` are rows whose text an earlier row has, `accounts` say what became of all that lies
    in the source, and `sample` has some of its texts. Neither these nor remarks name the file,
    since they are cached by its content.
    """

    rows: int | None = None
    remarks: Sequence[str] = ()
    images: int | None = None
    equal_rows: int | None = None
    accounts: Sequence[Account] = ()
    sample: Sequence[str] = ()

    def __getstate__(self) -> dict[str, object]:
        """Leave out the sample, which only planning reads: findings travel with each job."""
        return {**vars(self), "sample": ()}

    def as_note(self) -> dict[str, object]:
        """JSON values, for `from_note`."""
        return {**vars(self), "accounts": [account.model_dump() for account in self.accounts]}

    @classmethod
    def from_note(cls, note: Mapping[str, Any]) -> Findings:
        """The findings that a note holds."""
        from harness.census import Account  # imports pydantic

        accounts = [Account(**account) for account in note["accounts"]]
        return cls(**{**note, "accounts": accounts})


class Generated(Source):
    """A source that needs no files."""

    def missing(self, root: Path | None) -> list[Missing]:
        return []


def resolve_path(root: Path | None, name: str) -> Path:
    """The path of a file that a profile names: below the data root unless it is absolute; in the
    hub's cache if HUB.
    """
    if not name.startswith(HUB):
        return (NOWHERE if root is None else root) / name
    from huggingface_hub import constants

    hub, commit, file = parse_hub_address(name)
    return Path(
        constants.HF_HUB_CACHE, f"datasets--{hub.replace('/', '--')}", "snapshots", commit, file
    )


def parse_hub_address(name: str) -> tuple[str, str, str]:
    """Data set, commit and file of a name `hf://datasets/OWNER/NAME@COMMIT/FILE`. Raises UserError."""
    address = _ADDRESS.fullmatch(name)
    if address is None or ".." in address[3].split("/"):
        raise UserError(
            f"'{name}' names no file at a commit; write hf://datasets/OWNER/NAME@ and the 40 digits of a commit, then "
            "/FILE, or several files as /NAME-*-of-00004.parquet"
        )
    return address[1], address[2], address[3]


def list_absent(root: Path | None, name: str, how: str, *, folder: bool = False) -> list[Missing]:
    """What is missing of a file that a profile names, or of the several files of a table; any
    `folder` may do too.
    """
    from harness.datafiles import list_parts  # imports pydantic

    path = resolve_path(root, name)
    try:
        if folder and path.is_dir():
            return []
        if all(part.is_file() for part in list_parts(path)):
            return []
        advice = how
        if how == OWN_FILE and not Path(name).is_absolute():
            advice = _explain_where_looked_for(root, name)
    except UserError as error:
        advice = str(error)

    if not name.startswith(HUB):
        return [Missing(name, advice)]
    hub, commit, file = parse_hub_address(name)
    command = f"hf download {hub} --repo-type dataset --revision {commit} --include '{file}'"
    return [MissingHubFile(name, f"run `{command}`", hub, commit, file)]


def _explain_where_looked_for(root: Path | None, name: str) -> str:
    place = "no data root is set (--data-root or HARNESS_DATA)"
    if root is not None:
        place = f"it was looked for below the data root {root}"
    return f"{place}; a file beside the profile is written './{name}'"


class FileSource(Source):
    """Files below the data root, at absolute paths, or of data sets of the hub; a table may be in
    several files.
    """

    #: patterns of the names of what may be left out unread
    ignore: Sequence[str] = ()

    def __init__(self, files: Iterable[str], how: str = OWN_FILE) -> None:
        """`files` are paths below the data root, absolute, or HUB; `how` says how to get them.
        Raises UserError.
        """
        self.files = tuple(files)
        self.how = how
        for name in self.files:
            resolve_path(None, name)

    def paths(self, root: Path | None) -> list[Path]:
        """Absolute paths of the files. Raises MissingData."""
        path = self.require(root)
        return [resolve_path(path, name) for name in self.files]

    def missing(self, root: Path | None) -> list[Missing]:
        missing = list[Missing]()
        for name in self.files:
            missing += list_absent(root, name, self.how)
        return missing

    def fingerprint(self, root: Path | None) -> str:
        """Hash of the files' bytes, in order."""
        from harness.datafiles import list_parts  # imports pydantic

        hashes = list[str]()
        for path in self.paths(root):
            hashes += map(hash_file, list_parts(path))
        return digest(*hashes)

    def examine(self, root: Path | None) -> Findings:
        """Read the whole content, for `examined`. Raises UserError naming file and line."""
        return Findings()

    def file_fingerprint(self, root: Path | None) -> str:
        """A hash of all that `examine` depends on."""
        return self.fingerprint(root)

    def examined(self, root: Path | None) -> Findings:
        """What `examine` finds, cached by class and content; errors are not cached."""
        key = digest(
            "examined",
            EXAMINED_VERSION,
            f"{type(self).__module__}.{type(self).__qualname__}",
            self.file_fingerprint(root),
            *self.ignore,
        )
        note = read_or_make_note(
            f"examined/{key}.json",
            "the file will be read again",
            lambda: self.examine(root).as_note(),
        )
        return Findings.from_note(note)


def digest(*parts: object) -> str:
    """SHA-256 (hex) of a sequence of JSON values, key order ignored."""
    text = json.dumps(
        parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )
    return hashlib.sha256(text.encode()).hexdigest()


def read_by(content: str, code: str) -> str:
    """Combine a content's fingerprint with that of another package's code that reads it; unchanged
    for code ''.
    """
    return digest(content, code) if code else content


def list_versions(*packages: str) -> list[str]:
    """The versions of packages that make what is cached, '' for one that is not installed."""
    versions = []
    for name in packages:
        present = list(distributions(name=name))
        versions.append(present[0].version if present else "")
    return versions


@cache
def hash_reading_code() -> str:
    """A hash of the code that reads files of data: what other code has read is read again."""
    package = Path(__file__).parent
    files = [package / name for name in _READERS]
    files += package.glob("corpora/*.py")
    return digest(*(hash_file(path) for path in sorted(files)))


def resolve_data_root(given: str | os.PathLike[str] | None = None) -> Path | None:
    """The folder of data files: `--data-root`, else the variable HARNESS_DATA, else none.

    Raises UserError if the path is a file.
    """
    path = given or os.environ.get("HARNESS_DATA")
    if not path:
        return None

    folder = expand(path).resolve()
    if folder.exists() and not folder.is_dir():
        raise UserError(
            f"the data root {folder} is a file; give a folder with --data-root or HARNESS_DATA"
        )
    return folder


def list_ignorable_patterns(how: str, ignore: Sequence[str]) -> tuple[str, ...]:
    """Patterns of the names of files of an input that may be left out unread.

    Of a user's own file, those that `ignore` names; of a data set whose source is stated (`how`),
    all, since what lies in it is known.
    """
    return tuple(ignore) if how == OWN_FILE else (*ignore, "*")


def hash_file(path: Path) -> str:
    """SHA-256 (hex) of a file's bytes, cached by path, size and times.

    Raises UserError if it is not a regular file or cannot be read.
    """
    try:
        with open_regular(path) as stream:
            stat = os.fstat(stream.fileno())
        key = hash_text(f"{path.resolve()}\0{stat.st_size}\0{stat.st_mtime_ns}\0{stat.st_ctime_ns}")
        return read_or_compute_hash(f"hashes/{key}", lambda: _HASHING.file(path, stat.st_size))
    except OSError as error:
        raise _explain_unreadable(path, error) from error


def hash_files_within(folder: Path, files: Sequence[Path]) -> list[str]:
    """SHA-256 (hex) of the bytes of files below a folder, in order, each computed once.

    A file is known again by its size and both times, as by `hash_file`; since a folder may have
    100,000 images, one note holds those of all its files. Raises UserError if one is not a regular
    file or cannot be read.
    """
    note = f"hashes/folder-{hash_text(str(folder.resolve()))}.json"
    noted = read_note(get_cache_folder() / note, "the files will be hashed again")
    states_and_hashes = dict(noted or {})
    hashes = []
    is_new = False

    for path in files:
        try:
            stat = path.stat()
        except OSError as error:
            raise _explain_unreadable(path, error) from error

        name = path.relative_to(folder).as_posix()
        state = [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
        *noted_state, content = states_and_hashes.get(name, [""])
        if noted_state != state:
            content = _hash_bytes(path, stat.st_size)
            states_and_hashes[name] = [*state, content]
            is_new = True
        hashes.append(content)

    if is_new:
        keep_text(note, add_seal(json.dumps(states_and_hashes)))
    return hashes


def hash_named_files(folder: Path, files: Sequence[Path]) -> list[list[str]]:
    """The name of each file within a folder, and the hash of its bytes (see `hash_files_within`)."""
    names = [path.relative_to(folder).as_posix() for path in files]
    return list(map(list, zip(names, hash_files_within(folder, files), strict=True)))


def _hash_bytes(path: Path, size: int) -> str:
    try:
        return _HASHING.file(path, size)
    except OSError as error:
        raise _explain_unreadable(path, error) from error


def _explain_unreadable(path: Path, error: OSError) -> UserError:
    return UserError(f"{path} cannot be read ({error.strerror}); put a readable file in its place")


class Hashing:
    """Hashes files, logging a line every LINE_EVERY_S seconds of uninterrupted hashing."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, piece: int = 2**24) -> None:
        """`piece` is the number of bytes read at a time."""
        self._clock = clock
        self._piece = piece
        self._idle_since = self._start = self._line = -math.inf
        self._bytes = 0

    def file(self, path: Path, size: int) -> str:
        """Compute the SHA-256 (hex) of a file of `size` bytes."""
        if self._clock() - self._idle_since > IDLE_S:
            self._start = self._line = self._clock()
            self._bytes = 0
        state = hashlib.sha256()
        done = 0
        with open_regular(path) as stream:
            while piece := stream.read(self._piece):
                state.update(piece)
                done += len(piece)
                self._bytes += len(piece)
                self._report(path, done, size)
        self._idle_since = self._clock()
        return state.hexdigest()

    def _report(self, path: Path, done: int, size: int) -> None:
        now = self._clock()
        if now - self._line < LINE_EVERY_S:
            return

        self._line = now
        bytes_per_s = self._bytes / (now - self._start)
        log.info(
            "hashing %s: %s of %.0f MB, %s left; %s so far, %s/s",
            path,
            _format_mb(done),
            size / 1e6,
            duration(max(0, size - done) / bytes_per_s),
            _format_mb(self._bytes),
            _format_mb(bytes_per_s),
        )


def _format_mb(size: float) -> str:
    return f"{fixed(size / 1e6, 0)} MB"


_HASHING = Hashing()
