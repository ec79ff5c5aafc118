"""What lies where a file of data belongs, and users' own files with mistakes: one line that names the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from faults_tools import WAITING, misplace

from harness.corpora.files import CaptionsFile, SentencesFile, read_captions
from harness.corpora.images import FeatureFile
from harness.corpora.labelled_audio import LabelledAudio
from harness.corpora.labelled_images import LabelledImages
from harness.corpora.retrieval import CaptionedFile
from harness.encoders.modules import listed_modules
from harness.errors import UserError
from harness.fetching.archives import write_parquet


@pytest.mark.parametrize("kind", WAITING)
def test_no_file_of_data_and_no_image_of_a_caption_is_waited_for(tmp_path: Path, kind: str) -> None:
    misplace(tmp_path / "x.npy", kind)
    for source in (SentencesFile, LabelledImages, LabelledAudio, FeatureFile):
        assert [missing.what for missing in source("x.npy").missing(tmp_path)] == ["x.npy"]
    (tmp_path / "captions.tsv").write_text("image\tcaption\na.png\tone\n")
    (tmp_path / "images").mkdir()
    misplace(tmp_path / "images" / "a.png", kind)
    pixels = CaptionsFile("captions.tsv", images="images").pixels
    with pytest.raises(UserError, match="has no image a"):
        pixels.fingerprint(tmp_path)


@pytest.mark.parametrize(
    ("read", "name", "content"),
    [
        (read_captions, "x.parquet", {"image_id": ["1", "1"], "captions": [["a"], ["b"]]}),
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
        write_parquet(path, content)
    with pytest.raises(UserError, match=str(path)) as said:
        read(path)
    assert "fetch" not in str(said.value)
