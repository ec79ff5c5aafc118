"""Where the memory of a run goes: resident memory and its peak after each stage, against what
training needs.

Training needs weights, gradients, AdamW's two moments and what a step keeps for its backward pass,
beside the baseline: the process with torch, the encoder's code, its tokenizer and its data, ready
to train, without the weights. A run should peak at the baseline and 1.2 times the rest. Without
options the run is one of the profile `tiny`.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.queues import Queue
from pathlib import Path
from typing import NamedTuple

import click
import torch
from usage import read_resident_mb

from harness import api
from harness.events import Event, Listener, listen_in
from harness.processors import keep_freed_memory, measure_peak_memory_mb
from harness.runs.inputs import find_teacher_folders, load_training_inputs
from harness.runs.train import train
from harness.store import Store
from harness.training.record import TrainingRecord
from harness.training.trainer import Trainer

MB = 1e6


class Run(NamedTuple):
    """What is trained."""

    profile: str
    method: str
    encoder: str | None
    data_root: str | None
    steps: int


def format_memory(moment: str) -> str:
    """The memory of this process at a moment."""
    resident_mb = read_resident_mb()
    peak_mb = measure_peak_memory_mb("cpu")
    return f"  {moment:50} resident {resident_mb:6,.0f} MB  peak {peak_mb:6,.0f} MB"


def count_bytes(trainer: Trainer, steps: int) -> tuple[int, int]:
    """Bytes of the trainable weights, and of what a step keeps for its backward pass beside them,
    the most of some.
    """
    weight_sizes = {}
    for value in trainer.main.parameters:
        storage = value.untyped_storage()
        weight_sizes[storage.data_ptr()] = storage.nbytes()
    saved_sizes: dict[int, int] = {}

    def note(value: torch.Tensor) -> torch.Tensor:
        storage = value.untyped_storage()
        saved_sizes[storage.data_ptr()] = storage.nbytes()
        return value

    largest = 0
    with (
        torch.random.fork_rng(devices=[]),
        torch.autograd.graph.saved_tensors_hooks(note, lambda value: value),
    ):
        for step in range(steps):
            for _ in trainer.compute_losses(step):
                activations = saved_sizes.keys() - weight_sizes.keys()
                largest = max(largest, sum(saved_sizes[place] for place in activations))
                saved_sizes.clear()
    return sum(weight_sizes.values()), largest


def train_run(run: Run, listen: Listener) -> None:
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
            experiment = plan.todo[0].experiment
            store = Store(Path(folder))
            inputs = load_training_inputs(
                experiment, "cpu", find_teacher_folders(experiment, store)
            )
            train(experiment, inputs, store.work(experiment.fingerprint))


def measure_needs(run: Run, numbers: Queue[float]) -> None:
    """Put MB of weights and of a step's activations, once the run is ready to train."""

    def count_and_stop(trainer: Trainer) -> None:
        trainer.student.train()
        weights, activations = count_bytes(trainer, run.steps)
        numbers.put(weights / MB)
        numbers.put(activations / MB)
        raise KeyboardInterrupt  # nothing is trained: what follows is not measured

    Trainer.run = count_and_stop  # type: ignore[method-assign, assignment]
    with suppress(KeyboardInterrupt):
        train_run(run, lambda event: None)


def measure_stages(run: Run, numbers: Queue[float]) -> None:
    """Print the memory at each event of the run; put MB of the baseline and of the peak."""
    run_trainer = Trainer.run

    def measure_and_run(trainer: Trainer) -> TrainingRecord:
        weights_mb = sum(value.nbytes for value in trainer.main.parameters) / MB
        numbers.put(read_resident_mb() - weights_mb)
        print(format_memory("ready to train"), flush=True)
        return run_trainer(trainer)

    def print_stage(event: Event) -> None:
        subject = ""
        if event.stage:
            subject = event.stage.subject
        elif event.progress:
            subject = f"step {event.progress.step}"
        print(format_memory(f"{event.kind} {subject}"), flush=True)

    Trainer.run = measure_and_run  # type: ignore[method-assign]
    print(format_memory("imports"), flush=True)
    train_run(run, print_stage)
    numbers.put(measure_peak_memory_mb("cpu"))


def measure_in_process(work: Callable[[Run, Queue[float]], None], run: Run) -> list[float]:
    """The two numbers that `work` puts, in a process of its own."""
    # a forked process would begin with the memory of this one
    spawn = multiprocessing.get_context("spawn")
    numbers: Queue[float] = spawn.Queue()
    process = spawn.Process(target=work, args=(run, numbers))
    process.start()
    first = numbers.get()
    second = numbers.get()
    process.join()
    return [first, second]


@click.command(help=__doc__)
@click.option("--profile", default="tiny", show_default=True)
@click.option("--method", default="simcse", show_default=True)
@click.option("--encoder", metavar="NAME=FOLDER")
@click.option("--data-root", metavar="FOLDER")
@click.option("--steps", default=6, show_default=True)
def main(profile: str, method: str, encoder: str | None, data_root: str | None, steps: int) -> None:
    run = Run(profile, method, encoder, data_root, steps)
    weights_mb, activations_mb = measure_in_process(measure_needs, run)
    baseline_mb, peak_mb = measure_in_process(measure_stages, run)
    # weights, their gradients and two moments of AdamW
    parameters_mb = 4 * weights_mb
    limit_mb = 1.2 * (parameters_mb + activations_mb) + baseline_mb
    print(
        f"weights {weights_mb:,.0f} MB, with gradients and AdamW's moments {parameters_mb:,.0f} MB"
    )
    print(
        f"kept by a step for its backward pass, at most, {activations_mb:,.0f} MB; "
        f"baseline {baseline_mb:,.0f} MB"
    )
    print(f"peak {peak_mb:,.0f} MB; baseline + 1.2 x what training needs: {limit_mb:,.0f} MB")


if __name__ == "__main__":
    main()
