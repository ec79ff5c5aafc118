"""Labelled images: augmentation, labels, fingerprints and invalid files."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
import torch
from PIL import Image

from harness.corpora.base import Media
from harness.corpora.labelled_audio import LabelledAudio
from harness.corpora.labelled_images import LabelledImages
from harness.encoders.vision import Augmentation, normalised
from harness.errors import MissingData, UserError
from harness.seeds import generator


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


def test_two_views_differ_and_depend_on_the_generator_alone(images: Path) -> None:
    media = LabelledImages("images.parquet", "", size=24).load(images)
    before = torch.random.get_rng_state()
    first = drawn(media, [0, 4])
    assert torch.equal(before, torch.random.get_rng_state())
    assert first.shape == (2, 2, 3, 24, 24)
    assert first.dtype == np.float32
    assert not np.array_equal(first[:, 0], first[:, 1])
    np.testing.assert_array_equal(first, drawn(media, [0, 4]))
    assert not np.array_equal(first, drawn(media, [0, 4], seed=1))


def test_without_augmentation_an_image_is_normalised_by_imagenets_moments() -> None:
    plain = Augmentation(8, smallest=1.0, jitter=0, grey=0)
    views = plain.views([Image.new("RGB", (8, 8), (255, 0, 51))], generator(seed=0))
    assert views.dtype == torch.uint8
    pixels = normalised(views)[0, 0, :, 4, 4].tolist()
    assert pixels == pytest.approx([(1 - 0.485) / 0.229, -0.456 / 0.224, (0.2 - 0.406) / 0.225], abs=1e-5)


def test_labels_are_classes_or_items(images: Path) -> None:
    assert LabelledImages("images.parquet", "").load(images).labels.tolist() == [2, 0, 1, 2, 0, 1]
    assert LabelledImages("images.parquet", "", labelled=False).load(images).labels.tolist() == list(range(6))
    assert LabelledImages("tree", "").load(images).labels.tolist() == [0, 0, 0, 1, 1, 1]
    few = LabelledImages("tree", "", per_class=2).load(images)
    assert few.labels.tolist() == [0, 0, 1, 1]


def test_what_an_image_corpus_holds_is_its_fingerprint(images: Path) -> None:
    options = ({}, {"size": 32}, {"labelled": False}, {"per_class": 1})
    prints = [LabelledImages("tree", "", **each).fingerprint(images) for each in options]
    (images / "tree" / "cat" / "0.JPEG").write_bytes(jpeg((9, 9, 9)))
    prints.append(LabelledImages("tree", "").fingerprint(images))
    assert len(set(prints)) == 5


def test_bad_images_are_one_line(images: Path) -> None:
    (images / "empty").mkdir()
    (images / "no.parquet").write_bytes(b"no")
    with pytest.raises(UserError, match="has no folders with images"):
        LabelledImages("empty", "").load(images)
    with pytest.raises(UserError, match="not a Parquet file"):
        LabelledImages("no.parquet", "").load(images)
    with pytest.raises(MissingData, match="fetch it"):
        LabelledImages("absent", "fetch it").load(images)


def test_labels_may_be_names_and_none_may_be_absent(tmp_path: Path) -> None:
    red = jpeg((250, 0, 0))
    parquet.write_table(arrow.table({"jpeg": [red] * 3, "label_name": ["dog", "cat", "dog"]}), tmp_path / "a.parquet")
    assert LabelledImages("a.parquet", "").load(tmp_path).labels.tolist() == [1, 0, 1]
    parquet.write_table(arrow.table({"jpeg": [red, None], "label": [0, 1]}), tmp_path / "b.parquet")
    with pytest.raises(UserError, match=r"b\.parquet, row 2: the image has no bytes"):
        LabelledImages("b.parquet", "").load(tmp_path)
    parquet.write_table(arrow.table({"jpeg": [red]}), tmp_path / "c.parquet")
    with pytest.raises(UserError, match="has no column label_name; it has jpeg"):
        LabelledImages("c.parquet", "").load(tmp_path)


def test_real_speech_and_images_load(data_root: Path) -> None:
    digits = LabelledAudio(
        "audio/fsdd_wav.tar.gz", "", index="audio/fsdd_index.tsv", split="train", bins=40, frames=64
    ).load(data_root)
    assert (len(digits), len(set(digits.labels.tolist()))) == (900, 6)
    assert np.isfinite(drawn(digits, [0, 899])).all()
    cifar = LabelledImages("images_cls/cifar10_train.parquet", "", size=32, per_class=5).load(data_root)
    assert sorted(cifar.labels.tolist()) == sorted(list(range(10)) * 5)
    assert drawn(cifar, [0, 49]).shape == (2, 2, 3, 32, 32)
