"""The results folder: one JSON file per run, written completely or not at all. Stored scores never
change.

RESULTS/PROFILE/VARIANT/SETTING/ENCODER/seed-N-FINGERPRINT.json             a finished run; 16 hex digits
RESULTS/.../seed-N-FINGERPRINT.SUITE-PROTOCOL.npz                           arrays of one of its evaluations
RESULTS/.../seed-N-FINGERPRINT.log                                          its log, one line per event
RESULTS/failed/FINGERPRINT.json                                             the last failure of a run, its log beside it
RESULTS/.superseded/                                        old results: dropped, or trained again (folder.py)
RESULTS/.work/FINGERPRINT/                          checkpoints and best model; where it was submitted (folder.py)
RESULTS/.slurm/                                     what SLURM keeps of the jobs that it was given
RESULTS/.locks/                                                             one lock per training

The files of results and failures hold a digest of themselves, which is checked whenever they are
read. A change of the schema raises its number and comes with an upgrade of records with the
previous number.
"""

from __future__ import annotations

import io
import logging
import os
import re
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from glob import escape, glob
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from harness.errors import NewerError, UserError, describe_problems, first_line
from harness.files import (
    DamagedError,
    add_seal,
    open_within,
    read_within,
    remove,
    remove_leftovers,
    remove_seal,
    write_bytes,
    write_text,
)
from harness.formatting import LONGEST_NAME, first_of
from harness.locks import try_lock
from harness.metrics import ArrayName
from harness.registry import suggest
from harness.spec import RunSpec, Variant
from harness.store.frames import Frames, merge_by_training
from harness.store.schema import SCHEMA_VERSION, Evaluation, Failure, Result

#: numbers or texts of any shape
Array = NDArray[Any]
NamedArrays = Mapping[ArrayName, Array]


#: size in bytes up to which the arrays of an evaluation are read, and unpacked
MOST_PACKED = 10**8
MOST_BYTES = 5 * 10**8
_BAD_ARRAYS = (
    EOFError,
    MemoryError,
    NotImplementedError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)


def write_named_arrays(path: Path, arrays: NamedArrays, folder: Path) -> None:
    """Write arrays below a folder of results as .npz; row i of the entry `index`, (n, 3) texts, is
    the ArrayName of the entry `i`.
    """
    names = np.array([list(name) for name in arrays], dtype=np.str_).reshape(-1, 3)
    entries = {str(number): values for number, values in enumerate(arrays.values())}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, index=names, **entries)
    write_bytes(path, buffer.getvalue(), folder)


def read_named_arrays(path: Path, folder: Path) -> dict[ArrayName, Array]:
    """Read arrays below a folder of results. Raises UserError naming a file that is damaged, a link
    or huge.
    """
    try:
        with (
            open_within(folder, path, MOST_PACKED) as stream,
            np.load(stream, allow_pickle=False) as entries,
        ):
            if sum(member.file_size for member in entries.zip.infolist()) > MOST_BYTES:
                raise ValueError(f"it unpacks to more than {MOST_BYTES / 1e6:.0f} MB")

            arrays = {}
            for number, row in enumerate(entries["index"]):
                arrays[ArrayName(*map(str, row))] = entries[str(number)]
            return arrays
    except (OSError, ValueError, KeyError, TypeError, AttributeError, *_BAD_ARRAYS) as error:
        advice = "restore the file, or remove it with the result next to it"
        raise UserError(
            f"the arrays {path} cannot be read: {first_line(error)}; {advice}"
        ) from error


log = logging.getLogger(__name__)

_SAFE = "[]=,+@.:-_"
#: Most characters that follow the seed and suite in a file name: a fingerprint, a protocol, a
#: suffix.
_ADDED = 64
#: runs named in an error line
NAMED = 6

_FINGERPRINT = re.compile(r"[0-9a-f]{6,64}")
_VERSION = re.compile(rb'"schema_version": ?([0-9]{1,9})\b')


