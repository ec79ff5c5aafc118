"""A corpus of each stream from another package, and an option of a setting."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from plugin_packages import Install

import harness
from harness.errors import UserError

CORPORA = '''\
    """Small corpora of every stream."""
    import numpy as np
    import torch

    from harness.corpora.base import CorpusSource, Media, Pairs, Sentences, Triplets

    TEXTS = [f"a {colour} {shape}" for colour in ("red", "blue", "green") for shape in ("circle", "ring", "square")] * 8


    class Mine(CorpusSource):
        """Nothing is read from disk."""

        def __init__(self, rows=64):
            self.rows = rows

        def missing(self, root):
            return []

        def fingerprint(self, root):
            return f"{type(self).__name__} {self.rows}"


    class MySentences(Mine):
        stream = "sentences"

        def load(self, root):
            return Sentences(TEXTS[: self.rows])


    class MyPairs(Mine):
        stream = "pairs"

        def load(self, root):
            pixels = np.random.default_rng(0).integers(0, 255, (self.rows, 32, 32, 3), dtype=np.uint8)
            return Pairs(TEXTS[: self.rows], pixels)


    class MyTriplets(Mine):
        stream = "triplets"

        def load(self, root):
            texts = TEXTS[: self.rows]
            return Triplets(texts, texts, texts[::-1])


    class Noise(Media):
        def __init__(self, name, shape, rows):
            self.name, self.shape, self.labels = name, shape, np.arange(rows) % 4

        def batch(self, rows, rng):
            values = rng.random((len(rows), *self.shape), dtype=np.float32)
            if self.name == "pixels":
                return {"pixels": torch.from_numpy((values * 255).astype(np.uint8))}
            return {"spectrograms": torch.from_numpy(values)}


    class MyImages(Mine):
        stream = "images"

        def load(self, root):
            return Noise("pixels", (2, 3, 32, 32), self.rows)


    class MyAudio(Mine):
        stream = "audio"

        def load(self, root):
            return Noise("spectrograms", (64, 32), self.rows)
'''
KINDS = {f"my-{name.lower()}": f"My{name}" for name in ("Sentences", "Pairs", "Triplets", "Images", "Audio")}
TABLES = "".join(f'[corpora.{kind}]\nkind = "{kind}"\nrows = 48\n' for kind in KINDS) + (
    "[settings.mine]\ncorpora = [" + ", ".join(f'"{kind}"' for kind in KINDS) + "]\n"
)


def test_methods_of_every_stream_train_on_corpora_of_a_package(
    install: Install, profile: Callable[[str], str], tmp_path: Path
) -> None:
    install("my_corpora", CORPORA, {"corpora": KINDS})
    done = harness.run(
        profile(TABLES), methods="simcse,mcse,simcse-sup,visualcse,audiocse", settings="mine", seeds=1, suites="sts",
        set={"steps": 2, "eval_every": 2}, results=tmp_path,
    )  # fmt: skip
    assert not done.failures, done.failures
    terms = {run.spec.method: set(run.losses.terms) for run in done.runs}
    assert terms["mcse"] == {"text", "info"}
    assert "visual" in terms["visualcse"]
    assert "audio" in terms["audiocse"]


def test_an_unknown_option_of_a_corpus_is_one_line(
    install: Install, profile: Callable[[str], str], tmp_path: Path
) -> None:
    install("my_corpora", CORPORA, {"corpora": KINDS})
    mine = profile(TABLES.replace('kind = "my-pairs"', 'kind = "my-pairs"\ncolour = "red"'))
    with pytest.raises(UserError, match=r"corpora\.my-pairs.*colour"):
        harness.plan(mine, methods="mcse", settings="mine", results=tmp_path)
