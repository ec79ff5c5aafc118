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
from harness.datafiles import TablePart, finite_number, read_rows, text_remarks
from harness.documents import page_of
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
    nested_name,
    pairs_of,
    sentences_of,
)
from harness.metrics import AVERAGE, NO_SCORE, SEEN, UNSEEN, Metric, MetricWords
from harness.sources import FileSource, Findings, digest

_HOW = (
    f"put the STS files below --data-root or HARNESS_DATA in the layout of {page_of('data.md')}; the "
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
            for where, (score, one, other, *subset) in read_rows(path, *columns, split=split):
                pair = (" ".join(one.split()), " ".join(other.split()), finite_number(where, score))
                subsets.setdefault(subset[0] if subset else "", []).append(pair)
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
        is one set. `split` selects rows (`harness.datafiles.TablePart`).
        """
        self._columns = (*columns, *([subset] if subset else []))
        self._scale = scale
        self._split = TablePart.parse(split)
        super().__init__(name, [file], self._columns, scale, split, ignore=ignore)

    def load(self, root: Path | None) -> dict[str, list[SentencePair]]:
        (path,) = self.paths(root)
        subsets: dict[str, list[SentencePair]] = {}
        rows = read_rows(path, *self._columns, split=self._split)
        for where, (first, second, score, *subset) in rows:
            pairs = subsets.setdefault(subset[0] if subset else "", [])
            pairs.append(
                (_sentence(where, first), _sentence(where, second), self._number(where, score))
            )
        return subsets

    def examine(self, root: Path | None) -> Findings:
        (path,) = self.paths(root)
        accounts = account_for_columns(path, self._columns, self.ignore, self._split, _DEFAULTS)
        subsets = self.load(root)
        pairs = pairs_of(subsets)
        equal = len(pairs) - len({(first, second) for first, second, _ in pairs})
        return Findings(
            len(pairs),
            text_remarks(sentences_of(subsets), "sentences"),
            equal_rows=equal,
            accounts=accounts,
            sample=TextSurvey.of(sentences_of(subsets)).sample,
        )

    def content(self, root: Path | None) -> object:
        return list(self.load(root).items())

    def _number(self, where: str, text: str) -> float:
        low, high = self._scale
        value = finite_number(where, text)
        if not low <= value <= high:
            raise UserError(
                f"{where}: the score {text} is not between {low:g} and {high:g}; correct it, or write "
                "scale = [lowest, highest] for the task"
            )
        return value if self._scale == SCALE else SCALE[1] * (value - low) / (high - low)


def _sentence(where: str, text: str) -> str:
    words = " ".join(text.split())
    if not words:
        raise UserError(f"{where}: an empty sentence; correct or remove the line")
    return words


def _translated(language: str, split: str = "test") -> SimilarityFile:
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
DE = _translated("de")
DE_DEV = _translated("de", "dev")
ES = _translated("es")
ES_DEV = _translated("es", "dev")
FR = _translated("fr")
FR_DEV = _translated("fr", "dev")
IT = _translated("it")
IT_DEV = _translated("it", "dev")
JA = _translated("ja")
JA_DEV = _translated("ja", "dev")
NL = _translated("nl")
NL_DEV = _translated("nl", "dev")
PL = _translated("pl")
PL_DEV = _translated("pl", "dev")
PT = _translated("pt")
PT_DEV = _translated("pt", "dev")
RU = _translated("ru")
RU_DEV = _translated("ru", "dev")
ZH = _translated("zh")
ZH_DEV = _translated("zh", "dev")


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
        self.nest(dims)

    def score(
        self, subsets: Subsets, vectors: Embedded, trained_on: TrainedOn | None = None
    ) -> TaskScores:
        sides = {name: cosines_and_gold(pairs, vectors) for name, pairs in subsets.items()}
        each = {name: _correlations(*side) for name, side in sides.items()}
        ranks = [part["spearman"] for part in each.values()]
        sizes = [len(pairs) for pairs in subsets.values()]
        means = {
            "spearman_mean": _mean(ranks, [1] * len(sizes)),
            "spearman_wmean": _mean(ranks, sizes),
        }
        whole = _correlations(*np.hstack(list(sides.values()))) | means
        for number in self.dims:
            nested = cosines_and_gold(pairs_of(subsets), vectors.leading(number))
            whole[nested_name("spearman", number)] = spearman(*nested)
        parts = each if len(subsets) > 1 else {}
        undefined = [metric for metric, value in whole.items() if value is None]
        undefined += [
            f"{metric} of {name}"
            for name, part in parts.items()
            for metric in part
            if part[metric] is None
        ]
        warnings = (
            [f"{', '.join(undefined)} left out, undefined: constant similarities or scores"]
            if undefined
            else []
        )
        if whole["spearman"] is None:
            warnings = [f"{NO_SCORE}: {_undefined(*np.hstack(list(sides.values())))}"]
        counted = {name: _percent(part, len(subsets[name])) for name, part in parts.items()}
        if trained_on is not None:
            counted |= _by_training(subsets, sides, trained_on)
        return TaskScores(_percent(whole, sum(sizes)), counted, warnings)

    def collect(self, scores: Mapping[str, TaskScores]) -> SuiteScores:
        joined = super().collect(scores)
        averages: dict[str, Values] = {}
        for part in (UNSEEN, SEEN):
            rows = {name: each.parts[part] for name, each in scores.items() if part in each.parts}
            if rows:
                averages[part] = self.average(rows) | {"n": sum(row["n"] for row in rows.values())}
        return replace(joined, parts=joined.parts | {AVERAGE: averages}) if averages else joined


class MultilingualSTSSuite(STSSuite):
    """The protocol of `sts`, averaged over languages."""

    name = "stsb-multi"
    title = "Multilingual STS-B"


def dev_scorer(task: SimilarityTask, root: Path | None) -> Callable[[EmbedFunction], float]:
    """Read a similarity task and return the scorer for selecting checkpoints: Spearman x100 over
    all its pairs.

    An undefined correlation (all similarities equal) counts as 0.0, as chance would, and is logged.
    Raises MissingData or UserError; the scorer raises UserError for vectors that are not finite.
    """
    subsets = task.load(root)
    pairs = pairs_of(subsets)
    sentences = list(dict.fromkeys(sentences_of(subsets)))

    def score(embed: EmbedFunction) -> float:
        try:
            value = spearman(*cosines_and_gold(pairs, Embedded(embed, sentences)))
        except NotFiniteError as error:
            raise UserError(
                f"no dev score on {task.name}: {error}; restore the weights of the encoder, or train it with a lower "
                "learning rate"
            ) from error
        if value is None:
            log.warning(
                "the dev score on %s is undefined, all similarities are equal; it counts as 0",
                task.name,
            )
        return 100 * (value or 0.0)

    return score


def cosine(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Compute the cosine of each pair of rows, (n, d) and (n, d) -> float64 (n,); 0 for a zero row,
    as in SentEval.

    Equal rows give exactly 1, so pairs of a sentence with itself tie.
    """
    x = x.astype(np.float64)
    y = y.astype(np.float64)
    dot, x_squares, y_squares = (np.einsum("nd,nd->n", *pair) for pair in ((x, y), (x, x), (y, y)))
    squares = x_squares * y_squares
    return np.where(squares > 0, dot / np.sqrt(np.where(squares > 0, squares, 1.0)), 0.0)


def pearson(x: np.ndarray, y: np.ndarray) -> float | None:
    """Compute Pearson's r of two vectors of length n; None when either is constant or n < 2."""
    x = np.asarray(x, dtype=np.float64)
    y = np.asarray(y, dtype=np.float64)
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.clip(_unit(x - x.mean()) @ _unit(y - y.mean()), -1.0, 1.0))


