"""Matching lines of a caption file without image names to images, by captions whose images are known.

MCSE publishes one caption of each training image, without ids. Its preprocessing writes them in the order of the list
of images that it reads (`train.txt` of Flickr30k Entities, `images` of COCO's annotations). So a line's image is the
one at its place, wherever the texts confirm that order. Otherwise lines are matched by text, each image once.

Texts are compared after lower-casing, without anything but letters and digits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from harness.errors import UserError
from harness.textfiles import normalised_text

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: How a line was matched. `exact`: it is a caption of the image at its place, or of one image alone that no other such
#: line claims; `order`: by its place alone; `elimination`: to an image with this caption, where several lines or images
#: fit; `wording`: to the nearest caption among the images that are left; `guess`: likewise, with few words in common.
MatchedBy = Literal["exact", "order", "elimination", "wording", "guess"]
METHODS: tuple[MatchedBy, ...] = ("exact", "order", "elimination", "wording", "guess")
#: the least share of lines that must be matched without a guess, and of lines at their place for an order to count
WHOLE = 0.995
#: the least overlap of words (Dice) of a match by wording
NEAR = 0.5
#: Most lines that are matched by wording; files that leave more do not belong together.
MOST = 2000


@dataclass(frozen=True)
class Match:
    """The image id of each of n lines, None where none is left for it, and how it was found."""

    images: Sequence[str | None]
    methods: Sequence[MatchedBy]

    @cached_property
    def counts(self) -> dict[str, int]:
        """The number of lines by method; zero for a method that was not needed."""
        found = Counter(self.methods)
        return {method: found[method] for method in METHODS}

    def whole(self, name: str) -> list[str]:
        """The images of all lines. Raises UserError if fewer than 99.5 % are matched without a guess."""
        sure, lines = len(self.methods) - self.counts["guess"], len(self.methods)
        if sure < WHOLE * lines or None in self.images:
            raise UserError(
                f"{name}: {sure:,} of {lines:,} captions match an image ({sure / lines:.1%}), fewer than {WHOLE:.1%}; "
                "the captions and the list of images are of different data sets or versions: fetch both again"
            )
        return [str(image) for image in self.images]


def match(lines: Sequence[str], captions: Mapping[str, Sequence[str]]) -> Match:
    """Match n > 0 lines to images, each image once.

    `captions` are those of each image by its id, none where unknown; the images may be in the order of the lines.
    """
    known = _Known(list(captions), lines, list(captions.values()))
    return known.by_order() or known.by_text()


class _Known:
    """Lines and images with their normalised texts."""

    def __init__(self, ids: Sequence[str], lines: Sequence[str], captions: Sequence[Sequence[str]]) -> None:
        self.ids = ids
        self.lines = [normalised_text(line) for line in lines]
        self.captions = [[normalised_text(text) for text in own] for own in captions]
        self.packed = [text.replace(" ", "") for text in self.lines]
        self.images_of: dict[str, list[int]] = {}
        for image, own in enumerate(self.captions):
            for text in dict.fromkeys(text.replace(" ", "") for text in own):
                self.images_of.setdefault(text, []).append(image)

    def by_order(self) -> Match | None:
        """Match each line to the image at its place; None unless the lines with a known text confirm the order."""
        if len(self.ids) != len(self.lines):
            return None
        here = [line in self.images_of.get(text, ()) for line, text in enumerate(self.packed)]
        placed, anywhere = sum(here), sum(text in self.images_of for text in self.packed)
        if placed < max(WHOLE * anywhere, len(here) / 2):
            return None
        return Match(self.ids, ["exact" if found else "order" for found in here])

    def by_text(self) -> Match:
        """Match by text alone: exact, then by elimination, then by wording."""
        methods: list[MatchedBy] = ["guess"] * len(self.lines)
        found: dict[int, int] = {}

        def take(pairs: Sequence[tuple[int, int]], method: MatchedBy) -> None:
            found.update(pairs)
            for line, _ in pairs:
                methods[line] = method

        take(self._alone(), "exact")
        take(self._eliminated(*self._left(found)), "elimination")
        near, far = self._nearest(*self._left(found))
        take(near, "wording")
        take(far, "guess")
        return Match([self.ids[found[line]] if line in found else None for line in range(len(self.lines))], methods)

    def _alone(self) -> list[tuple[int, int]]:
        """Lines whose text one image has, which is no other such line's."""
        own = ((line, self.images_of.get(text, ())) for line, text in enumerate(self.packed))
        sole = [(line, images[0]) for line, images in own if len(images) == 1]
        claims = Counter(image for _, image in sole)
        return [(line, image) for line, image in sole if claims[image] == 1]

    def _left(self, found: Mapping[int, int]) -> tuple[list[int], list[int]]:
        """Lines without an image, and images without a line."""
        taken = set(found.values())
        lines, images = range(len(self.lines)), range(len(self.ids))
        return [line for line in lines if line not in found], [image for image in images if image not in taken]

    def _eliminated(self, lines: list[int], images: list[int]) -> list[tuple[int, int]]:
        """As many lines as possible with an image that has their text: a maximum bipartite matching."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import maximum_bipartite_matching

        place = {image: number for number, image in enumerate(images)}
        edges = [
            (row, place[image])
            for row, line in enumerate(lines)
            for image in self.images_of.get(self.packed[line], ())
            if image in place
        ]
        if not edges:
            return []
        rows, columns = zip(*edges, strict=True)
        graph = csr_array((np.ones(len(edges), np.int8), (rows, columns)), shape=(len(lines), len(images)))
        partner = maximum_bipartite_matching(graph, perm_type="column")
        return [(lines[row], images[column]) for row, column in enumerate(partner) if column >= 0]

    def _nearest(self, lines: list[int], images: list[int]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Assign lines to images with the greatest overlap of words in total: pairs from NEAR on, and below it."""
        from scipy.optimize import linear_sum_assignment

        if not (lines and images) or len(lines) > MOST:
            return [], []
        captions = [self.captions[image] or [""] for image in images]
        starts = np.cumsum([0, *map(len, captions)])[:-1]
        overlaps = _dice([self.lines[line] for line in lines], [text for own in captions for text in own])
        overlap = np.maximum.reduceat(overlaps, starts, axis=1)
        near: list[tuple[int, int]] = []
        far: list[tuple[int, int]] = []
        for row, column in zip(*linear_sum_assignment(overlap, maximize=True), strict=True):
            (near if overlap[row, column] >= NEAR else far).append((lines[row], images[column]))
        return near, far


def _dice(left: Sequence[str], right: Sequence[str]) -> np.ndarray:
    """The overlap of the words of n and m texts, (n, m) float32: twice the common words by the words of both."""
    words = sorted({word for text in (*left, *right) for word in text.split()})
    vocabulary = {word: number for number, word in enumerate(words)}
    one, other = _words(left, vocabulary), _words(right, vocabulary)
    common = (one @ other.T).toarray()
    total = one.sum(axis=1)[:, None] + other.sum(axis=1)[None, :]
    overlap: np.ndarray = 2 * common / np.maximum(total, 1)
    return overlap


def _words(texts: Sequence[str], vocabulary: Mapping[str, int]) -> csr_array:
    """Which words each text has, (n, words) float32."""
    from scipy.sparse import csr_array

    found = [(row, vocabulary[word]) for row, text in enumerate(texts) for word in sorted(set(text.split()))]
    rows, columns = zip(*found, strict=True) if found else ((), ())
    shape = (len(texts), max(len(vocabulary), 1))
    return csr_array((np.ones(len(found), np.float32), (rows, columns)), shape=shape)
