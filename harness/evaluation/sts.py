"""Semantic textual similarity: the papers' tasks, and correlations of cosines with human scores
(SentEval's protocol).

Tasks are files in the layout of docs/data.md. Scores run from 0 to 5 (SICK: 1 to 5). Runs of blanks
inside a sentence become one blank, as in SentEval.

For the year sets the papers report one Spearman correlation over the pairs of all subsets together
('all'), not a mean over the subsets; all three readings are kept. A correlation of constant values
is left out, with a warning.

For a trained run, a task is also scored separately on the pairs of which training read neither
sentence, and on the others: STS15, the STS Benchmark and SICK contain captions of Flickr30k, on
which MCSE, KDMCSE and DALR train.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from harness.census import TextSurvey
from harness.columns import DefaultColumn, account_for_columns
from harness.datarows import TablePart, parse_finite_number, read_rows
from harness.documents import find_page
from harness.errors import UserError
from harness.evaluation.suites import (
    SIMILARITY,
    Embedded,
    EmbedFunction,
    NotFiniteError,
    OwnTables,
    OwnTask,
    PairSuite,
    SentencePair,
    SimilarityTask,
    Subsets,
    SuiteScores,
    TaskScores,
    TrainedOn,
    Values,
    list_pairs,
    list_sentences,
    make_nested_name,
)
from harness.metrics import AVERAGE, NO_SCORE, SEEN, UNSEEN, Metric, MetricWords
from harness.remarks import list_text_remarks
from harness.sources import FileSource, Findings, digest

_HOW = (
    f"put the STS files below --data-root or HARNESS_DATA in the layout of {find_page('data.md')}; the "
    "originals are in SimCSE's SentEval archive (its download_dataset.sh) and on the SemEval STS pages"
)
_HOW_TRANSLATED = "put the data set stsb_multi_mt there, gzip, with the columns split, score, sentence1 and sentence2"

log = logging.getLogger(__name__)
#: the columns of a user's table that names no others
_DEFAULTS = (
    DefaultColumn("sentence1", "texts", "sentence1"),
    DefaultColumn("sentence2", "texts", "sentence2"),
    DefaultColumn("score", "scores", "score"),
)
#: The scores of unrelated and of equal meaning.
SCALE = (0.0, 5.0)
#: The minimum number of seen or of unseen pairs for a correlation.
FEWEST = 10


class SimilarityFile(FileSource):
    """A similarity task in one file, or in several that are one set."""

    def __init__(
        self,
        name: str,
        *files: str,
        score: str = "score",
        subset: str = "",
        split: str = "",
        how: str = _HOW,
    ) -> None:
        """`score` and `subset` are columns; with `split` the task is the rows with this value in
        the column 'split'.
        """
        super().__init__(files, how)
        self.name = name
        self._score = score
        self._subset = subset
        self._split = split

    def fingerprint(self, root: Path | None) -> str:
        content = super().fingerprint(root)
        return digest(content, self._split) if self._split else content

    def load(self, root: Path | None) -> dict[str, list[SentencePair]]:
        return self.read(self.paths(root))

    def read(self, paths: Sequence[Path]) -> dict[str, list[SentencePair]]:
        columns = [self._score, "sentence1", "sentence2"]
        if self._subset:
            columns.append(self._subset)
        split = TablePart.parse(self._split or None)

        subsets: dict[str, list[SentencePair]] = {}
        for path in paths:
            for place, (score, *texts) in read_rows(path, *columns, split=split):
                first, second, *subset = texts
                gold = parse_finite_number(place, score)
                pair = (" ".join(first.split()), " ".join(second.split()), gold)
                subsets.setdefault("".join(subset), []).append(pair)
        return subsets


class OwnPairs(OwnTables):
    """Sentence pairs with scores in a table of a user, which are rescaled to 0 to 5."""

    kind = SIMILARITY

    def __init__(
        self,
        name: str,
        file: str,
        columns: tuple[str, str, str],
        scale: tuple[float, float],
        subset: str | None,
        split: str | None = None,
        ignore: Sequence[str] = (),
    ) -> None:
        """`columns` are those of both sentences and the score; without the column `subset` the task
        is one set. `split` selects rows (`harness.datarows.TablePart`).
        """
        self._columns = (*columns, *([subset] if subset else []))
        self._scale = scale
        self._split = TablePart.parse(split)
        super().__init__(name, [file], self._columns, scale, split, ignore=ignore)

    def load(self, root: Path | None) -> dict[str, list[SentencePair]]:
        (path,) = self.paths(root)
        subsets: dict[str, list[SentencePair]] = {}
        rows = read_rows(path, *self._columns, split=self._split)
        for place, (first, second, score, *subset) in rows:
            texts = _clean_sentence(place, first), _clean_sentence(place, second)
            pair = (*texts, self._rescale(place, score))
            subsets.setdefault("".join(subset), []).append(pair)
        return subsets

    def examine(self, root: Path | None) -> Findings:
        (path,) = self.paths(root)
        accounts = account_for_columns(path, self._columns, self.ignore, self._split, _DEFAULTS)

        subsets = self.load(root)
        sentences = list_sentences(subsets)
        pairs = list_pairs(subsets)
        distinct = {(first, second) for first, second, _ in pairs}

        return Findings(
            len(pairs),
            list_text_remarks(sentences, "sentences"),
            equal_rows=len(pairs) - len(distinct),
            accounts=accounts,
            sample=TextSurvey.from_texts(sentences).sample,
        )

    def content(self, root: Path | None) -> object:
        return list(self.load(root).items())

    def _rescale(self, place: str, text: str) -> float:
        low, high = self._scale
        score = parse_finite_number(place, text)
        if not low <= score <= high:
            raise UserError(
                f"{place}: the score {text} is not between {low:g} and {high:g}; correct it, or write "
                "scale = [lowest, highest] for the task"
            )

        # no rounding of scores that have the scale
        if self._scale == SCALE:
            return score
        return SCALE[1] * (score - low) / (high - low)


def _clean_sentence(place: str, text: str) -> str:
    words = " ".join(text.split())
    if not words:
        raise UserError(f"{place}: an empty sentence; correct or remove the line")
    return words


def _make_translated(language: str, split: str = "test") -> SimilarityFile:
    name = f"STS-B-{language}" if split == "test" else f"STS-B-{language}-{split}"
    return SimilarityFile(
        name, f"sts/multilingual/stsb-{language}.tsv.gz", split=split, how=_HOW_TRANSLATED
    )


STS12 = SimilarityFile("STS12", "sts/STS12.tsv", subset="subset")
STS13 = SimilarityFile("STS13", "sts/STS13.tsv", subset="subset")
STS14 = SimilarityFile("STS14", "sts/STS14.tsv", subset="subset")
STS15 = SimilarityFile("STS15", "sts/STS15.tsv", subset="subset")
STS16 = SimilarityFile("STS16", "sts/STS16.tsv", subset="subset")
STSB = SimilarityFile("STS-B", "sts/STSB-test.tsv")
STSB_DEV = SimilarityFile("STS-B-dev", "sts/STSB-dev.tsv")
STSB_TRAIN = SimilarityFile("STS-B-train", "sts/STSB-train.tsv")
STSB_ALL = SimilarityFile(
    "STS-B-all", *(f"sts/STSB-{split}.tsv" for split in ("train", "dev", "test"))
)
SICK = SimilarityFile("SICK-R", "sts/SICK-test.tsv", score="relatedness")
SICK_DEV = SimilarityFile("SICK-R-dev", "sts/SICK-trial.tsv", score="relatedness")
DE = _make_translated("de")
DE_DEV = _make_translated("de", "dev")
ES = _make_translated("es")
ES_DEV = _make_translated("es", "dev")
FR = _make_translated("fr")
FR_DEV = _make_translated("fr", "dev")
IT = _make_translated("it")
IT_DEV = _make_translated("it", "dev")
JA = _make_translated("ja")
JA_DEV = _make_translated("ja", "dev")
NL = _make_translated("nl")
NL_DEV = _make_translated("nl", "dev")
PL = _make_translated("pl")
PL_DEV = _make_translated("pl", "dev")
PT = _make_translated("pt")
PT_DEV = _make_translated("pt", "dev")
RU = _make_translated("ru")
RU_DEV = _make_translated("ru", "dev")
ZH = _make_translated("zh")
ZH_DEV = _make_translated("zh", "dev")


class STSSuite(PairSuite):
    """Spearman and Pearson correlations of cosine and gold similarity, x100.

    Metrics of a task: `spearman` and `pearson` over all its pairs, `spearman_mean` and
    `spearman_wmean` over its subsets (plain, and weighted by their pairs), `n` pairs. The parts of
    a task with several subsets are its subsets, each with `spearman`, `pearson` and `n`. Of a model
    whose training is known, further parts are '[unseen]', the pairs of which it read neither
    sentence, and '[seen]', the others; and, where a subset has both, 'SUBSET [unseen]' and 'SUBSET
    [seen]'. Of fewer than `FEWEST` pairs and where they are undefined, their correlations are left
    out. In the parts of 'Avg', correlations are means over the tasks, if all of them have a value,
    and `n` is the sum.

    With `dims`, each task has `spearman@D` as well, of the first D dimensions of the vectors alone.
    """

    name = "sts"
    title = "STS"
    hub_task = "sentence-similarity"
    # 2 adds the parts '[seen]' and '[unseen]'; the other numbers are as in 1
    version = 2
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("spearman", unit="points of Spearman"),
        Metric("pearson", unit="points of Pearson", shown=False),
        Metric("spearman_mean", shown=False),
        Metric("spearman_wmean", shown=False),
    )
    words: ClassVar[Mapping[str, MetricWords]] = {
        "spearman": MetricWords("Spearman correlation x 100"),
        "pearson": MetricWords("Pearson correlation x 100"),
    }

    nested = ("spearman",)

    def __init__(self, tasks: Sequence[str | OwnTask], dims: Sequence[int] = ()) -> None:
        super().__init__(tasks)
        self.set_dims(dims)

    def score(
        self, subsets: Subsets, vectors: Embedded, trained_on: TrainedOn | None = None
    ) -> TaskScores:
        sides = {name: compare_pairs(pairs, vectors) for name, pairs in subsets.items()}
        correlations = {name: _compute_correlations(*side) for name, side in sides.items()}
        spearmans = [part["spearman"] for part in correlations.values()]
        sizes = [len(pairs) for pairs in subsets.values()]

        cosines, gold = np.hstack(list(sides.values()))
        whole_task = _compute_correlations(cosines, gold)
        whole_task["spearman_mean"] = _compute_mean(spearmans, [1] * len(sizes))
        whole_task["spearman_wmean"] = _compute_mean(spearmans, sizes)
        for number in self.dims:
            nested = compare_pairs(list_pairs(subsets), vectors.take_leading(number))
            whole_task[make_nested_name("spearman", number)] = spearman(*nested)

        # the only subset of a task is no part of it
        if len(subsets) == 1:
            correlations = {}
        warnings = _list_undefined(whole_task, correlations)
        if whole_task["spearman"] is None:
            warnings = [f"{NO_SCORE}: {_explain_undefined(cosines, gold)}"]
        parts = {
            name: _make_values(correlations[name], len(subsets[name])) for name in correlations
        }
        if trained_on is not None:
            parts |= _score_by_training(subsets, sides, trained_on)
        return TaskScores(_make_values(whole_task, sum(sizes)), parts, warnings)

    def collect(self, scores: Mapping[str, TaskScores]) -> SuiteScores:
        joined = super().collect(scores)
        averages: dict[str, Values] = {}
        for part in (UNSEEN, SEEN):
            rows = {name: task.parts[part] for name, task in scores.items() if part in task.parts}
            if rows:
                averages[part] = self.average(rows)
                averages[part]["n"] = sum(row["n"] for row in rows.values())
        return replace(joined, parts=joined.parts | {AVERAGE: averages}) if averages else joined


class MultilingualSTSSuite(STSSuite):
    """The protocol of `sts`, averaged over languages."""

    name = "stsb-multi"
    title = "Multilingual STS-B"


def make_dev_scorer(task: SimilarityTask, root: Path | None) -> Callable[[EmbedFunction], float]:
    """Read a similarity task and return the scorer for selecting checkpoints: Spearman x100 over
    all its pairs.

    An undefined correlation (all similarities equal) counts as 0.0, as chance would, and is logged.
    Raises MissingData or UserError; the scorer raises UserError for vectors that are not finite.
    """
    subsets = task.load(root)
    pairs = list_pairs(subsets)
    sentences = list_sentences(subsets)

    def score(embed: EmbedFunction) -> float:
        try:
            correlation = spearman(*compare_pairs(pairs, Embedded(embed, sentences)))
        except NotFiniteError as error:
            raise UserError(
                f"no dev score on {task.name}: {error}; restore the weights of the encoder, or train it with a lower "
                "learning rate"
            ) from error
        if correlation is None:
            log.warning(
                "the dev score on %s is undefined, all similarities are equal; it counts as 0",
                task.name,
            )
            return 0.0
        return 100 * correlation

    return score


def cosine(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Compute the cosine of each pair of rows, (n, d) and (n, d) -> float64 (n,); 0 for a zero row,
    as in SentEval.

    Equal rows give exactly 1, so pairs of a sentence with itself tie.
    """
    x = x.astype(np.float64)
    y = y.astype(np.float64)
    products = np.einsum("nd,nd->n", x, y)
    squares = np.einsum("nd,nd->n", x, x) * np.einsum("nd,nd->n", y, y)
    cosines = products / np.sqrt(np.where(squares > 0, squares, 1.0))
    return np.where(squares > 0, cosines, 0.0)


