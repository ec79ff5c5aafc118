"""Pictures of scenes, 32 x 32 pixels.

Only integer arithmetic is used, so that pictures and their hashes are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from harness.corpora.toy.scenes import ATTRIBUTES

SIDE = 32
#: lengths are in half pixels, since the centre of a picture lies between two pixels
_RADII = (15, 19)
_CENTRES = np.array([[-14, 0], [14, 0], [0, -14], [0, 14], [0, 0]])
_JITTER = 2
_NOISE = 8
_COLOURS = np.array([[220, 30, 40], [30, 170, 60], [40, 80, 225], [240, 215, 40], [150, 50, 190], [245, 245, 240]])
_GROUNDS = np.array([[170, 205, 225], [15, 15, 40], [125, 80, 45], [225, 175, 185]])
#: images rendered at a time, to limit memory
_CHUNK = 512

#: masks of the shapes, from the distances to the centre (u to the right, v downwards) and the radius r
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
    """Render scenes: (n, attributes) -> (n, 32, 32, 3) uint8.

    Size and centre of the shape, phase of the pattern, brightness and pixel noise are random.
    """
    images = np.empty((len(scenes), SIDE, SIDE, 3), dtype=np.uint8)
    for start in range(0, len(scenes), _CHUNK):
        images[start : start + _CHUNK] = _drawn(scenes[start : start + _CHUNK], rng)
    return images


def _drawn(scenes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    count = len(scenes)
    value = {name: scenes[:, place] for place, name in enumerate(ATTRIBUTES)}
    middles = _CENTRES[value["place"]] + rng.integers(-_JITTER, _JITTER + 1, size=(count, 2))
    phases = rng.integers(0, 4, size=(count, 2))
    axis = np.arange(SIDE)
    u, x = (2 * axis - SIDE + 1 - middles[:, :1])[:, None, :], (axis + phases[:, :1])[:, None, :]
    v, y = (2 * axis - SIDE + 1 - middles[:, 1:])[:, :, None], (axis + phases[:, 1:])[:, :, None]
    radii = rng.integers(*_RADII, size=(count, 1, 1), endpoint=True)
    inside, dark = np.zeros((2, count, SIDE, SIDE), dtype=bool)
    for number, shape in enumerate(_SHAPES):
        rows = value["shape"] == number
        inside[rows] = shape(u[rows], v[rows], radii[rows])
    for number, pattern in enumerate(_PATTERNS):
        rows = value["pattern"] == number
        dark[rows] = pattern(x[rows], y[rows])
    return _coloured(_COLOURS[value["colour"]], _GROUNDS[value["time"]], inside, inside & dark, rng)


def _coloured(
    colours: np.ndarray, grounds: np.ndarray, inside: np.ndarray, dark: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    palette = np.stack([grounds, colours, colours // 3], axis=1).astype(np.int16)
    which = inside.astype(np.int8) + dark
    pixels = palette[np.arange(len(palette))[:, None, None], which]
    pixels += rng.integers(-_NOISE, _NOISE + 1, size=(len(pixels), 1, 1, 1), dtype=np.int16)
    pixels += rng.integers(-_NOISE, _NOISE + 1, size=pixels.shape, dtype=np.int16)
    clipped: np.ndarray = np.clip(pixels, 0, 255).astype(np.uint8)
    return clipped
