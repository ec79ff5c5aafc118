"""`harness run` of SimCSE beside sentence-transformers' trainer and MultipleNegativesRankingLoss,
whole commands.

Both train the same encoder with the same sentences, batch, length, steps, learning rate and
precision, score the development set of STS-B at the end and then its test set, each in a process of
its own, in turns. `text` is Wikipedia's sentences, `captions` those of Flickr8k, which are shorter.
accelerate, which that trainer needs, is a dependency of this script alone; the data are read from
HARNESS_DATA. The harness's training includes one score on the development set, the other's none.

On two quiet cores (AVX-512 with bf16), 60 steps, one round: text in float32 108 s beside 167
(1.55), in bf16 74 beside 111 (1.49), captions in float32 70 beside 121 (1.74), in bf16 54 beside 80
(1.47). About 20 s of each command are its start and the evaluation; two thirds of the harness's
step in bf16 are matrix products.
"""

from __future__ import annotations

import gzip
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import click
import pandas as pd
from small_inputs import find_student, has_data

BATCH = 64
LENGTH = 32
RATE = 3e-5
LIMIT = 12_000
#: how many times as fast the harness has to be
BARS = {"text-fp32": 1.5, "text-bf16": 2.0, "captions-fp32": 2.0, "captions-bf16": 3.0}
#: the corpus of the profile `small` for each kind of text
SETTINGS = {"text": "wiki", "captions": "flickr8k"}
#: columns of the gold score and of the first sentence in a file of STS-B
SCORE = 4
FIRST = 5


def make_harness_command(case: str, steps: int, folder: Path) -> list[str]:
    """The command of the harness."""
    kind, precision = case.split("-")
    options = {
        "--profile": "small",
        "--methods": "simcse",
        "--seeds": "1",
        "--settings": SETTINGS[kind],
        "--encoders": f"all-minilm-l6-v2={find_student()}",
        "--device": "cpu",
        "--results": str(folder),
        "--suites": "sts",
        "--tasks": "STS-B",
    }
    values = {"steps": steps, "eval_every": steps, "precision": precision, "batch_size": BATCH}
    command = [str(Path(sys.executable).with_name("harness")), "run"]
    for option, value in options.items():
        command += [option, value]
    for name, number in values.items():
        command += ["--set", f"{name}={number}"]
    return command


def make_peer_command(case: str, steps: int, folder: Path) -> list[str]:
    """The command of the other trainer, which is this script."""
    return [sys.executable, __file__, "--steps", str(steps), "--peer", case, "--out", str(folder)]


def read_texts(kind: str, root: Path) -> list[str]:
    """The texts of a corpus of the profile."""
    if kind == "captions":
        images = pd.read_parquet(root / "paired/flickr8k/train.parquet")
        return [captions[0] for captions in images["captions"]]
    with gzip.open(root / "wiki/enwiki_sentences.txt.gz", "rt", encoding="utf-8") as lines:
        return [line.rstrip("\n") for line in itertools.islice(lines, LIMIT)]


def train_peer(case: str, steps: int, out: str) -> None:
    """Train and score by sentence-transformers; prints the seconds of the training."""
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer import losses
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    root = Path(os.environ["HARNESS_DATA"])
    kind, precision = case.split("-")
    transformer = Transformer(str(find_student()), max_seq_length=LENGTH)
    pooling = Pooling(transformer.get_embedding_dimension(), "cls")
    model = SentenceTransformer(modules=[transformer, pooling], device="cpu")
    texts = read_texts(kind, root)
    arguments = SentenceTransformerTrainingArguments(
        out,
        max_steps=steps,
        per_device_train_batch_size=BATCH,
        learning_rate=RATE,
        bf16=precision == "bf16",
        use_cpu=True,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    trainer = SentenceTransformerTrainer(
        model,
        arguments,
        train_dataset=Dataset.from_dict({"anchor": texts, "positive": texts}),
        loss=losses.MultipleNegativesRankingLoss(model, scale=20.0),
    )
    seconds = trainer.train().metrics["train_runtime"]

    for split in ("dev", "test"):
        scores, first, second = read_pairs(root / "sts" / f"STSB-{split}.tsv")
        EmbeddingSimilarityEvaluator(first, second, scores, batch_size=BATCH)(model)
    print(seconds)


def read_pairs(file: Path) -> tuple[list[float], list[str], list[str]]:
    """Gold scores and both columns of sentences."""
    rows = [line.split("\t") for line in file.read_text("utf-8").splitlines()[1:]]
    scores = [float(row[SCORE]) for row in rows]
    first = [row[FIRST] for row in rows]
    second = [row[FIRST + 1] for row in rows]
    return scores, first, second


class Seconds(NamedTuple):
    """Seconds of a whole command, and of the training in it."""

    command: float
    training: float


def run_harness(case: str, steps: int) -> Seconds:
    import harness

    with tempfile.TemporaryDirectory() as folder:
        seconds, _ = run_command(make_harness_command(case, steps, Path(folder)))
        (result,) = harness.results(folder).runs
        return Seconds(seconds, result.train_seconds)


def run_peer(case: str, steps: int) -> Seconds:
    with tempfile.TemporaryDirectory() as folder:
        seconds, printed = run_command(make_peer_command(case, steps, Path(folder)))
        return Seconds(seconds, float(printed.splitlines()[-1]))


def run_command(command: list[str]) -> tuple[float, str]:
    """The wall time of a command, and what it prints."""
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return time.perf_counter() - start, done.stdout


def find_medians(rounds: list[Seconds]) -> Seconds:
    command = statistics.median(seconds.command for seconds in rounds)
    training = statistics.median(seconds.training for seconds in rounds)
    return Seconds(command, training)


@click.command(help=__doc__)
@click.argument("cases", nargs=-1, type=click.Choice([*BARS]))
@click.option("--steps", default=60, show_default=True, help="Steps of a training.")
@click.option("--rounds", default=2, show_default=True, help="Commands of each side.")
@click.option("--peer", "case", hidden=True)
@click.option("--out", hidden=True)
def main(cases: tuple[str, ...], steps: int, rounds: int, case: str | None, out: str) -> None:
    if case:
        train_peer(case, steps, out)
        return
    if not has_data():
        return

    print(
        "| | harness s | of it training | sentence-transformers s | of it training | whole | training | bar |"
    )
    print("|" + " --- |" * 8)
    for name in cases or BARS:
        harness_rounds = []
        peer_rounds = []
        # in turns, so that what else the machine does slows both
        for _ in range(rounds):
            harness_rounds.append(run_harness(name, steps))
            peer_rounds.append(run_peer(name, steps))

        harness_median = find_medians(harness_rounds)
        peer_median = find_medians(peer_rounds)
        cells = [
            name,
            f"{harness_median.command:.1f}",
            f"{harness_median.training:.1f}",
            f"{peer_median.command:.1f}",
            f"{peer_median.training:.1f}",
            f"{peer_median.command / harness_median.command:.2f}",
            f"{peer_median.training / harness_median.training:.2f}",
            str(BARS[name]),
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
