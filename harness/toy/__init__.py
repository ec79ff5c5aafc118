"""The toy world: generated pictures and captions, with a student encoder and an image teacher.

It needs no download and is determined by seeds. Which words mean the same can be learned from its
pictures but not from its text. Both models are shipped as files, since weights trained on another
processor would change the fingerprints of experiments; `python tools/pretrain_toy.py` made them.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path


@cache
def student_folder() -> Path:
    """The folder of the student, a two-layer BERT pretrained on the sentences of the world, with
    its tokenizer.
    """
    return Path(str(files(__name__) / "student"))


@cache
def clip_folder() -> Path:
    """The folder of the image teacher, a small CLIP trained on pairs of the world, in open_clip's
    format.
    """
    return Path(str(files(__name__) / "clip"))
