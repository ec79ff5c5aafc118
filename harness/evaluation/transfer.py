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
from pathlib import Path
from typing import ClassVar

import numpy as np

from harness.census import Account, TextSurvey, account_for_number
from harness.columns import DefaultColumn, account_for_columns
from harness.datafiles import (
    TablePart,
    check_no_label,
    label_remarks,
    read_rows,
    text_remarks,
)
from harness.documents import page_of
from harness.errors import UserError
from harness.evaluation.probes import L2, MODES, Mode, Probe, Split, stratified
from harness.evaluation.suites import (
    Embedded,
    Embedder,
    OwnTables,
    Suite,
    SuiteScores,
    TaskScores,
    nested_name,
    scored,
)
from harness.metrics import Metric, MetricWords
from harness.sources import FileSource, Findings, digest

_HOW = (
    f"put the transfer files below --data-root or HARNESS_DATA in the layout of {page_of('data.md')}; the "
    "originals are in SimCSE's SentEval archive (its download_dataset.sh)"
)
#: the registry kind of classification tasks
TRANSFER = "transfer task"

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
        """`files` by split: 'all', or 'train', 'test' and optionally 'dev'; `classes` are the
        labels in order.
        """
        super().__init__(files.values(), _HOW)
        self.name = name
        self.classes = classes.split()
        self._splits = tuple(files)
        self._columns = columns

    def load(self, root: Path | None) -> dict[str, Labelled]:
        return {
            split: self._read(path)
            for split, path in zip(self._splits, self.paths(root), strict=True)
        }

    def _read(self, path: Path) -> Labelled:
        rows = []
        for where, (label, *texts) in read_rows(path, "label", *self._columns):
            words = [text.split() for text in texts]
            rows.append((words, self._number_class(where, label)))
        return in_order(rows)

    def _number_class(self, where: str, label: str) -> int:
        if label not in self.classes:
            raise UserError(
                f"{where}: the label '{label}' is not one of {', '.join(self.classes)}; correct the line"
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

        `splits` selects the rows of each file (`harness.datafiles.TablePart`), by the same keys. Rows with
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
        rows = {split: self._rows(split, path) for split, path in paths.items()}
        labels = [label for samples in rows.values() for label, _ in samples.values()]
        check_no_label(paths[self._splits[-1]], labels, self._no_label)
        rows = {split: self._labelled(samples) for split, samples in rows.items()}
        classes = sorted({label for label, _ in rows[self._splits[0]].values()})
        if len(classes) < 2:
            has = f"one label only, '{classes[0]}'" if classes else "no labels"
            raise UserError(f"{paths[self._splits[0]]} has {has}; a task needs two classes")
        splits = {}
        for split, path in paths.items():
            if not rows[split]:
                raise UserError(
                    f"{path} has no labels, but '{self._no_label}', which stands for none; give a labelled file"
                )
            for where, (label, _) in rows[split].items():
                if label not in classes:
                    raise UserError(
                        f"{where}: no training sample has the label '{label}'; correct the line"
                    )
            splits[split] = in_order(
                [(words, classes.index(label)) for label, words in rows[split].values()]
            )
        return splits

    def _labelled(
        self, samples: dict[str, tuple[str, list[list[str]]]]
    ) -> dict[str, tuple[str, list[list[str]]]]:
        """The samples that have a label."""
        if not self._no_label:
            return samples
        return {where: row for where, row in samples.items() if row[0] != self._no_label}

    def _rows(self, split: str, path: Path) -> dict[str, tuple[str, list[list[str]]]]:
        samples = {}
        for where, (label, *texts) in read_rows(path, *self._columns, split=self._parts.get(split)):
            if not label.strip():
                raise UserError(f"{where}: no label; correct or remove the line")
            samples[where] = (label.strip(), [text.split() for text in texts])
        return samples

    def examine(self, root: Path | None) -> Findings:
        accounts = list[Account]()
        samples = list[tuple[str, list[list[str]]]]()
        unlabelled = 0
        for split, path in zip(self._splits, self.paths(root), strict=True):
            part = self._parts.get(split)
            accounts += account_for_columns(path, self._columns, self.ignore, part, _DEFAULTS)
            rows = self._rows(split, path)
            labelled = self._labelled(rows)
            samples += labelled.values()
            unlabelled += len(rows) - len(labelled)
        self.load(root)

        accounts += account_for_number("rows", unlabelled, f"no_label = '{self._no_label}'")
        texts = [" ".join(words) for _, sides in samples for words in sides]
        empty = [f"{texts.count('')} of {len(texts)} texts are empty"] if "" in texts else []
        remarks = (
            label_remarks(label for label, _ in samples) + empty + text_remarks(texts, "texts")
        )
        distinct = {tuple(" ".join(words) for words in sides) for _, sides in samples}
        equal = len(samples) - len(distinct)
        sample = TextSurvey.of(texts).sample
        return Findings(len(samples), remarks, equal_rows=equal, accounts=accounts, sample=sample)

    def content(self, root: Path | None) -> object:
        return [
            [split, read.sides, read.labels.tolist()] for split, read in self.load(root).items()
        ]


def in_order(rows: list[tuple[list[list[str]], int]]) -> Labelled:
    """Sort one or more samples into SentEval's order, given the words of each side and the class."""
    rows.sort(key=lambda row: (*map(len, row[0]), row[1]))
    texts, labels = zip(*rows, strict=True)
    sides = tuple([" ".join(words) for words in side] for side in zip(*texts, strict=True))
    return Labelled(sides, np.array(labels, dtype=np.int64))


def _files(name: str) -> dict[str, str]:
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
TREC = TransferFiles("TREC", _files("TREC"), classes="ABBR DESC ENTY HUM LOC NUM")
MRPC = TransferFiles("MRPC", _files("MRPC"), columns=("s1", "s2"))


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
        self.nest(dims)
        for option, given, known in (("probe", probe, PROBES), ("mode", mode, tuple(MODES))):
            if given not in known:
                raise UserError(
                    f"the suite '{self.name}' has no {option} '{given}'; use one of {', '.join(known)}"
                )
        self._probe = probe
        self._mode = MODES[mode]

    def fingerprint(self, root: Path | None) -> str:
        return digest(super().fingerprint(root), self._probe, vars(self._mode))

    def evaluate(self, embed: Embedder, root: Path | None) -> SuiteScores:
        loaded: dict[str, dict[str, Labelled]] = {
            name: task.load(root) for name, task in self._tasks.items()
        }
        for name, splits in loaded.items():
            self._check(name, splits)
        sides = (
            side for splits in loaded.values() for split in splits.values() for side in split.sides
        )
        vectors = Embedded(embed, (sentence for side in sides for sentence in side))
        probe = make_probe(self._probe, self._mode, embed.device)
        return self.collect(
            scored(embed, loaded, lambda name, splits: score(splits, vectors, probe, self.dims))
        )

    def _check(self, name: str, splits: Mapping[str, Labelled]) -> None:
        """Raise UserError unless every class has enough rows to be in every fold, outer and inner."""
        labels = splits["all" if "all" in splits else "train"].labels
        least = int(np.bincount(labels).min())
        if least < 2 * self._mode.folds:
            raise UserError(
                f"the transfer task '{name}' has a class of {least} training samples, {self._mode.folds} folds need "
                f"{2 * self._mode.folds}; fix its data or remove the task from the suite"
            )


def make_probe(name: str, mode: Mode, device: str) -> Probe:
    """Make one of `PROBES` on a PyTorch device; PyTorch is imported here, since planning needs no
    probe.
    """
    import torch

    from harness.evaluation.probes.lbfgs import LBFGSProbe
    from harness.evaluation.probes.senteval import SentEvalProbe

    on = torch.device(device)
    return SentEvalProbe(mode, on) if name == "senteval" else LBFGSProbe(mode.folds, on)


def score(
    splits: Mapping[str, Labelled], vectors: Embedded, probe: Probe, dims: Sequence[int] = ()
) -> TaskScores:
    """Score one task (see `TransferSuite`)."""
    from sklearn.metrics import f1_score

    train = splits["all" if "all" in splits else "train"]
    test = splits["all" if "all" in splits else "test"]
    accuracies = _classify_splits(splits, vectors, probe)

    values = {"acc": 100 * accuracies.test, "devacc": 100 * accuracies.dev}
    if len(test.sides) == 2:
        f1 = f1_score(test.labels == 1, accuracies.predicted == 1, zero_division=0.0)
        values["f1"] = 100 * float(f1)
    for number in dims:
        accuracy = _classify_splits(splits, vectors.leading(number), probe).test
        values[nested_name("acc", number)] = 100 * accuracy
    return TaskScores(values | {"n_train": len(train.labels), "n_test": len(test.labels)})


def _classify_splits(splits: Mapping[str, Labelled], vectors: Embedded, probe: Probe) -> Accuracies:
    inputs = {name: (features(split, vectors), split.labels) for name, split in splits.items()}
    return classify(inputs, probe)


def features(split: Labelled, vectors: Embedded) -> np.ndarray:
    """Return a probe's input for n samples, float32: u, (n, d), or for pairs [|u - v|; u * v], (n,
    2d).
    """
    if len(split.sides) == 1:
        return vectors.rows(split.sides[0])
    first, second = (vectors.rows(side) for side in split.sides)
    return np.concatenate([np.abs(first - second), first * second], axis=1)


def classify(splits: Mapping[str, tuple[np.ndarray, np.ndarray]], probe: Probe) -> Accuracies:
    """Train and test a probe on features (n, d) float32 and labels (n,) int64 by split (see
    `TransferFiles`).
    """
    if "all" in splits:
        return _cross_validate(*splits["all"], probe)
    return _train_and_test(splits, probe)


def best(accuracies: np.ndarray) -> int:
    """Return the index of the best of m accuracies (fractions), compared as percent with two
    decimals; ties: first.
    """
    return int(np.argmax([round(100 * float(value), 2) for value in accuracies]))


def _cross_validate(x: np.ndarray, labels: np.ndarray, probe: Probe) -> Accuracies:
    """Test on each fold a probe whose strength was chosen by folds of the others."""
    outer = stratified(np.arange(len(labels)), labels, probe.folds)
    inner = []
    for part in outer:
        inner += stratified(part.train, labels[part.train], probe.folds)

    # (inner folds of all outer ones, strengths) -> (outer folds, strengths)
    dev_of_folds = probe.fit(x, labels, inner, _grid(len(inner))).dev
    dev = dev_of_folds.reshape(len(outer), probe.folds, -1).mean(axis=1)
    strengths = [best(row) for row in dev]

    refits = [probe.refit_split(part.train) for part in outer]
    fitted = probe.fit(x, labels, refits, np.array([[L2[index]] for index in strengths]))
    predicted = np.empty_like(labels)
    accuracies = []
    for fold, part in enumerate(outer):
        predicted[part.dev] = fitted.predict(fold, 0, x[part.dev])
        accuracies.append((predicted[part.dev] == labels[part.dev]).mean())

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
        fitted = probe.fit(x, labels, [Split(rows, np.arange(len(rows), len(labels)))], _grid(1))
        # SentEval refits on the same rows with the same seed, which gives the same classifier
        dev = fitted.dev[0]
        column = best(fitted.dev[0])
    else:
        inner = stratified(rows, labels, probe.folds)
        dev = probe.fit(x, labels, inner, _grid(len(inner))).dev.mean(axis=0)
        column = 0
        fitted = probe.fit(x, labels, [probe.refit_split(rows)], np.array([[L2[best(dev)]]]))

    test, gold = splits["test"]
    predicted = fitted.predict(0, column, test)
    return Accuracies(float((predicted == gold).mean()), float(dev[best(dev)]), predicted)


def _grid(splits: int) -> np.ndarray:
    """Every strength for each of some splits: (splits, strengths)."""
    return np.tile(np.array(L2), (splits, 1))
