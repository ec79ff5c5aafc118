"""Transfer to classification: SentEval's seven tasks, and linear classifiers on frozen sentence
vectors.

Tasks are files in the layout of docs/data.md. The order of samples determines the folds, so it is
SentEval's: by the number of words (of the first sentence, then of the second), then by label,
otherwise as in the file. Runs of blanks become one blank; an empty text is embedded as such, as in
the evaluation of SimCSE and its forks (SentEval's examples replace it by a full stop).

A task of one set has nested stratified folds: in each outer fold the inner folds select the l2
weight, and a classifier refit on the outer training part is tested on the rest. A task with a test
set selects the l2 weight by folds of its training set, or by its dev set where it has one. All
classifiers of a stage are trained together.

As in SentEval, the l2 weight is selected by mean dev accuracies rounded to two decimals, the first
of equals. Scores are not rounded, unlike SentEval's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import ClassVar

import numpy as np

from harness.census import Account, TextSurvey, account_for_number
from harness.columns import DefaultColumn, account_for_columns
from harness.datarows import TablePart, read_rows
from harness.documents import find_page
from harness.errors import UserError
from harness.evaluation.probes import L2, MODES, Mode, Probe, Split, split_into_folds
from harness.evaluation.suites import (
    Embedded,
    Embedder,
    OwnTables,
    Suite,
    SuiteScores,
    TaskScores,
    make_nested_name,
    score_tasks,
)
from harness.metrics import Metric, MetricWords
from harness.remarks import check_no_label, list_label_remarks, list_text_remarks
from harness.sources import FileSource, Findings, digest

_HOW = (
    f"put the transfer files below --data-root or HARNESS_DATA in the layout of {find_page('data.md')}; the "
    "originals are in SimCSE's SentEval archive (its download_dataset.sh)"
)
#: the registry kind of classification tasks
TRANSFER = "transfer task"

#: where a sample stands -> its label, and the words of each side
Samples = dict[str, tuple[str, list[list[str]]]]

PROBES = ("senteval", "lbfgs")
#: the columns of a user's table that names no others
_DEFAULTS = (
    DefaultColumn("text", "texts", "text2"),
    DefaultColumn("label", "names", "label"),
)


@dataclass(frozen=True)
class Labelled:
    """n samples: their texts, one or two each, and their classes.

    `sides` holds one list of n texts, or two where a sample is a pair; `labels` is int64 (n,), from
    0.
    """

    sides: tuple[list[str], ...]
    labels: np.ndarray


class TransferFiles(FileSource):
    """A classification task in one file a split."""

    def __init__(
        self,
        name: str,
        files: dict[str, str],
        columns: tuple[str, ...] = ("text",),
        classes: str = "0 1",
    ) -> None:
        """`files` by split: 'all', or 'train', 'test' and optionally 'dev'; `columns` are those of
        the texts, two of pairs; `classes` are the labels in order, with blanks between them.
        """
        super().__init__(files.values(), _HOW)
        self.name = name
        self.classes = classes.split()
        self._splits = tuple(files)
        self._columns = columns

    def load(self, root: Path | None) -> dict[str, Labelled]:
        paths = zip(self._splits, self.paths(root), strict=True)
        return {split: self._read_split(path) for split, path in paths}

    def _read_split(self, path: Path) -> Labelled:
        rows = []
        for place, (label, *texts) in read_rows(path, "label", *self._columns):
            words = [text.split() for text in texts]
            rows.append((words, self._find_class(place, label)))
        return sort_samples(rows)

    def _find_class(self, place: str, label: str) -> int:
        if label not in self.classes:
            raise UserError(
                f"{place}: the label '{label}' is not one of {', '.join(self.classes)}; correct the line"
            )
        return self.classes.index(label)


class OwnClasses(OwnTables):
    """Texts, or pairs of texts, with labels in tables of a user; classes are the labels of the
    training set, sorted.
    """

    kind = TRANSFER

    def __init__(
        self,
        name: str,
        files: Mapping[str, str],
        texts: tuple[str, ...],
        label: str,
        splits: Mapping[str, str] | None = None,
        no_label: str | None = None,
        ignore: Sequence[str] = (),
    ) -> None:
        """`files` by split: 'all', or 'train', 'test' and optionally 'dev'; `texts` and `label` are
        columns.

        `splits` selects the rows of each file (`harness.datarows.TablePart`), by the same keys. Rows with
        the label `no_label` are left out; with '' there are none.
        """
        parts = splits or {}
        options = (list(files), texts, label, dict(parts), no_label)
        super().__init__(name, list(files.values()), *options, ignore=ignore)
        self._splits = tuple(files)
        self._columns = (label, *texts)
        self._no_label = no_label
        self._parts = {split: TablePart.parse(part) for split, part in parts.items()}

    def load(self, root: Path | None) -> dict[str, Labelled]:
        paths = dict(zip(self._splits, self.paths(root), strict=True))
        samples = {split: self._read_samples(split, path) for split, path in paths.items()}
        return self._number_classes(paths, samples)

    def _number_split(self, path: Path, samples: Samples, classes: list[str]) -> Labelled:
        rows = []
        for place, (label, sides) in self._remove_unlabelled(samples).items():
            if label not in classes:
                raise UserError(
                    f"{place}: no training sample has the label '{label}'; correct the line"
                )
            rows.append((sides, classes.index(label)))
        if not rows:
            raise UserError(
                f"{path} has no labels, but '{self._no_label}', which stands for none; give a labelled file"
            )
        return sort_samples(rows)

    def _number_classes(
        self, paths: Mapping[str, Path], samples: Mapping[str, Samples]
    ) -> dict[str, Labelled]:
        """The labelled samples of each split with their classes. Raises UserError."""
        labels = []
        for split in samples:
            labels += [label for label, _ in samples[split].values()]
        check_no_label(paths[self._splits[-1]], labels, self._no_label)

        training = self._splits[0]
        labelled = self._remove_unlabelled(samples[training])
        classes = sorted({label for label, _ in labelled.values()})
        if len(classes) < 2:
            has = f"one label only, '{classes[0]}'" if classes else "no labels"
            raise UserError(f"{paths[training]} has {has}; a task needs two classes")
        return {
            split: self._number_split(paths[split], samples[split], classes) for split in samples
        }

    def _remove_unlabelled(self, samples: Samples) -> Samples:
        if not self._no_label:
            return samples
        return {place: row for place, row in samples.items() if row[0] != self._no_label}

    def _read_samples(self, split: str, path: Path) -> Samples:
        samples = {}
        for place, (label, *texts) in read_rows(path, *self._columns, split=self._parts.get(split)):
            if not label.strip():
                raise UserError(f"{place}: no label; correct or remove the line")
            samples[place] = (label.strip(), [text.split() for text in texts])
        return samples

    def examine(self, root: Path | None) -> Findings:
        paths = dict(zip(self._splits, self.paths(root), strict=True))
        accounts = list[Account]()
        samples = {}
        for split, path in paths.items():
            part = self._parts.get(split)
            accounts += account_for_columns(path, self._columns, self.ignore, part, _DEFAULTS)
            samples[split] = self._read_samples(split, path)
        self._number_classes(paths, samples)

        labels = []
        rows = []
        for split in samples:
            for label, sides in self._remove_unlabelled(samples[split]).values():
                labels.append(label)
                rows.append(tuple(map(" ".join, sides)))
        unlabelled = sum(map(len, samples.values())) - len(rows)
        accounts += account_for_number("rows", unlabelled, f"no_label = '{self._no_label}'")

        texts = list(chain.from_iterable(rows))
        remarks = list_label_remarks(labels)
        if "" in texts:
            remarks.append(f"{texts.count('')} of {len(texts)} texts are empty")
        remarks += list_text_remarks(texts, "texts")
        equal = len(rows) - len({*rows})
        sample = TextSurvey.from_texts(texts).sample
        return Findings(len(rows), remarks, equal_rows=equal, accounts=accounts, sample=sample)

    def content(self, root: Path | None) -> object:
        splits = self.load(root).items()
        return [[split, read.sides, read.labels.tolist()] for split, read in splits]


def sort_samples(rows: list[tuple[list[list[str]], int]]) -> Labelled:
    """Sort one or more samples into SentEval's order, given the words of each side and the class."""
    rows.sort(key=lambda row: (*map(len, row[0]), row[1]))
    samples, labels = zip(*rows, strict=True)
    sides = tuple(list(map(" ".join, side)) for side in zip(*samples, strict=True))
    return Labelled(sides, np.array(labels, dtype=np.int64))


