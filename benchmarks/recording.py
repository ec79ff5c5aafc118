"""The time that a training spends on what it records of its batches, against its whole time.

Timed are each loss term's part of the gradient and the count of tokens and operations
(`Trainer._measure_gradient`, `_observe`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from harness.grid import resolve
from harness.planning.experiments import Experiments
from harness.planning.inventory import Inventory
from harness.profiles import load_profile
from harness.runs.inputs import find_teacher_folders, load_training_inputs
from harness.runs.train import make_trainer, make_weights
from harness.spec import RunSpec
from harness.store import Store
from harness.training.trainer import Trainer

#: the trainer's functions that record
RECORDING = ("_measure_gradient", "_observe")


@click.command(help=__doc__)
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option("--profile", default="tiny", show_default=True)
@click.option("--data", type=Path, help="Folder of the data of other profiles.")
@click.option("--steps", default=250, show_default=True)
def main(runs: tuple[str, ...], profile: str, data: Path | None, steps: int) -> None:
    inventory = Inventory(load_profile(profile), data, {})
    for key in runs or ("simcse/toy/toy-bert/seed-0",):
        with TemporaryDirectory() as folder:
            trainer = prepare_trainer(inventory, key, steps, Store(Path(folder)))
            recording_seconds = dict.fromkeys(RECORDING, 0.0)
            # its functions are replaced on the object, so that a step itself is left as it is
            for name in RECORDING:
                measure_calls(trainer, name, recording_seconds)
            seconds = trainer.run().seconds

        shares = []
        for name, recording in recording_seconds.items():
            shares.append(f"{100 * recording / seconds:.2f} % {name.removeprefix('_')}")
        print(f"{key}: {seconds:.1f} s, of which {', '.join(shares)}", flush=True)


def prepare_trainer(inventory: Inventory, key: str, steps: int, store: Store) -> Trainer:
    """The trainer of a run, once its teachers' weights are made."""
    values = {"steps": steps}
    run = resolve(inventory.profile, RunSpec.parse(key), values)
    experiment = Experiments(inventory, values).find(run)
    for teacher in experiment.teachers:
        make_weights(teacher, store, "cpu")
    inputs = load_training_inputs(experiment, "cpu", find_teacher_folders(experiment, store))
    return make_trainer(experiment, inputs, store.work(experiment.fingerprint))


def measure_calls(trainer: Trainer, name: str, seconds: dict[str, float]) -> None:
    """Add the seconds of each later call of a trainer's function to those by its name."""
    call: Callable[..., None] = getattr(trainer, name)

    def call_and_measure(*arguments: object) -> None:
        start = time.perf_counter()
        call(*arguments)
        seconds[name] += time.perf_counter() - start

    setattr(trainer, name, call_and_measure)


if __name__ == "__main__":
    main()
