"""Whatever a run reads, other bytes of the same size under the same name are another input."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from made_files import image_bytes

from harness.corpora.files import CaptionsFile, SentencesFile, TripletsFile
from harness.corpora.images import FeatureFile
from harness.corpora.labelled_audio import LabelledAudio
from harness.corpora.labelled_images import LabelledImages
from harness.corpora.retrieval import CaptionedFile
from harness.corpora.shards import ShardPairs
from harness.encoders.locate import FolderModel
from harness.evaluation.sts import OwnPairs
from harness.evaluation.transfer import OwnClasses
from harness.fetching.archives import write_parquet
from harness.sources import Checkable


def picture(number: int) -> bytes:
    """An image file whose size does not depend on its pixels."""
    pixels = np.random.default_rng(number).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    return image_bytes(pixels, "BMP")


def write_captions(folder: Path) -> None:
    (folder / "captions.csv").write_text("image,caption\n1.bmp,a circle\n")
    (folder / "images").mkdir()
    (folder / "images" / "1.bmp").write_bytes(picture(1))


def make_sentences(folder: Path) -> Checkable:
    (folder / "input").write_text("a circle\na square\n")
    return SentencesFile("input")


def make_triplets(folder: Path) -> Checkable:
    (folder / "input").write_text("sent0,sent1,hard_neg\na,b,c\n")
    return TripletsFile("input")


def make_captions(folder: Path) -> Checkable:
    (folder / "input").write_text("image,caption\n1.bmp,a circle\n")
    return CaptionsFile("input")


def make_matched_captions(folder: Path) -> Checkable:
    (folder / "lines").write_text("one\n")
    rows = {"image_id": ["a"], "caption": ["one"], "captions": [["one", "two"]]}
    write_parquet(folder / "input", rows)
    matched = {"file": "input", "how": ""}
    return CaptionsFile("lines", captions="all", matched=matched)


def make_images_of_captions(folder: Path) -> Checkable:
    write_captions(folder)
    (folder / "images" / "1.bmp").rename(folder / "input")
    (folder / "images" / "1.bmp").hardlink_to(folder / "input")
    return CaptionsFile("captions.csv", images="images").pixels


def make_features(folder: Path) -> Checkable:
    np.save(folder / "features.npy", np.eye(3, dtype=np.float32))
    (folder / "features.npy").rename(folder / "input")
    return FeatureFile("input")


def make_ids(folder: Path) -> Checkable:
    np.save(folder / "features.npy", np.eye(3, dtype=np.float32))
    (folder / "input").write_text("a\nb\nc\n")
    return FeatureFile("features.npy", ids="input")


def make_shards(folder: Path) -> Checkable:
    (folder / "1.txt").write_text("a circle")
    (folder / "1.jpg").write_bytes(picture(1))
    (folder / "shards").mkdir()
    with tarfile.open(folder / "shards" / "0.tar", "w") as archive:
        archive.add(folder / "1.txt", "1.txt")
        archive.add(folder / "1.jpg", "1.jpg")
    (folder / "input").hardlink_to(folder / "shards" / "0.tar")
    return ShardPairs("shards")


def make_class_folders(folder: Path) -> Checkable:
    for name in ("cat", "dog"):
        (folder / "classes" / name).mkdir(parents=True)
        (folder / "classes" / name / "1.jpg").write_bytes(picture(1))
    (folder / "input").hardlink_to(folder / "classes" / "dog" / "1.jpg")
    return LabelledImages("classes")


def make_class_table(folder: Path) -> Checkable:
    write_parquet(folder / "input", {"jpeg": [picture(1), picture(2)], "label": [0, 1]})
    return LabelledImages("input")


def write_recordings(folder: Path) -> None:
    (folder / "sounds").mkdir()
    for name in ("1.wav", "2.wav"):
        (folder / "sounds" / name).write_bytes(bytes(100))
    (folder / "index.tsv").write_text("file\tspeaker_id\n1.wav\ta\n2.wav\tb\n")


def make_recordings(folder: Path) -> Checkable:
    write_recordings(folder)
    (folder / "input").hardlink_to(folder / "sounds" / "2.wav")
    return LabelledAudio("sounds", index="index.tsv")


def make_index_of_recordings(folder: Path) -> Checkable:
    write_recordings(folder)
    (folder / "input").hardlink_to(folder / "index.tsv")
    return LabelledAudio("sounds", index="index.tsv")


def make_archive_of_recordings(folder: Path) -> Checkable:
    write_recordings(folder)
    with tarfile.open(folder / "input", "w") as archive:
        archive.add(folder / "sounds", "sounds")
    return LabelledAudio("input", index="index.tsv")


def make_similarity(folder: Path) -> Checkable:
    (folder / "input").write_text("a,b,s\nx,y,1\nz,y,2\n")
    return OwnPairs("mine", "input", ("a", "b", "s"), (0, 5), None)


def make_classification(folder: Path) -> Checkable:
    (folder / "input").write_text("label,text\n1,a circle\n0,a square\n")
    return OwnClasses("mine", {"all": "input"}, ("text",), "label")


def make_retrieval(folder: Path) -> Checkable:
    write_captions(folder)
    (folder / "input").hardlink_to(folder / "captions.csv")
    return CaptionedFile("mine", "captions.csv", "", {}, images="images")


def make_images_of_retrieval(folder: Path) -> Checkable:
    write_captions(folder)
    (folder / "input").hardlink_to(folder / "images" / "1.bmp")
    return CaptionedFile("mine", "captions.csv", "", {}, images="images")


def make_model(folder: Path) -> Checkable:
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text("{}")
    (folder / "model" / "model.safetensors").write_bytes(bytes(100))
    (folder / "input").hardlink_to(folder / "model" / "model.safetensors")
    return FolderModel(folder / "model")


MAKERS: list[Callable[[Path], Checkable]] = [
    make_sentences,
    make_triplets,
    make_captions,
    make_matched_captions,
    make_images_of_captions,
    make_features,
    make_ids,
    make_shards,
    make_class_folders,
    make_class_table,
    make_recordings,
    make_index_of_recordings,
    make_archive_of_recordings,
    make_similarity,
    make_classification,
    make_retrieval,
    make_images_of_retrieval,
    make_model,
]


def replace_last_letter(path: Path) -> None:
    """Write other bytes of the same length into a file, as `rsync -t` and `cp -p` leave it."""
    before = path.stat()
    content = bytearray(path.read_bytes())
    at = max(place for place, byte in enumerate(content) if byte not in b"\r\n")
    content[at] ^= 1
    with path.open("r+b") as stream:
        stream.write(content)

    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)


@pytest.mark.parametrize("make", MAKERS, ids=[make.__name__ for make in MAKERS])
def test_other_content_in_its_place_is_another_input(
    make: Callable[[Path], Checkable], tmp_path: Path
) -> None:
    source = make(tmp_path)
    before = source.fingerprint(tmp_path)
    assert source.fingerprint(tmp_path) == before

    replace_last_letter(tmp_path / "input")

    assert source.fingerprint(tmp_path) != before
