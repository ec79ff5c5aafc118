"""A corpus of each stream from another package, and an option of a setting."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from plugin_packages import Install

import harness
from harness.errors import UserError

pytestmark = pytest.mark.usefixtures("small_toy_tests")

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
            return f"{self.stream} {self.rows}"


    def corpus(of, read):
        class Corpus(Mine):
            stream = of

            def load(self, root):
                return read(TEXTS[: self.rows], self.rows)

        return Corpus


    class Noise(Media):
        def __init__(self, name, shape, rows):
            self.name, self.shape, self.labels = name, shape, np.arange(rows) % 4

        def batch(self, rows, rng):
            values = rng.random((len(rows), *self.shape), dtype=np.float32)
            if self.name == "pixels":
                return {"pixels": torch.from_numpy((values * 255).astype(np.uint8))}
            return {"spectrograms": torch.from_numpy(values)}


    def pairs(texts, rows):
        return Pairs(texts, np.random.default_rng(0).integers(0, 255, (rows, 32, 32, 3), dtype=np.uint8))


    MySentences = corpus("sentences", lambda texts, rows: Sentences(texts))
    MyPairs = corpus("pairs", pairs)
    MyTriplets = corpus("triplets", lambda texts, rows: Triplets(texts, texts, texts[::-1]))
    MyImages = corpus("images", lambda texts, rows: Noise("pixels", (2, 3, 32, 32), rows))
    MyAudio = corpus("audio", lambda texts, rows: Noise("spectrograms", (64, 32), rows))
'''
KINDS = {
    f"my-{name.lower()}": f"My{name}"
    for name in ("Sentences", "Pairs", "Triplets", "Images", "Audio")
}
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
    terms = {run.spec.variant.name: set(run.losses.terms) for run in done.runs}
    assert terms["mcse"] == {"text", "info"}
    assert "visual" in terms["visualcse"]
    assert "audio" in terms["audiocse"]
    with pytest.raises(UserError, match=r"corpora\.my-pairs.*colour"):
        harness.plan(
            profile(TABLES.replace('"my-pairs"\n', '"my-pairs"\ncolour = "red"\n')), settings="mine"
        )


OPTION = '''\
    """Sentences in capitals."""
    from harness.corpora.base import CorpusSource, Sentences
    from harness.setting import Kept, SettingOption
    from harness.sources import digest


    class Upper(CorpusSource):
        """The sentences of another corpus, a share of them in capitals."""

        stream = "sentences"

        def __init__(self, plain, share):
            self.plain, self.share = plain, share

        def missing(self, root):
            return self.plain.missing(root)

        def fingerprint(self, root):
            return digest("upper", self.plain.fingerprint(root), self.share)

        def load(self, root):
            texts = list(self.plain.texts(root))
            cut = int(self.share * len(texts))
            return Sentences([text.upper() if row < cut else text for row, text in enumerate(texts)])


    class Shout(SettingOption):
        """The share of sentences in capitals; 64 sentences are kept."""

        streams = ("sentences",)

        def __init__(self, text):
            if text not in ("0.5", "1"):
                raise ValueError("0.5 or 1")
            self.share = float(text)

        def kept(self):
            return Kept(64, steps_of_all=False)

        def read(self, source):
            return Upper(source, self.share)
'''


def test_an_option_changes_what_a_run_reads_and_its_identity_and_is_checked(
    install: Install, tmp_path: Path
) -> None:
    install("shout", OPTION, {"setting_options": {"shout": "Shout"}})
    done = harness.run(
        "tiny", methods="simcse", settings=["toy-text", "toy-text[shout=1]"], seeds=1, suites="sts",
        set={"steps": 2, "batch_size": 32}, results=tmp_path,
    )  # fmt: skip
    plain, loud = done.runs
    assert (str(plain.spec.setting), str(loud.spec.setting)) == ("toy-text", "toy-text[shout=1]")
    assert plain.fingerprint != loud.fingerprint
    assert plain.losses.terms != loud.losses.terms, "the texts differ, so do the losses"

    with pytest.raises(
        UserError, match=r"shout=2 in the setting 'toy-text.shout=2.' must be 0.5 or 1"
    ):
        harness.plan(
            "tiny", methods="simcse", settings=["toy-text[shout=2]"], seeds=1, results=tmp_path
        )
