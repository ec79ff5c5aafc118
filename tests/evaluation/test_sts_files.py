from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from harness import registry
from harness.errors import MissingData, UserError
from harness.evaluation import sts
from harness.evaluation.sts import DE, DE_DEV, SICK, STS12, STSB, STSB_DEV, SimilarityFile

TASKS = [value for value in vars(sts).values() if isinstance(value, SimilarityFile)]
TRANSLATED = [task for task in TASKS if "multilingual" in task.files[0]]

#: name -> pairs by subset, as SentEval counts them
COUNTS = {
    "STS12": [750, 750, 459, 750, 399],
    "STS13": [189, 750, 561],
    "STS14": [450, 300, 750, 750, 750, 750],
    "STS15": [375, 750, 375, 750, 750],
    "STS16": [254, 249, 230, 244, 209],
    "STS-B": [1379],
    "STS-B-dev": [1500],
    "STS-B-train": [5749],
    "SICK-R": [4927],
    "SICK-R-dev": [500],
}


def put(root: Path, task: SimilarityFile, content: str | bytes) -> Path:
    path = root / task.files[0]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_subsets_scores_and_sentences_are_read_in_file_order(tmp_path: Path) -> None:
    put(
        tmp_path,
        STS12,
        "subset\tscore\tsentence1\tsentence2\n"
        "z\t4.5\ta  \"quoted word\tan 'other\n"
        "a\t0\tline\u2028separator\tx\n"
        "z\t1.25\tlast\trow\n",
    )
    assert STS12.load(tmp_path) == {
        "z": [('a "quoted word', "an 'other", 4.5), ("last", "row", 1.25)],
        "a": [("line separator", "x", 0.0)],
    }
    assert list(STS12.load(tmp_path)) == ["z", "a"]


def test_columns_are_found_by_name(tmp_path: Path) -> None:
    put(tmp_path, SICK, "sentence2\tpair_id\tsentence1\trelatedness\nsecond\t7\tfirst\t3.3")
    assert SICK.load(tmp_path) == {"": [("first", "second", 3.3)]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("score\tsentence1\n1\ta\n", r"line 1: no column 'sentence2'"),
        ("score\tsentence1\tsentence2\r\n1\ta\tb\r\n", r"line 1: no column 'sentence2'.*line feed"),
        ("score\tsentence1\tsentence2\n1\ta\tb\n2\ta\n", r"line 3: 2 tab-separated fields, the header has 3"),
        ("score\tsentence1\tsentence2\n\n", r"line 2: 1 tab-separated fields"),
        ("score\tsentence1\tsentence2\nhigh\ta\tb\n", r"line 2: the gold score 'high' is not a number"),
        ("score\tsentence1\tsentence2\nnan\ta\tb\n", r"line 2: the gold score 'nan' is not a number"),
        ("score\tsentence1\tsentence2\n", r"no rows"),
        ("", r"is empty"),
        (b"score\tsentence1\tsentence2\n1\t\xff\tb\n", r"line 2, cannot be read as UTF-8"),
    ],
)
def test_bad_content_is_answered_in_one_line_with_file_and_place(
    tmp_path: Path, content: str | bytes, message: str
) -> None:
    path = put(tmp_path, STSB, content)
    with pytest.raises(UserError, match=message) as caught:
        STSB.load(tmp_path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_missing_files_say_how_to_get_them(tmp_path: Path) -> None:
    (absent,) = STSB.missing(tmp_path)
    assert absent.what == "sts/STSB-test.tsv"
    assert "--data-root" in absent.how
    assert "\n" not in str(absent)
    assert STSB.missing(None) == [absent]
    with pytest.raises(MissingData, match=r"sts/STSB-test\.tsv"):
        STSB.load(tmp_path)


def test_the_fingerprint_follows_the_content_not_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    text = "score\tsentence1\tsentence2\n1\ta\tb\n"
    put(tmp_path / "a", STSB, text)
    put(tmp_path / "b", STSB, text)
    assert STSB.fingerprint(tmp_path / "a") == STSB.fingerprint(tmp_path / "b")
    put(tmp_path / "b", STSB, text + "2\ta\tb\n")
    assert STSB.fingerprint(tmp_path / "a") != STSB.fingerprint(tmp_path / "b")


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_every_task_is_registered_under_its_own_name(task: SimilarityFile) -> None:
    assert registry.get("similarity task", task.name) is task


@pytest.mark.parametrize("task", [task for task in TASKS if task.name in COUNTS], ids=lambda task: task.name)
def test_the_real_files_have_sentevals_counts(data_root: Path, task: SimilarityFile) -> None:
    loaded = task.load(data_root)
    assert [len(pairs) for pairs in loaded.values()] == COUNTS[task.name]
    low = 1.0 if task.name.startswith("SICK") else 0.0
    assert all(low <= gold <= 5.0 and first and second for pairs in loaded.values() for first, second, gold in pairs)


def test_a_translated_task_is_the_rows_of_its_split(tmp_path: Path) -> None:
    text = "split\tscore\tsentence1\tsentence2\ntest\t1.5\ta\tb\ndev\t2\tc  d\te\ntrain\tx\tf\tg\ntest\t0\th\ti\n"
    put(tmp_path, DE, gzip.compress(text.encode()))
    assert DE.load(tmp_path) == {"": [("a", "b", 1.5), ("h", "i", 0.0)]}
    assert DE_DEV.load(tmp_path) == {"": [("c d", "e", 2.0)]}
    assert DE.fingerprint(tmp_path) != DE_DEV.fingerprint(tmp_path)
    put(tmp_path, DE, gzip.compress(b"score\tsentence1\tsentence2\n1\ta\tb\n"))
    with pytest.raises(UserError, match="no column 'split'"):
        DE.load(tmp_path)
    put(tmp_path, DE, text)
    with pytest.raises(UserError, match="cannot be read"):
        DE.load(tmp_path)


def test_ten_languages_have_test_and_dev_under_their_own_names(tmp_path: Path) -> None:
    languages = ["de", "es", "fr", "it", "ja", "nl", "pl", "pt", "ru", "zh"]
    assert [task.name for task in TRANSLATED] == [f"STS-B-{code}{end}" for code in languages for end in ("", "-dev")]
    with pytest.raises(MissingData, match=r"stsb-de\.tsv\.gz: .*stsb_multi_mt"):
        DE.load(tmp_path)


@pytest.mark.parametrize("task", TRANSLATED, ids=lambda task: task.name)
def test_the_real_files_hold_the_pairs_of_the_english_benchmark(data_root: Path, task: SimilarityFile) -> None:
    """A translation keeps order and gold scores."""
    english = (STSB_DEV if task.name.endswith("-dev") else STSB).load(data_root)[""]
    pairs = task.load(data_root)[""]
    assert [round(gold, 3) for _, _, gold in pairs] == [round(gold, 3) for _, _, gold in english]
    assert len({pair[:2] for pair in pairs} & {pair[:2] for pair in english}) < 60
