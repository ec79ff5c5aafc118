"""The results folder: one JSON file per run, written whole or not at all, scores in it never changed.

RESULTS/PROFILE/VARIANT/SETTING/ENCODER/seed-N-FINGERPRINT.json             a finished run; 16 hex digits of its training
RESULTS/.../seed-N-FINGERPRINT.SUITE-PROTOCOL.npz                           arrays of one of its evaluations
RESULTS/.../seed-N-FINGERPRINT.log                                          its log, one line per event
RESULTS/failed/FINGERPRINT.json                                             the last failure of a run, its log beside it
RESULTS/.work/FINGERPRINT/                                                  checkpoints and best model
RESULTS/.locks/                                                             one lock per training

Files of schema 1 (see `harness.store.upgrade`) are upgraded while they are read.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from filelock import FileLock, Timeout
from pydantic import ValidationError

from harness.errors import UserError
from harness.metrics import ArrayName
from harness.sources import write_text
from harness.store.arrays import Arrays, read_named_arrays, write_named_arrays
from harness.store.schema import SCHEMA_VERSION, Evaluation, Failure, Result, Spec
from harness.store.upgrade import OldResult, has_old_name, training_of, upgraded_failure, version_of

log = logging.getLogger(__name__)

_SAFE = "[]=,+@.:-_"


class Store:
    """The results below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def holding(cls, path: Path) -> Store:
        """The store that a result file lies in."""
        return cls(path.resolve().parents[:5][-1])

    def folder(self, profile: str, spec: Spec) -> Path:
        """The folder of a run and of its other seeds."""
        names = (profile, spec.variant, spec.setting, spec.encoder)
        return self.root.joinpath(*(quote(name, safe=_SAFE) for name in names))

    def path(self, result: Result) -> Path:
        """The file of a result."""
        return self._path(result.profile, result.spec, result.fingerprint)

    def work(self, fingerprint: str) -> Path:
        """The folder of a training's checkpoint and best model."""
        return self.root / ".work" / fingerprint[:32]

    def files(self) -> list[Path]:
        """All result files, sorted; work, locks and failures are not among them."""
        return sorted(self.root.glob("[!.]*/*/*/*/seed-*.json"))

    def load(self) -> tuple[list[Result], list[str]]:
        """All results, and one line for each file that cannot be used."""
        return self._loaded(self.files())

    def read(self, path: Path) -> Result:
        """Read one file of any schema up to this one. Raises UserError naming a file that cannot be used."""
        content = path.read_bytes()
        try:
            return Result.model_validate_json(content)
        except ValidationError as error:
            version = version_of(content)
            if version is not None and version > SCHEMA_VERSION:
                raise UserError(
                    f"the result {path} has schema {version} and this harness reads up to {SCHEMA_VERSION}; "
                    "update harness to use it"
                ) from error
            if version != 1:
                raise _unusable(path, error) from error
        try:
            return OldResult.model_validate_json(content).upgraded()
        except ValidationError as error:
            raise _unusable(path, error) from error

    def find(self, profile: str, spec: Spec, fingerprint: str) -> Result | None:
        """The finished result of a run. Raises UserError where a file of it is damaged."""
        paths = self._files_of(self._path(profile, spec, fingerprint), fingerprint)
        found = merge(self.read(path) for path in paths)
        if any(one.fingerprint != fingerprint for one in found):
            raise UserError(f"{paths[0]} holds the result of another training than its name says; move it away")
        return found[0] if found else None

    def key_results(self, spec: Spec, profile: str | None = None) -> list[Result]:
        """All results with one key, whatever their configuration. Raises UserError where a file is damaged."""
        folders = {self.folder(name, spec) for name in ([profile] if profile else self.profiles())}
        return merge(self.read(path) for folder in sorted(folders) for path in _of_seed(folder, spec.seed))

    def profiles(self) -> list[str]:
        """Names of the profiles that have results, from their folders."""
        found = {unquote(path.parents[3].name) for path in self.files()}
        return sorted(found)

    def seeds(self, profile: str, spec: Spec) -> list[Result]:
        """The usable results of a run's key under any seed and configuration."""
        return self._loaded(sorted(self.folder(profile, spec).glob("seed-*.json")))[0]

    def has_key(self, profile: str, spec: Spec) -> bool:
        """Whether any configuration of a run's key has a result."""
        return bool(_of_seed(self.folder(profile, spec), spec.seed))
