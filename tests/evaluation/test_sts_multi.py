from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from harness.errors import MissingData, UserError
from harness.evaluation import sts_multi
from harness.evaluation.sts import STSSuite
from harness.evaluation.sts_files import STSB, STSB_DEV, SimilarityFile
from harness.evaluation.sts_multi import DE, DE_DEV, MultilingualSTSSuite

TASKS = [value for value in vars(sts_multi).values() if isinstance(value, SimilarityFile)]
TEXT = "split\tscore\tsentence1\tsentence2\ntest\t1.5\ta\tb\ndev\t2\tc  d\te\ntrain\tx\tf\tg\ntest\t0\th\ti\n"


def put(root: Path, content: bytes) -> Path:
    path = root / DE.files[0]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_a_task_is_the_rows_of_its_split(tmp_path: Path) -> None:
    put(tmp_path, gzip.compress(TEXT.encode()))
    assert DE.load(tmp_path) == {"": [("a", "b", 1.5), ("h", "i", 0.0)]}
    assert DE_DEV.load(tmp_path) == {"": [("c d", "e", 2.0)]}
    assert DE.fingerprint(tmp_path) != DE_DEV.fingerprint(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [(TEXT.encode(), "cannot be read"), (gzip.compress(TEXT.encode(), mtime=0)[:-9], "cannot be read")],
)
def test_damaged_files_are_told_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = put(tmp_path, content)
    with pytest.raises(UserError, match=message) as caught:
        DE.load(tmp_path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_file_without_splits_is_told(tmp_path: Path) -> None:
    put(tmp_path, gzip.compress(b"score\tsentence1\tsentence2\n1\ta\tb\n"))
    with pytest.raises(UserError, match="no column 'split'"):
        DE.load(tmp_path)


def test_missing_files_say_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match=r"stsb-de\.tsv\.gz: .*stsb_multi_mt"):
        DE.load(tmp_path)


def test_ten_languages_have_test_and_dev_under_names_of_their_own() -> None:
    languages = ["de", "es", "fr", "it", "ja", "nl", "pl", "pt", "ru", "zh"]
    assert [task.name for task in TASKS] == [f"STS-B-{code}{end}" for code in languages for end in ("", "-dev")]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_the_real_files_hold_the_pairs_of_the_english_benchmark(data_root: Path, task: SimilarityFile) -> None:
    """A translation keeps order and gold scores."""
    english = (STSB_DEV if task.name.endswith("-dev") else STSB).load(data_root)[""]
    pairs = task.load(data_root)[""]
    assert [round(gold, 3) for _, _, gold in pairs] == [round(gold, 3) for _, _, gold in english]
    assert len({pair[:2] for pair in pairs} & {pair[:2] for pair in english}) < 60


def test_the_suite_is_the_protocol_of_sts_under_its_own_name(data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STSSuite, "find", classmethod(lambda cls, name: {"de": DE, "de-dev": DE_DEV}[name]))

    def embed(sentences: Sequence[str]) -> np.ndarray:
        bags = np.zeros((len(sentences), 97), dtype=np.float32)
        for row, sentence in enumerate(sentences):
            for word in sentence.split():
                bags[row, sum(word.encode()) % 97] += 1
        return bags

    multi = MultilingualSTSSuite(["de", "de-dev"])
    assert multi.name == "stsb-multi"
    scores = multi.evaluate(embed, data_root).scores
    assert scores == STSSuite(["de", "de-dev"]).evaluate(embed, data_root).scores
    assert 20 < scores["de"]["spearman"] < 90
    assert scores["Avg"]["spearman"] == (scores["de"]["spearman"] + scores["de-dev"]["spearman"]) / 2
    assert multi.fingerprint(data_root) != STSSuite(["de", "de-dev"]).fingerprint(data_root)
