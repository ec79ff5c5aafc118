"""The toy world: scenes, their descriptions, and pictures of them.

A scene has one value of each attribute, drawn uniformly and independently; its description is a
template with one synonym of each, drawn likewise. Templates do not inflect words (no "a" or "an",
no plurals). Exchanging two words of an attribute therefore leaves the distribution of sentences
unchanged: text contains no information about which words are synonyms. Training and test scenes are
independent draws and may coincide; captions and pictures still differ.

Pictures have 32 x 32 pixels, made by integer arithmetic, so that their hashes are the same on every
machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache

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
    """Draw scenes without replacement, (count, attributes) int64, so that a caption fits only one
    picture.
    """
    chosen = rng.choice(int(SIZES.prod()), size=count, replace=False)
    return np.stack(np.unravel_index(chosen, SIZES), axis=1)


def frequent_scenes(rng: np.random.Generator) -> np.ndarray:
    """Draw the scenes that a corpus repeats, (FREQUENT, attributes) int64.

    Each value of an attribute is in equally many of them, so that all words stay equally frequent.
    """
    return np.stack([rng.permutation(np.arange(FREQUENT) % size) for size in SIZES], axis=1)


def classes(scenes: np.ndarray) -> np.ndarray:
    """The class of each scene, colour x shape: (n, attributes) -> (n,) int64 below CLASSES."""
    colour, shape = (scenes[:, ATTRIBUTES.index(name)] for name in ("colour", "shape"))
    numbers: np.ndarray = colour * len(LEXICON["shape"]) + shape
    return numbers


#: genre -> templates; every template mentions every attribute once
TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "phrases": (
        "the {pattern} {colour} {shape} at the {place} by {time}",
        "{colour} {shape} of {pattern} finish near the {place} at {time}",
        "picture of the {pattern} {shape} in {colour} at the {place} after {time}",
    ),
    "statements": (
        "at {time} the {colour} {shape} with {pattern} skin rests near the {place}",
        "we see the {pattern} {colour} {shape} at the {place} by {time}",
        "near the {place} there is the {shape} painted {pattern} {colour} after {time}",
    ),
}
GENRES = tuple(TEMPLATES)
SYNONYMS = len(next(iter(LEXICON["colour"].values())))


def draw_templates(rng: np.random.Generator, genres: np.ndarray) -> np.ndarray:
    """Draw the number of a template within each genre: (n,) -> (n,) int64."""
    return rng.integers(0, [len(TEMPLATES[GENRES[genre]]) for genre in genres], size=len(genres))


def describe(
    scenes: np.ndarray,
    rng: np.random.Generator,
    genres: np.ndarray | None = None,
    templates: np.ndarray | None = None,
) -> list[str]:
    """Describe scenes: (n, attributes) -> n sentences.

    `genres` and `templates` are the genre number of each sentence and that of its template within
    it, (n,) each; those not given are drawn.
    """
    if genres is None:
        genres = rng.integers(0, len(GENRES), size=len(scenes))
    if templates is None:
        templates = draw_templates(rng, genres)
    choices = rng.integers(0, SYNONYMS, size=scenes.shape)
    words = [list(LEXICON[name].values()) for name in ATTRIBUTES]
    return [
        TEMPLATES[GENRES[genre]][form].format_map(
            {
                name: words[column][scene[column]][choice[column]]
                for column, name in enumerate(ATTRIBUTES)
            }
        )
        for genre, form, scene, choice in zip(
            *(values.tolist() for values in (genres, templates, scenes, choices)), strict=True
        )
    ]


def vocabulary() -> list[str]:
    """Every word of the toy world's sentences, sorted."""
    slots = {f"{{{name}}}" for name in ATTRIBUTES}
    fixed = {
        word for forms in TEMPLATES.values() for form in forms for word in form.split()
    } - slots
    return sorted(
        fixed | {word for values in LEXICON.values() for words in values.values() for word in words}
    )


SIDE = 32
#: lengths are in half pixels, since the centre of a picture lies between two pixels
_RADII = (15, 19)
_CENTRES = np.array([[-14, 0], [14, 0], [0, -14], [0, 14], [0, 0]])
_JITTER = 2
_NOISE = 8
_COLOURS = np.array(
    [[220, 30, 40], [30, 170, 60], [40, 80, 225], [240, 215, 40], [150, 50, 190], [245, 245, 240]]
)
_GROUNDS = np.array([[170, 205, 225], [15, 15, 40], [125, 80, 45], [225, 175, 185]])
#: images rendered at a time, to limit memory
_CHUNK = 512

