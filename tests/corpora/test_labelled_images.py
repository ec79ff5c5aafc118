"""Labelled images: augmentation, labels and fingerprints; images that cannot be decoded, and
unusual ones that can.
"""

from __future__ import annotations

import logging
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_files import image_bytes, riff, write_tar
from PIL import Image

from harness.caches import get_cache_folder
from harness.corpora.base import Media
from harness.corpora.files import CaptionsFile
from harness.corpora.labelled_audio import LabelledAudio
from harness.corpora.labelled_images import LabelledImages
from harness.corpora.shards import ShardPairs
from harness.encoders import media
from harness.encoders.media import decode_image
from harness.encoders.vision import Augmentation, normalise_pixels
from harness.errors import MissingData, UserError
from harness.fetching.archives import write_parquet
from harness.files import write_note
from harness.seeds import make_generator


def jpeg(colour: tuple[int, int, int]) -> bytes:
    return image_bytes(Image.new("RGB", (40, 30), colour), "JPEG")


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Six images of three classes: red 2, green 2, blue 2."""
    rows = [jpeg(colour) for colour in ((250, 0, 0), (0, 250, 0), (0, 0, 250)) * 2]
    write_parquet(tmp_path / "images.parquet", {"jpeg": rows, "label": [7, 3, 5] * 2})
    for name, colour in (("cat", (1, 2, 3)), ("dog", (4, 5, 6))):
        for number in range(3):
            (tmp_path / "tree" / name).mkdir(parents=True, exist_ok=True)
            (tmp_path / "tree" / name / f"{number}.JPEG").write_bytes(jpeg(colour))
    return tmp_path


def drawn(media: Media, rows: list[int], seed: int = 0) -> np.ndarray:
    (values,) = media.ready(media.batch(np.array(rows), make_generator(seed=seed))).values()
    return values.numpy()


def test_media_are_files_of_the_hub_too(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(images))
    snapshot, at = (
        images / "datasets--a--b" / "snapshots" / ("0" * 40),
        f"hf://datasets/a/b@{'0' * 40}",
    )
    shards, parts = (
        ShardPairs(f"{at}/train-*-of-00001.tar"),
        LabelledImages(f"{at}/train-*-of-00002.parquet", size=24),
    )
    audio = LabelledAudio(f"{at}/waves.tar", index=f"{at}/index.tsv", label="label")
    lacking = [item for corpus in (shards, parts, audio) for item in corpus.missing(None)]
    named = ["train-*-of-00001.tar", "train-*-of-00002.parquet", "waves.tar", "index.tsv"]
    assert [(item.hub, item.file) for item in lacking] == [("a/b", name) for name in named]
    rows = [
        {"bytes": jpeg(colour), "path": None}
        for colour in ((250, 0, 0), (0, 250, 0), (0, 0, 250)) * 2
    ]
    snapshot.mkdir(parents=True)
    for part in range(2):  # as `datasets` saves images
        columns = {"image": rows[3 * part : 3 * part + 3], "label": [7, 3, 5]}
        write_parquet(snapshot / f"train-0000{part}-of-00002.parquet", columns)
    write_tar(
        snapshot / "train-00000-of-00001.tar", {"0.jpg": rows[0]["bytes"], "0.txt": b"a circle"}
    )
    write_tar(snapshot / "waves.tar", {"a.wav": riff(struct.pack("<400h", *range(400)), rate=8000)})
    (snapshot / "index.tsv").write_text("file\tlabel\na.wav\tx\n")
    assert not parts.examined(None).remarks
    plain = LabelledImages("images.parquet", size=24).load(images)
    np.testing.assert_array_equal(drawn(parts.load(None), [0, 4]), drawn(plain, [0, 4]))
    assert shards.load(None).texts == ["a circle"]
    assert audio.load(None).labels.tolist() == [0]
    assert len({parts.fingerprint(None), shards.fingerprint(None), audio.fingerprint(None)}) == 3


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
    drawn_views = plain.draw_views(Image.new("RGB", (8, 8), (255, 0, 51)), make_generator(seed=0))
    views = plain.change_colours(drawn_views)
    assert views.dtype == torch.uint8
    pixels = normalise_pixels(views)[0, :, 4, 4].tolist()
    assert pixels == pytest.approx(
        [(1 - 0.485) / 0.229, -0.456 / 0.224, (0.2 - 0.406) / 0.225], abs=1e-5
    )


def test_labels_are_classes_or_items_and_what_a_corpus_holds_is_its_fingerprint(
    images: Path,
) -> None:
    write_parquet(
        images / "a.parquet", {"jpeg": [jpeg((250, 0, 0))] * 3, "label_name": ["dog", "cat", "dog"]}
    )
    for name, options, labels in (
        ("images.parquet", {}, [2, 0, 1, 2, 0, 1]),
        ("images.parquet", {"labelled": False}, list(range(6))),
        ("tree", {}, [0, 0, 0, 1, 1, 1]),
        ("tree", {"per_class": 2}, [0, 0, 1, 1]),
        ("a.parquet", {}, [1, 0, 1]),
    ):
        assert LabelledImages(name, "", **options).load(images).labels.tolist() == labels
    options = ({}, {"size": 32}, {"labelled": False}, {"per_class": 1})
    prints = [LabelledImages("tree", "", **each).fingerprint(images) for each in options]
    (images / "tree" / "cat" / "0.JPEG").write_bytes(jpeg((9, 9, 9)))
    prints.append(LabelledImages("tree", "").fingerprint(images))
    assert len(set(prints)) == 5


def test_bad_images_are_one_line(images: Path) -> None:
    red = jpeg((250, 0, 0))
    (images / "empty").mkdir()
    (images / "no.parquet").write_bytes(b"no")
    write_parquet(images / "none.parquet", {"jpeg": [red, None], "label": [0, 1]})
    write_parquet(images / "bare.parquet", {"jpeg": [red]})
    for name, message in {
        "empty": "has no folders with images",
        "no.parquet": "not a Parquet file",
        "none.parquet": r"none\.parquet, row 2: the image has no bytes",
        "bare.parquet": "has no column label_name; it has jpeg",
        "absent": "fetch it",
    }.items():
        with pytest.raises(MissingData if name == "absent" else UserError, match=message):
            LabelledImages(name, "fetch it").load(images)


@pytest.mark.long
def test_real_speech_and_images_load(data_root: Path) -> None:
    digits = LabelledAudio(
        "audio/fsdd_wav.tar.gz", "", index="audio/fsdd_index.tsv", split="train", bins=40, frames=64
    ).load(data_root)
    assert (len(digits), len(set(digits.labels.tolist()))) == (900, 6)
    assert np.isfinite(drawn(digits, [0, 899])).all()
    cifar = LabelledImages("images_cls/cifar10_train.parquet", "", size=32, per_class=5).load(
        data_root
    )
    assert sorted(cifar.labels.tolist()) == sorted(list(range(10)) * 5)
    assert drawn(cifar, [0, 49]).shape == (2, 2, 3, 32, 32)


NOISE = np.random.default_rng(0).integers(0, 255, (40, 50, 3), dtype=np.uint8)


JPEG, PNG = image_bytes(NOISE, "JPEG"), image_bytes(NOISE)


def tree(root: Path, files: dict[str, bytes]) -> Path:
    for name, raw in files.items():
        (root / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "tree" / name).write_bytes(raw)
    return root


@pytest.mark.parametrize(
    "raw",
    [
        PNG[:900],
        PNG[:200] + b"????????" + PNG[200:],
        PNG[:20],
        b"",
        JPEG[: len(JPEG) // 2],
        JPEG[:30],
        b"no image",
    ],
    ids=[
        "PNG cut",
        "PNG damaged",
        "PNG header cut",
        "empty",
        "JPEG cut",
        "JPEG header cut",
        "text",
    ],
)
def test_a_damaged_image_is_named_and_refused(tmp_path: Path, raw: bytes) -> None:
    tree(tmp_path, {"cat/0.jpg": JPEG, "dog/1.png": raw})
    with pytest.raises(UserError, match=r"tree: 1 of 2 images cannot be decoded: dog/1\.png \("):
        LabelledImages("tree", "").load(tmp_path)


def test_up_to_the_limit_the_next_readable_image_stands_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Rows are cat 0, cat 1 (bad), cat 2 (bad), dog 3, dog 4 (bad): after the last comes the first."""
    whole = {
        "cat/0.jpg": JPEG,
        "cat/1.jpg": b"",
        "cat/2.jpg": JPEG[:99],
        "dog/3.jpg": PNG,
        "dog/4.jpg": b"no",
    }
    tree(tmp_path, whole)
    with pytest.raises(
        UserError, match=r"3 of 5 images .* cat/1\.jpg .*cat/2\.jpg .*dog/4\.jpg .*set bad = 3"
    ):
        LabelledImages("tree", "", bad=2).load(tmp_path)
    with caplog.at_level(logging.WARNING):
        media = LabelledImages("tree", "", bad=3).load(tmp_path)
    names = ("cat/0.jpg", *["dog/3.jpg"] * 3, "cat/0.jpg")
    assert list(media.items) == [tmp_path / "tree" / name for name in names]
    assert media.labels.tolist() == [0, 1, 1, 1, 0]
    assert LabelledImages("tree", "", labelled=False, bad=3).load(tmp_path).labels.tolist() == [
        0,
        3,
        3,
        3,
        0,
    ]
    (warning,) = media.warnings
    assert warning.startswith(
        "tree: 3 of 5 images cannot be decoded and are replaced by the next ones: cat/1.jpg"
    )
    assert caplog.records[0].getMessage() == warning
    assert media.batch(np.arange(5), make_generator(seed=0))["pixels"].shape == (5, 2, 3, 224, 224)
    tree(tmp_path, dict.fromkeys(whole, b""))
    with pytest.raises(UserError, match="5 of 5 images cannot be decoded"):
        LabelledImages("tree", "", bad=9).load(tmp_path)