class Store:
    """The results below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def containing(cls, path: Path) -> Store:
        """The store that a result file lies in."""
        return cls(path.resolve().parents[:5][-1])

    def folder(self, profile: str, spec: RunSpec) -> Path:
        """The folder of a run and of its other seeds."""
        names = (profile, str(spec.variant), str(spec.setting), spec.encoder)
        return self.root.joinpath(*map(file_name, names))

    def path(self, result: Result) -> Path:
        return self._result_path(result.profile, result.spec, result.fingerprint)

    def arrays_path(self, result: Result, evaluation: Evaluation) -> Path:
        path = self.path(result)
        suite = quote(evaluation.suite, safe="")
        return path.with_name(f"{path.stem}.{suite}-{evaluation.protocol.key}.npz")

    def work(self, fingerprint: str) -> Path:
        """The folder of a training's checkpoint and best model."""
        return self.root / ".work" / fingerprint[:32]

    def files(self) -> list[Path]:
        """All result files, sorted, without work, locks and failures."""
        return [self.root / path for path in _list_result_files(self.root)]

    def load(self) -> tuple[list[Result], list[str]]:
        """All results, and one line for each file that cannot be used."""
        return self._load_results(self.files())

    def frames(self) -> Frames:
        """All results as data frames, from the index: only new and changed files are read."""
        from harness.store.index import refresh_index

        files = refresh_index(self.root, _list_result_files(self.root), self.read)
        return Frames.of_files(self.root, self.read, files)

    def read(self, path: Path) -> Result:
        """Read one file. Raises UserError naming a file that cannot be used, NewerError for one of
        a newer harness.
        """
        try:
            content = read_within(self.root, path)
        except OSError as error:
            raise UserError(
                f"the result {path} cannot be read ({error.strerror}); restore it, or move it away"
            ) from error

        try:
            body = remove_seal(content)
            return Result.model_validate_json(body)
        except DamagedError as error:
            reason = str(error)
        except ValidationError as error:  # of a newer schema, or already wrong when written
            _refuse_newer(path, body, error)
            reason = _explain_invalid(error)

        raise UserError(
            f"the result {path} cannot be used ({reason}); restore it, or move it away to repeat that run"
        )

    def find(self, profile: str, spec: RunSpec, fingerprint: str) -> Result | None:
        """The finished result of a run. Raises UserError where a file of it is damaged."""
        if not self.has_result(profile, spec, fingerprint):
            return None

        path = self._result_path(profile, spec, fingerprint)
        result = self.read(path)
        if result.fingerprint != fingerprint:
            raise UserError(
                f"{path} contains the result of a different run than its file name states; move it away"
            )
        return result

    def find_by_key(self, spec: RunSpec) -> list[Result]:
        """All results with one key, under any profile and configuration.

        Raises UserError if a file is damaged, or two files of one training contradict each other.
        """
        folder = self.folder("", spec).relative_to(self.root)
        results = dict[Path, Result]()
        for profile_folder in sorted(self.root.glob("[!.]*")):
            for path in _list_files_of_seed(profile_folder / folder, spec.seed):
                results[path] = self.read(path)

        merged, contradictions = merge_by_training(results)
        if contradictions:
            raise UserError(contradictions[0])
        return list(merged.values())

    def find_spellings(self, run: RunSpec) -> list[RunSpec]:
        """The runs with results that equal a run except for the method's options and reading."""
        _, *place = self.folder("", run).relative_to(self.root).parts
        method = escape(file_name(run.variant.name))
        pattern = f"[!.]*/{method}*/{escape('/'.join(place))}/seed-{run.seed}-*.json"

        runs = dict[RunSpec, None]()
        for path in sorted(self.root.glob(pattern)):
            variant = Variant.parse(unquote(path.parents[2].name))
            if variant.name == run.variant.name:
                runs[replace(run, variant=variant)] = None
        return list(runs)

    def has_result(self, profile: str, spec: RunSpec, fingerprint: str) -> bool:
        """Whether a training has a result file, readable or not."""
        return os.path.lexists(self._result_path(profile, spec, fingerprint))

    def has_key(self, profile: str, spec: RunSpec) -> bool:
        """Whether a run's key has a result under any configuration."""
        return bool(_list_files_of_seed(self.folder(profile, spec), spec.seed))

    def seeds(self, profile: str, spec: RunSpec) -> tuple[list[Result], list[str]]:
        """The results of a run's key under any seed and configuration, and a line for each file
        that is left out.
        """
        return self._load_results(sorted(self.folder(profile, spec).glob("seed-*.json")))

    def save(self, result: Result) -> Result:
        """Write a result and return it as stored.

        Where the training has a result, evaluations of new suites and protocols are added to it;
        existing ones stay as they are.
        """
        stored = self.find(result.profile, result.spec, result.fingerprint)
        if stored is not None:
            result = stored.merge(result)
        write_text(self.path(result), add_seal(result.model_dump_json()), self.root)
        self.forget_failure(result.profile, result.spec, result.fingerprint)
        return result

    def files_of(self, profile: str, spec: RunSpec, fingerprint: str) -> list[Path]:
        """The files of a training that exist: its result, then its log and arrays."""
        path = self._result_path(profile, spec, fingerprint)
        paths = sorted(path.parent.glob(f"{escape(path.stem)}.*"))
        # in order, and the result first
        paths.sort(key=lambda file: file != path)
        return [file for file in paths if file.is_file()]

    def save_arrays(self, result: Result, evaluation: Evaluation, arrays: NamedArrays) -> None:
        """Write the arrays of one evaluation, before the result is written; an existing file is
        kept.
        """
        path = self.arrays_path(result, evaluation)
        if arrays and not path.is_file():
            write_named_arrays(path, arrays, self.root)

    def arrays(self, result: Result) -> NamedArrays:
        """The arrays of a result's newest evaluations. Raises UserError for a damaged file."""
        arrays: dict[ArrayName, Array] = {}
        for evaluation in result.evaluations:
            path = self.arrays_path(result, evaluation)
            if path.is_file():
                arrays |= read_named_arrays(path, self.root)
        return arrays

    def save_log(self, result: Result, text: str) -> None:
        """Write a result's log, before the result is written; an earlier log is continued."""
        earlier = ""
        with suppress(UserError):  # it is replaced
            earlier = self.log(result)
        if not text.startswith(earlier):
            text = earlier + text
        write_text(self.path(result).with_suffix(".log"), text, self.root)

    def log(self, result: Result) -> str:
        """A result's log, one line per event; empty where there is none. Raises UserError naming
        one that is a link.
        """
        path = self.path(result).with_suffix(".log")
        return self.text(path) if path.is_file() else ""

    def text(self, path: Path) -> str:
        """The text of a file of this folder. Raises UserError naming a file that cannot be read, is
        a link or huge.
        """
        try:
            return read_within(self.root, path).decode("utf-8", "replace")
        except OSError as error:
            raise UserError(
                f"{path} cannot be read ({error.strerror}); remove it, or replace it"
            ) from error

    def lock(self, fingerprint: str) -> AbstractContextManager[bool]:
        """Hold a training's lock; yields False at once when another process holds it."""
        return try_lock(self.lock_file(fingerprint), self.root)

    def lock_file(self, fingerprint: str) -> Path:
        return self.root / ".locks" / f"{fingerprint[:32]}.lock"

    def save_failure(self, failure: Failure, log: str = "") -> Path:
        """Record a failure and the run's log, in place of the run's previous failure."""
        path = self._failure_path(failure.fingerprint)
        if log:
            write_text(path.with_suffix(".log"), log, self.root)
        write_text(path, add_seal(failure.model_dump_json()), self.root)
        return path

    def forget_failure(self, profile: str, spec: RunSpec, fingerprint: str) -> None:
        path = self._failure_path(fingerprint)
        failure = self._read_failure(path)
        if failure and failure.concerns(profile, spec, fingerprint):
            remove(path.with_suffix(".log"), self.root)
            remove(path, self.root)

    def failures(self) -> list[Failure]:
        """The failures on record, in order of their keys."""
        failures = []
        for path in sorted((self.root / "failed").glob("*.json")):
            failure = self._read_failure(path)
            if failure is not None:
                failures.append(failure)
        return sorted(failures, key=lambda failure: failure.spec.key)

    def _read_failure(self, path: Path) -> Failure | None:
        """The record in a file; None if it is damaged, or gone because the run has succeeded
        meanwhile.
        """
        try:
            return Failure.model_validate_json(remove_seal(read_within(self.root, path)))
        except FileNotFoundError:
            return None
        except (DamagedError, OSError, ValueError) as error:
            log.warning(
                "the failure record %s cannot be read (%s); remove it", path, first_line(error)
            )
            return None

    def _failure_path(self, fingerprint: str) -> Path:
        return self.root / "failed" / f"{fingerprint[:16]}.json"

    def _result_path(self, profile: str, spec: RunSpec, fingerprint: str) -> Path:
        return self.folder(profile, spec) / f"seed-{spec.seed}-{fingerprint[:16]}.json"

    def _load_results(self, paths: Iterable[Path]) -> tuple[list[Result], list[str]]:
        """The results in files, and one line for each file that cannot be used."""
        usable = dict[Path, Result]()
        problems = list[str]()
        for path in paths:
            try:
                usable[path] = self.read(path)
            except UserError as error:
                problems.append(str(error))

        merged, contradictions = merge_by_training(usable)
        return list(merged.values()), problems + contradictions