def pearson(x: np.ndarray, y: np.ndarray) -> float | None:
    """Compute Pearson's r of two vectors of length n; None when either is constant or n < 2."""
    x = np.asarray(x, dtype=np.float64)
    y = np.asarray(y, dtype=np.float64)
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    r = _compute_direction(x - x.mean()) @ _compute_direction(y - y.mean())
    return float(np.clip(r, -1.0, 1.0))


def spearman(x: np.ndarray, y: np.ndarray) -> float | None:
    """Compute Spearman's rho: Pearson's r of the ranks, ties at their average rank; None as for
    `pearson`.
    """
    from scipy.stats import rankdata

    return pearson(rankdata(x), rankdata(y))


def _compute_direction(x: np.ndarray) -> np.ndarray:
    # divided by the largest value first, or the squares of tiny values would underflow to 0
    x = x / np.abs(x).max()
    return np.asarray(x / np.sqrt(x @ x))


def compare_pairs(
    pairs: Sequence[SentencePair], vectors: Embedded
) -> tuple[np.ndarray, np.ndarray]:
    """Return cosine and gold score of n pairs, float64 (n,) each."""
    first, second, gold = zip(*pairs, strict=True)
    cosines = cosine(vectors.rows(first), vectors.rows(second))
    return cosines, np.array(gold, dtype=np.float64)


