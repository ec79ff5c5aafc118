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
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
import pandas as pd
from full_size import has_data, student

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


def ours(case: str, steps: int, folder: Path) -> list[str | Path]:
    """The command of the harness."""
    kind, precision = case.split("-")
    values = {"steps": steps, "eval_every": steps, "precision": precision, "batch_size": BATCH}
    return [
        *(
            Path(sys.executable).with_name("harness"),
            "run",
            "--profile",
            "small",
            "--methods",
            "simcse",
        ),
        *(
            "--seeds",
            "1",
            "--settings",
            SETTINGS[kind],
            "--encoders",
            f"all-minilm-l6-v2={student()}",
            "--device",
            "cpu",
        ),
        *("--results", str(folder), "--suites", "sts", "--tasks", "STS-B"),
        *(word for key, value in values.items() for word in ("--set", f"{key}={value}")),
    ]


def theirs(case: str, steps: int, folder: Path) -> list[str | Path]:
    """The command of the other trainer, which is this script."""
    return [sys.executable, __file__, "--steps", str(steps), "--peer", case, "--out", str(folder)]


def sentences(kind: str, root: Path) -> list[str]:
    """The texts of a corpus of the profile."""
    if kind == "captions":
        return [
            row[0] for row in pd.read_parquet(root / "paired/flickr8k/train.parquet")["captions"]
        ]
    with gzip.open(root / "wiki/enwiki_sentences.txt.gz", "rt", encoding="utf-8") as lines:
        return [line.rstrip("\n") for line, _ in zip(lines, range(LIMIT), strict=False)]


def peer(case: str, steps: int, out: str) -> None:
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
    transformer = Transformer(str(student()), max_seq_length=LENGTH)
    model = SentenceTransformer(
        modules=[transformer, Pooling(transformer.get_embedding_dimension(), "cls")], device="cpu"
    )
    texts = sentences(kind, root)
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
        score, first, second = similarities(root / "sts" / f"STSB-{split}.tsv")
        EmbeddingSimilarityEvaluator(first, second, score, batch_size=BATCH)(model)
    print(seconds)


def similarities(file: Path) -> tuple[list[float], list[str], list[str]]:
    """Gold scores and both columns of sentences."""
    rows = [line.split("\t") for line in file.read_text("utf-8").splitlines()[1:]]
    return (
        [float(row[SCORE]) for row in rows],
        [row[FIRST] for row in rows],
        [row[FIRST + 1] for row in rows],
    )


def trained(side: Callable[..., list[str | Path]], case: str, steps: int) -> tuple[float, float]:
    """Seconds of the whole command and of the training in it."""
    with tempfile.TemporaryDirectory() as folder:
        clock = time.perf_counter()
        done = subprocess.run(
            side(case, steps, Path(folder)), stdout=subprocess.PIPE, text=True, check=True
        )
        seconds = time.perf_counter() - clock
        if side is theirs:
            return seconds, float(done.stdout.splitlines()[-1])
        import harness

        (result,) = harness.results(folder).runs
        return seconds, result.train_seconds


@click.command(help=__doc__)
@click.argument("cases", nargs=-1, type=click.Choice([*BARS]))
@click.option("--steps", default=60, show_default=True, help="Steps of a training.")
@click.option("--rounds", default=2, show_default=True, help="Commands of each side.")
@click.option("--peer", "case", hidden=True)
@click.option("--out", hidden=True)
def main(cases: tuple[str, ...], steps: int, rounds: int, case: str | None, out: str) -> None:
    if case:
        peer(case, steps, out)
        return
    if not has_data():
        return
    print(
        "| | harness s | of it training | sentence-transformers s | of it training | whole | training | bar |"
    )
    print("|" + " --- |" * 8)
    for name in cases or BARS:
        pairs = [
            (*trained(ours, name, steps), *trained(theirs, name, steps)) for _ in range(rounds)
        ]
        whole, training, other, others = (
            statistics.median(column) for column in zip(*pairs, strict=True)
        )
        print(
            f"| {name} | {whole:.1f} | {training:.1f} | {other:.1f} | {others:.1f} | {other / whole:.2f} | "
            f"{others / training:.2f} | {BARS[name]} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
