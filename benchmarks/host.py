"""Host time of a training step, beside a plain padded BertModel in a trainer's loop in the style of
the public code.

A card waits for the host where Python takes longer than the kernels. Each side is a process of its
own with one thread and 12 layers of 12 heads, so narrow that only the host's work counts. The sides
take turns of ten steps, and the ratio is that of the medians; after a single step, each side would
find the processor's caches full of the other's data. Times are those of the processor in the
process, which other programs of the machine change less. Attention is an operator that computes
next to nothing on both sides, as a stand-in for the launch of a kernel, and dropout and clipping
are those of a card. Both sides compute the losses of the method; the plain one has torch's fused
AdamW and its batches padded beforehand, so that tokenising and collating cost it nothing. Transfers
are not part of it: there is no card. Precision is float32: a product of bf16 takes 22 microseconds
on the host of a processor, one of float32 4, and neither is what the launch on a card takes.

On two quiet cores, 40 rounds: SimCSE 7.6 ms beside 11.5 (0.66), MCSE 8.7 beside 12.1 (0.72), KDMCSE
10.5 beside 14.0 (0.75), DALR 10.2 beside 13.7 (0.75).
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from step import Side
from step_sides import answer
from torch import Tensor
from torch.nn import functional
from transformers import BertConfig, BertModel

from harness.corpora.tokens import TokenFile, Tokens
from harness.encoders import packed
from harness.encoders.rows import Packed
from harness.encoders.student import Student
from harness.encoders.trial import TrialFindings
from harness.method import Dimensions, Method, PairBatch, SentenceBatch, method_named
from harness.profiles import Training
from harness.training.streams import TrainingData
from harness.training.trainer import Trainer

#: what a step of the harness may take of the host time of the plain one
BAR = 0.75
#: steps of a side before the other one's
TURN = 10
LAYERS = 12
HEADS = 12
WIDTH = 24
ROWS = 8
TEXTS = 64
LONGEST = 8
VOCABULARY = 64
#: widths of the teachers' features by method and role
CASES: dict[str, dict[str, int]] = {
    "simcse": {},
    "mcse": {"image": WIDTH},
    "kdmcse": {"image": WIDTH, "caption": WIDTH},
    "dalr": {"image": WIDTH, "teacher1": WIDTH, "teacher2": WIDTH},
}


class Pads:
    """A tokenizer of which nothing but the padding is asked."""

    pad_token_id = 0


def kernel(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
    """One operator with a gradient for each input, of next to no arithmetic."""
    return torch.addcmul(value, query, key, value=0)


def packed_kernel(
    rows: Packed, query: Tensor, key: Tensor, value: Tensor, dropout: float, scale: float
) -> Tensor:
    return kernel(query, key, value)


def encoder() -> BertModel:
    sizes = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
    return BertModel(
        BertConfig(**sizes, intermediate_size=WIDTH, vocab_size=VOCABULARY), add_pooling_layer=False
    )


def built(name: str) -> Method:
    method = method_named(name)
    return method(method.configure("paper", {}), Dimensions(WIDTH, CASES[name])).train()


def ids() -> list[list[int]]:
    rng = np.random.default_rng(0)
    return [
        rng.integers(5, VOCABULARY, rng.integers(3, LONGEST + 1)).tolist() for _ in range(TEXTS)
    ]


def features(name: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {
        role: rng.standard_normal((TEXTS, wide), dtype=np.float32)
        for role, wide in CASES[name].items()
    }


def harness(name: str, folder: Path) -> Callable[[int], None]:
    """A step of the harness's own loop."""
    packed.dropped = lambda values, chance: torch.dropout(values, chance, train=True)
    packed.attention_on = lambda *given: packed_kernel
    listed = ids()
    file = TokenFile(
        np.array([token for row in listed for token in row], np.uint16),
        np.cumsum([0, *map(len, listed)], dtype=np.int64),
    )
    data = TrainingData(
        {"pairs" if CASES[name] else "sentences": Tokens([file], 0)}, features(name)
    )
    student = Student(encoder(), Pads, found=TrialFindings(rows="packed", direct=True)).train()
    training = Training(batch_size=ROWS, precision="fp32", steps=10**6)
    return Trainer(
        student,
        built(name),
        data,
        training,
        seed=0,
        setting="benchmark",
        dev=lambda embed: 0.0,
        folder=folder,
    )._step


def plain(name: str, folder: Path) -> Callable[[int], None]:
    """A step of a padded model."""
    functional.scaled_dot_product_attention = kernel
    model = encoder().train()
    method = built(name)
    parameters = [*model.parameters(), *method.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=3e-5, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / 10**6)
    given = {role: torch.from_numpy(values) for role, values in features(name).items()}
    listed = ids()
    padded = torch.tensor([row + [0] * (LONGEST - len(row)) for row in listed])
    tokens = {
        "input_ids": padded,
        "attention_mask": (padded > 0).long(),
        "token_type_ids": torch.zeros_like(padded),
    }

    def encode(inputs: Any, views: int) -> Tensor:
        flat = {key: value.repeat_interleave(views, dim=0) for key, value in inputs.items()}
        return model(**flat).last_hidden_state[:, 0].view(-1, views, WIDTH)

    def step(number: int) -> None:
        start = number * ROWS % TEXTS
        inputs = {key: value[start : start + ROWS] for key, value in tokens.items()}
        paired = {role: values[start : start + ROWS] for role, values in given.items()}
        total, _ = method.loss(
            PairBatch(inputs, paired) if paired else SentenceBatch(inputs), encode
        )
        assert total is not None
        total.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()

    return step


def serve(name: str, side: str) -> None:
    """Be a side: take a step at each line of standard input."""
    torch.nn.utils.clip_grad_norm_ = partial(torch.nn.utils.clip_grad_norm_, foreach=True)
    with tempfile.TemporaryDirectory() as folder:
        step = {"harness": harness, "plain": plain}[side](name, Path(folder))
        answer(
            lambda turn: [step(TURN * turn + number) for number in range(TURN)], time.process_time
        )


@click.command(help=__doc__)
@click.argument("cases", nargs=-1, type=click.Choice([*CASES]), metavar="[CASE]...")
@click.option("--rounds", default=20, show_default=True, help="Turns of each side that count.")
@click.option("--serve", "side", nargs=2, hidden=True)
def main(cases: tuple[str, ...], rounds: int, side: tuple[str, str] | None) -> None:
    if side:
        serve(*side)
        return
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in cases or CASES:
        sides = {which: Side(__file__, name, which) for which in ("harness", "plain")}
        for _ in range(3 + rounds):
            for each in sides.values():
                each.step()
        ours, theirs = (1000 / TURN * each.median for each in sides.values())
        for each in sides.values():
            each.end()
        print(
            f"{name}: {ours:.1f} ms a step on the host, plain {theirs:.1f} ms, {ours / theirs:.2f} of it (bar {BAR})",
            flush=True,
        )


if __name__ == "__main__":
    main()
