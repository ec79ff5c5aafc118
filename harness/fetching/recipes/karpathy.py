"""The captions and splits of Karpathy and Fei-Fei (2015) for Flickr30k and COCO.

Each image has five captions. COCO has up to seven; the sixth and seventh are dropped, since MCSE draws from the first
five and the usual retrieval protocol has five. COCO's splits `val` and `test` are named val5k and test5k.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.errors import UserError
from harness.fetching.entries import Entry
from harness.fetching.recipes.base import Got, Take, clean, only, write_parquet, write_table

CAPTIONS = 5
_RENAMED = {"val": "val5k", "test": "test5k"}


def karpathy(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Write a table of all captions and a Parquet file of training captions per data set. Raises UserError."""
    archive = only(entry, got, entry.origins[0].file)
    for name, options in entry.options.items():
        images = list(_images(archive, f"dataset_{name}.json", options["rename"]))
        header = ("split", "image_id", "caption_no", "caption")
        rows = (
            [split, image, str(number), text]
            for split, image, texts in images
            for number, text in enumerate(texts, start=1)
        )
        write_table(out / options["table"], header, rows)
        ids, captions = zip(*((image, texts) for split, image, texts in images if split == "train"), strict=True)
        write_parquet(out / options["training"], {"image_id": ids, "captions": captions})


def _images(archive: Path, name: str, rename: bool) -> Iterator[tuple[str, str, list[str]]]:
    """Yield split, file name and captions of every image."""
    for image in _read(archive, name):
        try:
            texts = [clean(sentence["raw"]) for sentence in image["sentences"]][:CAPTIONS]
            split, file = str(image["split"]), str(image["filename"])
        except (KeyError, TypeError, AttributeError) as error:
            raise UserError(
                f"{name} in {archive} has an image without {error}; download it again from its publisher"
            ) from error
        if len(texts) != CAPTIONS:
            raise UserError(f"{name}: the image {file} has {len(texts)} captions, not {CAPTIONS}; download it again")
        yield _RENAMED.get(split, split) if rename else split, file, texts


def _read(archive: Path, name: str) -> list[Any]:
    try:
        with zipfile.ZipFile(archive) as packed:
            return list(json.loads(packed.read(name))["images"])
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise UserError(
            f"{archive} contains no {name} with images: {error}; download it again from its publisher"
        ) from error