def _name_split_files(name: str) -> dict[str, str]:
    return {split: f"transfer/{name}-{split}.tsv" for split in ("train", "test")}


MR, CR, SUBJ, MPQA = (
    TransferFiles(name, {"all": f"transfer/{name}.tsv"}) for name in ("MR", "CR", "SUBJ", "MPQA")
)
SST2 = TransferFiles(
    "SST2",
    {
        "train": "transfer/SST2-train.tsv.gz",
        "dev": "transfer/SST2-dev.tsv",
        "test": "transfer/SST2-test.tsv",
    },
)
TREC = TransferFiles("TREC", _name_split_files("TREC"), classes="ABBR DESC ENTY HUM LOC NUM")
MRPC = TransferFiles("MRPC", _name_split_files("MRPC"), columns=("s1", "s2"))


@dataclass(frozen=True)
class Accuracies:
    """Accuracies (fractions) on test rows and, for the selected l2 weights, on dev rows; and the
    predicted classes.
    """

    test: float
    dev: float
    predicted: np.ndarray


class TransferSuite(Suite):
    """Accuracies (x100) of a probe trained on the vectors of each task.

    Metrics of a task: `acc` on its test rows (with nested folds the mean over the outer ones);
    `devacc`, the mean dev accuracy of the selected l2 weight; `f1` of class 1 where samples are
    pairs; `n_train` and `n_test` samples, both the whole task where it is one set. With `dims`,
    `acc@D` is that of a probe of the first D dimensions of the vectors alone.
    """

    name = "transfer"
    title = "Transfer tasks"
    hub_task = "text-classification"
    version = 2
    metrics = (Metric("acc"), Metric("devacc", shown=False))
    words: ClassVar[Mapping[str, MetricWords]] = {"acc": MetricWords("accuracy in percent")}
    kind = TRANSFER
    nested = ("acc",)

    def __init__(
        self,
        tasks: Sequence[str],
        probe: str = "senteval",
        mode: str = "full",
        dims: Sequence[int] = (),
    ) -> None:
        """`probe` is 'senteval', the published algorithm, or 'lbfgs', the optimum that it
        approximates.

        `mode` is 'full' or 'fast' (also called 'dev'); 'lbfgs' takes only the number of folds from
        it.
        """
        super().__init__(tasks)
        self.set_dims(dims)
        for option, value, choices in (("probe", probe, PROBES), ("mode", mode, tuple(MODES))):
            if value not in choices:
                raise UserError(
                    f"the suite '{self.name}' has no {option} '{value}'; use one of {', '.join(choices)}"
                )

        self._probe = probe
        self._mode = MODES[mode]

    def fingerprint(self, root: Path | None) -> str:
        return digest(super().fingerprint(root), self._probe, vars(self._mode))

    def evaluate(self, embed: Embedder, root: Path | None) -> SuiteScores:
        loaded: dict[str, dict[str, Labelled]] = {}
        sentences: list[str] = []
        for name, task in self._tasks.items():
            loaded[name] = task.load(root)
            self._check(name, loaded[name])
            for split in loaded[name].values():
                sentences += chain.from_iterable(split.sides)
        vectors = Embedded(embed, sentences)
        probe = make_probe(self._probe, self._mode, embed.device)

        def score_task(name: str, splits: dict[str, Labelled]) -> TaskScores:
            return score(splits, vectors, probe, self.dims)

        return self.collect(score_tasks(embed, loaded, score_task))

    def _check(self, name: str, splits: Mapping[str, Labelled]) -> None:
        """Raise UserError unless every class has enough rows to be in every fold, outer and inner."""
        labels = splits["all" if "all" in splits else "train"].labels
        fewest = int(np.bincount(labels).min())
        folds = self._mode.folds
        if fewest < 2 * folds:
            raise UserError(
                f"the transfer task '{name}' has a class of {fewest} training samples, {folds} folds need "
                f"{2 * folds}; fix its data or remove the task from the suite"
            )


