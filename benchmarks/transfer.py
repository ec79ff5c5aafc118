"""SentEval's nested cross-validation: every classifier trained at once, beside one after the other.

`speed`, which is taken without a command, times the inner folds of one task on generated vectors of
two classes, as many as MR has. The plain way is PyTorch's own layer, loss and optimizers for one
split and one l2 weight after the other; it is timed on all l2 weights of a random sample of the
splits and scaled to their number (--sample 0 times them all). `parity` prints this suite's figures
of each task and, in brackets, those of the public program that the file REFERENCE has.
"""

from __future__ import annotations

import copy
import json
import time
from pathlib import Path

import click
import numpy as np
import torch
from torch import nn

from harness.evaluation.probes import L2, MODES, SEED, Mode, Split, split_into_folds
from harness.evaluation.suites import Embedded
from harness.evaluation.transfer import (
    CR,
    MPQA,
    MR,
    MRPC,
    SST2,
    SUBJ,
    TREC,
    evaluate_probe,
    make_probe,
    score,
)

SHOWN = ("acc", "devacc", "f1")
TASKS = {task.name: task for task in (MR, CR, SUBJ, MPQA, SST2, TREC, MRPC)}


class Clock:
    """Seconds of the wall, and of all threads of this process."""

    def __init__(self) -> None:
        self._wall_start = time.perf_counter()
        self._processor_start = time.process_time()

    def read(self) -> np.ndarray:
        wall = time.perf_counter() - self._wall_start
        return np.array([wall, time.process_time() - self._processor_start])


def train_plainly(x: torch.Tensor, y: torch.Tensor, split: Split, l2: float, mode: Mode) -> float:
    """Train one classifier with PyTorch's own parts; its best dev accuracy."""
    random = np.random.RandomState(SEED)
    random.permutation(split.drawn)
    torch.manual_seed(SEED)
    model = nn.Linear(x.shape[1], int(y.max()) + 1)
    optimizers = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}
    optimizer = optimizers[mode.optimizer](model.parameters(), weight_decay=l2)
    loss_function = nn.CrossEntropyLoss()
    train = x[split.train]
    labels = y[split.train]
    dev = x[split.dev]
    dev_labels = y[split.dev]

    best = -1.0
    failures = 0
    passes = 0
    has_stopped = False
    while not has_stopped and passes <= 200:
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
            best = accuracy
            copy.deepcopy(model)  # SentEval keeps the best state: its cost is part of the time
        else:
            has_stopped = failures >= mode.tenacity
            failures += 1
    return best


def draw_vectors(rows: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors as hard to part as MR's: about three quarters fall on their side."""
    random = np.random.default_rng(0)
    labels = np.arange(rows) % 2
    direction = random.standard_normal(width)
    means = 1.4 * direction / np.linalg.norm(direction) * (labels[:, None] - 0.5)
    return (random.standard_normal((rows, width)) + means).astype(np.float32), labels


MODE = click.option(
    "--mode", "mode_name", type=click.Choice(["fast", "full"]), default="fast", show_default=True
)
DEVICE = click.option("--device", default="cpu", show_default=True)
PLACE = click.Path(exists=True, path_type=Path)


@click.group(help=__doc__, invoke_without_command=True)
@click.pass_context
def main(context: click.Context) -> None:
    if context.invoked_subcommand is None:
        context.invoke(measure_speed)


@main.command("speed")
@MODE
@DEVICE
@click.option("--rows", default=10_662, show_default=True)
@click.option("--width", default=384, show_default=True)
@click.option(
    "--sample", default=4, show_default=True, help="Splits that the plain way takes; 0 takes all."
)
def measure_speed(mode_name: str, device: str, rows: int, width: int, sample: int) -> None:
    """Seconds of both ways."""
    mode = MODES[mode_name]
    x, labels = draw_vectors(rows, width)
    splits = []
    for part in split_into_folds(np.arange(len(labels)), labels, mode.folds):
        splits += split_into_folds(part.train, labels[part.train], mode.folds)

    probe = make_probe("senteval", mode, device)
    first_rows = (x[:500], labels[:500])
    evaluate_probe({"train": first_rows, "test": first_rows}, probe)  # the first call is slower
    clock = Clock()
    fitted = probe.fit(x, labels, splits, np.tile(L2, (len(splits), 1)))
    together = clock.read()

    sampled = np.random.default_rng(0).permutation(len(splits))[: sample or None]
    vectors = torch.from_numpy(x)
    classes = torch.from_numpy(labels)
    different = 0
    clock = Clock()
    for place in sampled:
        for column, l2 in enumerate(L2):
            best = train_plainly(vectors, classes, splits[place], l2, mode)
            if abs(best - fitted.dev[place, column]) > 1e-9:
                different += 1
    one_by_one = clock.read() * len(splits) / len(sampled)

    count = len(splits) * len(L2)
    tried = len(sampled) * len(L2)
    wall, cores = one_by_one
    together_wall, together_cores = together
    print(f"{count} inner classifiers, {rows} x {width}, {torch.get_num_threads()} threads")
    print(f"one after the other: {wall:.1f} s ({cores:.1f} s of cores), from {tried} of them")
    print(f"all at once:         {together_wall:.1f} s ({together_cores:.1f} s of cores)")
    print(f"ratio {wall / together_wall:.1f} ({cores / together_cores:.1f} of cores)")
    print(f"best dev accuracies that differ: {different} of {tried}")


@main.command("parity")
@MODE
@DEVICE
@click.option("--pooling", type=click.Choice(["mean", "cls"]), default="mean", show_default=True)
@click.option("--tasks", default=",".join(TASKS), show_default=True)
@click.argument("encoder", type=PLACE)
@click.argument("data", type=PLACE)
@click.argument("reference", type=PLACE)
def compare_with_public(
    mode_name: str,
    device: str,
    pooling: str,
    tasks: str,
    encoder: Path,
    data: Path,
    reference: Path,
) -> None:
    """Figures beside the public program's, of ENCODER, the folder of all-MiniLM-L6-v2."""
    from harness.encoders.student import Student

    student = Student.load(encoder, pooling=pooling)
    published = json.loads(reference.read_text())
    published_tasks = {"mean": published.get("tasks", {}), **published}.get(pooling, {})
    for name in tasks.split(","):
        splits = TASKS[name].load(data)
        texts: list[str] = []
        for split in splits.values():
            for side in split.sides:
                texts += side

        vectors = Embedded(student.embed, texts)
        clock = Clock()
        probe = make_probe("senteval", MODES[mode_name], device)
        scores = score(splits, vectors, probe).scores
        published_scores = published_tasks.get(name, {}).get(mode_name, {})
        figures = []
        for metric, value in scores.items():
            if metric in SHOWN:
                figures.append(f"{metric} {value:.2f} ({published_scores.get(metric, '-')})")
        seconds, _ = clock.read()
        print(f"{name} {mode_name}: {', '.join(figures)}; {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
