"""Frozen teachers by their kind."""

from __future__ import annotations

from pathlib import Path

from harness.encoders.teachers_base import Teacher
from harness.encoders.teachers_clip import ClipTeacher
from harness.encoders.teachers_text import TextTeacher
from harness.encoders.teachers_timm import TimmTeacher
from harness.errors import UserError

__all__ = ["KINDS", "Teacher", "open_teacher"]

KINDS = ("open-clip", "timm", "text")


def open_teacher(
    kind: str, folder: Path, *, pooling: str = "cls", max_length: int = 32, device: str = "cpu"
) -> Teacher:
    """Load a teacher from a model folder, in evaluation mode and float32.

    `pooling` and `max_length` (tokens, special ones included) say how a 'text' teacher reads sentences; the
    captions of an 'open-clip' one are cut at its own context length. Raises UserError for an unknown kind or
    pooling, and for a folder that cannot be read.
    """
    if kind == "open-clip":
        return ClipTeacher(folder, device)
    if kind == "timm":
        return TimmTeacher(folder, device)
    if kind == "text":
        return TextTeacher(folder, pooling, max_length, device)
    raise UserError(f"there is no kind of teacher '{kind}'; valid: {', '.join(KINDS)}")
