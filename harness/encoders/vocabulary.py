"""Whether two models split sentences into the same tokens."""

from __future__ import annotations

from pathlib import Path

from harness.errors import UserError


def check_vocabulary(student: Path, teacher: Path, name: str) -> None:
    """Raise UserError unless the model folders of student and teacher have one vocabulary; `name` is the teacher's.

    Token features are matched to the student's tokens position by position.
    """
    from transformers import AutoTokenizer

    ours, theirs = (AutoTokenizer.from_pretrained(str(folder), local_files_only=True) for folder in (student, teacher))
    if ours.get_vocab() != theirs.get_vocab():
        raise UserError(
            f"the teacher '{name}' has another vocabulary than the student, so its token features do not match the "
            "student's tokens; name a text teacher of the encoder's family"
        )
