"""Regions of images: boxes that lie within an image, the pixels that they cut out, and controls that
exchange them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.corpora.base import Phrases
from harness.errors import UserError
from harness.seeds import make_generator

#: left, top, right and bottom of a region in pixels, the last two not included
Box = tuple[int, int, int, int]


def check_box(place: str, box: Sequence[int], width: int, height: int) -> None:
    """Raise UserError for a box that has no pixel, or that is not within its image."""
    left, top, right, bottom = box
    if left >= right or top >= bottom:
        wrong = "has no pixel"
    elif min(left, top) < 0 or right > width or bottom > height:
        wrong = "lies outside of the image"
    else:
        return
    raise UserError(
        f"{place}: the box {left}, {top}, {right}, {bottom} (left, top, right, bottom) {wrong}, "
        f"which has {width} x {height} pixels; correct it, or remove its phrases"
    )


def join_boxes(boxes: Sequence[Box]) -> Box:
    """The smallest box around several."""
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def cut_out(
    images: Sequence[np.ndarray] | np.ndarray, phrases: Phrases, start: int, stop: int
) -> list[np.ndarray]:
    """The pixels of the regions `start` to `stop`, without `stop`: (h, w, 3) uint8 each.

    Each of the `images` that these are of is decoded once. Raises UserError for a region without a
    box, and for a box outside of its image.
    """
    if phrases.boxes is None:
        raise UserError(
            "the phrases have no boxes to cut out of the images; name a teacher whose features of "
            "regions are stored, or give the table of phrases left, top, right and bottom"
        )

    owners = phrases.images[start:stop].tolist()
    if not owners:
        return []

    boxes = phrases.boxes[start:stop].tolist()
    cuts = []

    # images are decoded one after the other, each once
    numbered = enumerate(images[owners[0] : owners[-1] + 1], owners[0])
    number, pixels = next(numbered)
    for owner, box in zip(owners, boxes, strict=True):
        while number < owner:
            number, pixels = next(numbered)
        left, top, right, bottom = box
        check_box(f"image {number + 1}", box, pixels.shape[1], pixels.shape[0])
        cuts.append(np.ascontiguousarray(pixels[top:bottom, left:right]))
    return cuts


def shuffle_within_images(images: np.ndarray, seed: int) -> np.ndarray:
    """For each region another one of its image, (r,): those of an image are put into one circle,
    and each gets the next one. An image with one region keeps it.

    `images`, (r,) ascending, are those of the regions.
    """
    _, firsts, counts = np.unique(images, return_index=True, return_counts=True)
    random = make_generator(axis="shuffled regions", seed=seed)
    order = np.empty(len(images), np.int64)
    for first, count in zip(firsts.tolist(), counts.tolist(), strict=True):
        circle = first + random.permutation(count)
        order[circle] = np.roll(circle, -1)
    return order


def take_from_other_images(images: np.ndarray, seed: int) -> np.ndarray:
    """For each region one of another image, (r,): the images that have some are put into one
    circle, and the k-th region gets the k-th one of the next image, from the start again where that
    has fewer.

    `images`, (r,) ascending, are those of the regions.
    """
    _, firsts, counts = np.unique(images, return_index=True, return_counts=True)
    circle = make_generator(axis="permuted regions", seed=seed).permutation(len(firsts))
    order = np.empty(len(images), np.int64)
    for image, following in zip(circle, np.roll(circle, -1), strict=True):
        places = np.arange(counts[image])
        order[firsts[image] + places] = firsts[following] + places % counts[following]
    return order
