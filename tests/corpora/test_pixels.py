"""Captions whose images are files: found by name, decoded when a teacher reads them."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

import numpy as np
import pytest
from made_files import image_bytes

from harness.corpora.files import CaptionsFile
from harness.encoders.media import Pixels, process_images
from harness.encoders.teachers import open_teacher
from harness.errors import MissingData, UserError
from harness.fetching.archives import write_parquet
from harness.sources import digest
from harness.toy import clip_folder

NAMES = ["a", "b.jpg", "c"]


def picture(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, (20 + number, 30, 3), dtype=np.uint8)


def png(number: int) -> bytes:
    return image_bytes(picture(number))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three images of two captions each, in a folder and in a column."""
    table = {"image_id": NAMES, "captions": [[f"{name} {k}" for k in range(2)] for name in NAMES]}
    write_parquet(tmp_path / "captions.parquet", {**table, "jpeg": [png(n) for n in range(3)]})
    (tmp_path / "images").mkdir()
    for number, name in enumerate(("a.png", "b.jpg", "c.jpeg")):
        (tmp_path / "images" / name).write_bytes(png(number))
    return tmp_path


def images(root: Path, where: str, **options: object) -> Pixels:
    loaded = CaptionsFile("captions.parquet", "fetch it", images=where, **options).load(root)
    assert len(loaded.images) == loaded.image_count
    return loaded.images


@pytest.mark.parametrize("captions", ["one", "all"])
@pytest.mark.parametrize("where", ["images", "jpeg"])
def test_there_is_one_image_however_many_captions(root: Path, where: str, captions: str) -> None:
    """And a teacher sees what it would see in memory."""
    read = images(root, where, captions=captions)
    assert len(read) == 3
    for number, image in enumerate([read[0], *read[1:3]]):
        np.testing.assert_array_equal(image, picture(number))
    clip = open_teacher("open-clip", clip_folder())
    np.testing.assert_array_equal(
        clip.images(read[0:3]), clip.images([picture(number) for number in range(3)])
    )


def test_no_more_than_what_is_near_is_decoded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.encoders.media.AHEAD", 1)
    read: list[int] = []
    whole = Pixels(lambda number: read.append(number) or png(number), str, 9)
    assert read == []
    assert [len(image) for image in whole[2:4]] == [22, 23]
    whole._pool.shutdown()
    assert sorted(read) == [2, 3, 4]


def test_images_are_worked_on_where_they_are_decoded_in_order_and_once(root: Path) -> None:
    """Of two works on the same images, such as two teachers' preprocessing, neither gets what is
    the other's.
    """
    main, calls = threading.get_ident(), []

    def halved(image: np.ndarray) -> np.ndarray:
        calls.append(threading.get_ident())
        return image[::2]

    whole = Pixels(png, str, 20)
    first, second = whole[:3], whole[3:20]
    for part, start in ((first, 0), (second, 3)):
        for number, image in enumerate(process_images(part, halved), start):
            np.testing.assert_array_equal(image, picture(number)[::2])
    assert len(calls) == 20
    assert main not in calls
    np.testing.assert_array_equal(next(iter(whole[5:6])), picture(5))


def captioned(root: Path, names: list[str], files: list[str]) -> CaptionsFile:
    """Images, the number of each its place in `files`, and a table with a caption of each name."""
    for number, name in enumerate(files):
        (root / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "photos" / name).write_bytes(png(number))
    lines = [f"{name}\tcaption {number}" for number, name in enumerate(names)]
    (root / "names.tsv").write_text("\n".join(["image\tcaption", *lines]) + "\n")
    return CaptionsFile("names.tsv", images="photos")


CAFE = ("caf\u00e9", "cafe\u0301")


@pytest.mark.parametrize(
    ("name", "files", "which"),
    [
        ("val/a.jpg", ["a.jpg", "val/a.jpg"], 1),
        ("val/a", ["val/b.png", "val/a.png"], 1),
        ("Val/A.jpg", ["val/b.jpg", "val/a.JPG"], 1),
        (CAFE[0] + ".jpg", ["b.jpg", CAFE[1] + ".jpg"], 1),
        (CAFE[1], [CAFE[0] + ".png"], 0),
        (CAFE[0] + ".jpg", [CAFE[1] + ".jpg", CAFE[0] + ".jpg"], 1),
        (CAFE[0].upper(), [CAFE[1] + ".png"], 0),
        ("b.jpg", ["B.JPG", "b.png"], 0),
        ("b", ["B.JPG"], 0),
        ("b.jpg", ["B.JPG", "b.jpg"], 1),
        ("a.jpg", ["a.jpg.png", "a.jpg"], 1),
    ],
)
def test_an_image_is_found_by_the_nearest_spelling_of_its_name(
    tmp_path: Path, name: str, files: list[str], which: int
) -> None:
    source = captioned(tmp_path, [name], files)
    np.testing.assert_array_equal(source.load(tmp_path).images[0], picture(which))
    content = hashlib.sha256(png(which)).hexdigest()
    assert source.pixels.fingerprint(tmp_path) == digest("images", [[files[which], content]])


