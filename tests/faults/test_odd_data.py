"""What lies where a file of data belongs: one line that names the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults_tools import WAITING, misplace

from harness.corpora.files import CaptionsFile, SentencesFile
from harness.corpora.images import FeatureFile
from harness.corpora.labelled_audio import LabelledAudio
from harness.corpora.labelled_images import LabelledImages
from harness.errors import UserError


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
