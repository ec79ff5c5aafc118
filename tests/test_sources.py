"""Files that are never half-written, hashes of contents, and sources of data."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from harness.errors import MissingData
from harness.files import write_text
from harness.sources import FileSource, digest, hash_file, resolve_data_root


def test_a_digest_depends_on_values_and_not_on_the_order_of_keys() -> None:
    assert digest({"a": 1, "b": [2.0, "é"]}) == digest({"b": [2.0, "é"], "a": 1})
    assert len({digest(1), digest("1"), digest(True), digest([1]), digest(1, None)}) == 5
    with pytest.raises(ValueError, match="not JSON compliant"):
        digest(float("nan"))


def test_the_hash_of_a_file_is_its_contents_and_is_computed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = tmp_path / "one", tmp_path / "other"
    path.write_bytes(b"the same")
    other.write_bytes(b"the same")
    assert hash_file(path) == hash_file(other) == hashlib.sha256(b"the same").hexdigest()
    with monkeypatch.context() as patch:
        patch.setattr(hashlib, "file_digest", lambda stream, name: pytest.fail("read again"))
        hash_file(path)
    path.write_bytes(b"something else")
    assert hash_file(path) != hash_file(other)


def test_file_sources_name_each_missing_file_and_are_identified_by_their_bytes(
    tmp_path: Path,
) -> None:
    source = FileSource(["a.txt", "b.txt"], "fetch them")
    assert [str(item) for item in source.missing(None)] == [
        "cannot find a.txt; fetch them",
        "cannot find b.txt; fetch them",
    ]
    (tmp_path / "a.txt").write_text("first")
    with pytest.raises(MissingData, match=r"^cannot find b\.txt; fetch them$"):
        source.paths(tmp_path)
    (tmp_path / "b.txt").write_text("second")
    before = source.fingerprint(tmp_path)
    (tmp_path / "a.txt").write_text("second")
    (tmp_path / "b.txt").write_text("first")
    assert source.fingerprint(tmp_path) != before, "files in another order are other data"


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "folder" / "note.txt"
    write_text(path, "old")

    def refused(*names: str, **folders: int) -> None:
        raise OSError("no space")

    monkeypatch.setattr("os.replace", refused)
    with pytest.raises(OSError, match="no space"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert [file.name for file in path.parent.iterdir()] == ["note.txt"]


def test_the_data_root_is_the_option_then_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HARNESS_DATA", raising=False)
    assert resolve_data_root() is None
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path))
    assert resolve_data_root() == tmp_path.resolve()
    assert resolve_data_root(tmp_path / "other") == (tmp_path / "other").resolve()
