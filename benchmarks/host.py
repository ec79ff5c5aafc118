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
from servers import Stepper, answer_steps
from torch import Tensor
from torch.nn import functional
from trainers import make_token_file, make_trainer
from transformers import BertConfig, BertModel

from harness.corpora.tokens import Tokens
from harness.encoders import packed
from harness.encoders.rows import Packed
from harness.encoders.student import Student
from harness.encoders.trial import TrialFindings
from harness.method import Dimensions, Method, PairBatch, SentenceBatch, method_named
from harness.profiles import Training
from harness.training.streams import TrainingData

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


def multiply_cheaply(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
    """One operator with a gradient for each input, of next to no arithmetic."""
    return torch.addcmul(value, query, key, value=0)


def attend_cheaply(
    rows: Packed, query: Tensor, key: Tensor, value: Tensor, dropout: float, scale: float
) -> Tensor:
    return multiply_cheaply(query, key, value)


def make_encoder() -> BertModel:
    config = BertConfig(
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=WIDTH,
        vocab_size=VOCABULARY,
    )
    return BertModel(config, add_pooling_layer=False)


def make_method(name: str) -> Method:
    method = method_named(name)
    return method(method.configure("paper", {}), Dimensions(WIDTH, CASES[name])).train()


def draw_texts() -> list[list[int]]:
    """The token ids of each text."""
    rng = np.random.default_rng(0)
    texts = []
    for _ in range(TEXTS):
        length = rng.integers(3, LONGEST + 1)
        texts.append(rng.integers(5, VOCABULARY, length).tolist())
    return texts


def draw_features(name: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {
        role: rng.standard_normal((TEXTS, width), dtype=np.float32)
        for role, width in CASES[name].items()
    }


def make_harness_step(name: str, folder: Path) -> Callable[[int], None]:
    """A step of the harness's own loop."""
    # operators that a card would launch, in place of those that compute on the host
    packed.dropped = lambda values, chance: torch.dropout(values, chance, train=True)
    packed.attention_on = lambda *arguments: attend_cheaply
    stream = "pairs" if CASES[name] else "sentences"
    tokens = {stream: Tokens([make_token_file(draw_texts())], 0)}
    data = TrainingData(tokens, draw_features(name))
    findings = TrialFindings(rows="packed", direct=True)
    student = Student(make_encoder(), Pads, found=findings)
    training = Training(batch_size=ROWS, precision="fp32", steps=10**6)
    return make_trainer(student, make_method(name), data, training, folder)._step


def make_plain_step(name: str, folder: Path) -> Callable[[int], None]:
    """A step of a padded model."""
    functional.scaled_dot_product_attention = multiply_cheaply
    model = make_encoder().train()
    method = make_method(name)
    parameters = [*model.parameters(), *method.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=3e-5, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / 10**6)

    features = {role: torch.from_numpy(values) for role, values in draw_features(name).items()}
    padded = torch.tensor([row + [0] * (LONGEST - len(row)) for row in draw_texts()])
    tokens = {
        "input_ids": padded,
        "attention_mask": (padded > 0).long(),
        "token_type_ids": torch.zeros_like(padded),
    }

    def encode(inputs: Any, views: int) -> Tensor:
        flat = {key: value.repeat_interleave(views, dim=0) for key, value in inputs.items()}
        return model(**flat).last_hidden_state[:, 0].view(-1, views, WIDTH)

    def make_batch(number: int) -> SentenceBatch:
        start = number * ROWS % TEXTS
        rows = slice(start, start + ROWS)
        inputs = {key: value[rows] for key, value in tokens.items()}
        if not features:
            return SentenceBatch(inputs)
        return PairBatch(inputs, {role: values[rows] for role, values in features.items()})

    def take_step(number: int) -> None:
        total, _ = method.loss(make_batch(number), encode)
        assert total is not None
        total.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()

    return take_step


SIDES = {"harness": make_harness_step, "plain": make_plain_step}


def serve(name: str, side: str) -> None:
    """Be a side: take some steps at each line of standard input."""
    # as on a card, where one call clips all gradients
    torch.nn.utils.clip_grad_norm_ = partial(torch.nn.utils.clip_grad_norm_, foreach=True)
    with tempfile.TemporaryDirectory() as folder:
        take_step = SIDES[side](name, Path(folder))

        def take_turn(turn: int) -> None:
            for number in range(TURN):
                take_step(TURN * turn + number)

        answer_steps(take_turn, time.process_time)


@click.command(help=__doc__)
@click.argument("cases", nargs=-1, type=click.Choice([*CASES]), metavar="[CASE]...")
@click.option("--rounds", default=20, show_default=True, help="Turns of each side that count.")
@click.option("--serve", "served", nargs=2, hidden=True)
def main(cases: tuple[str, ...], rounds: int, served: tuple[str, str] | None) -> None:
    if served:
        serve(*served)
        return

    os.environ["OMP_NUM_THREADS"] = "1"
    for name in cases or CASES:
        sides = {side: Stepper(__file__, name, side) for side in SIDES}
        for _ in range(3 + rounds):
            for stepper in sides.values():
                stepper.step()

        step_ms = {side: 1000 / TURN * stepper.median for side, stepper in sides.items()}
        for stepper in sides.values():
            stepper.end()
        ratio = step_ms["harness"] / step_ms["plain"]
        print(
            f"{name}: {step_ms['harness']:.1f} ms a step on the host, "
            f"plain {step_ms['plain']:.1f} ms, {ratio:.2f} of it (bar {BAR})",
            flush=True,
        )


if __name__ == "__main__":
    main()
