"""What the dev score costs in training, at SimCSE's and MCSE's settings: one evaluation against 125
steps.

FILE is sts/STSB-dev.tsv; without it, sentences of the same lengths are made.

The encoder has MiniLM's shape, 6 layers of width 384, and random weights: its speed does not depend
on them. Operations are those of matrix products; the dev score is to cost at most 1.15 times its
share of them.
"""

from __future__ import annotations

import csv
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoTokenizer, BertConfig, BertModel

from harness.encoders.rows import TokenRows
from harness.encoders.student import Student
from harness.losses.contrastive import info_nce
from harness.toy import student_folder

EVERY = 125
BATCH = 64
LENGTH = 32
SHAPE = {
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
}


def sentences(path: Path | None, count: int) -> list[str]:
    """The sentences of STS-B dev, or as many of 5 to 20 words."""
    rng = np.random.default_rng(0)
    if path is None:
        return [
            " ".join(["red"] * int(rng.integers(5, 20)) + [str(number)]) for number in range(count)
        ]
    with path.open(encoding="utf-8", newline="") as stream:
        rows = csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
        words = [text.split() for row in rows for text in (row["sentence1"], row["sentence2"])]
    # each word a token of the small tokenizer, so that lengths are those of the text
    return [" ".join(["red"] * len(each) + [str(number)]) for number, each in enumerate(words)]


def operations(work: Callable[[], object]) -> int:
    """Floating-point operations of matrix products in a call."""
    with FlopCounterMode(display=False) as counted:
        work()
    return int(counted.get_total_flops())


@click.command(help=__doc__)
@click.argument(
    "file", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=False
)
@click.option("--rounds", default=3, show_default=True)
@click.option("--batch", default=BATCH, show_default=True, help="Sentences of a step.")
@click.option("--sentences", "count", default=3000, show_default=True, help="Made sentences.")
def main(file: Path | None, rounds: int, batch: int, count: int) -> None:
    model = BertModel(BertConfig(vocab_size=30522, **SHAPE), add_pooling_layer=False)
    student = Student(model, AutoTokenizer.from_pretrained(str(student_folder())))
    optimizer = torch.optim.AdamW(student.parameters(), lr=3e-5)
    tokens = TokenRows.from_lists(torch.randint(100, 30000, (batch, LENGTH)).tolist(), 0)
    texts = list(dict.fromkeys(sentences(file, count)))

    def step() -> None:
        first, second = student.encode(tokens, 2).unbind(1)
        optimizer.zero_grad()
        info_nce(first, second, 0.05).backward()
        optimizer.step()

    def dev() -> None:
        student.embed(texts)

    student.train()
    counted = operations(dev) / (EVERY * operations(step))
    times: dict[str, list[float]] = {"step": [], "dev": []}
    for _ in range(rounds):
        for name, work in (("step", step), ("dev", dev)):
            clock = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - clock)
    a_step, a_score = (statistics.median(each) for each in times.values())
    measured = a_score / (EVERY * a_step)
    print(f"a step of {batch} sentences, two views, {LENGTH} tokens: {a_step:.2f} s")
    print(f"one dev score over {len(texts)} sentences: {a_score:.2f} s")
    print(
        f"the dev score every {EVERY} steps: {measured:.2%} of the time, {counted:.2%} of the operations"
    )
    print(f"its time over its share of operations: {measured / counted:.2f} (bar 1.15)")


if __name__ == "__main__":
    main()