def make_probe(name: str, mode: Mode, device: str) -> Probe:
    """Make one of `PROBES` on a PyTorch device."""
    # planning needs no probe, and these import torch
    import torch

    from harness.evaluation.probes.lbfgs import LBFGSProbe
    from harness.evaluation.probes.senteval import SentEvalProbe

    if name == "senteval":
        return SentEvalProbe(mode, torch.device(device))
    return LBFGSProbe(mode.folds, torch.device(device))


def score(
    splits: Mapping[str, Labelled], vectors: Embedded, probe: Probe, dims: Sequence[int] = ()
) -> TaskScores:
    """Score one task (see `TransferSuite`)."""
    from sklearn.metrics import f1_score

    train = splits["all" if "all" in splits else "train"]
    test = splits["all" if "all" in splits else "test"]
    accuracies = _evaluate_splits(splits, vectors, probe)

    values = {"acc": 100 * accuracies.test, "devacc": 100 * accuracies.dev}
    if len(test.sides) == 2:
        f1 = f1_score(test.labels == 1, accuracies.predicted == 1, zero_division=0.0)
        values["f1"] = 100 * float(f1)
    for number in dims:
        accuracy = _evaluate_splits(splits, vectors.take_leading(number), probe).test
        values[make_nested_name("acc", number)] = 100 * accuracy
    return TaskScores(values | {"n_train": len(train.labels), "n_test": len(test.labels)})