def file_name(name: str) -> str:
    """A name as part of a path, with escapes for invalid characters and those that leave the folder
    or hide a file.
    """
    text = quote(name, safe=_SAFE)
    if text.startswith("."):
        return f"%2E{text[1:]}"
    return text


def check_names(profile: str, spec: RunSpec, suites: Iterable[str]) -> None:
    """Raise UserError if a name of the run is too long for the path of its result or arrays."""
    _check_name_length("profile", profile)
    _check_name_length("variant", str(spec.variant))
    _check_name_length("setting", str(spec.setting))
    _check_name_length("encoder", spec.encoder)
    for suite in suites:
        _check_name_length("suite", suite, len(f"seed-{spec.seed}") + _ADDED)


def remove_leftovers_of(store: Store, profile: str, spec: RunSpec, fingerprint: str) -> None:
    """Remove a run's temporary files left by killed processes. To be called under the run's lock."""
    remove_leftovers(store.work(fingerprint))
    remove_leftovers(store.folder(profile, spec), f".seed-{spec.seed}-{fingerprint[:16]}*.tmp")
    remove_leftovers(store.root / "failed", f".{fingerprint[:16]}*.tmp")


def _check_name_length(what: str, name: str, added: int = 0) -> None:
    size = len(file_name(name).encode()) + added
    if size > LONGEST_NAME:
        raise UserError(
            f"the {what} '{name[:60]}...' makes a file name of {size} bytes in the folder of results, and "
            f"{LONGEST_NAME} are the most; shorten it"
        )


