"""Captions of Flickr30k and COCO, each image with five.

Karpathy and Fei-Fei (2015) publish both data sets with splits. COCO has up to seven captions; the
sixth and seventh are dropped, since the usual retrieval protocol has five. COCO's splits `val` and
`test` are named val5k and test5k. Flickr30k Entities has the split of MCSE's caption file.

MCSE publishes one caption of each training image, without ids. Its preprocessing writes them in the
order of the list of images that it reads (`train.txt` of Flickr30k Entities, `images` of COCO's
annotations). So line i belongs to image i of that list if the texts confirm the order. Otherwise
lines are matched by text, each image once. Texts are compared in lower case, by letters and digits
only.
"""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from harness.datafiles import lines_of, normalised_text, read_rows
from harness.errors import UserError
from harness.fetching.archives import (
    Got,
    Take,
    clean,
    get_single,
    read_lines,
    split_lines,
    write_parquet,
    write_table,
)
from harness.fetching.entries import Entry

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: How a line was matched. `exact`: it is a caption of the image at its place, or of a single image
#: that no other such line matches; `order`: by its place alone; `elimination`: to an image with
#: this caption, if several lines or images fit; `wording`: to the nearest caption of the unmatched
#: images; `guess`: likewise, with few words in common.
MatchedBy = Literal["exact", "order", "elimination", "wording", "guess"]
METHODS: tuple[MatchedBy, ...] = ("exact", "order", "elimination", "wording", "guess")
#: the minimum share of lines matched without a guess, and of lines at their place to confirm the
#: order
WHOLE = 0.995
#: the minimum overlap of words (Dice) of a match by wording
NEAR = 0.5
#: Most lines that are matched by wording; files that leave more do not belong together.
MOST = 2000


@dataclass(frozen=True)
class Match:
    """The image id of each of n lines, None if no image was left for it, and how it was matched."""

    images: Sequence[str | None]
    methods: Sequence[MatchedBy]

    @cached_property
    def counts(self) -> dict[str, int]:
        counted = Counter(self.methods)
        return {method: counted[method] for method in METHODS}

    def check_whole(self, name: str) -> list[str]:
        """The images of all lines. Raises UserError if fewer than 99.5 % are matched without a
        guess.
        """
        sure = len(self.methods) - self.counts["guess"]
        lines = len(self.methods)
        if sure < WHOLE * lines or None in self.images:
            raise UserError(
                f"{name}: {sure:,} of {lines:,} captions match an image ({sure / lines:.1%}), fewer than {WHOLE:.1%}; "
                "the captions and the list of images are of different data sets or versions: fetch both again"
            )
        return [str(image) for image in self.images]


def match(lines: Sequence[str], captions: Mapping[str, Sequence[str]]) -> Match:
    """Match n > 0 lines to images, each image once.

    `captions` are those of each image by its id, none where unknown; the images may be in the order
    of the lines.
    """
    known = _Known(list(captions), lines, list(captions.values()))
    return known.match_by_order() or known.match_by_text()