def _evaluate_splits(splits: Mapping[str, Labelled], vectors: Embedded, probe: Probe) -> Accuracies:
    inputs = {name: (make_features(split, vectors), split.labels) for name, split in splits.items()}
    return evaluate_probe(inputs, probe)


def make_features(split: Labelled, vectors: Embedded) -> np.ndarray:
    """Return a probe's input for n samples, float32: u, (n, d), or for pairs [|u - v|; u * v], (n,
    2d).
    """
    sides = [vectors.rows(side) for side in split.sides]
    if len(sides) == 1:
        return sides[0]
    first, second = sides
    return np.concatenate([np.abs(first - second), first * second], axis=1)


def evaluate_probe(splits: Mapping[str, tuple[np.ndarray, np.ndarray]], probe: Probe) -> Accuracies:
    """Train and test a probe on features (n, d) float32 and labels (n,) int64 by split (see
    `TransferFiles`).
    """
    if "all" in splits:
        return _evaluate_folds(*splits["all"], probe)
    return _train_and_test(splits, probe)


def find_best(accuracies: np.ndarray) -> int:
    """Return the index of the best of m accuracies (fractions), compared as percent with two
    decimals; ties: first.
    """
    percents = [round(100 * float(accuracy), 2) for accuracy in accuracies]
    return int(np.argmax(percents))


def _evaluate_folds(x: np.ndarray, labels: np.ndarray, probe: Probe) -> Accuracies:
    """Test on each fold a probe whose strength was chosen by folds of the others."""
    outer = split_into_folds(np.arange(len(labels)), labels, probe.folds)
    inner = []
    for part in outer:
        inner += split_into_folds(part.train, labels[part.train], probe.folds)

    # (inner folds of all outer ones, strengths) -> (outer folds, strengths)
    dev_of_folds = probe.fit(x, labels, inner, _make_grid(len(inner))).dev
    dev = dev_of_folds.reshape(len(outer), probe.folds, -1).mean(axis=1)
    strengths = [find_best(row) for row in dev]

    refits = [probe.split_for_refit(part.train) for part in outer]
    fitted = probe.fit(x, labels, refits, np.array([[L2[index]] for index in strengths]))
    predicted = np.empty_like(labels)
    accuracies = []
    for fold, part in enumerate(outer):
        tested = part.dev
        predicted[tested] = fitted.predict(fold, 0, x[tested])
        accuracies.append((predicted[tested] == labels[tested]).mean())

    dev_of_best = dev[np.arange(len(outer)), strengths].mean()
    return Accuracies(float(np.mean(accuracies)), float(dev_of_best), predicted)


def _train_and_test(
    splits: Mapping[str, tuple[np.ndarray, np.ndarray]], probe: Probe
) -> Accuracies:
    x, labels = splits["train"]
    rows = np.arange(len(labels))
    if "dev" in splits:
        dev_x, dev_labels = splits["dev"]
        x = np.concatenate([x, dev_x])
        labels = np.concatenate([labels, dev_labels])
        split = Split(rows, np.arange(len(rows), len(labels)))
        fitted = probe.fit(x, labels, [split], _make_grid(1))

        # SentEval refits on the same rows with the same seed, which gives the same classifier
        dev = fitted.dev[0]
        strength = find_best(dev)
        column = strength
    else:
        inner = split_into_folds(rows, labels, probe.folds)
        dev = probe.fit(x, labels, inner, _make_grid(len(inner))).dev.mean(axis=0)
        strength = find_best(dev)
        # the classifier that is tested has no fold of its own
        refit = probe.split_for_refit(rows)
        fitted = probe.fit(x, labels, [refit], np.array([[L2[strength]]]))
        column = 0

    test, gold = splits["test"]
    predicted = fitted.predict(0, column, test)
    accuracy = (predicted == gold).mean()
    return Accuracies(float(accuracy), float(dev[strength]), predicted)


def _make_grid(splits: int) -> np.ndarray:
    """Every strength for each of some splits: (splits, strengths)."""
    return np.tile(np.array(L2), (splits, 1))