def spearman(x: np.ndarray, y: np.ndarray) -> float | None:
    """Compute Spearman's rho: Pearson's r of the ranks, ties at their average rank; None as for
    `pearson`.
    """
    from scipy.stats import rankdata

    return pearson(rankdata(x), rankdata(y))


def _unit(x: np.ndarray) -> np.ndarray:
    # divided by the largest value first, or the squares of tiny values would underflow to 0
    x = x / np.abs(x).max()
    return np.asarray(x / np.sqrt(x @ x))


def cosines_and_gold(
    pairs: Sequence[SentencePair], vectors: Embedded
) -> tuple[np.ndarray, np.ndarray]:
    """Return cosine and gold score of n pairs, float64 (n,) each."""
    first, second, gold = zip(*pairs, strict=True)
    return cosine(vectors.rows(first), vectors.rows(second)), np.array(gold, dtype=np.float64)


def any_seen(pairs: Sequence[SentencePair], trained_on: TrainedOn) -> np.ndarray:
    """Whether training read a sentence of each of n pairs: (n,) bool."""
    first, second, _ = zip(*pairs, strict=True)
    return np.asarray(trained_on.sentences(first) | trained_on.sentences(second))


def _by_training(
    subsets: Subsets, sides: Mapping[str, tuple[np.ndarray, np.ndarray]], trained_on: TrainedOn
) -> dict[str, Values]:
    """Score seen and unseen pairs apart: for the whole task, and for each subset that has both
    kinds.
    """
    seen = {name: any_seen(pairs, trained_on) for name, pairs in subsets.items()}
    parts = _both_kinds("", np.hstack(list(sides.values())), np.concatenate(list(seen.values())))
    if len(subsets) > 1:
        for name, marks in seen.items():
            if marks.any() and not marks.all():
                parts |= _both_kinds(f"{name} ", np.stack(sides[name]), marks)
    return parts


def _both_kinds(prefix: str, side: np.ndarray, seen: np.ndarray) -> dict[str, Values]:
    """Score cosines and gold scores, (2, n), of unmarked pairs and of marked pairs."""
    marks = {f"{prefix}{UNSEEN}": ~seen, f"{prefix}{SEEN}": seen}
    counts = {name: int(which.sum()) for name, which in marks.items()}
    scored = {
        name: _correlations(*side[:, which])
        for name, which in marks.items()
        if counts[name] >= FEWEST
    }
    return {name: _percent(scored.get(name, {}), count) for name, count in counts.items()}


def _correlations(cosines: np.ndarray, gold: np.ndarray) -> dict[str, float | None]:
    return {"spearman": spearman(cosines, gold), "pearson": pearson(cosines, gold)}


def _undefined(cosines: np.ndarray, gold: np.ndarray) -> str:
    if len(gold) < 2:
        return "it has one pair only"
    return "all gold scores are equal" if np.ptp(gold) == 0 else "all similarities are equal"


def _percent(values: Mapping[str, float | None], pairs: int) -> Values:
    return {metric: 100 * value for metric, value in values.items() if value is not None} | {
        "n": pairs
    }


def _mean(values: Sequence[float | None], weights: Sequence[int]) -> float | None:
    defined = [value for value in values if value is not None]
    return float(np.average(defined, weights=weights)) if len(defined) == len(values) else None
