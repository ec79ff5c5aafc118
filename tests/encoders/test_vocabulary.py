from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from harness.corpora.toy import student_folder
from harness.encoders.vocabulary import check_vocabulary
from harness.errors import UserError


def test_one_vocabulary_passes_and_another_names_the_teacher(tmp_path: Path) -> None:
    check_vocabulary(student_folder(), student_folder(), "same")
    other = shutil.copytree(student_folder(), tmp_path / "other")
    described = json.loads((other / "tokenizer.json").read_text())
    words = described["model"]["vocab"]
    first, second = (next(word for word in words if word.startswith(letter)) for letter in "ab")
    words[first], words[second] = words[second], words[first]
    (other / "tokenizer.json").write_text(json.dumps(described))
    with pytest.raises(UserError, match="the teacher 'other' has another vocabulary than the student"):
        check_vocabulary(student_folder(), other, "other")
