"""An option of a setting from another package, used end to end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = '''
from harness.corpora.base import CorpusSource, Sentences
from harness.setting import Kept, SettingOption
from harness.sources import digest

class Upper(CorpusSource):
    """The sentences of another corpus in capitals."""
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
    """The share of sentences in capitals; half of the sentences are kept."""
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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as pip would install it."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "shout.py").write_text(PACKAGE)
    info = folder / "shout-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shout\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[harness.setting_options]\nshout = shout:Shout\n")
    return folder


def run(setting: str, site: Path, results: Path) -> subprocess.CompletedProcess[str]:
    words = ["run", "--profile", "tiny", "--methods", "simcse", "--settings", setting, "--seeds", "1"]
    words += ["--suites", "sts", "--set", "epochs=1", "--set", "batch_size=32", "--set", "steps=2"]
    return subprocess.run(
        [sys.executable, "-c", "from harness.cli.main import main; main()", *words, "--results", str(results)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"},
        check=False,
    )


def test_an_option_changes_what_a_run_reads_and_its_identity(site: Path, tmp_path: Path) -> None:
    for setting in ("toy-text", "toy-text[shout=1]"):
        done = run(setting, site, tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
    results = [json.loads(path.read_text()) for path in tmp_path.rglob("seed-0-*.json")]
    assert {result["spec"]["setting"] for result in results} == {"toy-text", "toy-text[shout=1]"}
    assert len({result["fingerprint"] for result in results}) == 2
    assert len({json.dumps(result["losses"]) for result in results}) == 2, "the texts differ, so do the losses"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("toy-text[shout=2]", "shout=2 in the setting 'toy-text[shout=2]' must be 0.5 or 1"),
        ("toy-pairs[shout=1]", "has no sentences, to which 'shout' applies; remove the option"),
    ],
)
def test_a_wrong_use_of_it_is_one_line(setting: str, message: str, site: Path, tmp_path: Path) -> None:
    done = run(setting, site, tmp_path)
    assert done.returncode != 0
    (line,) = done.stderr.strip().splitlines()
    assert message in line
