"""What a training keeps in its folder; whether it has ended, can be resumed and can be used.

checkpoint-STEP-HASH.pt    the state after a step, named by the hash of its content; two are kept
best                       the best model so far, with its heads, its step and checksums
previous-best              the best model before it, which belongs to the older checkpoint
trained.json               the record of a training that has ended
"""

from __future__ import annotations

import pickle
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from harness.encoders.student import Student
from harness.errors import first_line
from harness.files import (
    DamagedError,
    check_folder,
    fill_folder,
    flush,
    hash_content,
    make_temporary_path,
    parse_note,
    put_aside,
    read_regular,
    remove,
    rename,
    seal_folder,
    write_note,
)
from harness.method import Method
from harness.store.folder import BEST, CHECKPOINT, RECORD_FILE, list_checkpoints
from harness.training.record import TrainingRecord

_HEADS = "heads.safetensors"
_STEP = "STEP"
_KEPT = 2
_AGAIN = "the run is trained again"


class TrainingFolder:
    """The folder of one training. Its files are complete or absent; a damaged one raises
    DamagedError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.best = path / BEST
        self.previous = path / "previous-best"

    @property
    def has_ended(self) -> bool:
        try:
            self.check_best()
            return self._load_record() is not None
        except DamagedError:
            return False

    def load_ended(self, student: Student, method: Method) -> TrainingRecord | None:
        """Load the best model of an ended training and return its record; None if training must
        start or continue.
        """
        note = self.path / RECORD_FILE
        try:
            record = self._load_record()
        except DamagedError as error:
            put_aside(note, error, _AGAIN, self.path)
            return None

        try:
            if record is not None:
                self.load_best(student, method)
        except DamagedError as error:
            put_aside(self.best, error, _AGAIN, self.path)
            remove(note, self.path)
            return None
        return record

    def end(self, record: TrainingRecord) -> None:
        write_note(self.path / RECORD_FILE, asdict(record), self.path)
        for path in self.list_checkpoints():
            remove(path, self.path)
        remove(self.previous, self.path)

    def _load_record(self) -> TrainingRecord | None:
        try:
            note = parse_note(read_regular(self.path / RECORD_FILE, self.path))
            return TypeAdapter(TrainingRecord).validate_python(note)
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            raise DamagedError(first_line(error)) from error

    def list_checkpoints(self) -> list[Path]:
        return [path for _, path in list_checkpoints(self.path)]

    def save(self, state: dict[str, Any]) -> None:
        """Write a checkpoint of tensors and plain values, named by its "step", and keep the one
        before.
        """
        self.path.mkdir(parents=True, exist_ok=True)

        temporary = make_temporary_path(self.path / "checkpoint.pt")
        try:
            with temporary.open("xb") as stream:
                torch.save(state, stream)
                stream.flush()
                flush(stream.fileno())
            content = hash_content(temporary, self.path)[:32]
            rename(temporary, f"checkpoint-{state['step']}-{content}.pt", self.path)
        except (OSError, RuntimeError) as error:
            remove(temporary, self.path)
            raise _find_cause(error) from error

        for path in self.list_checkpoints()[_KEPT:]:
            remove(path, self.path)

    def keep_best(self, student: Student, method: Method, step: int) -> None:
        """Save a model as the best, in place of the one before, which is kept."""

        def fill(folder: Path) -> None:
            student.save(folder)
            heads = {name: value.contiguous() for name, value in method.kept().items()}
            save_file(heads, str(folder / _HEADS))
            (folder / _STEP).write_text(f"{step}\n")
            seal_folder(folder)

        temporary = make_temporary_path(self.best)
        fill_folder(temporary, fill)

        if self.best.exists():
            remove(self.previous, self.path)
            rename(self.best, self.previous.name, self.path)
        rename(temporary, BEST, self.path)

    def restore_best(self, step: int, then: str) -> bool:
        """Whether the best model of a step exists; if it is the previous one, it becomes the best
        again.

        A damaged model is put aside; `then` is the consequence in the warning.
        """
        for folder in (self.best, self.previous):
            if not folder.exists():
                continue
            try:
                check_folder(folder)
            except DamagedError as error:
                put_aside(folder, error, then, self.path)
            else:
                if _step_of(folder) == step:
                    if folder is self.previous:
                        remove(self.best, self.path)
                        rename(folder, BEST, self.path)
                    return True
        return False

    def check_best(self) -> None:
        """Raise DamagedError where the best model is missing or has changed since it was written."""
        if not self.best.is_dir():
            raise DamagedError("it is missing")
        check_folder(self.best)

    def load_best(self, student: Student, method: Method) -> int:
        """Load the best model into a student and its method, both as the run built them; return its
        step.

        A pooler in the file belongs to the method's heads and is ignored. Raises DamagedError,
        before anything is loaded, for a changed file and for a weight that is missing or does not
        fit, naming the first.
        """
        self.check_best()

        saved = _load_weights(self.best / "model.safetensors")
        encoder = {name: value for name, value in saved.items() if not name.startswith("pooler.")}
        heads = _load_weights(self.best / _HEADS)
        _check_fit(student.get_whole_weights(), encoder)
        _check_fit(method.kept(), heads)

        student.load_whole(encoder)
        method.load_state_dict(heads, strict=False)  # what is aside stays as it is
        return _step_of(self.best)


def _step_of(folder: Path) -> int:
    """The step of a saved model. Raises OSError and ValueError."""
    return int(read_regular(folder / _STEP, folder))


def load_checkpoint(path: Path, device: torch.device) -> dict[str, Any]:
    """Read a checkpoint. Raises DamagedError for one that has changed since it was written."""
    try:
        match = CHECKPOINT.fullmatch(path.name)
        if match is None or hash_content(path, path.parent)[:32] != match[2]:
            raise DamagedError("its content does not match its name")

        state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    except (RuntimeError, EOFError, pickle.UnpicklingError, ValueError, KeyError, OSError) as error:
        raise DamagedError(f"it cannot be read: {error}") from error
    return state


def _find_cause(error: BaseException) -> BaseException:
    """The file system's error behind one of torch, which only reports an unexpected size; else the
    error itself.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__context__
    return cause or error


def _load_weights(file: Path) -> dict[str, Tensor]:
    try:
        weights: dict[str, Tensor] = load_file(str(file))
        return weights
    except (OSError, SafetensorError) as error:
        raise DamagedError(f"{file.name} cannot be read: {first_line(error)}") from error


def _check_fit(expected: dict[str, Tensor], weights: dict[str, Tensor]) -> None:
    for name, value in expected.items():
        if name not in weights:
            raise DamagedError(f"it has no weight {name}")
        if weights[name].shape != value.shape:
            raise DamagedError(
                f"its weight {name} has the shape {tuple(weights[name].shape)}, not {tuple(value.shape)}"
            )
    for name in weights.keys() - expected.keys():
        raise DamagedError(f"it has an unexpected weight {name}")
