"""Trials of pictures: those of captions, class folders, and tests on pictures."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
from PIL import Image
from trial import Trial

import harness

#: a profile of one captions-file, whose pictures are computed with
CAPTIONED = """
extends = "tiny"
description = "a trial"
[corpora.c]
kind = "captions-file"
file = "./captions.csv"
images = "./pictures"
[settings.s]
corpora = ["toy-text", "c"]
"""


def write_pictures(folder: Path, names: list[str], seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    for name in names:
        pixels = random.integers(0, 256, (16, 16, 3), dtype=np.uint8)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / name)


def write_captioned(folder: Path, names: list[str], profile: str = CAPTIONED) -> None:
    """A profile with a captions-file and a picture of each name."""
    write_pictures(folder / "pictures", names, seed=1)
    rows = [f"{name},a circle number {number}" for number, name in enumerate(names)]
    (folder / "captions.csv").write_text("\n".join(["image,caption", *rows]) + "\n")
    (folder / "own.toml").write_text(profile)


def plan_fingerprint(folder: Path) -> str:
    plan = harness.plan(
        str(folder / "own.toml"), methods="mcse", settings="s", seeds=1, suites="sts"
    )
    return plan.runs[0].fingerprint


def write_replaced_pictures(folder: Path) -> None:
    names = [f"{number:02d}.bmp" for number in range(8)]
    write_captioned(folder, names)
    write_pictures(folder / "other", names, seed=2)


def check_replaced_pictures(folder: Path) -> None:
    before = plan_fingerprint(folder)
    for picture in (folder / "pictures").iterdir():
        stat = picture.stat()
        shutil.copyfile(folder / "other" / picture.name, picture)
        os.utime(picture, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert plan_fingerprint(folder) != before


TRIALS = [
    Trial("5/I1", write_replaced_pictures, check_replaced_pictures),
]
