"""Pictures and tones of the toy world as unpaired media."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
from PIL import Image

from harness.corpora.base import CorpusSource, Media
from harness.seeds import generator
from harness.toy.corpora import ToyImages, ToyTones


def jpeg(colour: tuple[int, int, int]) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (40, 30), colour).save(stream, "JPEG")
    return stream.getvalue()


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Six images of three classes: red 2, green 2, blue 2."""
    rows = [jpeg(colour) for colour in ((250, 0, 0), (0, 250, 0), (0, 0, 250)) * 2]
    parquet.write_table(arrow.table({"jpeg": rows, "label": [7, 3, 5] * 2}), tmp_path / "images.parquet")
    for name, colour in (("cat", (1, 2, 3)), ("dog", (4, 5, 6))):
        for number in range(3):
            (tmp_path / "tree" / name).mkdir(parents=True, exist_ok=True)
            (tmp_path / "tree" / name / f"{number}.JPEG").write_bytes(jpeg(colour))
    return tmp_path


def drawn(media: Media, rows: list[int], seed: int = 0) -> np.ndarray:
    (values,) = media.ready(media.batch(np.array(rows), generator(seed=seed))).values()
    return values.numpy()


@pytest.mark.parametrize("source", [ToyImages(size=40), ToyTones(size=40)], ids=["images", "tones"])
def test_toy_media_are_the_same_every_time_and_learnable(source: CorpusSource) -> None:
    media = source.load(None)
    assert len(media) == 40
    assert media.labels.dtype == np.int64
    np.testing.assert_array_equal(drawn(media, [3, 5]), drawn(source.load(None), [3, 5]))
    assert not np.array_equal(drawn(media, [3]), drawn(media, [5]))
    assert source.fingerprint(None) != type(source)(seed=1, size=40).fingerprint(None)