def find_seen_pairs(pairs: Sequence[SentencePair], trained_on: TrainedOn) -> np.ndarray:
    """Whether training read a sentence of each of n pairs: (n,) bool."""
    first, second, _ = zip(*pairs, strict=True)
    return np.asarray(trained_on.sentences(first) | trained_on.sentences(second))


def _score_by_training(
    subsets: Subsets, sides: Mapping[str, tuple[np.ndarray, np.ndarray]], trained_on: TrainedOn
) -> dict[str, Values]:
    """Score seen and unseen pairs apart: for the whole task, and for each subset that has both
    kinds.
    """
    seen = {name: find_seen_pairs(pairs, trained_on) for name, pairs in subsets.items()}
    cosines, gold = np.hstack(list(sides.values()))
    parts = _score_both_kinds("", cosines, gold, np.concatenate(list(seen.values())))
    if len(subsets) == 1:
        return parts

    for name, is_seen in seen.items():
        if is_seen.any() and not is_seen.all():
            parts |= _score_both_kinds(f"{name} ", *sides[name], is_seen)
    return parts


def _score_both_kinds(
    prefix: str, cosines: np.ndarray, gold: np.ndarray, seen: np.ndarray
) -> dict[str, Values]:
    """Score the cosines of unseen and of seen pairs against their gold scores, (n,) each."""
    parts = {}
    for kind, rows in ((UNSEEN, ~seen), (SEEN, seen)):
        count = int(rows.sum())
        correlations = {}
        if count >= FEWEST:
            correlations = _compute_correlations(cosines[rows], gold[rows])
        parts[f"{prefix}{kind}"] = _make_values(correlations, count)
    return parts


