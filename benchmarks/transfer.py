"""SentEval's nested cross-validation: every classifier trained at once, beside one after the other.

    python benchmarks/transfer.py speed [--mode fast|full] [--rows 10662] [--width 384] [--sample 4] [--device cpu]
    python benchmarks/transfer.py parity FOLDER_OF_ALL_MINILM_L6_V2 DATA_ROOT REFERENCE.json [--mode fast|full]
        [--pooling mean|cls] [--tasks MR,CR]

`speed` times the inner folds of one task on generated vectors of two classes, as many as MR has. The plain way is
PyTorch's own layer, loss and optimizers for one split and one l2 weight after the other; it is timed on all l2 weights
of a random sample of the splits and scaled to their number (--sample 0 times them all). `parity` prints this suite's
figures of each task and, in brackets, those of the public program that REFERENCE.json has.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from harness.evaluation.probes import L2, MODES, SEED, Mode, Split, stratified
from harness.evaluation.suites import Embedded
from harness.evaluation.transfer import CR, MPQA, MR, MRPC, SST2, SUBJ, TREC, classify, make_probe, score

SHOWN = ("acc", "devacc", "f1")
TASKS = {task.name: task for task in (MR, CR, SUBJ, MPQA, SST2, TREC, MRPC)}


class Clock:
    """Seconds of the wall, and of all threads of this process."""

    def __init__(self) -> None:
        self.start = time.perf_counter(), time.process_time()

    def read(self) -> np.ndarray:
        return np.array([time.perf_counter() - self.start[0], time.process_time() - self.start[1]])


def plain(x: torch.Tensor, y: torch.Tensor, split: Split, l2: float, mode: Mode) -> float:
    """Train one classifier with PyTorch's own parts; its best dev accuracy."""
    random = np.random.RandomState(SEED)
    random.permutation(split.drawn)
    torch.manual_seed(SEED)
    model = nn.Linear(x.shape[1], int(y.max()) + 1)
    made_by = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}[mode.optimizer]
    optimizer = made_by(model.parameters(), weight_decay=l2)
    loss_function = nn.CrossEntropyLoss()
    train, labels, dev, dev_labels = x[split.train], y[split.train], x[split.dev], y[split.dev]
    best, kept, failures, passes, stopped = -1.0, model, 0, 0, False
    while not stopped and passes <= 200:
        for _ in range(mode.passes):
            order = torch.from_numpy(random.permutation(len(train)))
            for rows in order.split(mode.batch):
                loss = loss_function(model(train[rows]), labels[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        passes += mode.passes
        with torch.no_grad():
            accuracy = (model(dev).argmax(1) == dev_labels).double().mean().item()
        if accuracy > best:
            best, kept = accuracy, copy.deepcopy(model)
        else:
            stopped = failures >= mode.tenacity
            failures += 1
    assert kept is not None
    return best


def generated(rows: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors as hard to part as MR's: about three quarters fall on their side."""
    random = np.random.default_rng(0)
    labels = np.arange(rows) % 2
    direction = random.standard_normal(width)
    means = 1.4 * direction / np.linalg.norm(direction) * (labels[:, None] - 0.5)
    return (random.standard_normal((rows, width)) + means).astype(np.float32), labels


def speed(arguments: argparse.Namespace) -> None:
    mode = MODES[arguments.mode]
    x, labels = generated(arguments.rows, arguments.width)
    outer = stratified(np.arange(len(labels)), labels, mode.folds)
    splits = [split for part in outer for split in stratified(part.train, labels[part.train], mode.folds)]
    count = len(splits) * len(L2)
    probe = make_probe("senteval", mode, arguments.device)
    classify({"train": (x[:500], labels[:500]), "test": (x[:500], labels[:500])}, probe)
    clock = Clock()
    fitted = probe.fit(x, labels, splits, np.tile(L2, (len(splits), 1)))
    together = clock.read()
    sample = np.random.default_rng(0).permutation(len(splits))[: arguments.sample or None]
    tensors = torch.from_numpy(x), torch.from_numpy(labels)
    clock, different = Clock(), 0
    for place in sample:
        for column, l2 in enumerate(L2):
            best = plain(*tensors, splits[place], l2, mode)
            different += abs(best - fitted.dev[place, column]) > 1e-9
    alone = clock.read() * len(splits) / len(sample)
    print(f"{count} inner classifiers, {arguments.rows} x {arguments.width}, {torch.get_num_threads()} threads")
    print(f"one after the other: {alone[0]:.1f} s ({alone[1]:.1f} s of cores), from {len(sample) * len(L2)} of them")
    print(f"all at once:         {together[0]:.1f} s ({together[1]:.1f} s of cores)")
    print(f"ratio {alone[0] / together[0]:.1f} ({alone[1] / together[1]:.1f} of cores)")
    print(f"best dev accuracies that differ: {different} of {len(sample) * len(L2)}")


def parity(arguments: argparse.Namespace) -> None:
    from harness.encoders.student import Student

    student = Student.load(arguments.model, pooling=arguments.pooling)
    reference = json.loads(arguments.reference.read_text())
    expected = {"mean": reference.get("tasks", {}), **reference}.get(arguments.pooling, {})
    for name in arguments.tasks.split(","):
        splits = TASKS[name].load(arguments.data)
        vectors = Embedded(student.embed, (text for split in splits.values() for side in split.sides for text in side))
        clock = Clock()
        found = score(splits, vectors, make_probe("senteval", MODES[arguments.mode], arguments.device)).scores
        known = expected.get(name, {}).get(arguments.mode, {})
        figures = (f"{metric} {found[metric]:.2f} ({known.get(metric, '-')})" for metric in found if metric in SHOWN)
        print(f"{name} {arguments.mode}: {', '.join(figures)}; {clock.read()[0]:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for command in (speed, parity):
        sub = commands.add_parser(command.__name__)
        sub.set_defaults(run=command)
        sub.add_argument("--mode", choices=["fast", "full"], default="fast")
        sub.add_argument("--device", default="cpu")
        if command is speed:
            for name, default in (("--rows", 10_662), ("--width", 384), ("--sample", 4)):
                sub.add_argument(name, type=int, default=default)
        else:
            for name in ("model", "data", "reference"):
                sub.add_argument(name, type=Path)
            sub.add_argument("--pooling", default="mean")
            sub.add_argument("--tasks", default=",".join(TASKS))
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
