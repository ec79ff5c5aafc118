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

from harness.datafiles import read_lines
from harness.datarows import read_rows
from harness.errors import UserError
from harness.fetching.archives import (
    Got,
    Take,
    clean,
    get_single,
    read_published_lines,
    split_lines,
    write_parquet,
    write_table,
)
from harness.fetching.entries import Entry
from harness.remarks import normalise_text

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
        lines = len(self.methods)
        matched = lines - self.counts["guess"]
        if matched < WHOLE * lines or None in self.images:
            raise UserError(
                f"{name}: {matched:,} of {lines:,} captions match an image ({matched / lines:.1%}), fewer than "
                f"{WHOLE:.1%}; the captions and the list of images are of different data sets or versions: fetch both "
                "again"
            )

        return [str(image) for image in self.images]


def match(lines: Sequence[str], captions: Mapping[str, Sequence[str]]) -> Match:
    """Match n > 0 lines to images, each image once.

    `captions` are those of each image by its id, none where unknown; the images may be in the order
    of the lines.
    """
    texts = _NormalisedTexts(list(captions), lines, list(captions.values()))
    return texts.match_by_order() or texts.match_by_text()


class _NormalisedTexts:
    """Lines and images with their normalised texts; both by their numbers."""

    def __init__(
        self, ids: Sequence[str], lines: Sequence[str], captions: Sequence[Sequence[str]]
    ) -> None:
        self.ids = ids
        self.lines = [normalise_text(line) for line in lines]
        self.captions = [list(map(normalise_text, texts)) for texts in captions]
        self.packed = [text.replace(" ", "") for text in self.lines]
        self.images_of: dict[str, list[int]] = {}
        for image, texts in enumerate(self.captions):
            packed_texts = [text.replace(" ", "") for text in texts]
            for text in dict.fromkeys(packed_texts):
                self.images_of.setdefault(text, []).append(image)

    def match_by_order(self) -> Match | None:
        """Match each line to the image at its place; None unless the lines with a known text
        confirm the order.
        """
        if len(self.ids) != len(self.lines):
            return None

        methods: list[MatchedBy] = []
        with_known_text = 0
        for line, text in enumerate(self.packed):
            images = self.images_of.get(text, ())
            if images:
                with_known_text += 1
            methods.append("exact" if line in images else "order")

        at_their_place = methods.count("exact")
        if at_their_place < max(WHOLE * with_known_text, len(methods) / 2):
            return None
        return Match(self.ids, methods)

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

        images: list[str | None] = [None] * len(self.lines)
        for line, image in matched.items():
            images[line] = self.ids[image]
        return Match(images, methods)

    def _match_exactly(self) -> list[tuple[int, int]]:
        """Pairs of a line and the only image with its text, if no other line has the same only
        image.
        """
        pairs = []
        for line, text in enumerate(self.packed):
            images = self.images_of.get(text, ())
            if len(images) == 1:
                pairs.append((line, images[0]))
        line_counts = Counter(image for _, image in pairs)
        return [(line, image) for line, image in pairs if line_counts[image] == 1]

    def _list_unmatched(self, matched: Mapping[int, int]) -> tuple[list[int], list[int]]:
        """Lines without an image, and images without a line."""
        matched_images = set(matched.values())
        lines = [line for line in range(len(self.lines)) if line not in matched]
        images = [image for image in range(len(self.ids)) if image not in matched_images]
        return lines, images

    def _match_by_elimination(self, lines: list[int], images: list[int]) -> list[tuple[int, int]]:
        """Match as many lines as possible to an image with their text: a maximum bipartite
        matching.
        """
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import maximum_bipartite_matching

        column_of = {image: column for column, image in enumerate(images)}
        rows = list[int]()
        columns = list[int]()
        for row, line in enumerate(lines):
            for image in self.images_of.get(self.packed[line], ()):
                if image in column_of:
                    rows.append(row)
                    columns.append(column_of[image])

        if not rows:
            return []

        edges = np.ones(len(rows), np.int8)
        graph = csr_array((edges, (rows, columns)), shape=(len(lines), len(images)))
        partners = maximum_bipartite_matching(graph, perm_type="column")
        return [(lines[row], images[column]) for row, column in enumerate(partners) if column >= 0]

    def _match_by_wording(
        self, lines: list[int], images: list[int]
    ) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Assign lines to images with the greatest total overlap of words: pairs with at least
        NEAR, and the others.
        """
        from scipy.optimize import linear_sum_assignment

        if not (lines and images) or len(lines) > MOST:
            return [], []

        captions = list[str]()
        starts = []
        for image in images:
            starts.append(len(captions))
            captions += self.captions[image] or [""]
        overlaps = _compute_overlap([self.lines[line] for line in lines], captions)
        overlap = np.maximum.reduceat(overlaps, starts, axis=1)

        near: list[tuple[int, int]] = []
        far: list[tuple[int, int]] = []
        for row, column in zip(*linear_sum_assignment(overlap, maximize=True), strict=True):
            pairs = near if overlap[row, column] >= NEAR else far
            pairs.append((lines[row], images[column]))
        return near, far


def _compute_overlap(first_texts: Sequence[str], second_texts: Sequence[str]) -> np.ndarray:
    """The overlap of words of n and m texts, (n, m) float32: twice the common words, divided by the
    words of both.
    """
    words = set[str]()
    for text in (*first_texts, *second_texts):
        words.update(text.split())
    vocabulary = {word: number for number, word in enumerate(sorted(words))}

    first = _count_words(first_texts, vocabulary)
    second = _count_words(second_texts, vocabulary)
    common = (first @ second.T).toarray()
    total = first.sum(axis=1)[:, None] + second.sum(axis=1)[None, :]
    overlap: np.ndarray = 2 * common / np.maximum(total, 1)
    return overlap


def _count_words(texts: Sequence[str], vocabulary: Mapping[str, int]) -> csr_array:
    """Which words each text has, (n, words) float32."""
    from scipy.sparse import csr_array

    rows = list[int]()
    columns = list[int]()
    for row, text in enumerate(texts):
        for word in sorted(set(text.split())):
            rows.append(row)
            columns.append(vocabulary[word])

    ones = np.ones(len(rows), np.float32)
    shape = (len(texts), max(len(vocabulary), 1))
    return csr_array((ones, (rows, columns)), shape=shape)


#: captions of an image, as in Flickr30k; MCSE draws from the first five of COCO too
#: (preprocess/prepare_coco.py)
CAPTIONS = 5
#: a phrase in a caption, [/EN#CHAIN/TYPE... WORDS]
_PHRASE = re.compile(r"\[/EN#\S+\s+(.*?)\](?=\s|$)")
#: errors of code that reads JSON of another layout
_UNEXPECTED = (KeyError, TypeError, AttributeError, ValueError)
_SENTENCES = re.compile(r"(?:^|/)Sentences/(\d+)\.txt$")


def write_entities(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Write a table of all captions as published, with images in the order of the lists. Raises
    UserError.
    """
    split_of: dict[str, str] = {}
    for split, file in entry.options["lists"].items():
        path = get_single(entry, got, file)
        for line in map(str.strip, read_published_lines(path)):
            if not line:
                continue
            if not line.isdecimal() or line in split_of:
                raise UserError(
                    f"{path} is not a list of images in one split each: '{line}'; download it again"
                )
            split_of[line] = split

    archive = get_single(entry, got, entry.options["annotations"])
    captions = _read_entities_captions(archive)
    images = []
    for number, split in split_of.items():
        texts = captions.get(number, [])
        if len(texts) != CAPTIONS:
            raise UserError(
                f"{archive}: the image {number} has {len(texts)} captions, not {CAPTIONS}; download it again"
            )
        images.append((split, f"{number}.jpg", texts))

    _write_captions(out / entry.outputs[0].path, images)


