"""The toy world: generated pictures and captions, with a student encoder and an image teacher.

It needs no download and is determined by seeds. Every value of every attribute of a scene has several synonyms, which
occur in the same contexts as the synonyms of the other values: which words mean the same can be learned from pictures
but not from text.

Both models are shipped as files, since weights trained on another processor differ in the last bits and would change
the fingerprints of experiments. They were trained by `python tools/pretrain_toy.py`.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def student_folder() -> Path:
    """The folder of the student, a two-layer BERT pretrained on the sentences of the world, with its tokenizer."""
    return Path(str(files(__name__) / "student"))


def clip_folder() -> Path:
    """The folder of the image teacher, a small CLIP trained on pairs of the world, in open_clip's format."""
    return Path(str(files(__name__) / "clip"))
