"""What the dev score costs in training, at SimCSE's and MCSE's settings: one evaluation against 125 steps.

python benchmarks/dev_eval.py [FILE]    FILE: sts/STSB-dev.tsv; without it sentences of the same lengths

The encoder is BERT-base with random weights: its speed does not depend on them.
"""

from __future__ import annotations

import csv
import sys
import time
from pathlib import Path

import numpy as np
import torch
from transformers import AutoTokenizer, BertConfig, BertModel

from harness.corpora.toy import student_folder
from harness.encoders.student import Student
from harness.losses.contrastive import info_nce

STEPS, EVERY, BATCH, LENGTH = 3, 125, 64, 32


def sentences(path: Path | None) -> list[str]:
    """The sentences of STS-B dev, or as many of 5 to 20 words."""
    rng = np.random.default_rng(0)
    if path is None:
        return [" ".join(["red"] * int(rng.integers(5, 20))) for _ in range(3000)]
    with path.open(encoding="utf-8", newline="") as stream:
        rows = csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
        words = [text.split() for row in rows for text in (row["sentence1"], row["sentence2"])]
    # each word a token of the small tokenizer, so that lengths are those of the text
    return [" ".join(["red"] * len(each) + [str(number)]) for number, each in enumerate(words)]


def main() -> None:
    model = BertModel(BertConfig(vocab_size=30522), add_pooling_layer=False)
    student = Student(model, AutoTokenizer.from_pretrained(str(student_folder())))
    optimizer = torch.optim.AdamW(student.parameters(), lr=3e-5)
    tokens = {
        "input_ids": torch.randint(100, 30000, (BATCH, LENGTH)),
        "attention_mask": torch.ones(BATCH, LENGTH, dtype=torch.int64),
    }

    def step() -> None:
        first, second = student.encode(tokens, 2).unbind(1)
        optimizer.zero_grad()
        info_nce(first, second, 0.05).backward()
        optimizer.step()

    student.train()
    step()
    clock = time.perf_counter()
    for _ in range(STEPS):
        step()
    a_step = (time.perf_counter() - clock) / STEPS
    texts = sentences(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    clock = time.perf_counter()
    student.embed(list(dict.fromkeys(texts)))
    dev = time.perf_counter() - clock
    print(f"a step of {BATCH} sentences, two views, {LENGTH} tokens: {a_step:.2f} s")
    print(f"one dev score over {len(texts)} sentences: {dev:.1f} s")
    print(f"the dev score every {EVERY} steps costs {100 * dev / (EVERY * a_step):.1f} % of the training time")


if __name__ == "__main__":
    main()
