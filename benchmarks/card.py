"""Training steps of SimCSE with BERT-base on a card, alone and beside other processes on it.

Tokens are random, in rows as long as sentences of Wikipedia. On the CPU a small encoder stands in,
to try the program.
"""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Barrier
from types import SimpleNamespace
from typing import Literal, NamedTuple

import click
import numpy as np
import torch
from transformers import BertConfig, BertModel

from harness.corpora.tokens import TokenFile, Tokens
from harness.encoders.precision import float32_products
from harness.encoders.student import Student
from harness.encoders.trial import TrialFindings
from harness.method import Dimensions, method_named
from harness.processors import safe_path
from harness.profiles import Training
from harness.stopping import SIGNALS
from harness.training.streams import TrainingData
from harness.training.trainer import Trainer

#: range from which a row's number of tokens is drawn: a mean of 22, like Wikipedia's sentences
LENGTHS = (12, 33)
#: seconds that a process waits for the others before the timed steps
PATIENCE_S = 120
SMALL = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 256,
}
#: where processes that are timed together meet; a barrier cannot be sent with a task
_together: Barrier | None = None


@dataclass(frozen=True)
class Load:
    """Training steps to time."""

    device: str
    precision: Literal["fp32", "tf32", "bf16", "fp16"]
    rows: int
    steps: int
    compile: bool

    def trainer(self, folder: Path) -> Trainer:
        """A trainer of SimCSE on random tokens."""
        config = BertConfig(**SMALL if self.device == "cpu" else {})
        encoder = BertModel(config, add_pooling_layer=False)
        findings = TrialFindings(rows="packed", direct=True)
        student = Student(encoder, SimpleNamespace(pad_token_id=0), found=findings).to(self.device)

        rng = np.random.default_rng(0)
        lengths = rng.integers(*LENGTHS, 64 * self.rows)
        ids = rng.integers(1000, 30_000, lengths.sum()).astype(np.uint16)
        ends = np.cumsum([0, *lengths], dtype=np.int64)
        data = TrainingData({"sentences": Tokens([TokenFile(ids, ends)], 0)})

        simcse = method_named("simcse")
        method = simcse(simcse.configure("paper", {}), Dimensions(student.width)).to(self.device)
        training = Training(
            precision=self.precision, batch_size=self.rows, steps=10**6, compile=self.compile
        )
        trainer = Trainer(
            student,
            method,
            data,
            training,
            seed=0,
            setting="benchmark",
            dev=lambda embed: 0.0,
            folder=folder,
        )
        trainer.student.train()
        trainer.method.train()
        return trainer


class StepTime(NamedTuple):
    """Seconds of a step, and the peak of the card's memory in GiB."""

    seconds: float
    memory: float


def time_together(load: Load, processes: int) -> list[StepTime]:
    """Time the steps of processes that train at the same time."""
    # forked from one process that has imported torch, which takes longer than the steps
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    barrier = context.Barrier(processes)
    with safe_path(), context.Pool(processes, _start, (barrier,)) as pool:
        return pool.map(_time_with_others, [load] * processes, chunksize=1)


def _start(barrier: Barrier) -> None:
    global _together
    _together = barrier
    # a server that loads batches has blocked them, and the pool ends its processes by one
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    torch.set_num_threads(1)


def _time_with_others(load: Load) -> StepTime:
    assert _together is not None
    try:
        return _time_steps(load, _together)
    except BaseException:
        _together.abort()
        raise


def _time_steps(load: Load, barrier: Barrier) -> StepTime:
    on_card = load.device == "cuda"
    with TemporaryDirectory() as folder:
        trainer = load.trainer(Path(folder))

        def take_steps(first: int, count: int) -> None:
            with float32_products(load.precision, load.device):
                for number in range(first, first + count):
                    for _, total, _ in trainer.losses(number):
                        assert total is not None
                        trainer.main.step(total, number)
            if on_card:
                torch.cuda.synchronize()

        take_steps(0, 5)
        barrier.wait(PATIENCE_S)
        clock = time.perf_counter()
        take_steps(5, load.steps)
        seconds = (time.perf_counter() - clock) / load.steps

    memory = torch.cuda.max_memory_allocated() / 2**30 if on_card else 0.0
    return StepTime(seconds, memory)


@click.command(help=__doc__)
@click.option("--device", type=click.Choice(["cuda", "cpu"]), default=None)
@click.option("--compile", "compiled", is_flag=True, help="With compiled layers.")
@click.option("--steps", default=60, show_default=True, help="Steps that count.")
def main(device: str | None, compiled: bool, steps: int) -> None:
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    print("| precision | rows | processes | ms a step | tokens/s of all | GiB each |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for precision in ("tf32", "bf16") if device == "cuda" else ("fp32",):
        for rows in (64, 128) if device == "cuda" else (8,):
            for processes in (1, 2, 4):
                times = time_together(Load(device, precision, rows, steps, compiled), processes)
                seconds, memory = np.mean(times, axis=0)
                tokens = 2 * rows * (LENGTHS[0] + LENGTHS[1] - 1) / 2
                rate = processes * tokens / seconds
                cells = (
                    f"{precision} | {rows} | {processes} | {1000 * seconds:.1f} | {rate:,.0f} | "
                    f"{memory:.1f}"
                )
                print(f"| {cells} |", flush=True)


if __name__ == "__main__":
    main()
