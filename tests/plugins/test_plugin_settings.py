"""An option of a setting from another package: what a run reads and its identity."""

from __future__ import annotations

from pathlib import Path

import pytest
from plugin_packages import Install

import harness
from harness.errors import UserError

CODE = '''\
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


def test_an_option_changes_what_a_run_reads_and_its_identity(install: Install, tmp_path: Path) -> None:
    install("shout", CODE, {"setting_options": {"shout": "Shout"}})
    done = harness.run(
        "tiny", methods="simcse", settings=["toy-text", "toy-text[shout=1]"], seeds=1, suites="sts",
        set={"steps": 2, "batch_size": 32}, results=tmp_path,
    )  # fmt: skip
    plain, loud = done.runs
    assert (plain.spec.setting, loud.spec.setting) == ("toy-text", "toy-text[shout=1]")
    assert plain.fingerprint != loud.fingerprint
    assert plain.losses.terms != loud.losses.terms, "the texts differ, so do the losses"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("toy-text[shout=2]", "shout=2 in the setting 'toy-text.shout=2.' must be 0.5 or 1"),
        ("toy-pairs[shout=1]", "has no sentences, to which 'shout' applies; remove the option"),
    ],
)
def test_a_wrong_use_of_it_is_one_line(install: Install, setting: str, message: str, tmp_path: Path) -> None:
    install("shout", CODE, {"setting_options": {"shout": "Shout"}})
    with pytest.raises(UserError, match=message) as refusal:
        harness.plan("tiny", methods="simcse", settings=[setting], seeds=1, results=tmp_path)
    assert "\n" not in str(refusal.value)
