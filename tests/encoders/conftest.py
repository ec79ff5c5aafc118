"""A model folder that tests change."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.encoders.student import Student
from harness.toy import student_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The toy student as a folder of sentence-transformers."""
    saved = tmp_path / "model"
    Student.load(student_folder(), "mean").save(saved)
    return saved