def test_images_are_checked_once_and_again_when_they_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    tree(tmp_path, {"cat/0.jpg": JPEG, "cat/1.jpg": PNG})
    LabelledImages("tree", "").load(tmp_path)
    (note,) = (get_cache_folder() / "readable").iterdir()
    write_note(note, {"unreadable": {"0": "as noted"}})
    with pytest.raises(UserError, match="as noted"):
        LabelledImages("tree", "").load(tmp_path)
    tree(tmp_path, {"cat/2.jpg": JPEG})
    LabelledImages("tree", "").load(tmp_path)


SHOWN = np.asarray(Image.fromarray(NOISE).quantize(16).convert("RGB"))
GREY = NOISE[:, :, 0]
FLAT = np.full((40, 50, 3), (200, 120, 40), dtype=np.uint8)
TURNED = Image.Exif()
TURNED[0x112] = 6
#: the encoded image, and the colours that it shows
UNUSUAL = {
    "palette": (image_bytes(Image.fromarray(NOISE).quantize(16)), SHOWN),
    "transparent palette": (
        image_bytes(Image.fromarray(NOISE).quantize(16), transparency=b"\x00\x80"),
        SHOWN,
    ),
    "grey": (image_bytes(GREY), np.dstack([GREY] * 3)),
    "16 bits": (image_bytes(GREY.astype(np.uint16) * 256 + 7), np.dstack([GREY] * 3)),
    "transparency": (image_bytes(Image.fromarray(np.dstack([NOISE, GREY]), "RGBA")), NOISE),
    "PGM of 16 bits": (
        b"P5 50 40 65535\n" + (GREY.astype(">u2") * 257).tobytes(),
        np.dstack([GREY] * 3),
    ),
    "PGM as text": (
        b"P2 50 40 65535 " + b" ".join(b"%d" % (257 * int(v)) for v in GREY.flat),
        np.dstack([GREY] * 3),
    ),
    "PPM of 16 bits": (b"P6 50 40 65535\n" + (NOISE.astype(">u2") * 257).tobytes(), NOISE),
    "TIFF of 16 bits": (image_bytes(GREY.astype(np.uint16) * 257, "TIFF"), np.dstack([GREY] * 3)),
    "grey and transparency": (
        image_bytes(Image.fromarray(np.dstack([GREY, GREY]), "LA")),
        np.dstack([GREY] * 3),
    ),
    "several pictures": (
        image_bytes(NOISE, save_all=True, append_images=[Image.new("RGB", (50, 40))]),
        NOISE,
    ),
    "turned by Exif": (image_bytes(NOISE, exif=TURNED), NOISE),
    "CMYK": (image_bytes(Image.fromarray(FLAT).convert("CMYK"), "JPEG", quality=95), FLAT),
}


