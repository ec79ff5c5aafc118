"""Descriptions of scenes: a template and one synonym of each attribute, drawn uniformly.

Template and synonyms are independent of the scene and of each other, and templates do not inflect words (no "a" or
"an", no plurals). Exchanging two words of one attribute therefore leaves the distribution of sentences unchanged: text
contains no information on which words mean the same.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from harness.corpora.toy.scenes import ATTRIBUTES, LEXICON

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

    `genres` and `templates` are the genre number of each sentence and that of its template within it, (n,) each; those
    not given are drawn.
    """
    if genres is None:
        genres = rng.integers(0, len(GENRES), size=len(scenes))
    if templates is None:
        templates = draw_templates(rng, genres)
    choices = rng.integers(0, SYNONYMS, size=scenes.shape)
    words = [list(LEXICON[name].values()) for name in ATTRIBUTES]
    return [
        TEMPLATES[GENRES[genre]][form].format_map(
            {name: words[place][scene[place]][choice[place]] for place, name in enumerate(ATTRIBUTES)}
        )
        for genre, form, scene, choice in zip(
            *(values.tolist() for values in (genres, templates, scenes, choices)), strict=True
        )
    ]


def vocabulary() -> list[str]:
    """Every word of the toy world's sentences, sorted."""
    slots = {f"{{{name}}}" for name in ATTRIBUTES}
    fixed = {word for forms in TEMPLATES.values() for form in forms for word in form.split()} - slots
    return sorted(fixed | {word for values in LEXICON.values() for words in values.values() for word in words})
