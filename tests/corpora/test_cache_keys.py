"""Whatever an answer of the cache depends on is in its question: change the thing, ask again, and
it is made again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from transformers import AutoTokenizer

from harness.corpora.labelled_images import LabelledImages
from harness.corpora.tokens import get_tokens
from harness.evaluation.sts import OwnPairs
from harness.planning.seen import load_hashes
from harness.sources import hash_file, list_versions
from harness.toy import student_folder


@pytest.fixture(autouse=True)
def _empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))


def tokens(root: Path) -> object:
    tokenizer = AutoTokenizer.from_pretrained(str(student_folder()))
    return np.array(
        get_tokens("content", lambda: [(root / "text").read_text()], tokenizer, 8).ids
    ).tolist()


def seen(root: Path) -> object:
    return load_hashes("content", lambda: [(root / "text").read_text()]).tolist()


def readable(root: Path) -> object:
    LabelledImages("images", size=8, bad=1).load(root)
    return sorted(path.name for path in (root / "cache" / "readable").iterdir())


def own_task(root: Path) -> object:
    OwnPairs("mine", "pairs.csv", ("a", "b", "s"), (0, 5), None).fingerprint(root)
    return sorted(path.name for path in (root / "cache" / "tasks").iterdir())


READERS = [
    ("harness.corpora.tokens.hash_reading_code", tokens),
    ("harness.corpora.tokens.list_versions", tokens),
    ("harness.planning.seen.hash_reading_code", seen),
    ("harness.planning.seen.unidata_version", seen),
    ("harness.evaluation.suites.hash_reading_code", own_task),
    ("harness.corpora.labelled_images.list_versions", readable),
    ("harness.corpora.labelled_images.DECODING", readable),
]


@pytest.mark.parametrize(("of", "ask"), READERS, ids=[of for of, _ in READERS])
def test_what_other_code_or_another_library_has_read_is_read_again(
    of: str, ask: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text").write_text("a cat sleeps")
    (tmp_path / "images" / "a").mkdir(parents=True)
    for name in ("1.png", "2.png"):
        Image.new("RGB", (9, 9)).save(tmp_path / "images" / "a" / name)
    (tmp_path / "pairs.csv").write_text("a,b,s\nx,y,1\n")
    before = ask(tmp_path)
    (tmp_path / "text").write_text("dogs run")
    assert ask(tmp_path) == before, "known by its content, which is the same for the one who asks"
    changed = "9" if of.endswith(("version", "DECODING")) else lambda *packages: "9"
    monkeypatch.setattr(of, changed)
    assert ask(tmp_path) != before


def test_a_file_of_the_same_size_and_time_is_hashed_again(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_text("one")
    times, before = path.stat(), hash_file(path)
    path.write_text("two")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert hash_file(path) != before


def test_versions_are_those_that_are_installed() -> None:
    found, absent = list_versions("numpy", "no-such-package-anywhere")
    assert found == np.__version__
    assert absent == ""