@pytest.mark.parametrize("kind", UNUSUAL)
def test_unusual_images_have_the_colours_that_they_show(kind: str) -> None:
    raw, expected = UNUSUAL[kind]
    np.testing.assert_allclose(
        decode_image(raw).astype(int), expected, atol=5 if kind == "CMYK" else 0
    )


def tiff(values: np.ndarray, bits: int, white_is_zero: bool = False, signed: bool = False) -> bytes:
    """A grey TIFF of one strip, with the tags from width to sample format."""
    data, (height, width) = values.tobytes(), values.shape
    photometric, kind = 1 - white_is_zero, 1 + signed
    tags = {
        256: width,
        257: height,
        258: bits,
        259: 1,
        262: photometric,
        273: 8,
        277: 1,
        278: height,
        279: len(data),
    }
    entries = [
        struct.pack("<HHII", tag, 4 if tag in (273, 279) else 3, 1, value)
        for tag, value in tags.items()
    ]
    entries.append(struct.pack("<HHII", 339, 3, 1, kind))
    return (
        b"II*\0"
        + struct.pack("<I", 8 + len(data))
        + data
        + struct.pack("<H", 10)
        + b"".join(entries)
        + bytes(4)
    )


UNKNOWN = {
    "TIFF of 32 bits": image_bytes(GREY.astype(np.int32) * 257, "TIFF"),
    "TIFF of floats": image_bytes(GREY.astype(np.float32) / 255, "TIFF"),
    "float map": b"Pf\n50 40\n-1.0\n" + (GREY / 255).astype("<f4").tobytes(),
    "TIFF of signed 16 bits": tiff(GREY.astype("<i2") * 128, 16, signed=True),
    "TIFF of signed 8 bits": tiff(GREY, 8, signed=True),
    "TIFF of 16 bits, white as 0": tiff(GREY.astype("<u2") * 257, 16, white_is_zero=True),
    "TIFF of 12 bits": tiff(np.tile(GREY, 2), 12),
}


