"""A user's folder: sentence pairs, labelled texts, captioned pictures and a profile that names
them; no data root.
"""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from PIL import Image

COLOURS = {
    "red": (220, 30, 30),
    "green": (30, 200, 60),
    "blue": (30, 60, 220),
    "yellow": (230, 220, 40),
}
SIZES = ("small", "large", "huge")

PROFILE = """
    extends = "tiny"
    dev = "my-pairs"

    [tasks.my-pairs]
    kind = "similarity"
    file = "./pairs.csv"
    sentence1 = "first"
    sentence2 = "second"
    score = "gold"
    scale = [0, 1]

    [tasks.my-classes]
    kind = "classification"
    train = "./train.jsonl"
    test = "./test.tsv"

    [tasks.my-pictures]
    kind = "retrieval"
    captions = "./captions.tsv"
    images = "./pictures"

    [corpora.my-text]
    kind = "sentences-file"
    file = "./pairs.csv"
    column = "first"

    [corpora.my-captions]
    kind = "captions-file"
    file = "./captions.tsv"
    images = "./pictures"

    [corpora.my-triplets]
    kind = "triplets-file"
    file = "./pairs.csv"
    columns = ["first", "second", "other"]

    [settings.mine]
    corpora = ["my-text", "my-captions", "my-triplets"]

    [encoders.mine]
    folder = "./model"

    [training]
    steps = 2
    batch_size = 4
    eval_every = 2

    [suites.sts]
    tasks = ["my-pairs", "ToySTS"]

    [suites.transfer]
    mode = "fast"
    tasks = ["my-classes"]

    [suites.retrieval]
    tasks = ["my-pictures"]
"""


def write_world(folder: Path) -> Path:
    """Write all files, the model excepted; the path of the profile."""
    (folder / "pictures").mkdir(parents=True)
    names = [f"{size} {colour}" for size in SIZES for colour in COLOURS]
    pairs = [
        (f'a "{name}" circle', f"a {name} ring, round", f"the {names[0]} star") for name in names
    ]
    quoted = [[f'"{text.replace(chr(34), chr(34) * 2)}"' for text in pair] for pair in pairs]
    scores = np.linspace(0, 1, len(pairs)).round(3)
    rows = [
        f"{score},{first},{second},{other}"
        for score, (first, second, other) in zip(scores, quoted, strict=True)
    ]
    (folder / "pairs.csv").write_text("\r\n".join(["gold,first,second,other", *rows]) + "\r\n")
    for split, numbers in (("train", range(22)), ("test", range(4))):
        samples = [
            (f"{SIZES[n % 3]} {list(COLOURS)[n % 4]} {'circle' if n % 2 else 'star'} {n}", n % 2)
            for n in numbers
        ]
        if split == "train":
            lines = [
                json.dumps({"text": text, "label": ["no", "yes"][label]}) for text, label in samples
            ]
        else:
            lines = ["label\ttext", *(f"{['no', 'yes'][label]}\t{text}" for text, label in samples)]
        (folder / f"{split}.{'jsonl' if split == 'train' else 'tsv'}").write_text(
            "\n".join(lines) + "\n"
        )
    lines = []
    for number, name in enumerate(names):
        picture = Image.new("RGB", (32, 32), COLOURS[name.split()[1]])
        picture.putpixel((0, 0), (number, 0, 0))  # equal pictures would count as seen together
        picture.save(folder / "pictures" / f"{number}.png")
        lines += [f"{number}.png\ta picture of a {name} circle", f"{number}.png\tone {name} circle"]
    (folder / "captions.tsv").write_text("\n".join(lines) + "\n")
    (folder / "mine.toml").write_text(dedent(PROFILE))
    return folder / "mine.toml"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The profile; the working folder is another than its own."""
    monkeypatch.delenv("HARNESS_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    return write_world(tmp_path / "lab")
