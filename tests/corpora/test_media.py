"""Unpaired images and recordings: real files, toy ones, and what is wrong with bad ones."""

from __future__ import annotations

import importlib.util
import io
import tarfile
import wave
from pathlib import Path

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
import torch
from PIL import Image

from harness.corpora.base import CorpusSource, Media
from harness.corpora.labelled_audio import LabelledAudio
from harness.corpora.labelled_images import LabelledImages
from harness.corpora.toy.media import ToyImages, ToyTones
from harness.encoders.audio import filterbank, masked
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


@pytest.mark.parametrize("source", [ToyImages(size=40), ToyTones(size=40)], ids=["images", "tones"])
def test_toy_media_are_the_same_every_time_and_learnable(source: CorpusSource) -> None:
    media = source.load(None)
    assert len(media) == 40
    assert media.labels.dtype == np.int64
    np.testing.assert_array_equal(drawn(media, [3, 5]), drawn(source.load(None), [3, 5]))
    assert not np.array_equal(drawn(media, [3]), drawn(media, [5]))
    assert source.fingerprint(None) != type(source)(seed=1, size=40).fingerprint(None)


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
    prints = [LabelledImages("tree", "", **each).fingerprint(images) for each in options]  # type: ignore[arg-type]
    (images / "tree" / "cat" / "0.JPEG").write_bytes(jpeg((9, 9, 9)))
    prints.append(LabelledImages("tree", "").fingerprint(images))
    assert len(set(prints)) == 5


def test_bad_images_are_one_line(images: Path) -> None:
    (images / "tree" / "cat" / "1.JPEG").write_bytes(b"not an image")
    (images / "empty").mkdir()
    (images / "no.parquet").write_bytes(b"no")
    with pytest.raises(
        UserError, match=r"tree: 1 of 6 images cannot be decoded: cat/1\.JPEG \(not an image format"
    ) as error:
        LabelledImages("tree", "").load(images)
    assert "set bad = 1" in str(error.value)
    with pytest.raises(UserError, match="has no folders with images"):
        LabelledImages("empty", "").load(images)
    with pytest.raises(UserError, match="no Parquet file"):
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
    with pytest.raises(UserError, match="no Parquet file"):
        LabelledImages("c.parquet", "").load(tmp_path)


# Recordings ---------------------------------------------------------------------------------------