class _Known:
    """Lines and images with their normalised texts."""

    def __init__(
        self, ids: Sequence[str], lines: Sequence[str], captions: Sequence[Sequence[str]]
    ) -> None:
        self.ids = ids
        self.lines = [normalised_text(line) for line in lines]
        self.captions = [[normalised_text(text) for text in own] for own in captions]
        self.packed = [text.replace(" ", "") for text in self.lines]
        self.images_of: dict[str, list[int]] = {}
        for image, own in enumerate(self.captions):
            for text in dict.fromkeys(text.replace(" ", "") for text in own):
                self.images_of.setdefault(text, []).append(image)

    def match_by_order(self) -> Match | None:
        """Match each line to the image at its place; None unless the lines with a known text
        confirm the order.
        """
        if len(self.ids) != len(self.lines):
            return None
        here = [line in self.images_of.get(text, ()) for line, text in enumerate(self.packed)]
        placed = sum(here)
        anywhere = sum(text in self.images_of for text in self.packed)
        if placed < max(WHOLE * anywhere, len(here) / 2):
            return None
        return Match(self.ids, ["exact" if exact else "order" for exact in here])

    def match_by_text(self) -> Match:
        """Match by text alone: exact, then by elimination, then by wording."""
        methods: list[MatchedBy] = ["guess"] * len(self.lines)
        matched: dict[int, int] = {}

        def take(pairs: Sequence[tuple[int, int]], method: MatchedBy) -> None:
            matched.update(pairs)
            for line, _ in pairs:
                methods[line] = method

        take(self._match_exactly(), "exact")
        take(self._match_by_elimination(*self._list_unmatched(matched)), "elimination")
        near, far = self._match_by_wording(*self._list_unmatched(matched))
        take(near, "wording")
        take(far, "guess")
        return Match(
            [
                self.ids[matched[line]] if line in matched else None
                for line in range(len(self.lines))
            ],
            methods,
        )

    def _match_exactly(self) -> list[tuple[int, int]]:
        """Pairs of a line and the only image with its text, if no other line has the same only
        image.
        """
        own = ((line, self.images_of.get(text, ())) for line, text in enumerate(self.packed))
        sole = [(line, images[0]) for line, images in own if len(images) == 1]
        claims = Counter(image for _, image in sole)
        return [(line, image) for line, image in sole if claims[image] == 1]

    def _list_unmatched(self, matched: Mapping[int, int]) -> tuple[list[int], list[int]]:
        """Lines without an image, and images without a line."""
        taken = set(matched.values())
        lines = range(len(self.lines))
        images = range(len(self.ids))
        return [line for line in lines if line not in matched], [
            image for image in images if image not in taken
        ]

    def _match_by_elimination(self, lines: list[int], images: list[int]) -> list[tuple[int, int]]:
        """Match as many lines as possible to an image with their text: a maximum bipartite
        matching.
        """
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import maximum_bipartite_matching

        column_of = {image: number for number, image in enumerate(images)}
        edges = [
            (row, column_of[image])
            for row, line in enumerate(lines)
            for image in self.images_of.get(self.packed[line], ())
            if image in column_of
        ]
        if not edges:
            return []
        rows, columns = zip(*edges, strict=True)
        graph = csr_array(
            (np.ones(len(edges), np.int8), (rows, columns)), shape=(len(lines), len(images))
        )
        partner = maximum_bipartite_matching(graph, perm_type="column")
        return [(lines[row], images[column]) for row, column in enumerate(partner) if column >= 0]

    def _match_by_wording(
        self, lines: list[int], images: list[int]
    ) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Assign lines to images with the greatest total overlap of words: pairs with at least
        NEAR, and the others.
        """
        from scipy.optimize import linear_sum_assignment

        if not (lines and images) or len(lines) > MOST:
            return [], []
        captions = [self.captions[image] or [""] for image in images]
        starts = np.cumsum([0, *map(len, captions)])[:-1]
        overlaps = _compute_overlap(
            [self.lines[line] for line in lines], [text for own in captions for text in own]
        )
        overlap = np.maximum.reduceat(overlaps, starts, axis=1)
        near: list[tuple[int, int]] = []
        far: list[tuple[int, int]] = []
        for row, column in zip(*linear_sum_assignment(overlap, maximize=True), strict=True):
            (near if overlap[row, column] >= NEAR else far).append((lines[row], images[column]))
        return near, far


def _compute_overlap(left: Sequence[str], right: Sequence[str]) -> np.ndarray:
    """The overlap of words of n and m texts, (n, m) float32: twice the common words, divided by the
    words of both.
    """
    words = sorted({word for text in (*left, *right) for word in text.split()})
    vocabulary = {word: number for number, word in enumerate(words)}
    first = _count_words(left, vocabulary)
    second = _count_words(right, vocabulary)
    common = (first @ second.T).toarray()
    total = first.sum(axis=1)[:, None] + second.sum(axis=1)[None, :]
    overlap: np.ndarray = 2 * common / np.maximum(total, 1)
    return overlap


def _count_words(texts: Sequence[str], vocabulary: Mapping[str, int]) -> csr_array:
    """Which words each text has, (n, words) float32."""
    from scipy.sparse import csr_array

    cells = [
        (row, vocabulary[word])
        for row, text in enumerate(texts)
        for word in sorted(set(text.split()))
    ]
    rows, columns = zip(*cells, strict=True) if cells else ((), ())
    shape = (len(texts), max(len(vocabulary), 1))
    return csr_array((np.ones(len(cells), np.float32), (rows, columns)), shape=shape)


#: captions of an image, as in Flickr30k; MCSE draws from the first five of COCO too
#: (preprocess/prepare_coco.py)
CAPTIONS = 5
#: a phrase in a caption, [/EN#CHAIN/TYPE... WORDS]
_PHRASE = re.compile(r"\[/EN#\S+\s+(.*?)\](?=\s|$)")
_SENTENCES = re.compile(r"(?:^|/)Sentences/(\d+)\.txt$")


def write_entities(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Write a table of all captions as published, with images in the order of the lists. Raises
    UserError.
    """
    split_of: dict[str, str] = {}
    for split, file in entry.options["lists"].items():
        path = get_single(entry, got, file)
        for line in filter(None, map(str.strip, read_lines(path))):
            if not line.isdecimal() or line in split_of:
                raise UserError(
                    f"{path} is not a list of images in one split each: '{line}'; download it again"
                )
            split_of[line] = split
    archive = get_single(entry, got, entry.options["annotations"])
    texts = _read_entities_captions(archive)
    for number in split_of:
        if len(texts.get(number, ())) != CAPTIONS:
            count = len(texts.get(number, ()))
            raise UserError(
                f"{archive}: the image {number} has {count} captions, not {CAPTIONS}; download it again"
            )
    images = ((split, f"{number}.jpg", texts[number]) for number, split in split_of.items())
    _write_captions(out / entry.outputs[0].path, images)