@pytest.mark.parametrize(
    ("names", "files", "message"),
    [
        (
            ["b"],
            ["b.jpg", "b.png"],
            r"photos has b\.jpg and b\.png for the image b; remove or rename one",
        ),
        (
            ["b.jpg"],
            ["B.jpg", "b.JPG"],
            r"photos has B\.jpg and b\.JPG for|photos has b\.JPG and B\.jpg for",
        ),
        (["B"], ["b.jpg", "b.PNG"], "for the image B; remove or rename one"),
        (
            ["a.jpg", "c.jpg", "d.jpg"],
            ["val/a.jpg", "c.jpg"],
            r"no image a\.jpg .* and 1 others of 3, .*has val/a\.jpg",
        ),
        (["val/a.jpg"], ["a.jpg"], r"no image val/a\.jpg .*it has a\.jpg; add"),
        (["a.jpg"], ["a.gif"], r"no image a\.jpg .*it has a\.gif; add"),
        (["../c.jpg"], ["../c.jpg", "a.jpg"], r"photos has no image \.\./c\.jpg"),
        (["a/../../c.jpg"], ["../c.jpg", "a/a.jpg"], "photos has no image a/"),
    ],
)
def test_an_image_that_is_absent_ambiguous_or_outside_of_its_folder_is_refused(
    tmp_path: Path, names: list[str], files: list[str], message: str
) -> None:
    source = captioned(tmp_path, names, files)
    with pytest.raises(UserError, match=message):
        source.pixels.fingerprint(tmp_path)
    with pytest.raises(UserError, match="photos has no image"):
        captioned(
            tmp_path, [str(tmp_path / "c.jpg")], ["../c.jpg", "deep/a.jpg"]
        ).pixels.fingerprint(tmp_path)


def test_images_count_where_a_teacher_reads_them_alone(root: Path) -> None:
    plain, seeing = (
        CaptionsFile("captions.parquet", ""),
        CaptionsFile("captions.parquet", "", images="images"),
    )
    assert plain.pixels is None
    assert plain.fingerprint(root) == seeing.fingerprint(root)
    before = seeing.pixels.fingerprint(root)
    (root / "images" / "unasked.jpg").write_bytes(b"another")
    assert seeing.pixels.fingerprint(root) == before
    (root / "images" / "c.jpeg").write_bytes(png(7))
    assert seeing.pixels.fingerprint(root) != before


def test_what_is_wrong_with_images_is_one_line_when_they_are_read(root: Path) -> None:
    absent = CaptionsFile("captions.parquet", "fetch it", images="nowhere")
    assert absent.missing(root) == []
    assert str(absent.pixels.missing(root)[0]).startswith("cannot find nowhere; fetch it")
    (root / "cut").mkdir()
    for name in ("a", "b.jpg", "c.jpeg"):
        (root / "cut" / name).write_bytes(png(2)[: 60 if name == "a" else None])
    (root / "images" / "c.jpeg").unlink()
    (root / "plain.txt").write_text("one\ntwo\n")
    write_parquet(root / "bare.parquet", {"image_id": ["a"], "captions": [["x"]]})
    for file, where, message in (
        ("captions", "nowhere", "nowhere"),
        ("captions", "cut", "the image a cannot be decoded"),
        ("captions", "images", r"images has no image c \(\.jpg, \.jpeg, \.png, "),
        ("plain", "images", r"plain\.txt has no image_id"),
        ("bare", "jpeg", "has no column jpeg; it has image_id, captions"),
    ):
        loaded = CaptionsFile(
            f"{file}.{'txt' if file == 'plain' else 'parquet'}", "", images=where
        ).load(root)
        with pytest.raises(MissingData if where == "nowhere" else UserError, match=message):
            loaded.images[0]