def write_wave(path: Path, samples: np.ndarray, rate: int = 16000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((samples * 32767).astype("<i2").tobytes())


@pytest.fixture
def speech(tmp_path: Path) -> Path:
    lines = ["file\tspeaker_id\tsplit"]
    for number, speaker in enumerate((0, 0, 0, 1, 1, 2)):
        tone = 0.5 * np.sin(2 * np.pi * (200 + 100 * speaker) * np.arange(8000) / 16000)
        write_wave(tmp_path / "wav" / f"{number}.wav", tone)
        lines.append(f"{number}.wav\t{speaker}\t{'test' if number == 2 else 'train'}")
    (tmp_path / "index.tsv").write_text("\n".join(lines) + "\n")
    return tmp_path


def audio(**options: object) -> LabelledAudio:
    return LabelledAudio("wav", "fetch it", **{"index": "index.tsv", "bins": 32, "frames": 60, **options})  # type: ignore[arg-type]


def test_recordings_have_their_speakers(speech: Path) -> None:
    assert audio().load(speech).labels.tolist() == [0, 0, 0, 1, 1, 2]
    assert audio(split="train").load(speech).labels.tolist() == [0, 0, 1, 1, 2]
    assert audio(top=2).load(speech).labels.tolist() == [0, 0, 0, 1, 1]
    assert drawn(audio().load(speech), [0, 3]).shape == (2, 60, 32)


def test_a_filterbank_is_kaldis() -> None:
    """Against transformers' own extractor for audio spectrogram transformers."""
    from transformers import ASTFeatureExtractor

    samples = np.random.default_rng(0).normal(0, 0.1, 16000).astype(np.float32)
    samples -= samples.mean()
    extractor = ASTFeatureExtractor(num_mel_bins=64, max_length=120, do_normalize=False)
    expected = extractor(samples, sampling_rate=16000, return_tensors="np")["input_values"][0]
    found = filterbank(samples, 16000, bins=64, frames=120)
    np.testing.assert_allclose(found[:98], expected[:98], atol=2e-3)
    assert not found[98:].any()


def test_a_wave_shorter_than_a_window_is_silence() -> None:
    assert not filterbank(np.ones(10), 16000, bins=8, frames=4).any()


def test_masks_are_bands_of_zeros_within_their_limits() -> None:
    ones = np.ones((200, 100, 64), dtype=np.float32)
    out = masked(ones, generator(seed=0), bins=16, frames=30)
    assert ones.all()
    for item in out:
        bins, frames = (int((item == 0).all(axis=axis).sum()) for axis in (0, 1))
        assert bins <= 16
        assert frames <= 30
        assert (item == 0).sum() == bins * 100 + frames * 64 - bins * frames
    assert len({int((item == 0).all(axis=0).sum()) for item in out}) > 8


def test_augmented_recordings_depend_on_the_generator_alone(speech: Path) -> None:
    media = audio(augment=True).load(speech)
    np.testing.assert_array_equal(drawn(media, [0, 1, 4]), drawn(media, [0, 1, 4]))
    assert not np.array_equal(drawn(media, [0, 1, 4]), drawn(media, [0, 1, 4], seed=1))


def test_half_of_the_recordings_are_mixed_with_another(speech: Path) -> None:
    """Half are mixed; a mixture of two equal tones is the tone again: 0.5 + 0.5 (9 + 4 + 1) / 36."""
    plain, mixing = audio(bins=128).load(speech), audio(bins=128, augment=True).load(speech)
    rows, same = list(range(6)), []
    expected = drawn(plain, rows)
    for seed in range(50):
        for item, whole in zip(drawn(mixing, rows, seed=seed), expected, strict=True):
            seen = item != 0
            if seen.sum() > 20:
                same.append(bool(np.allclose(item[seen], whole[seen], atol=1e-2)))
    assert len(same) > 150
    assert np.mean(same) == pytest.approx(0.5 + 0.5 * 14 / 36, abs=0.1)


def test_an_archive_is_read_like_a_folder(speech: Path) -> None:
    with tarfile.open(speech / "wav.tar.gz", "w:gz") as archive:
        archive.add(speech / "wav", "some/folder")
    packed = LabelledAudio("wav.tar.gz", "", index="index.tsv", bins=32, frames=60)
    np.testing.assert_array_equal(drawn(packed.load(speech), [0, 5]), drawn(audio().load(speech), [0, 5]))
    (speech / "wav.tar.gz").write_bytes((speech / "wav.tar.gz").read_bytes()[:-200])
    with pytest.raises(UserError, match=r"cannot be read: .*fetch it again"):
        packed.load(speech)


def test_librispeechs_folders_need_a_package(tmp_path: Path) -> None:
    for speaker in ("19", "26"):
        (tmp_path / "speech" / speaker / "198").mkdir(parents=True)
        (tmp_path / "speech" / speaker / "198" / f"{speaker}-198-0000.flac").write_bytes(b"fLaC")
    if importlib.util.find_spec("soundfile") is None:
        with pytest.raises(UserError, match="need the package soundfile"):
            LabelledAudio("speech", "").load(tmp_path)
    else:
        with pytest.raises(UserError, match=r"19-198-0000\.flac cannot be read"):
            LabelledAudio("speech", "").load(tmp_path)


def test_an_index_that_does_not_fit_is_one_line(speech: Path) -> None:
    (speech / "wav" / "3.wav").unlink()
    with pytest.raises(UserError, match=r"has no recording 3\.wav"):
        audio().load(speech)
    with (speech / "index.tsv").open("a") as stream:
        stream.write("9.wav\n")
    with pytest.raises(UserError, match=r"index\.tsv, line 8: 1 tab-separated fields"):
        audio().load(speech)
    with pytest.raises(UserError, match="top = 0 leaves no rows"):
        audio(top=0)


def test_bad_recordings_are_one_line(speech: Path) -> None:
    write_wave(speech / "wav" / "1.wav", np.zeros(0))
    with pytest.raises(UserError, match=r"1\.wav is empty"):
        audio().load(speech)
    (speech / "wav" / "1.wav").write_bytes(b"RIFF")
    with pytest.raises(UserError, match=r"1\.wav cannot be read"):
        audio().load(speech)
    write_wave(speech / "wav" / "1.wav", np.ones(900), rate=8000)
    with pytest.raises(UserError, match="resample them to one rate"):
        audio().load(speech)
    with pytest.raises(UserError, match="no column 'person'"):
        audio(label="person").load(speech)
    with pytest.raises(UserError, match="no rows of the split 'dev'"):
        audio(split="dev").load(speech)


def test_real_speech_and_images_load(data_root: Path) -> None:
    digits = LabelledAudio(
        "audio/fsdd_wav.tar.gz", "", index="audio/fsdd_index.tsv", split="train", bins=40, frames=64
    ).load(data_root)
    assert (len(digits), len(set(digits.labels.tolist()))) == (900, 6)
    assert np.isfinite(drawn(digits, [0, 899])).all()
    cifar = LabelledImages("images_cls/cifar10_train.parquet", "", size=32, per_class=5).load(data_root)
    assert sorted(cifar.labels.tolist()) == sorted(list(range(10)) * 5)
    assert drawn(cifar, [0, 49]).shape == (2, 2, 3, 32, 32)