def _write_captions(path: Path, images: Iterable[tuple[str, str, Sequence[str]]]) -> None:
    """Write the captions of images, given by split and id."""
    numbered = (
        (split, image, *each)
        for split, image, texts in images
        for each in enumerate(texts, start=1)
    )
    rows = ([split, image, str(number), text] for split, image, number, text in numbered)
    write_table(path, ("split", "image_id", "caption_no", "caption"), rows)


def strip_annotations(annotated: str) -> str:
    """A caption without phrase annotations, words separated by single blanks."""
    return " ".join(_PHRASE.sub(r"\1", annotated).split())


def _read_entities_captions(archive: Path) -> dict[str, list[str]]:
    """The captions of each image by its number. Raises UserError."""
    sentences: dict[str, list[str]] = {}
    try:
        with zipfile.ZipFile(archive) as packed:
            for name in packed.namelist():
                image = _SENTENCES.search(name)
                if image and not name.startswith("__MACOSX/"):
                    lines = split_lines(packed.read(name))
                    sentences[image[1]] = [
                        text for line in lines if (text := strip_annotations(line))
                    ]
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise UserError(
            f"{archive} is not an archive of annotations: {error}; download it again"
        ) from error
    return sentences


_RENAMED = {"val": "val5k", "test": "test5k"}


