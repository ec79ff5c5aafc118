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


def make_texts(path: Path | None, count: int) -> list[str]:
    """Texts as long as the sentences of STS-B dev, or as many of 5 to 20 words."""
    if path is None:
        rng = np.random.default_rng(0)
        lengths = [int(rng.integers(5, 20)) for _ in range(count)]
    else:
        lengths = []
        with path.open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE):
                lengths.append(len(row["sentence1"].split()))
                lengths.append(len(row["sentence2"].split()))
    # each word a token of the small tokenizer, so that lengths are those of the text
    return [" ".join(["red"] * length + [str(number)]) for number, length in enumerate(lengths)]


def count_operations(work: Callable[[], object]) -> int:
    """Floating-point operations of matrix products in a call."""
    with FlopCounterMode(display=False) as counter:
        work()
    return int(counter.get_total_flops())


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
    texts = list(dict.fromkeys(make_texts(file, count)))

    def take_step() -> None:
        first, second = student.encode(tokens, 2).unbind(1)
        optimizer.zero_grad()
        info_nce(first, second, 0.05).backward()
        optimizer.step()

    def score_dev() -> None:
        student.embed(texts)

    student.train()
    operations_share = count_operations(score_dev) / (EVERY * count_operations(take_step))
    step_times = []
    dev_times = []
    for _ in range(rounds):
        step_times.append(measure_seconds(take_step))
        dev_times.append(measure_seconds(score_dev))

    step_seconds = statistics.median(step_times)
    dev_seconds = statistics.median(dev_times)
    time_share = dev_seconds / (EVERY * step_seconds)
    print(f"a step of {batch} sentences, two views, {LENGTH} tokens: {step_seconds:.2f} s")
    print(f"one dev score over {len(texts)} sentences: {dev_seconds:.2f} s")
    print(
        f"the dev score every {EVERY} steps: {time_share:.2%} of the time, "
        f"{operations_share:.2%} of the operations"
    )
    print(f"its time over its share of operations: {time_share / operations_share:.2f} (bar 1.15)")


def measure_seconds(work: Callable[[], object]) -> float:
    """The wall time of a call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
