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
from collections.abc import Callable, Mapping, Sequence
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
    numbers = rng.choice(int(SIZES.prod()), size=count, replace=False)
    return np.stack(np.unravel_index(numbers, SIZES), axis=1)


def draw_frequent_scenes(rng: np.random.Generator) -> np.ndarray:
    """Draw the scenes that a corpus repeats, (FREQUENT, attributes) int64.

    Each value of an attribute is in equally many of them, so that all words stay equally frequent.
    """
    return np.stack([rng.permutation(np.arange(FREQUENT) % size) for size in SIZES], axis=1)


def get_classes(scenes: np.ndarray) -> np.ndarray:
    """The class of each scene, colour x shape: (n, attributes) -> (n,) int64 below CLASSES."""
    colours = scenes[:, ATTRIBUTES.index("colour")]
    shapes = scenes[:, ATTRIBUTES.index("shape")]
    return np.asarray(colours * len(LEXICON["shape"]) + shapes)


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
    counts = np.array([len(templates) for templates in TEMPLATES.values()])
    return rng.integers(0, counts[genres], size=len(genres))


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
    numbers = rng.integers(0, SYNONYMS, size=scenes.shape)

    # a column of words for each attribute
    columns = {}
    for column, (attribute, values) in enumerate(LEXICON.items()):
        synonyms = np.array(list(values.values()))
        columns[attribute] = synonyms[scenes[:, column], numbers[:, column]].tolist()

    texts = []
    for row, (genre, template) in enumerate(zip(genres, templates, strict=True)):
        words = {attribute: column[row] for attribute, column in columns.items()}
        texts.append(TEMPLATES[GENRES[genre]][template].format_map(words))
    return texts


def list_words() -> list[str]:
    """Every word of the toy world's sentences, sorted."""
    words = set[str]()
    for values in LEXICON.values():
        words.update(*values.values())

    for templates in TEMPLATES.values():
        for template in templates:
            words.update(word for word in template.split() if not word.startswith("{"))
    return sorted(words)


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
        chunk = slice(start, start + _CHUNK)
        images[chunk], boxes[chunk] = _draw_pictures(scenes[chunk], rng)
    return images, boxes


def find_ground_boxes(things: np.ndarray) -> np.ndarray:
    """The largest strip of each picture beside its thing: boxes (n, 4) -> boxes (n, 4)."""
    left, top, right, bottom = things.T
    start = np.zeros_like(left)
    end = np.full_like(left, SIDE)
    strips = np.array(
        [
            [start, start, left, end],
            [right, start, end, end],
            [start, start, end, top],
            [start, bottom, end, end],
        ]
    )

    widths = strips[:, 2] - strips[:, 0]
    heights = strips[:, 3] - strips[:, 1]
    largest = np.argmax(widths * heights, axis=0)
    return strips[largest, :, np.arange(len(things))]


#: what a picture shows, with the attributes that the words of its phrase have
OBJECTS: Mapping[str, tuple[str, ...]] = {
    "thing": ("pattern", "colour", "shape"),
    "ground": ("time",),
}


def find_phrase(text: str, name: str) -> tuple[int, int]:
    """The characters of a description that tell of an object, from its first word to its last."""
    words = _list_object_words(name)
    spans = [match.span() for match in re.finditer(r"\w+", text) if match.group() in words]
    return spans[0][0], spans[-1][1]


@cache
def _list_object_words(name: str) -> frozenset[str]:
    """The words with which an object is described."""
    words = set[str]()
    for attribute in OBJECTS[name]:
        words.update(*LEXICON[attribute].values())
    return frozenset(words)


def _draw_pictures(scenes: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The pictures of scenes, and the boxes of their things."""
    count = len(scenes)
    values = dict(zip(ATTRIBUTES, scenes.T, strict=True))
    jitter = rng.integers(-_JITTER, _JITTER + 1, size=(count, 2))
    phases = rng.integers(0, 4, size=(count, 2))
    radii = rng.integers(*_RADII, size=(count, 1, 1), endpoint=True)

    # distances to the centre in half pixels, (count, 1, SIDE) across and (count, SIDE, 1) down
    pixels = np.arange(SIDE)
    centres = _CENTRES[values["place"]] + jitter
    distances = 2 * pixels - SIDE + 1 - centres[:, :, None]
    u = distances[:, 0, None, :]
    v = distances[:, 1, :, None]
    inside = _draw_masks(_SHAPES, values["shape"], u, v, radii)

    # the pattern starts at another pixel in each picture
    places = pixels + phases[:, :, None]
    dark = _draw_masks(_PATTERNS, values["pattern"], places[:, 0, None, :], places[:, 1, :, None])

    colours = _COLOURS[values["colour"]]
    grounds = _GROUNDS[values["time"]]
    return _apply_colours(colours, grounds, inside, inside & dark, rng), _find_extents(inside)


def _draw_masks(
    draw_functions: Sequence[Callable[..., np.ndarray]], numbers: np.ndarray, *arguments: np.ndarray
) -> np.ndarray:
    """A mask for each picture, drawn by the function with its number: (n, SIDE, SIDE) bool.

    `arguments` are those of the functions, with a row for each picture.
    """
    masks = np.zeros((len(numbers), SIDE, SIDE), dtype=bool)
    for number, draw in enumerate(draw_functions):
        rows = numbers == number
        masks[rows] = draw(*(argument[rows] for argument in arguments))
    return masks


def _find_extents(inside: np.ndarray) -> np.ndarray:
    """The box of the pixels of each mask (n, SIDE, SIDE): (n, 4)."""
    corners = []
    for pixels in (inside, inside[:, ::-1, ::-1]):
        corners.append(pixels.any(axis=1).argmax(axis=1))
        corners.append(pixels.any(axis=2).argmax(axis=1))

    left, top, from_right, from_bottom = corners
    return np.stack([left, top, SIDE - from_right, SIDE - from_bottom], axis=1)


def _apply_colours(
    colours: np.ndarray,
    grounds: np.ndarray,
    inside: np.ndarray,
    dark: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    palette = np.stack([grounds, colours, colours // 3], axis=1).astype(np.int16)
    pictures = np.arange(len(palette))[:, None, None]
    pixels = palette[pictures, inside.astype(np.int8) + dark]

    # the brightness of a picture differs, and so does each value of a pixel
    for size in ((len(pixels), 1, 1, 1), pixels.shape):
        pixels += rng.integers(-_NOISE, _NOISE + 1, size=size, dtype=np.int16)
    return np.asarray(np.clip(pixels, 0, 255), dtype=np.uint8)