def write_karpathy(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Write a table of all captions and a Parquet file of training captions per data set. Raises
    UserError.
    """
    archive = get_single(entry, got, entry.origins[0].file)
    for name, options in entry.options.items():
        images = list(_read_karpathy_images(archive, f"dataset_{name}.json", options["rename"]))
        _write_captions(out / options["table"], images)
        ids, captions = zip(
            *((image, texts) for split, image, texts in images if split == "train"), strict=True
        )
        write_parquet(out / options["training"], {"image_id": ids, "captions": captions})


def _read_karpathy_images(
    archive: Path, name: str, rename: bool
) -> Iterator[tuple[str, str, list[str]]]:
    """Yield split, file name and captions of every image."""
    with _open_json(archive, name) as known:
        for image in known["images"]:
            texts = [clean(sentence["raw"]) for sentence in image["sentences"]][:CAPTIONS]
            split = str(image["split"])
            file = str(image["filename"])
            if len(texts) != CAPTIONS:
                count = len(texts)
                raise UserError(
                    f"{name}: the image {file} has {count} captions, not {CAPTIONS}; download it again"
                )
            yield _RENAMED.get(split, split) if rename else split, file, texts


def write_crisscrossed(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Write the rated pairs of captions of CxC with their texts, from Karpathy's file of COCO.
    Raises UserError.
    """
    with _open_json(get_single(entry, got, "caption_datasets.zip"), "dataset_coco.json") as known:
        sentences = (sentence for image in known["images"] for sentence in image["sentences"])
        texts = {str(sentence["sentid"]): clean(sentence["raw"]) for sentence in sentences}

    def rows() -> Iterator[list[str]]:
        for split in ("val", "test"):
            ratings = get_single(entry, got, f"sts_{split}.csv")
            for where, (*named, score, how) in read_rows(
                ratings, "caption1", "caption2", "agg_score", "sampling_method"
            ):
                pair = [name.rpartition(":")[2] for name in named]
                if unknown := [
                    name for name, number in zip(named, pair, strict=True) if number not in texts
                ]:
                    raise UserError(
                        f"{where}: {unknown[0]} is no caption of dataset_coco.json; fetch both files again"
                    )
                yield [split, score, how, *pair, *(texts[number] for number in pair)]

    header = (
        "split",
        "score",
        "sampling_method",
        "caption1_id",
        "caption2_id",
        "sentence1",
        "sentence2",
    )
    write_table(out / entry.outputs[0].path, header, rows())


@contextmanager
def _open_json(archive: Path, name: str) -> Iterator[Any]:
    """A JSON file in an archive. Raises UserError, also if the block using it meets unexpected
    content.
    """
    try:
        with zipfile.ZipFile(archive) as packed:
            yield json.loads(packed.read(name))
    except (
        zipfile.BadZipFile,
        zlib.error,
        KeyError,
        TypeError,
        AttributeError,
        ValueError,
    ) as error:
        raise UserError(
            f"{archive} contains no {name} with images and captions: {error}; download it again from its publisher"
        ) from error


TRAINING = "train"


def match_table(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Match lines to the training images of a table with split, image_id and caption. Raises
    UserError.
    """
    images: dict[str, list[str]] = {}
    for _, (split, image, caption) in read_rows(
        get_single(entry, got, entry.options["captions"]), "split", "image_id", "caption"
    ):
        if split == TRAINING:
            images.setdefault(image, []).append(caption)
    _write_matched(entry, got, out, images)


def match_coco(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Match lines to the images of COCO's captions_train2014.json, in the order of its `images`.
    Raises UserError.
    """
    with _open_json(
        get_single(entry, got, entry.options["captions"]), entry.options["inside"]
    ) as known:
        files = {image["id"]: str(image["file_name"]) for image in known["images"]}
        images: dict[str, list[str]] = {file: [] for file in files.values()}
        for annotation in known["annotations"]:
            images[files[annotation["image_id"]]].append(clean(annotation["caption"]))
    _write_matched(entry, got, out, {file: texts[:CAPTIONS] for file, texts in images.items()})


def _write_matched(entry: Entry, got: Got, out: Path, images: Mapping[str, list[str]]) -> None:
    """Write image_id, caption, captions and method of each line, and the counts of the methods as
    JSON.
    """
    lines = [
        line.strip() or " " for line in lines_of(get_single(entry, got, entry.options["lines"]))
    ]
    matched = match(lines, images)
    ids = matched.check_whole(entry.name)
    table, note = (out / output.path for output in entry.outputs)
    captions = [images[name] for name in ids]
    write_parquet(
        table, {"image_id": ids, "caption": lines, "captions": captions, "method": matched.methods}
    )
    about = {"lines": len(lines), "images": len(images), "methods": matched.counts}
    note.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
