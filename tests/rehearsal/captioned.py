"""Flickr30k and COCO as their publishers lay them out: images, captions, splits, and what MCSE made
of them.
"""

from __future__ import annotations

import json
import re
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from counts import CAPTIONS, Counts, Splits
from layouts import add
from words import Writer, pictures

#: width of MCSE's ResNet-50 features
WIDTH = 2048


def _split_names(splits: Splits) -> Iterator[str]:
    for name in ("train", "val", "test"):
        yield from [name] * getattr(splits, name)
    yield from ["restval"] * splits.rest


class Flickr:
    """The images of Flickr30k by number, with five captions each; the first ones are Karpathy's
    too.
    """

    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        self.numbers = [str(1_000_000_000 + 7919 * index) for index in range(counts.entities.total)]
        self.captions = Writer(1).groups(len(self.numbers), CAPTIONS, 11)

    def image_list(self, path: Path, split: str) -> None:
        """A list of Flickr30k Entities."""
        names = _split_names(self.counts.entities)
        own = [number for number, name in zip(self.numbers, names, strict=True) if name == split]
        path.write_text("".join(f"{number}\n" for number in own))

    def annotations(self, path: Path) -> None:
        """The archive of Flickr30k Entities, with marked phrases."""
        with zipfile.ZipFile(path, "w") as packed:
            for number, texts in zip(self.numbers, self.captions, strict=True):
                packed.writestr(f"annotations/Annotations/{number}.xml", "<annotation/>")
                packed.writestr(f"__MACOSX/annotations/Sentences/{number}.txt", "\x00\x05")
                packed.writestr(
                    f"annotations/Sentences/{number}.txt",
                    "".join(f"{_marked(text)}\n" for text in texts),
                )

    def images(self, path: Path) -> None:
        """The publisher's archive of all images."""
        with tarfile.open(path, "w:gz", compresslevel=1) as packed:
            for number, content in zip(self.numbers, pictures(), strict=False):
                add(packed, f"flickr30k-images/{number}.jpg", content)

    def karpathy(self) -> list[dict[str, object]]:
        """The images of dataset_flickr30k.json."""
        own = zip(_split_names(self.counts.karpathy), self.numbers, self.captions, strict=False)
        return [
            _karpathy_image(f"{number}.jpg", "flickr30k-images", split, texts)
            for split, number, texts in own
        ]


class Coco:
    """The images of COCO 2014: id, with five captions each, and a sixth of some."""

    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        self.captions = Writer(3).groups(counts.coco.total, CAPTIONS, 11)
        self.splits = list(_split_names(counts.coco))

    def name(self, index: int) -> str:
        """The file of an image."""
        part = "train2014" if self.splits[index] == "train" else "val2014"
        return f"COCO_{part}_{7 * index + 9:012}.jpg"

    def texts(self, index: int) -> list[str]:
        """All captions of an image; every tenth has a sixth."""
        return [*self.captions[index], *([] if index % 10 else ["One more caption."])]

    def annotations(self, path: Path) -> None:
        """The archive of the official annotations; captions are not in the order of the images, and
        end oddly.
        """
        train = range(self.counts.coco.train)
        images = [{"id": 7 * index + 9, "file_name": self.name(index)} for index in train]
        captions = [
            {"image_id": 7 * index + 9, "caption": f"{text}\n "}
            for index in reversed(train)
            for text in self.texts(index)
        ]
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
            known = json.dumps({"images": images, "annotations": captions})
            packed.writestr("annotations/captions_train2014.json", known)
            packed.writestr("annotations/captions_val2014.json", "{}")

    def images(self, path: Path, part: str) -> None:
        """The archive of train2014 or val2014."""
        names = [name for index in range(len(self.splits)) if part in (name := self.name(index))]
        with zipfile.ZipFile(path, "w") as packed:
            for name, content in zip(names, pictures(), strict=False):
                packed.writestr(f"{part}/{name}", content)

    def karpathy(self) -> list[dict[str, object]]:
        """The images of dataset_coco.json."""
        own = [
            (self.name(index), split, self.texts(index)) for index, split in enumerate(self.splits)
        ]
        return [
            _karpathy_image(name, name.split("_")[1], split, texts) for name, split, texts in own
        ]

    def ratings(self, path: Path, split: str) -> None:
        """CxC's rated pairs of captions of a split, by the ids of Karpathy's file."""
        images = [index for index, name in enumerate(self.splits) if name == split]
        ids = [
            _caption_id(self.name(index), number) for index in images for number in range(CAPTIONS)
        ]
        lines = ["caption1,caption2,agg_score,sampling_method"]
        for pair in range(self.counts.rated[split == "test"]):
            first, second = (
                f"COCO_val2014:sentid:{ids[place % len(ids)]}" for place in (pair, 3 * pair + 1)
            )
            lines.append(f"{first},{second},{pair % 51 / 10},c2c_isim")
        path.write_text("\n".join(lines) + "\n")


def _caption_id(file: str, number: int) -> int:
    return 10 * int(re.sub(r"\D", "", file)[-12:]) + number


def caption_datasets(path: Path, flickr: Flickr, coco: Coco) -> None:
    """Karpathy's archive."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
        for name, images in (("flickr30k", flickr.karpathy()), ("coco", coco.karpathy())):
            packed.writestr(f"dataset_{name}.json", json.dumps({"images": images, "dataset": name}))


def _marked(text: str) -> str:
    first, *rest = text.split()
    return f"[/EN#1/people {first} {rest[0]}] {' '.join(rest[1:])}"


def _karpathy_image(file: str, folder: str, split: str, texts: list[str]) -> dict[str, object]:
    marked = (text.replace(" ", "\t", 1) + "\n" for text in texts)
    sentences = [
        {"raw": text, "sentid": _caption_id(file, number)} for number, text in enumerate(marked)
    ]
    return {"filename": file, "filepath": folder, "split": split, "sentences": sentences}


def one_each(path: Path, captions: Iterable[list[str]]) -> None:
    """MCSE's file: one caption of each training image, in their order."""
    path.write_text(
        "".join(f"{texts[number % CAPTIONS]}\n" for number, texts in enumerate(captions))
    )


def features(path: Path, rows: int) -> None:
    """MCSE's ResNet features."""
    import h5py

    rng = np.random.default_rng(5)
    with h5py.File(path, "w") as file:
        features = file.create_dataset("features", (rows, WIDTH), np.float32)
        for start in range(0, rows, 10_000):
            stop = min(start + 10_000, rows)
            features[start:stop] = rng.random((stop - start, WIDTH), np.float32)
