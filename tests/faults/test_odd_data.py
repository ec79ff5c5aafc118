"""Data files with odd content: one line that names the file."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from harness import datafiles
from harness.corpora.features import FeatureFile
from harness.corpora.files import CaptionsFile, SentencesFile, TripletsFile, read_captions
from harness.corpora.labelled_audio import LabelledAudio
from harness.corpora.labelled_images import LabelledImages
from harness.corpora.retrieval import CaptionedFile
from harness.datafiles import lines_of, read_rows, read_table
from harness.encoders.modules import listed_modules
from harness.errors import UserError
from harness.sources import Source


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
    monkeypatch.setattr(datafiles, "LONGEST_LINE", 1000)
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


@pytest.mark.parametrize("kind", ["pipe", "device", "loop"])
@pytest.mark.parametrize("source", [SentencesFile, LabelledImages, LabelledAudio, FeatureFile])
def test_no_file_of_data_is_waited_for(tmp_path: Path, source: Callable[[str], Source], kind: str) -> None:
    odd(tmp_path / "x.npy", kind)
    assert [missing.what for missing in source("x.npy").missing(tmp_path)] == ["x.npy"]


@pytest.mark.parametrize("kind", ["pipe", "device", "loop"])
def test_no_image_of_a_caption_is_waited_for(tmp_path: Path, kind: str) -> None:
    (tmp_path / "captions.tsv").write_text("image\tcaption\na.png\tone\n")
    (tmp_path / "images").mkdir()
    odd(tmp_path / "images" / "a.png", kind)
    pixels = CaptionsFile("captions.tsv", images="images").pixels
    with pytest.raises(UserError, match="has no image a"):
        pixels.fingerprint(tmp_path)


@pytest.mark.parametrize(
    ("read", "name", "content"),
    [
        (lambda path: read_table(path, "a"), "x.tsv", "a\tb\n1\n"),
        (lambda path: read_captions(path), "x.parquet", {"image_id": ["1", "1"], "captions": [["a"], ["b"]]}),
        (lambda path: read_captions(path), "x.parquet", {"image_id": ["1"], "captions": ["a"]}),
        (lambda path: listed_modules(path.parent), "modules.json", "{"),
        (lambda path: listed_modules(path.parent), "modules.json", '[{"type": "x", "path": "../x"}]'),
        (lambda path: list(SentencesFile(str(path), limit=5).texts(None)), "x.txt", "one\n"),
        (
            lambda path: CaptionedFile("x", str(path), "", {}, split="test").load(None),
            "x.tsv",
            "split\tcaption\nq\ta\n",
        ),
    ],
)
def test_a_users_own_file_is_named_and_not_fetched(
    tmp_path: Path, read: Callable[[Path], object], name: str, content: str | dict[str, list[object]]
) -> None:
    path = tmp_path / name
    if isinstance(content, str):
        path.write_text(content)
    else:
        parquet.write_table(pyarrow.table(content), path)
    with pytest.raises(UserError) as said:
        read(path)
    assert str(path) in str(said.value)
    assert "fetch" not in str(said.value)


def odd(path: Path, kind: str) -> None:
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero" if kind == "device" else path)
