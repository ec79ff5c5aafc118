"""Data files with odd content: one line that names the file."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import h5py
import numpy as np
import pytest

from harness import textfiles
from harness.corpora.features import FeatureFile
from harness.corpora.files import TripletsFile
from harness.errors import UserError
from harness.textfiles import lines_of, read_rows


def huge() -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": (10**9, 10**6)})
    return stream.getvalue()


def stored(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


FEATURES = {
    "huge.npy": huge(),
    "texts.npy": stored(np.array([["1", "2"]])),
    "complex.npy": stored(np.array([[1 + 2j]])),
    "junk.npy": b"junk",
    "empty.parquet": b"",
    "empty.safetensors": b"",
}


@pytest.mark.parametrize("name", FEATURES)
def test_a_feature_file_that_is_none_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(FEATURES[name])
    with pytest.raises(UserError) as said:
        FeatureFile(name).read(tmp_path)
    assert str(tmp_path / name) in str(said.value)
    assert "fetch" not in str(said.value)
    assert "pickle" not in str(said.value)


def test_a_link_to_another_hdf5_file_is_named(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["features"] = h5py.ExternalLink("elsewhere.h5", "features")
    with pytest.raises(UserError, match=r"x\.h5 cannot be read"):
        FeatureFile("x.h5").read(tmp_path)


@pytest.mark.parametrize("line", ['{"a": NaN}', '{"a": "\\ud800"}', '{"a": Infinity}'])
def test_a_line_of_json_that_is_no_text_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": "fine"}\n' + line)
    with pytest.raises(UserError, match=r"x\.jsonl, line 2:"):
        list(read_rows(path, "a"))


@pytest.mark.parametrize("name", ["x.txt", "x.txt.gz"])
def test_a_line_without_end_is_refused_before_it_is_read(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(textfiles, "LONGEST_LINE", 1000)
    content = b"short\n" + b"\0" * 2000
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    with pytest.raises(UserError, match="line 2 has more than"):
        list(lines_of(tmp_path / name))


def test_carriage_returns_alone_end_no_line(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(b"one\rtwo\r")
    with pytest.raises(UserError, match=r"x\.txt has carriage returns and no line feed"):
        list(lines_of(tmp_path / "x.txt"))


def test_a_triplet_needs_three_different_columns() -> None:
    with pytest.raises(UserError, match="names a column twice"):
        TripletsFile("x.tsv", columns=["a", "a", "a"])
