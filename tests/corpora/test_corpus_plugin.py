"""A corpus of each stream in another installed package, trained on end to end."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

CODE = """
import numpy as np
import torch
from harness.corpora.base import CorpusSource, Media, Pairs, Sentences, Triplets
from harness.sources import Generated, digest

TEXTS = [f"the red circle at the left by noon {number}" for number in range(64)]


class Own(Generated, CorpusSource):
    def __init__(self, count=64):
        self.count = count

    def fingerprint(self, root):
        return digest(self.stream, self.count)


class OwnSentences(Own):
    stream = "sentences"

    def load(self, root):
        return Sentences(TEXTS[: self.count])


class OwnPairs(Own):
    stream = "pairs"

    def load(self, root):
        return Pairs(TEXTS[: self.count], np.zeros((self.count, 32, 32, 3), np.uint8))


class OwnTriplets(Own):
    stream = "triplets"

    def load(self, root):
        return Triplets(TEXTS[: self.count], TEXTS[: self.count], TEXTS[::-1][: self.count])


class Views(Media):
    def __init__(self, name, shape, count):
        self.name, self.shape, self.labels = name, shape, np.arange(count) % 4

    def batch(self, rows, rng):
        return {self.name: torch.from_numpy(rng.integers(0, 255, (len(rows), *self.shape)).astype(self.kind))}


class Pictures(Views):
    kind = np.uint8


class Sounds(Views):
    kind = np.float32


class OwnImages(Own):
    stream = "images"

    def load(self, root):
        return Pictures("pixels", (2, 3, 32, 32), self.count)


class OwnAudio(Own):
    stream = "audio"

    def load(self, root):
        return Sounds("spectrograms", (48, 32), self.count)
"""
KINDS = {"text": "Sentences", "pairs": "Pairs", "triplets": "Triplets", "images": "Images", "tones": "Audio"}


def test_a_plug_in_provides_a_corpus_of_each_stream(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(CODE)
    info = tmp_path / "own-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 1.0\n")
    entries = "\n".join(f"own-{name.lower()} = own:Own{name}" for name in KINDS.values())
    (info / "entry_points.txt").write_text(f"[harness.corpora]\n{entries}\n")
    text = (files("harness.profiles") / "tiny.toml").read_text()
    for old, new in {"sentences": "sentences", **{name: name for name in ("pairs", "triplets", "images")}}.items():
        text = text.replace(f'kind = "toy-{old}"', f'kind = "own-{new}"\ncount = 64')
    text = text.replace('kind = "toy-tones"', 'kind = "own-audio"\ncount = 64')
    (tmp_path / "mine.toml").write_text(text)
    methods = "mcse,visualcse-sup,audiocse"
    words = ["run", "--profile", "./mine.toml", "--methods", methods, "--settings", "toy", "--seeds", "1"]
    changes = ["--suites", "sts", "--set", "steps=3", "--set", "eval_every=3", "--set", "batch_size=8"]
    done = subprocess.run(
        [sys.executable, "-c", "from harness.cli.main import main; main()", *words, *changes],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((tmp_path / "results").rglob("seed-0-*.json"))) == len(methods.split(","))
