"""The pairs of similarity tasks of which the stored student has read a sentence:
`tools/grounding_read.json`.

    python tools/grounding_read.py DATA > tools/grounding_read.json

DATA is the folder of data files. The student of the stored runs has read, as text, the captions of
Flickr30k's training images and of COCO's validation images; a pair counts where either of its
sentences is such a caption, without case and punctuation. Of each task: the pairs that are read, and
all pairs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from harness import registry
from harness.datarows import read_rows
from harness.evaluation.suites import SIMILARITY, list_pairs
from harness.remarks import normalise_text

TASKS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R", "STS-B-dev")
#: files of captions, and the splits that the student has read; all of a file without splits
CAPTIONS = {
    "captions/flickr30k_captions.tsv.gz": ("train",),
    "captions/coco_val2017_captions.tsv.gz": (),
}


def read_captions(root: Path) -> set[str]:
    """The captions that the student has read, normalised."""
    captions = set()
    for file, splits in CAPTIONS.items():
        columns = ("split", "caption") if splits else ("caption",)
        for row in read_rows(root / file, *columns):
            *split, caption = row.values
            if not splits or split[0] in splits:
                captions.add(normalise_text(caption))
    return captions


def count_read(root: Path) -> dict[str, tuple[int, int]]:
    """The pairs of each task of which a sentence was read, and all its pairs."""
    captions = read_captions(root)
    counts = {}
    for name in TASKS:
        subsets = registry.get(SIMILARITY, name).load(root)
        pairs = list_pairs(subsets)
        read_pairs = 0
        for first, second, _ in pairs:
            if normalise_text(first) in captions or normalise_text(second) in captions:
                read_pairs += 1
        counts[name] = (read_pairs, len(pairs))
    return counts


if __name__ == "__main__":
    json.dump(count_read(Path(sys.argv[1])), sys.stdout)
    print()