#: masks of the shapes, from the distances to the centre (u to the right, v downwards) and the
#: radius r
_SHAPES: tuple[Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray], ...] = (
    lambda u, v, r: u * u + v * v <= r * r,
    lambda u, v, r: 20 * np.maximum(abs(u), abs(v)) <= 17 * r,
    lambda u, v, r: (2 * abs(u) <= v + r) & (v <= r),
    lambda u, v, r: abs(u) + abs(v) <= r,
    lambda u, v, r: (u * u + v * v <= r * r) & (3 * (u * u + v * v) >= r * r),
    lambda u, v, r: (np.maximum(abs(u), abs(v)) <= r) & (3 * np.minimum(abs(u), abs(v)) <= r),
)
#: masks of the darker pixels of the patterns, from pixel columns and rows
_PATTERNS: tuple[Callable[[np.ndarray, np.ndarray], np.ndarray], ...] = (
    lambda x, y: np.zeros_like(x + y, dtype=bool),
    lambda x, y: (y % 4 < 2) & (x >= 0),
    lambda x, y: (x % 4 < 2) & (y % 4 < 2),
    lambda x, y: (x // 2 + y // 2) % 2 == 0,
)


def render(scenes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Render scenes: (n, attributes) -> (n, 32, 32, 3) uint8; size, centre, phase, brightness and
    noise are random.
    """
    images, _ = render_with_boxes(scenes, rng)
    return images


def render_with_boxes(
    scenes: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The same pictures, and the box of the thing in each: (n, 4) int64, left, top, right and
    bottom, the last two not included.
    """
    images = np.empty((len(scenes), SIDE, SIDE, 3), dtype=np.uint8)
    boxes = np.empty((len(scenes), 4), dtype=np.int64)
    for start in range(0, len(scenes), _CHUNK):
        part = slice(start, start + _CHUNK)
        images[part], boxes[part] = _drawn(scenes[part], rng)
    return images, boxes


def ground_boxes(things: np.ndarray) -> np.ndarray:
    """The largest strip of each picture beside its thing: boxes (n, 4) -> boxes (n, 4)."""
    left, top, right, bottom = things.T
    whole = np.full_like(left, SIDE)
    none = np.zeros_like(left)
    strips = np.stack(
        [
            np.stack([none, none, left, whole], axis=1),
            np.stack([right, none, whole, whole], axis=1),
            np.stack([none, none, whole, top], axis=1),
            np.stack([none, bottom, whole, whole], axis=1),
        ]
    )
    areas = (strips[..., 2] - strips[..., 0]) * (strips[..., 3] - strips[..., 1])
    largest: np.ndarray = strips[areas.argmax(axis=0), np.arange(len(things))]
    return largest


#: what a picture shows, with the attributes that the words of its phrase have
OBJECTS: Mapping[str, tuple[str, ...]] = {
    "thing": ("pattern", "colour", "shape"),
    "ground": ("time",),
}


def find_phrase(text: str, name: str) -> tuple[int, int]:
    """The characters of a description that tell of an object, from its first word to its last."""
    own = _words_of(name)
    places = [match.span() for match in re.finditer(r"\w+", text) if match.group() in own]
    return places[0][0], places[-1][1]


@cache
def _words_of(name: str) -> frozenset[str]:
    """The words with which an object is described."""
    words = set[str]()
    for attribute in OBJECTS[name]:
        for synonyms in LEXICON[attribute].values():
            words.update(synonyms)
    return frozenset(words)


def _drawn(scenes: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    count = len(scenes)
    value = {name: scenes[:, column] for column, name in enumerate(ATTRIBUTES)}
    middles = _CENTRES[value["place"]] + rng.integers(-_JITTER, _JITTER + 1, size=(count, 2))
    phases = rng.integers(0, 4, size=(count, 2))
    axis = np.arange(SIDE)
    u = (2 * axis - SIDE + 1 - middles[:, :1])[:, None, :]
    x = (axis + phases[:, :1])[:, None, :]
    v = (2 * axis - SIDE + 1 - middles[:, 1:])[:, :, None]
    y = (axis + phases[:, 1:])[:, :, None]
    radii = rng.integers(*_RADII, size=(count, 1, 1), endpoint=True)
    inside, dark = np.zeros((2, count, SIDE, SIDE), dtype=bool)
    for number, shape in enumerate(_SHAPES):
        rows = value["shape"] == number
        inside[rows] = shape(u[rows], v[rows], radii[rows])
    for number, pattern in enumerate(_PATTERNS):
        rows = value["pattern"] == number
        dark[rows] = pattern(x[rows], y[rows])
    colours = _COLOURS[value["colour"]]
    grounds = _GROUNDS[value["time"]]
    return _coloured(colours, grounds, inside, inside & dark, rng), _extents(inside)


def _extents(inside: np.ndarray) -> np.ndarray:
    """The box of the pixels of each mask (n, SIDE, SIDE): (n, 4)."""
    columns = np.asarray(inside.any(axis=1))
    rows = np.asarray(inside.any(axis=2))
    firsts = [columns.argmax(axis=1), rows.argmax(axis=1)]
    lasts = [SIDE - each[:, ::-1].argmax(axis=1) for each in (columns, rows)]
    return np.stack([*firsts, *lasts], axis=1)


def _coloured(
    colours: np.ndarray,
    grounds: np.ndarray,
    inside: np.ndarray,
    dark: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    palette = np.stack([grounds, colours, colours // 3], axis=1).astype(np.int16)
    which = inside.astype(np.int8) + dark
    pixels = palette[np.arange(len(palette))[:, None, None], which]
    pixels += rng.integers(-_NOISE, _NOISE + 1, size=(len(pixels), 1, 1, 1), dtype=np.int16)
    pixels += rng.integers(-_NOISE, _NOISE + 1, size=pixels.shape, dtype=np.int16)
    clipped: np.ndarray = np.clip(pixels, 0, 255).astype(np.uint8)
    return clipped
