"""What a training changes from step to step, which is what a checkpoint holds, and the resume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from harness.encoders.student import Student
from harness.errors import first_line
from harness.files import DamagedError, put_aside, remove
from harness.method import Method
from harness.spec import Stream
from harness.training.folder import TrainingFolder, load_checkpoint
from harness.training.neighbours import NearRows
from harness.training.record import LossWindow, TrainingRecord
from harness.training.stepper import Stepper


@dataclass
class TrainingState:
    """The weights of a training, its optimizers and what it has recorded.

    `main` updates by the losses of text and pairs, `own` by those of the streams that have steps of
    their own. `near` has what the latest searches of the corpus have found.
    """

    student: Student
    method: Method
    main: Stepper
    own: Mapping[Stream, Stepper]
    record: TrainingRecord
    window: LossWindow = field(default_factory=LossWindow)
    near: Mapping[str, NearRows] = field(default_factory=dict)

    @property
    def steppers(self) -> tuple[Stepper, ...]:
        return (self.main, *self.own.values())

    def state_dict(self, step: int) -> dict[str, Any]:
        """The state after a step: tensors, which are not copied, and plain values."""
        state = self.main.state_dict()
        state["step"] = step
        state["student"] = self.student.state_dict()
        state["method"] = self.method.state_dict()
        state["own"] = {stream: stepper.state_dict() for stream, stepper in self.own.items()}
        state["record"] = asdict(self.record)
        state["window"] = self.window.state_dict()
        state["near"] = {name: near.state_dict() for name, near in self.near.items()}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> int:
        """Load a state and return its step.

        Raises DamagedError if it is of another model; parts of it may be loaded then.
        """
        try:
            self.student.load_state_dict(state["student"])
            self.method.load_state_dict(state["method"])
            self.main.load_state_dict(state)
            for stream, stepper in self.own.items():
                stepper.load_state_dict(state["own"][stream])
            self.record = TrainingRecord(**state["record"])
            self.window.load_state_dict(state["window"])
            for name, near in self.near.items():
                near.load_state_dict(state["near"][name])
            return int(state["step"])
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise DamagedError(f"it does not fit this run: {first_line(error)}") from error

    def resume(self, folder: TrainingFolder, device: torch.device) -> int:
        """Load the latest usable checkpoint and return its step, 0 if there is none.

        A checkpoint that is damaged, or whose kept model is lost, is put away.
        """
        checkpoints = folder.list_checkpoints()
        if not checkpoints:
            return 0

        beginning = self.state_dict(0)
        for part in ("student", "method"):
            copies = {name: value.cpu().clone() for name, value in beginning[part].items()}
            beginning[part] = copies

        for path in checkpoints:
            is_oldest = path == checkpoints[-1]
            then = "training starts again" if is_oldest else "using the previous checkpoint"
            try:
                step = self.load_state_dict(load_checkpoint(path, device))
            except DamagedError as error:
                put_aside(path, error, then, folder.path)
            else:
                if self._find_kept_model(folder, step, then):
                    return step
                remove(path, folder.path)
            self.load_state_dict(beginning)
        return 0

    def _find_kept_model(self, folder: TrainingFolder, step: int, then: str) -> bool:
        """Whether the model kept up to a checkpoint's step exists; if it is that of the checkpoint,
        it is saved again.
        """
        kept_step = self.record.kept_step
        if kept_step is None:
            return True

        if kept_step != step:
            return folder.restore_best(kept_step, then)
        if not folder.restore_best(kept_step, "saved again"):
            folder.keep_best(self.student, self.method, step)
        return True
