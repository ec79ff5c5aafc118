"""MCSE's captions, one an image and without ids, matched to their images and all their captions."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from harness.errors import UserError
from harness.fetching.entries import Entry
from harness.fetching.matching import match
from harness.fetching.recipes.base import Got, Take, clean, only, write_parquet
from harness.textfiles import read_lines, read_table

#: MCSE draws from the first five captions of an image (preprocess/prepare_coco.py).
CAPTIONS = 5
TRAINING = "train"


def matched_table(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Match lines to the training images of a table with split, image_id and caption. Raises UserError."""
    images: dict[str, list[str]] = {}
    for row in read_table(only(entry, got, entry.options["captions"]), "split", "image_id", "caption"):
        if row["split"] == TRAINING:
            images.setdefault(row["image_id"], []).append(row["caption"])
    _write(entry, got, out, images)


def matched_coco(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Match lines to the images of COCO's captions_train2014.json, in the order of its `images`. Raises UserError."""
    archive, name = only(entry, got, entry.options["captions"]), entry.options["inside"]
    try:
        with zipfile.ZipFile(archive) as packed:
            known = json.loads(packed.read(name))
        files = {image["id"]: str(image["file_name"]) for image in known["images"]}
        images: dict[str, list[str]] = {file: [] for file in files.values()}
        for annotation in known["annotations"]:
            images[files[annotation["image_id"]]].append(clean(annotation["caption"]))
    except (zipfile.BadZipFile, zlib.error, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{archive} contains no {name} with images and captions: {error}; download it again") from error
    _write(entry, got, out, {file: texts[:CAPTIONS] for file, texts in images.items()})


def _write(entry: Entry, got: Got, out: Path, images: Mapping[str, list[str]]) -> None:
    """Write image_id, caption, captions and method of each line, and the counts of the methods as JSON."""
    lines = [line.strip() or " " for line in read_lines(only(entry, got, entry.options["lines"]))]
    found = match(lines, images)
    ids = found.whole(entry.name)
    table, note = (out / output.path for output in entry.outputs)
    captions = [images[name] for name in ids]
    write_parquet(table, {"image_id": ids, "caption": lines, "captions": captions, "method": found.methods})
    about = {"lines": len(lines), "images": len(images), "methods": found.counts}
    note.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
