"""Captions of Flickr30k and COCO, each image with five.

Karpathy and Fei-Fei (2015) publish both data sets with splits. COCO has up to seven captions; the sixth and seventh
are dropped, since the usual retrieval protocol has five. COCO's splits `val` and `test` are named val5k and test5k.
Flickr30k Entities has the split of MCSE's caption file. MCSE publishes captions without the names of their images,
which are found by `harness.fetching.matching`.
"""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.errors import UserError
from harness.fetching.entries import Entry
from harness.fetching.matching import match
from harness.fetching.recipes.base import Got, Take, clean, only, raw_lines, text_lines, write_parquet, write_table
from harness.textfiles import read_lines, read_table

#: captions of an image, as in Flickr30k; MCSE draws from the first five of COCO too (preprocess/prepare_coco.py)
CAPTIONS = 5
#: a phrase in a caption, [/EN#CHAIN/TYPE... WORDS]
_PHRASE = re.compile(r"\[/EN#\S+\s+(.*?)\](?=\s|$)")
_SENTENCES = re.compile(r"(?:^|/)Sentences/(\d+)\.txt$")


def entities(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Write a table of all captions as published, with images in the order of the lists. Raises UserError."""
    split_of: dict[str, str] = {}
    for split, file in entry.options["lists"].items():
        path = only(entry, got, file)
        for line in filter(None, map(str.strip, raw_lines(path))):
            if not line.isdecimal() or line in split_of:
                raise UserError(f"{path} is not a list of images in one split each: '{line}'; download it again")
            split_of[line] = split
    archive = only(entry, got, entry.options["annotations"])
    texts = _sentences(archive)
    for number in split_of:
        if len(texts.get(number, ())) != CAPTIONS:
            found = len(texts.get(number, ()))
            raise UserError(f"{archive}: the image {number} has {found} captions, not {CAPTIONS}; download it again")
    rows = (
        [split, f"{number}.jpg", str(place), text]
        for number, split in split_of.items()
        for place, text in enumerate(texts[number], start=1)
    )
    write_table(out / entry.outputs[0].path, ("split", "image_id", "caption_no", "caption"), rows)


def plain_caption(annotated: str) -> str:
    """A caption without the marks of its phrases, words separated by single blanks."""
    return " ".join(_PHRASE.sub(r"\1", annotated).split())


def _sentences(archive: Path) -> dict[str, list[str]]:
    """The captions of each image by its number. Raises UserError."""
    found: dict[str, list[str]] = {}
    try:
        with zipfile.ZipFile(archive) as packed:
            for name in packed.namelist():
                image = _SENTENCES.search(name)
                if image and not name.startswith("__MACOSX/"):
                    lines = text_lines(packed.read(name))
                    found[image[1]] = [text for line in lines if (text := plain_caption(line))]
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise UserError(f"{archive} is not an archive of annotations: {error}; download it again") from error
    return found


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


TRAINING = "train"


def matched_table(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Match lines to the training images of a table with split, image_id and caption. Raises UserError."""
    images: dict[str, list[str]] = {}
    for row in read_table(only(entry, got, entry.options["captions"]), "split", "image_id", "caption"):
        if row["split"] == TRAINING:
            images.setdefault(row["image_id"], []).append(row["caption"])
    _write_matched(entry, got, out, images)


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
    _write_matched(entry, got, out, {file: texts[:CAPTIONS] for file, texts in images.items()})


def _write_matched(entry: Entry, got: Got, out: Path, images: Mapping[str, list[str]]) -> None:
    """Write image_id, caption, captions and method of each line, and the counts of the methods as JSON."""
    lines = [line.strip() or " " for line in read_lines(only(entry, got, entry.options["lines"]))]
    found = match(lines, images)
    ids = found.whole(entry.name)
    table, note = (out / output.path for output in entry.outputs)
    captions = [images[name] for name in ids]
    write_parquet(table, {"image_id": ids, "caption": lines, "captions": captions, "method": found.methods})
    about = {"lines": len(lines), "images": len(images), "methods": found.counts}
    note.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
