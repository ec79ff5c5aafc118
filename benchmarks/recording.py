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


@click.command(help=__doc__)
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option("--profile", default="tiny", show_default=True)
@click.option("--data", type=Path, help="Folder of the data of other profiles.")
@click.option("--steps", default=250, show_default=True)
def main(runs: tuple[str, ...], profile: str, data: Path | None, steps: int) -> None:
    read = load_profile(profile)
    values = {"steps": steps}
    for key in runs or ("simcse/toy/toy-bert/seed-0",):
        with TemporaryDirectory() as folder:
            store = Store(Path(folder))
            asked = Experiments(Inventory(read, data, {}), values).find(
                resolve(read, RunSpec.parse(key), values)
            )
            for teacher in asked.teachers:
                make_weights(teacher, store, "cpu")
            inputs = load_training_inputs(asked, "cpu", find_teacher_folders(asked, store))
            trainer = make_trainer(asked, inputs, store.work(asked.fingerprint))
            spent = dict.fromkeys(("_measure_gradient", "_observe"), 0.0)

            def timed(
                name: str, call: Callable[..., None], spent: dict[str, float] = spent
            ) -> Callable[..., None]:
                def outer(*given: object) -> None:
                    clock = time.perf_counter()
                    call(*given)
                    spent[name] += time.perf_counter() - clock

                return outer

            for name in spent:
                setattr(trainer, name, timed(name, getattr(trainer, name)))
            seconds = trainer.run().seconds
        shares = ", ".join(
            f"{100 * each / seconds:.2f} % {name[1:]}" for name, each in spent.items()
        )
        print(f"{key}: {seconds:.1f} s, of which {shares}", flush=True)


if __name__ == "__main__":
    main()
