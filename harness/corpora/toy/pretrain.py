"""Pretrain the student and the image teacher of the toy world.

    python -m harness.corpora.toy.pretrain --out FOLDER

writes FOLDER/student and FOLDER/clip, each in less than a minute on two cores. Without --out, the shipped files are
replaced, which changes the fingerprints of all toy experiments; do so only after changing the toy world. On another
processor, the weights differ from the shipped ones in the last bits.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from harness.corpora.toy import clip_folder, student_folder
from harness.corpora.toy.pretrain_clip import pretrain_clip
from harness.corpora.toy.pretrain_student import pretrain_student


def main() -> None:
    """Parse the command line and train both models."""
    parser = argparse.ArgumentParser(description="pretrain the toy world's student and image teacher")
    parser.add_argument("--out", type=Path, help="output folder; default: replace the shipped files")
    out = parser.parse_args().out
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    pretrain_student(out / "student" if out else student_folder())
    pretrain_clip(out / "clip" if out else clip_folder())


if __name__ == "__main__":
    main()