def _compute_correlations(cosines: np.ndarray, gold: np.ndarray) -> dict[str, float | None]:
    return {"spearman": spearman(cosines, gold), "pearson": pearson(cosines, gold)}


def _list_undefined(
    whole_task: Mapping[str, float | None], parts: Mapping[str, Mapping[str, float | None]]
) -> list[str]:
    """A warning that names the undefined values of a task and of its parts, if there are some."""
    undefined = [metric for metric, value in whole_task.items() if value is None]
    for name, part in parts.items():
        undefined += [f"{metric} of {name}" for metric, value in part.items() if value is None]
    if not undefined:
        return []
    names = ", ".join(undefined)
    return [f"{names} left out, undefined: constant similarities or scores"]


def _explain_undefined(cosines: np.ndarray, gold: np.ndarray) -> str:
    if len(gold) < 2:
        return "it has one pair only"
    if np.ptp(gold) == 0:
        return "all gold scores are equal"
    return "all similarities are equal"


def _make_values(correlations: Mapping[str, float | None], pairs: int) -> Values:
    values: Values = {
        metric: 100 * value for metric, value in correlations.items() if value is not None
    }
    return values | {"n": pairs}


def _compute_mean(values: Sequence[float | None], weights: Sequence[int]) -> float | None:
    defined = [value for value in values if value is not None]
    if len(defined) < len(values):
        return None
    return float(np.average(defined, weights=weights))
