"""Scenes: one value of each attribute, drawn uniformly and independently.

If some colours were more frequent with some shapes, the synonyms of a colour would share those contexts, and could be
learned from text. Training and test scenes are therefore independent draws and may coincide; captions and pictures
still differ.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

#: attribute -> value -> synonyms; a word belongs to one value, and all values have the same number
LEXICON: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "pattern": {
        "plain": ("plain", "solid", "uniform"),
        "striped": ("striped", "banded", "lined"),
        "dotted": ("dotted", "spotted", "speckled"),
        "checked": ("checked", "chequered", "tiled"),
    },
    "colour": {
        "red": ("red", "crimson", "scarlet"),
        "green": ("green", "emerald", "jade"),
        "blue": ("blue", "azure", "cobalt"),
        "yellow": ("yellow", "golden", "lemon"),
        "purple": ("purple", "violet", "mauve"),
        "white": ("white", "ivory", "snowy"),
    },
    "shape": {
        "circle": ("circle", "disc", "roundel"),
        "square": ("square", "box", "block"),
        "triangle": ("triangle", "wedge", "pyramid"),
        "diamond": ("diamond", "lozenge", "rhombus"),
        "ring": ("ring", "hoop", "annulus"),
        "cross": ("cross", "plus", "crux"),
    },
    "place": {
        "left": ("left", "west", "port"),
        "right": ("right", "east", "starboard"),
        "top": ("top", "north", "summit"),
        "bottom": ("bottom", "south", "base"),
        "centre": ("centre", "middle", "core"),
    },
    "time": {
        "noon": ("noon", "midday", "daytime"),
        "night": ("night", "midnight", "darkness"),
        "dusk": ("dusk", "sunset", "twilight"),
        "dawn": ("dawn", "sunrise", "daybreak"),
    },
}

ATTRIBUTES = tuple(LEXICON)
#: the number of values of each attribute
SIZES = np.array([len(values) for values in LEXICON.values()])
#: the number of frequent scenes, a multiple of all sizes
FREQUENT = int(np.lcm.reduce(SIZES))
#: classes of labelled images and tones: a colour and a shape
CLASSES = len(LEXICON["colour"]) * len(LEXICON["shape"])


def draw_scenes(rng: np.random.Generator, count: int) -> np.ndarray:
    """Draw scenes: the number of the value of each attribute, (count, attributes) int64."""
    return rng.integers(0, SIZES, size=(count, len(SIZES)))


def draw_distinct_scenes(rng: np.random.Generator, count: int) -> np.ndarray:
    """Draw scenes without replacement, (count, attributes) int64, so that a caption fits only one picture."""
    chosen = rng.choice(int(SIZES.prod()), size=count, replace=False)
    return np.stack(np.unravel_index(chosen, SIZES), axis=1)


def frequent_scenes(rng: np.random.Generator) -> np.ndarray:
    """Draw the scenes that a corpus shows again and again, (FREQUENT, attributes) int64.

    Each value of an attribute is in equally many of them, so that their words stay equally frequent.
    """
    return np.stack([rng.permutation(np.arange(FREQUENT) % size) for size in SIZES], axis=1)


def classes(scenes: np.ndarray) -> np.ndarray:
    """The class of each scene, colour x shape: (n, attributes) -> (n,) int64 below CLASSES."""
    colour, shape = (scenes[:, ATTRIBUTES.index(name)] for name in ("colour", "shape"))
    numbers: np.ndarray = colour * len(LEXICON["shape"]) + shape
    return numbers
