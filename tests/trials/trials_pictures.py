"""Trials of pictures: those of captions, class folders, and tests on pictures."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from trial import Trial, check_refused

import harness
from harness.corpora.caption_layouts import CaptionsLayout
from harness.corpora.files import CaptionsFile
from harness.corpora.labelled_images import LabelledImages
from harness.corpora.retrieval import CaptionedFile
from harness.encoders.media import decode_image
from harness.evaluation.retrieval import find_seen_images
from harness.evaluation.transfer import OwnClasses
from harness.planning.ingredients import Ingredient
from harness.planning.seen import SeenRows

#: a profile of one captions-file, whose pictures are computed with
CAPTIONED = """
extends = "tiny"
description = "a trial"
[corpora.c]
kind = "captions-file"
file = "./captions.csv"
images = "./pictures"
[settings.s]
corpora = ["toy-text", "c"]
"""


def write_pictures(folder: Path, names: list[str], seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    for name in names:
        pixels = random.integers(0, 256, (16, 16, 3), dtype=np.uint8)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / name)


def write_captions(folder: Path, names: list[str]) -> None:
    rows = [f"{name},a circle number {number}" for number, name in enumerate(names)]
    (folder / "captions.csv").write_text("\n".join(["image,caption", *rows]) + "\n")


def plan_fingerprint(folder: Path) -> str:
    plan = harness.plan(
        str(folder / "own.toml"), methods="mcse", settings="s", seeds=1, suites="sts"
    )
    return plan.runs[0].fingerprint


def write_replaced_pictures(folder: Path) -> None:
    names = [f"{number:02d}.bmp" for number in range(8)]
    write_pictures(folder / "pictures", names, seed=1)
    write_captions(folder, names)
    (folder / "own.toml").write_text(CAPTIONED)
    write_pictures(folder / "other", names, seed=2)


def check_replaced_pictures(folder: Path) -> None:
    before = plan_fingerprint(folder)
    for picture in (folder / "pictures").iterdir():
        stat = picture.stat()
        shutil.copyfile(folder / "other" / picture.name, picture)
        os.utime(picture, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert plan_fingerprint(folder) != before


def write_class_folders(folder: Path) -> None:
    for name in ("cat", "dog", ".ipynb_checkpoints"):
        names = [f"{number}.{'jpg' if number % 2 else 'webp'}" for number in range(4)]
        write_pictures(folder / "classes" / name, names, seed=3)
    write_pictures(folder / "classes" / "cat", ["8.bmp"], seed=4)
    (folder / "classes" / "cat" / "notes.txt").write_text("a note")
    (folder / "classes" / "README.md").write_text("a note")


def check_class_folders(folder: Path) -> None:
    findings = LabelledImages("classes").examined(folder)
    assert findings.rows == 9
    accounts = {account.sort: account for account in findings.accounts}
    assert (accounts["images"].use, accounts["images"].count) == ("read", 9)
    assert accounts["hidden files and folders"].names == (".ipynb_checkpoints",)
    assert {*accounts["files"].names} == {"README.md", "cat/notes.txt"}
    assert len(np.unique(LabelledImages("classes").load(folder).labels)) == 2


def write_nested_folders(folder: Path) -> None:
    write_class_folders(folder)
    write_pictures(folder / "classes" / "dog" / "small", ["1.jpg"], seed=5)


def check_nested_folders(folder: Path) -> None:
    corpus = LabelledImages("classes")
    line = check_refused(lambda: corpus.examined(folder), "dog/small/1.jpg", "nested = true")
    assert "ignore = ['dog/small/*']" in line
    assert LabelledImages("classes", nested=True).examined(folder).rows == 10
    assert LabelledImages("classes", ignore=["dog/small/*"]).examined(folder).rows == 9


def write_parts_of_classes(folder: Path) -> None:
    for part in ("train", "val"):
        for name in ("cat", "dog"):
            write_pictures(folder / "data" / part / name, ["1.jpg", "2.jpg"], seed=6)
    write_pictures(folder / "data" / "train" / "cat" / "@eaDir", ["1.jpg"], seed=7)


def check_parts_of_classes(folder: Path) -> None:
    for nested in (False, True):
        corpus = LabelledImages("data", nested=nested)
        check_refused(lambda read=corpus: read.examined(folder), "train, val", "data/train")
    assert LabelledImages("data/train").examined(folder).rows == 4


def write_stray_picture(folder: Path) -> None:
    write_class_folders(folder)
    write_pictures(folder / "classes", ["1.jpg"], seed=5)


def check_stray_picture(folder: Path) -> None:
    check_refused(lambda: LabelledImages("classes").examined(folder), "lies in no class")
    assert LabelledImages("classes", ignore=["1.jpg"]).examined(folder).rows == 9


def write_labels(folder: Path) -> None:
    write_pictures(folder, ["1.png", "2.png", "3.png"], seed=1)
    pictures = [(folder / f"{number}.png").read_bytes() for number in (1, 2, 3)]
    pq.write_table(pa.table({"jpeg": pictures, "label": [0, 1, -1]}), folder / "hub.parquet")
    pq.write_table(pa.table({"jpeg": pictures, "label": [1, 1, 1]}), folder / "one.parquet")
    rows = [f"{-1 if number % 3 == 2 else number % 3}\ttext {number}" for number in range(9)]
    (folder / "texts.tsv").write_text("\n".join(["label\ttext", *rows]) + "\n")


def check_labels_of_pictures(folder: Path) -> None:
    check_refused(lambda: LabelledImages("hub.parquet").examined(folder), "no_label = '-1'")
    assert LabelledImages("hub.parquet", no_label="-1").examined(folder).rows == 2
    assert len(LabelledImages("hub.parquet", no_label="-1").load(folder)) == 2
    assert LabelledImages("hub.parquet", no_label="").examined(folder).rows == 3
    check_refused(lambda: LabelledImages("one.parquet").examined(folder), "one class only")
    assert LabelledImages("one.parquet", labelled=False).examined(folder).rows == 3


def check_labels_of_texts(folder: Path) -> None:
    files = {"all": "texts.tsv"}
    task = OwnClasses("mine", files, ("text",), "label")
    check_refused(lambda: task.examined(folder), "3 rows have the label -1", "no_label = '-1'")
    assert OwnClasses("mine", files, ("text",), "label", no_label="-1").examined(folder).rows == 6
    assert OwnClasses("mine", files, ("text",), "label", no_label="").examined(folder).rows == 9


def write_capitals(folder: Path) -> None:
    write_pictures(folder / "pictures", ["aBc.png"], seed=4)
    rows = "image,caption\nAbC.png,a red circle\naBc.png,a blue square\n"
    (folder / "captions.csv").write_text(rows)


def check_capitals(folder: Path) -> None:
    corpus = CaptionsFile("captions.csv", images="pictures")
    check_refused(lambda: corpus.pixels.fingerprint(folder), "no image AbC.png")
    rest = CaptionsFile("captions.csv", images="pictures", missing_images="skip")
    assert rest.image_ids(folder) == ["aBc.png"]


def write_karpathy(folder: Path) -> None:
    images = []
    for number, place in enumerate(["train2014", "val2014", "val2014"]):
        name = f"COCO_{place}_{number:012d}.jpg"
        write_pictures(folder / "coco" / place, [name], seed=number)
        split = ["train", "restval", "test"][number]
        sentences = [{"raw": f"circle {number}"}]
        image = {"filepath": place, "filename": name, "split": split, "sentences": sentences}
        images.append(image)
    document = {"images": images, "dataset": "coco"}
    (folder / "dataset_coco.json").write_text(json.dumps(document))


def check_karpathy(folder: Path) -> None:
    corpus = CaptionsFile("dataset_coco.json", images="coco", split="train+restval")
    assert corpus.image_ids(folder) == [
        "COCO_train2014_000000000000.jpg",
        "COCO_val2014_000000000001.jpg",
    ]
    pixels = corpus.load(folder).images
    names = [f"train2014/{corpus.image_ids(folder)[0]}", f"val2014/{corpus.image_ids(folder)[1]}"]
    for number, name in enumerate(names):
        expected = np.asarray(Image.open(folder / "coco" / name))
        np.testing.assert_array_equal(pixels[number], expected)


def write_equal_names(folder: Path) -> None:
    names = [f"{number:04d}.jpg" for number in range(6)]
    write_pictures(folder / "train2017", names, seed=1)
    write_pictures(folder / "val2017", names, seed=2)
    shutil.copyfile(folder / "train2017" / names[3], folder / "val2017" / "copied.jpg")
    write_captions(folder, names)
    shutil.copyfile(folder / "captions.csv", folder / "test.csv")
    with (folder / "test.csv").open("a") as stream:
        stream.write("copied.jpg,a copied picture\n")


def check_equal_names(folder: Path) -> None:
    read = SeenRows([Ingredient(CaptionsFile("captions.csv", images="train2017"), folder)])
    task = CaptionedFile("mine", "test.csv", "", {}, images="val2017", layout=CaptionsLayout())
    assert find_seen_images(task.load(folder), read).tolist() == [False] * 6 + [True]
    # without pixels on one side, the name is all that is known
    read = SeenRows([Ingredient(CaptionsFile("captions.csv"), folder)])
    assert find_seen_images(task.load(folder), read).tolist() == [True] * 6 + [False]


def write_deep_picture(folder: Path) -> None:
    """A PGM of 16 bits, a dark ramp, and a TIFF of floating point."""
    ramp = np.arange(0, 65536, 1024, dtype=">u2").reshape(8, 8)
    (folder / "ramp.pgm").write_bytes(b"P5 8 8 65535\n" + ramp.tobytes())
    Image.fromarray(np.ones((8, 8), np.float32)).save(folder / "floats.tiff")


def check_deep_picture(folder: Path) -> None:
    pixels = decode_image(folder / "ramp.pgm")
    np.testing.assert_array_equal(pixels[..., 0], np.arange(0, 256, 4).reshape(8, 8))
    with pytest.raises(ValueError, match="no known range"):
        decode_image(folder / "floats.tiff")


def write_other_spellings(folder: Path) -> None:
    names = ["val2014/a.jpg", "cafe\u0301.jpg", "B.JPG"]
    write_pictures(folder / "pictures", names, seed=8)
    write_captions(folder, ["val2014/a.jpg", "caf\u00e9.jpg", "b.jpg"])
    (folder / "flat.csv").write_text("image,caption\na.jpg,a circle\n")


def check_other_spellings(folder: Path) -> None:
    pixels = CaptionsFile("captions.csv", images="pictures").load(folder).images
    for number, name in enumerate(["val2014/a.jpg", "cafe\u0301.jpg", "B.JPG"]):
        np.testing.assert_array_equal(pixels[number], decode_image(folder / "pictures" / name))
    flat = CaptionsFile("flat.csv", images="pictures")
    check_refused(lambda: flat.pixels.fingerprint(folder), "no image a.jpg", "val2014/a.jpg")


TRIALS = [
    Trial("4/D5", write_deep_picture, check_deep_picture),
    Trial("4/D7", write_other_spellings, check_other_spellings),
    Trial("5/I1", write_replaced_pictures, check_replaced_pictures),
    Trial("5/I6", write_class_folders, check_class_folders),
    Trial("5/I6 a folder in a folder", write_nested_folders, check_nested_folders),
    Trial("5/I6 parts in place of classes", write_parts_of_classes, check_parts_of_classes),
    Trial("5/I6 a picture in no class", write_stray_picture, check_stray_picture),
    Trial("5/I7 pictures", write_labels, check_labels_of_pictures),
    Trial("5/I7 texts", write_labels, check_labels_of_texts),
    Trial("5/I9", write_capitals, check_capitals),
    Trial("5/I11", write_equal_names, check_equal_names),
    Trial("5/I16", write_karpathy, check_karpathy),
]