def _write_captions(path: Path, images: Iterable[tuple[str, str, Sequence[str]]]) -> None:
    """Write the captions of images, given by split and id."""
    rows = []
    for split, image, texts in images:
        for number, text in enumerate(texts, start=1):
            rows.append([split, image, str(number), text])
    write_table(path, ("split", "image_id", "caption_no", "caption"), rows)


def strip_annotations(annotated: str) -> str:
    """A caption without phrase annotations, words separated by single blanks."""
    return " ".join(_PHRASE.sub(r"\1", annotated).split())


def _read_entities_captions(archive: Path) -> dict[str, list[str]]:
    """The captions of each image by its number. Raises UserError."""
    captions: dict[str, list[str]] = {}
    try:
        with zipfile.ZipFile(archive) as packed:
            for name in packed.namelist():
                image = _SENTENCES.search(name)
                if image is None or name.startswith("__MACOSX/"):
                    continue
                texts = map(strip_annotations, split_lines(packed.read(name)))
                captions[image[1]] = [text for text in texts if text]
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise UserError(
            f"{archive} is not an archive of annotations: {error}; download it again"
        ) from error

    return captions


#: the split of captions that methods train on
TRAINING = "train"
_RENAMED = {"val": "val5k", "test": "test5k"}


def write_karpathy(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Write a table of all captions and a Parquet file of training captions per data set. Raises
    UserError.
    """
    archive = get_single(entry, got, entry.origins[0].file)
    for name, options in entry.options.items():
        images = list(_read_karpathy_images(archive, f"dataset_{name}.json", options["rename"]))
        _write_captions(out / options["table"], images)

        training = [(image, texts) for split, image, texts in images if split == TRAINING]
        ids, captions = zip(*training, strict=True)
        write_parquet(out / options["training"], {"image_id": ids, "captions": captions})


def _read_karpathy_images(
    archive: Path, name: str, rename: bool
) -> Iterator[tuple[str, str, list[str]]]:
    """Yield split, file name and captions of every image."""
    with _open_json(archive, name) as content:
        for image in content["images"]:
            texts = [clean(sentence["raw"]) for sentence in image["sentences"]][:CAPTIONS]
            split = str(image["split"])
            if rename:
                split = _RENAMED.get(split, split)
            file = str(image["filename"])
            if len(texts) != CAPTIONS:
                raise UserError(
                    f"{name}: the image {file} has {len(texts)} captions, not {CAPTIONS}; download it again"
                )

            yield split, file, texts


def write_crisscrossed(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Write the rated pairs of captions of CxC with their texts, from Karpathy's file of COCO.
    Raises UserError.
    """
    texts = {}
    archive = get_single(entry, got, "caption_datasets.zip")
    with _open_json(archive, "dataset_coco.json") as content:
        for image in content["images"]:
            for sentence in image["sentences"]:
                texts[str(sentence["sentid"])] = clean(sentence["raw"])

    rows = list[list[str]]()
    for split in ("val", "test"):
        ratings = get_single(entry, got, f"sts_{split}.csv")
        columns = ("caption1", "caption2", "agg_score", "sampling_method")
        for place, (first, second, score, method) in read_rows(ratings, *columns):
            ids = []
            for name in (first, second):
                id_ = name.rpartition(":")[2]
                if id_ not in texts:
                    raise UserError(
                        f"{place}: {name} is no caption of dataset_coco.json; fetch both files again"
                    )
                ids.append(id_)
            rows.append([split, score, method, *ids, *(texts[id_] for id_ in ids)])

    header = (
        "split",
        "score",
        "sampling_method",
        "caption1_id",
        "caption2_id",
        "sentence1",
        "sentence2",
    )
    write_table(out / entry.outputs[0].path, header, rows)


@contextmanager
def _open_json(archive: Path, name: str) -> Iterator[Any]:
    """A JSON file in an archive. Raises UserError, also if the block using it meets unexpected
    content.
    """
    try:
        with zipfile.ZipFile(archive) as packed:
            yield json.loads(packed.read(name))
    except (*_UNEXPECTED, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(
            f"{archive} contains no {name} with images and captions: {error}; download it again from its publisher"
        ) from error


def match_table(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Match lines to the training images of a table with split, image_id and caption. Raises
    UserError.
    """
    path = get_single(entry, got, entry.options["captions"])
    images: dict[str, list[str]] = {}
    for _, (split, image, caption) in read_rows(path, "split", "image_id", "caption"):
        if split == TRAINING:
            images.setdefault(image, []).append(caption)
    _write_matched(entry, got, out, images)


def match_coco(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Match lines to the images of COCO's captions_train2014.json, in the order of its `images`.
    Raises UserError.
    """
    archive = get_single(entry, got, entry.options["captions"])
    with _open_json(archive, entry.options["inside"]) as content:
        files = {image["id"]: str(image["file_name"]) for image in content["images"]}
        captions: dict[str, list[str]] = {file: [] for file in files.values()}
        for annotation in content["annotations"]:
            captions[files[annotation["image_id"]]].append(clean(annotation["caption"]))

    images = {file: texts[:CAPTIONS] for file, texts in captions.items()}
    _write_matched(entry, got, out, images)


def _write_matched(entry: Entry, got: Got, out: Path, images: Mapping[str, list[str]]) -> None:
    """Write image_id, caption, captions and method of each line, and the counts of the methods as
    JSON.
    """
    path = get_single(entry, got, entry.options["lines"])
    lines = [line.strip() or " " for line in read_lines(path)]
    matched = match(lines, images)
    ids = matched.check_whole(entry.name)
    columns: dict[str, Sequence[object]] = {
        "image_id": ids,
        "caption": lines,
        "captions": [images[name] for name in ids],
        "method": matched.methods,
    }
    data_path, note_path = (out / output.path for output in entry.outputs)
    write_parquet(data_path, columns)
    counts = {"lines": len(lines), "images": len(images), "methods": matched.counts}
    note_path.write_text(json.dumps(counts, indent=2) + "\n", encoding="utf-8")
