"""The toy world: a procedural world of pictures and captions, with its student and its image teacher.

Everything is embedded and determined by seeds, so the whole pipeline runs with no download. Every
value of every attribute of a scene has several synonyms that occur in the same contexts as the
synonyms of the other values: text alone cannot tell which words mean the same, pictures can.

The two models are shipped as files, not made on first use: weights trained on another processor
differ in the last bits, and the same experiment would then have another fingerprint there.
`python -m harness.corpora.toy.pretrain` is the command that made them.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def student_folder() -> Path:
    """The folder of the student: a two-layer BERT pretrained on the world's sentences, and its tokenizer."""
    return Path(str(files(__name__) / "student"))


def clip_folder() -> Path:
    """The folder of the image teacher: a small CLIP trained on pairs of the world, read by open_clip."""
    return Path(str(files(__name__) / "clip"))
