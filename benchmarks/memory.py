"""Where the memory of a run goes: resident memory and its peak after each stage, against what
training needs.

Training needs weights, gradients, AdamW's two moments and what a step keeps for its backward pass,
beside the baseline: the process with torch, the encoder's code, its tokenizer and its data, ready
to train, without the weights. A run should peak at the baseline and 1.2 times the rest. Without
options the run is one of the profile `tiny`.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import tempfile
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.queues import Queue
from pathlib import Path
from typing import NamedTuple

import click
import torch

from harness import api
from harness.events import Event, Listener, listen_in
from harness.processors import keep_freed_memory
from harness.runs.inputs import find_teacher_folders, load_training_inputs
from harness.runs.train import train
from harness.store import Store
from harness.training.record import TrainingRecord
from harness.training.trainer import Trainer

MB = 2**20


class Run(NamedTuple):
    """What is trained."""

    profile: str
    method: str
    encoder: str | None
    data_root: str | None
    steps: int


def peak() -> float:
    """The largest resident memory of this process so far in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def resident() -> float:
    """The resident memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MB


def bytes_of(trainer: Trainer, steps: int) -> tuple[int, int]:
    """Bytes of the trainable weights, and of what a step keeps for its backward pass beside them,
    the most of some.
    """
    weights = {
        value.untyped_storage().data_ptr(): value.untyped_storage().nbytes()
        for value in trainer.main.parameters
    }
    kept: dict[int, int] = {}

    def note(value: torch.Tensor) -> torch.Tensor:
        kept[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
        return value

    most = 0
    with (
        torch.random.fork_rng(devices=[]),
        torch.autograd.graph.saved_tensors_hooks(note, lambda value: value),
    ):
        for step in range(steps):
            for _ in trainer.compute_losses(step):
                most = max(most, sum(size for place, size in kept.items() if place not in weights))
                kept.clear()
    return sum(weights.values()), most


def training(run: Run, listen: Listener) -> None:
    """Train the run as `harness run` does in its process."""
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as folder:
        plan = api.plan(
            run.profile,
            methods=run.method,
            encoders=run.encoder,
            seeds=1,
            set={"steps": run.steps, "eval_every": run.steps, "warmup_steps": 0},
            results=folder,
            data_root=run.data_root,
        )
        with listen_in("", listen):
            run = plan.todo[0].experiment
            store = Store(Path(folder))
            inputs = load_training_inputs(run, "cpu", find_teacher_folders(run, store))
            train(run, inputs, store.work(run.fingerprint))


def needs(run: Run, found: Queue[float]) -> None:
    """Put MB of weights and of a step's activations, once the run is ready to train."""

    def counted(trainer: Trainer) -> None:
        trainer.student.train()
        for size in bytes_of(trainer, run.steps):
            found.put(size / MB)
        raise KeyboardInterrupt

    Trainer.run = counted  # type: ignore[method-assign, assignment]
    with suppress(KeyboardInterrupt):
        training(run, lambda event: None)


def stages(run: Run, found: Queue[float]) -> None:
    """Print the memory at each event of the run; put MB of the baseline and of the peak."""
    original = Trainer.run

    def measured(trainer: Trainer) -> TrainingRecord:
        weights = sum(value.nbytes for value in trainer.main.parameters) / MB
        found.put(resident() - weights)
        print(
            f"  {'ready to train':50} resident {resident():6,.0f} MB  peak {peak():6,.0f} MB",
            flush=True,
        )
        return original(trainer)

    def stage(event: Event) -> None:
        what = (
            event.stage.subject
            if event.stage
            else f"step {event.progress.step}"
            if event.progress
            else ""
        )
        print(
            f"  {event.kind + ' ' + what:50} resident {resident():6,.0f} MB  peak {peak():6,.0f} MB",
            flush=True,
        )

    Trainer.run = measured  # type: ignore[method-assign]
    print(f"  {'imports':50} resident {resident():6,.0f} MB  peak {peak():6,.0f} MB", flush=True)
    training(run, stage)
    found.put(peak())


def in_a_process(work: Callable[[Run, Queue[float]], None], run: Run) -> list[float]:
    """The two numbers that `work` puts, in a process of its own."""
    spawn = multiprocessing.get_context("spawn")
    found: Queue[float] = spawn.Queue()
    process = spawn.Process(target=work, args=(run, found))
    process.start()
    numbers = [found.get() for _ in range(2)]
    process.join()
    return numbers


@click.command(help=__doc__)
@click.option("--profile", default="tiny", show_default=True)
@click.option("--method", default="simcse", show_default=True)
@click.option("--encoder", metavar="NAME=FOLDER")
@click.option("--data-root", metavar="FOLDER")
@click.option("--steps", default=6, show_default=True)
def main(profile: str, method: str, encoder: str | None, data_root: str | None, steps: int) -> None:
    run = Run(profile, method, encoder, data_root, steps)
    weights, activations = in_a_process(needs, run)
    baseline, most = in_a_process(stages, run)
    limit = 1.2 * (4 * weights + activations) + baseline
    print(f"weights {weights:,.0f} MB, with gradients and AdamW's moments {4 * weights:,.0f} MB")
    print(
        f"kept by a step for its backward pass, at most, {activations:,.0f} MB; baseline {baseline:,.0f} MB"
    )
    print(f"peak {most:,.0f} MB; baseline + 1.2 x what training needs: {limit:,.0f} MB")


if __name__ == "__main__":
    main()