@pytest.mark.parametrize("kind", UNKNOWN)
def test_pixels_without_a_known_range_are_refused_wherever_images_are_decoded(
    tmp_path: Path, kind: str
) -> None:
    """Pillow would make them white, black or negative."""
    tree(tmp_path, {"cat/0.jpg": JPEG, "cat/1.png": UNKNOWN[kind]})
    with pytest.raises(
        UserError,
        match=r"1 of 2 images .* cat/1\.png \(its pixels .* no known range; convert it to 8 b",
    ):
        LabelledImages("tree", "").examined(tmp_path)
    (tmp_path / "captions.tsv").write_text("0.jpg\ta cat\n1.png\tanother cat\n")
    captioned = CaptionsFile("captions.tsv", images="tree/cat").load(tmp_path)
    with pytest.raises(UserError, match=r"the image 1\.png cannot be decoded: its pixels"):
        list(captioned.images)


def test_what_is_wrong_with_a_folder_of_classes_is_counted_when_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if another library told Pillow to fill truncated images up with black."""
    monkeypatch.setattr("PIL.ImageFile.LOAD_TRUNCATED_IMAGES", True)
    source = LabelledImages("tree", "")
    tree(
        tmp_path,
        {"cat/0.jpg": JPEG, "dog/1.jpg": JPEG[:900], "dog/2.png": PNG[:-40], ".notes/x.txt": b""},
    )
    with pytest.raises(
        UserError, match=r"2 of 3 images cannot be decoded: dog/1\.jpg \(.*truncated.*dog/2\.png"
    ):
        source.examined(tmp_path)
    tree(tmp_path, {"bird/0.txt": b"a note", "fish/deeper/0.json": b"{}"})
    for most in (2**28, 0):
        monkeypatch.setattr("harness.corpora.labelled_images.PLANNED_BYTES", most)
        with pytest.raises(
            UserError, match=r"2 of 4 folders of classes have no images \(.*\): bird, fish; put"
        ):
            source.examined(tmp_path)


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
@pytest.mark.parametrize(
    "options", [{}, {"subsampling": 0}, {"restart_marker_blocks": 4}, {"progressive": True}]
)
def test_a_jpeg_that_lacks_data_before_its_end_mark_is_truncated(
    mode: str, options: dict[str, Any]
) -> None:
    """Pillow fills it up with grey, without a word; pictures that end in that grey are whole."""
    noise = Image.fromarray(
        np.random.default_rng(0).integers(0, 255, (90, 120, 3), dtype=np.uint8)
    ).convert(mode)
    content = image_bytes(noise, "JPEG", **options)
    for whole in (
        content,
        image_bytes(Image.new(mode, (90, 70), (128,) * len(mode)), "JPEG", **options),
    ):
        assert decode_image(whole).shape[2] == 3
    head = content.index(b"\xff\xda")
    for share in (0.1, 0.5, 0.95):
        with pytest.raises(OSError, match=r"truncated|broken data"):
            decode_image(content[: head + int(share * (len(content) - head))] + b"\xff\xd9")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_an_image_of_too_many_pixels_is_not_decoded(tmp_path: Path) -> None:
    """The header of a PNG of a few bytes claims more pixels than memory holds."""
    for side in (10_000, 60_000):
        raw = bytearray(PNG)
        raw[16:24] = side.to_bytes(4, "big") * 2
        raw[29:33] = media.zlib.crc32(bytes(raw[12:29])).to_bytes(4, "big")
        tree(tmp_path, {"cat/0.jpg": JPEG, "cat/1.png": bytes(raw)})
        with pytest.raises(UserError, match=r"cat/1\.png \(.*pixels"):
            LabelledImages("tree", "").load(tmp_path)


def test_class_names_that_differ_in_spelling_alone_are_told(tmp_path: Path) -> None:
    for name in ("Cat", "cat", "dog"):
        (tmp_path / "classes" / name).mkdir(parents=True)
        Image.new("RGB", (4, 4)).save(tmp_path / "classes" / name / "a.png")
    told = ["the labels 'Cat' and 'cat' count as 2 classes; are they one?"]
    assert LabelledImages("classes").examined(tmp_path).remarks == told
    assert LabelledImages("classes", labelled=False).examined(tmp_path).remarks == ()
    (tmp_path / "index.tsv").write_text("file\twho\na.wav\t1\nb.wav\t1.0\n")
    for name in ("a.wav", "b.wav"):
        (tmp_path / "classes" / name).write_bytes(riff(bytes(2000), rate=8000))
    recordings = LabelledAudio("classes", index="index.tsv", label="who")
    assert recordings.examined(tmp_path).remarks == [
        "the labels '1' and '1.0' count as 2 classes; are they one?"
    ]