def is_named(text: str, key: str, fingerprint: str) -> bool:
    """Whether a text is a run's key, whole words of the key, or the first six or more digits of its
    fingerprint.
    """
    # the fingerprint that is known may be shorter than the one that was typed
    length = min(len(text), len(fingerprint))
    if _FINGERPRINT.fullmatch(text) and fingerprint[:length] == text[:length]:
        return True
    return bool(re.search(rf"(?<![\w.-]){re.escape(text)}(?![\w.-])", key))


def make_ambiguity_error(text: str, names: Sequence[str]) -> UserError:
    """The error for a text that names several runs."""
    first_names = first_of(names, NAMED)
    return UserError(
        f"'{text}' matches {len(names)} runs; give the key or fingerprint of one: {first_names}"
    )


def find_results(store: Store, text: str, profile: str | None = None) -> list[Result]:
    """Look up a run by its key, VARIANT/SETTING/ENCODER/seed-N, or by its result file (*.json).

    Returns the results of all configurations, or those of one profile. Raises UserError if there
    are none.
    """
    path = Path(text)
    if path.suffix != ".json":
        results = store.find_by_key(RunSpec.parse(text))
    elif path.is_file():
        results = [store.read(path)]
    else:
        raise UserError(f"there is no file {path}; give a result file or a run's key")

    results = [result for result in results if profile in (None, result.profile)]
    if results:
        return results

    frames = store.frames()
    folder = str(store.root)
    if profile:
        folder += f" under the profile '{profile}'"
        frames = frames.where(profile=[profile])
    hint = suggest(text, frames.keys, "`harness status` lists the runs")
    raise UserError(f"there is no result of {text} in {folder}; {hint}")


def _list_result_files(root: Path) -> list[str]:
    """The paths of all result files below a folder, in order of their folders."""
    paths = glob("*/*/*/*/seed-*.json", root_dir=root)  # noqa: PTH207 - a path object for each of many files takes long
    return sorted(paths, key=lambda path: path.split("/"))


def _list_files_of_seed(folder: Path, seed: int) -> list[Path]:
    return sorted(folder.glob(f"seed-{seed}-*.json"))


def _refuse_newer(path: Path, body: bytes, error: ValidationError) -> None:
    """Raise NewerError for a result of a newer harness, by its schema or by fields that this one
    does not know.
    """
    version = _VERSION.search(body)
    if version and int(version[1]) > SCHEMA_VERSION:
        excess = f"schema {int(version[1])} and this harness reads up to {SCHEMA_VERSION}"
    elif all(problem["type"] == "extra_forbidden" for problem in error.errors()):
        excess = f"fields that this harness does not know ({_explain_invalid(error)})"
    else:
        return

    raise NewerError(f"the result {path} has {excess}; update harness to use it")


def _explain_invalid(error: ValidationError) -> str:
    """The first field that is wrong, and why."""
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    if not field:
        return describe_problems(first)
    return f"{field}: {describe_problems(first)}"
