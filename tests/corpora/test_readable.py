"""Images that cannot be decoded, and those that can though they are unusual."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness.caches import cache_folder
from harness.corpora.labelled_images import LabelledImages
from harness.encoders import media
from harness.encoders.media import decoded
from harness.errors import UserError
from harness.files import write_note
from harness.seeds import generator

NOISE = np.random.default_rng(0).integers(0, 255, (40, 50, 3), dtype=np.uint8)


def encoded(kind: str, image: Image.Image | None = None, **options: object) -> bytes:
    stream = io.BytesIO()
    (image or Image.fromarray(NOISE)).save(stream, kind, **options)
    return stream.getvalue()


JPEG, PNG = encoded("JPEG"), encoded("PNG")


def tree(root: Path, files: dict[str, bytes]) -> Path:
    for name, raw in files.items():
        (root / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "tree" / name).write_bytes(raw)
    return root


@pytest.mark.parametrize(
    "raw",
    [PNG[:900], PNG[:200] + b"????????" + PNG[200:], PNG[:20], b"", JPEG[: len(JPEG) // 2], JPEG[:30], b"no image"],
    ids=["PNG cut", "PNG damaged", "PNG header cut", "empty", "JPEG cut", "JPEG header cut", "text"],
)
def test_a_damaged_image_is_named_and_refused(tmp_path: Path, raw: bytes) -> None:
    tree(tmp_path, {"cat/0.jpg": JPEG, "dog/1.png": raw})
    with pytest.raises(UserError, match=r"tree: 1 of 2 images cannot be decoded: dog/1\.png \(") as error:
        LabelledImages("tree", "").load(tmp_path)
    assert "\n" not in str(error.value)


def test_up_to_the_limit_the_next_readable_image_stands_in(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Rows are cat 0, cat 1 (bad), cat 2 (bad), dog 3, dog 4 (bad): after the last comes the first."""
    whole = {"cat/0.jpg": JPEG, "cat/1.jpg": b"", "cat/2.jpg": JPEG[:99], "dog/3.jpg": PNG, "dog/4.jpg": b"no"}
    tree(tmp_path, whole)
    with pytest.raises(UserError, match=r"3 of 5 images .* cat/1\.jpg .*cat/2\.jpg .*dog/4\.jpg .*set bad = 3"):
        LabelledImages("tree", "", bad=2).load(tmp_path)
    with caplog.at_level(logging.WARNING):
        media = LabelledImages("tree", "", bad=3).load(tmp_path)
    place = tmp_path / "tree"
    assert list(media.items) == [place / name for name in ("cat/0.jpg", *["dog/3.jpg"] * 3, "cat/0.jpg")]
    assert media.labels.tolist() == [0, 1, 1, 1, 0]
    (warning,) = media.warnings
    assert warning.startswith("tree: 3 of 5 images cannot be decoded and are replaced by the next ones: cat/1.jpg")
    assert [record.getMessage() for record in caplog.records] == [warning]
    assert media.batch(np.arange(5), generator(seed=0))["pixels"].shape == (5, 2, 3, 224, 224)


def test_an_image_alone_and_its_stand_in_are_one_class(tmp_path: Path) -> None:
    tree(tmp_path, {"cat/0.jpg": JPEG, "cat/1.jpg": b"", "cat/2.jpg": PNG})
    assert LabelledImages("tree", "", labelled=False, bad=1).load(tmp_path).labels.tolist() == [0, 2, 2]


def test_where_no_image_can_be_decoded_no_limit_helps(tmp_path: Path) -> None:
    tree(tmp_path, {"cat/0.jpg": b"", "cat/1.jpg": b""})
    with pytest.raises(UserError, match="2 of 2 images cannot be decoded"):
        LabelledImages("tree", "", bad=9).load(tmp_path)


def test_images_are_checked_once_and_again_when_they_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    tree(tmp_path, {"cat/0.jpg": JPEG, "cat/1.jpg": PNG})
    LabelledImages("tree", "").load(tmp_path)
    (note,) = (cache_folder() / "readable").iterdir()
    write_note(note, {"unreadable": {"0": "as noted"}})
    with pytest.raises(UserError, match="as noted"):
        LabelledImages("tree", "").load(tmp_path)
    tree(tmp_path, {"cat/2.jpg": JPEG})
    LabelledImages("tree", "").load(tmp_path)


def palette() -> Image.Image:
    return Image.fromarray(NOISE).quantize(16)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (lambda: encoded("PNG", palette()), lambda: np.asarray(palette().convert("RGB"))),
        (lambda: encoded("PNG", palette(), transparency=b"\x00\x80"), lambda: np.asarray(palette().convert("RGB"))),
        (lambda: encoded("PNG", Image.fromarray(NOISE[:, :, 0])), lambda: np.repeat(NOISE[:, :, :1], 3, axis=2)),
        (
            lambda: encoded("PNG", Image.fromarray(NOISE[:, :, 0].astype(np.uint16) * 256 + 7)),
            lambda: np.repeat(NOISE[:, :, :1], 3, axis=2),
        ),
        (lambda: encoded("PNG", Image.fromarray(np.dstack([NOISE, NOISE[:, :, 0]]), "RGBA")), lambda: NOISE),
    ],
    ids=["palette", "palette with transparency", "grey", "16 bits", "transparency"],
)
def test_unusual_pngs_have_the_colours_that_they_show(
    raw: Callable[[], bytes], expected: Callable[[], np.ndarray]
) -> None:
    np.testing.assert_array_equal(decoded(raw()), expected())


def test_a_cmyk_jpeg_has_its_colours() -> None:
    flat = Image.new("RGB", (40, 40), (200, 120, 40))
    found = decoded(encoded("JPEG", flat.convert("CMYK"), quality=95))
    assert np.abs(found.astype(int) - (200, 120, 40)).max() < 6


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
