"""What a card can do, in five minutes: training steps of SimCSE with BERT-base in each precision,
with compiled layers and beside other processes, the encoder's passes replayed as a CUDA graph, and
the checks of `harness doctor`. Prints a table and writes a JSON file.

Tokens are random, in rows as long as sentences of Wikipedia. On the CPU a small encoder stands in,
to try the program.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Barrier
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

import click
import numpy as np
import torch
from trainers import make_trainer
from transformers import BertConfig, BertModel

from harness.corpora.tokens import TokenFile, Tokens
from harness.encoders.packed import run_to_first_tokens
from harness.encoders.precision import autocast, set_float32_products
from harness.encoders.rows import TokenRows
from harness.encoders.student import Student
from harness.encoders.trial import TrialFindings
from harness.errors import first_line
from harness.method import Dimensions, method_named
from harness.processors import start_with_safe_path
from harness.profiles import Training
from harness.runs.execution import describe_machine, read_package_versions
from harness.stopping import SIGNALS
from harness.training.streams import TrainingData
from harness.training.trainer import Trainer

#: range from which a row's number of tokens is drawn: a mean of 22, like Wikipedia's sentences
LENGTHS = (12, 33)
#: steps before those that count
FIRST = 5
PRECISIONS: tuple[Literal["fp32", "tf32", "bf16", "fp16"], ...] = ("bf16", "tf32", "fp32", "fp16")
#: seconds that are kept for the checks of the device
DOCTOR_S = 120.0
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

    def make_student(self) -> Student:
        config = BertConfig(**SMALL if self.device == "cpu" else {})
        encoder = BertModel(config, add_pooling_layer=False)
        findings = TrialFindings(rows="packed", direct=True)
        return Student(encoder, SimpleNamespace(pad_token_id=0), found=findings).to(self.device)

    def make_trainer(self, folder: Path) -> Trainer:
        """A trainer of SimCSE on random tokens."""
        student = self.make_student()
        rng = np.random.default_rng(0)
        lengths = _draw_lengths(rng, 64 * self.rows)
        ids = rng.integers(1000, 30_000, lengths.sum()).astype(np.uint16)
        ends = np.cumsum([0, *lengths], dtype=np.int64)
        data = TrainingData({"sentences": Tokens([TokenFile(ids, ends)], 0)})

        simcse = method_named("simcse")
        method = simcse(simcse.configure("paper", {}), Dimensions(student.width)).to(self.device)
        training = Training(
            precision=self.precision, batch_size=self.rows, steps=10**6, compile=self.compile
        )
        return make_trainer(student, method, data, training, folder)


def _draw_lengths(rng: np.random.Generator, rows: int) -> np.ndarray:
    """The numbers of tokens of rows."""
    return rng.integers(*LENGTHS, rows)


class StepTime(NamedTuple):
    """Seconds of a step, of the processor in it, and of the first steps, which compile where layers
    are compiled; and the peak of the card's memory in GiB.
    """

    seconds: float
    host: float
    first: float
    memory: float


def measure_together(load: Load, processes: int) -> list[StepTime]:
    """Time the steps of processes that train at the same time."""
    # forked from one process that has imported torch, which takes longer than the steps
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    barrier = context.Barrier(processes)
    with start_with_safe_path(), context.Pool(processes, _start, (barrier,)) as pool:
        return pool.map(_measure_with_others, [load] * processes, chunksize=1)


def _start(barrier: Barrier) -> None:
    global _together
    _together = barrier
    # a server that loads batches has blocked them, and the pool ends its processes by one
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    torch.set_num_threads(1)


def _measure_with_others(load: Load) -> StepTime:
    assert _together is not None
    try:
        return _measure_steps(load, _together)
    except BaseException:
        _together.abort()
        raise


def _measure_steps(load: Load, barrier: Barrier) -> StepTime:
    on_card = load.device == "cuda"
    with TemporaryDirectory() as folder:
        trainer = load.make_trainer(Path(folder))

        def take_steps(first: int, count: int) -> None:
            with set_float32_products(load.precision, load.device):
                for number in range(first, first + count):
                    for _, total, _ in trainer.compute_losses(number):
                        assert total is not None
                        trainer.main.step(total, number)
            if on_card:
                torch.cuda.synchronize()

        clock = time.perf_counter()
        take_steps(0, FIRST)
        first = time.perf_counter() - clock

        barrier.wait(PATIENCE_S)
        clock = time.perf_counter()
        host_clock = time.process_time()
        take_steps(FIRST, load.steps)
        host = (time.process_time() - host_clock) / load.steps
        seconds = (time.perf_counter() - clock) / load.steps

    memory = torch.cuda.max_memory_allocated() / 2**30 if on_card else 0.0
    return StepTime(seconds, host, first, memory)


class PassTime(NamedTuple):
    """Seconds of the encoder's forward and backward pass over one batch: called, and replayed as a
    CUDA graph.
    """

    called: float
    replayed: float


def measure_replay(load: Load) -> PassTime:
    """Time the passes in a process of their own, since a capture that fails leaves its card
    unusable.

    The batch is always the same, so that the ratio is the most that a graph of each size of batch
    could gain. Raises RuntimeError for passes that cannot be captured.
    """
    with start_with_safe_path(), get_context("forkserver").Pool(1) as pool:
        return pool.apply(_measure_passes, [load])


def _measure_passes(load: Load) -> PassTime:
    run_passes = make_passes(load, load.make_student())
    run_passes()
    called = _measure_calls(run_passes, load.steps)

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run_passes()
    return PassTime(called, _measure_calls(graph.replay, load.steps))


def make_passes(load: Load, student: Student) -> Callable[[], None]:
    """The encoder's forward and backward pass over two views of one batch of random tokens."""
    student.train()
    rng = np.random.default_rng(0)
    rows = [rng.integers(1000, 30_000, length).tolist() for length in _draw_lengths(rng, load.rows)]
    packed = TokenRows.from_lists(rows, 0).packed.to(torch.device(load.device)).repeat(2)
    assert student.packing is not None
    with autocast(load.precision, load.device):
        packing = student.packing.select_attention(student.model)
    assert packing is not None

    def run_passes() -> None:
        # new gradients each time, as in a step
        student.zero_grad(set_to_none=True)
        with autocast(load.precision, load.device):
            vectors = run_to_first_tokens(student.model, packed, packing)
            vectors.float().square().sum().backward()

    return run_passes


def _measure_calls(call: Callable[[], None], count: int) -> float:
    """Seconds of a call on the card."""
    for _ in range(FIRST):
        call()
    torch.cuda.synchronize()

    clock = time.perf_counter()
    for _ in range(count):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - clock) / count


def list_loads(device: str, steps: int) -> list[tuple[Load, int]]:
    """What is timed, the most important first, each with its number of processes."""
    if device == "cpu":
        load = Load(device, "fp32", 8, steps, compile=False)
        return [(load, 1), (load, 2)]

    plain = [Load(device, precision, 64, steps, compile=False) for precision in PRECISIONS]
    # TF32 gains nothing by compiled layers
    compilable = [load for load in plain if load.precision != "tf32"]
    fastest = plain[:2]
    loads = [(load, 1) for load in plain]
    loads += [(replace(load, compile=True), 1) for load in compilable]
    for load in fastest:
        loads += [(load, 2), (load, 4)]
    loads += [(replace(load, rows=128), 1) for load in fastest]
    return loads


def measure_loads(loads: Sequence[tuple[Load, int]], until: float) -> list[dict[str, Any]]:
    """The measures of loads, printed as lines of a table; those whose turn comes after `until`, a
    time of `time.monotonic`, are left out.
    """
    print(
        "| precision | compiled | rows | processes | ms a step | host ms | first s | tokens/s | GiB |"
    )
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    measures = []
    for load, processes in loads:
        if time.monotonic() > until:
            break
        measure = measure_load(load, processes)
        measures.append(measure)
        print(format_measure(measure), flush=True)
    return measures


def measure_load(load: Load, processes: int) -> dict[str, Any]:
    """The measures of a load in several processes, as means over them."""
    times = StepTime(*np.mean(measure_together(load, processes), axis=0).tolist())
    mean_length = (LENGTHS[0] + LENGTHS[1] - 1) / 2
    tokens = 2 * load.rows * mean_length
    return {
        "precision": load.precision,
        "compiled": load.compile,
        "rows": load.rows,
        "processes": processes,
        "step_ms": 1000 * times.seconds,
        "host_ms": 1000 * times.host,
        "first_s": times.first,
        "tokens_per_s": processes * tokens / times.seconds,
        "memory_gib": times.memory,
    }


def format_measure(measure: Mapping[str, Any]) -> str:
    """A line of the table."""
    cells = [
        measure["precision"],
        "yes" if measure["compiled"] else "no",
        str(measure["rows"]),
        str(measure["processes"]),
        f"{measure['step_ms']:.1f}",
        f"{measure['host_ms']:.1f}",
        f"{measure['first_s']:.1f}",
        f"{measure['tokens_per_s']:,.0f}",
        f"{measure['memory_gib']:.1f}",
    ]
    return f"| {' | '.join(cells)} |"


def find_gains(measures: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """What bf16 gains over TF32, and compiled layers in each precision, as ratios of the time of a
    step of one process with 64 rows.
    """
    step_ms = {}
    for measure in measures:
        if (measure["rows"], measure["processes"]) == (64, 1):
            step_ms[measure["precision"], measure["compiled"]] = measure["step_ms"]

    gains = {}
    if ("tf32", False) in step_ms and ("bf16", False) in step_ms:
        gains["bf16 over tf32"] = step_ms["tf32", False] / step_ms["bf16", False]
    for precision in PRECISIONS:
        if (precision, False) in step_ms and (precision, True) in step_ms:
            gain = step_ms[precision, False] / step_ms[precision, True]
            gains[f"compiled in {precision}"] = gain
    return gains


def check_device(device: str, seconds: float) -> str:
    """What `harness doctor` prints of a device within a number of seconds; says where it did not
    end.
    """
    command = [str(Path(sys.executable).with_name("harness")), "doctor", "--device", device]
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=max(1.0, seconds),
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"`harness doctor --device {device}` did not end in {seconds:.0f} s"
    return done.stdout


@click.command(help=__doc__)
@click.option("--device", type=click.Choice(["cuda", "cpu"]), default=None)
@click.option("--steps", default=60, show_default=True, help="Steps that count.")
@click.option("--seconds", default=300.0, show_default=True, help="What begins later is left out.")
@click.option("--doctor/--no-doctor", default=True, help="With the checks of `harness doctor`.")
@click.option("--out", default="card.json", show_default=True, type=click.Path(path_type=Path))
def main(device: str | None, steps: int, seconds: float, doctor: bool, out: Path) -> None:
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    start = time.monotonic()
    loads = list_loads(device, steps)
    # the checks of a card take one to three minutes
    reserved = DOCTOR_S if doctor else 0.0
    measures = measure_loads(loads, start + seconds - reserved)
    if len(measures) < len(loads):
        print(f"{len(loads) - len(measures)} measures left out: the time is over")

    gains = find_gains(measures)
    if device == "cuda" and time.monotonic() < start + seconds - reserved:
        try:
            times = measure_replay(Load(device, "bf16", 64, steps, compile=False))
            gains["passes in bf16 as a CUDA graph"] = times.called / times.replayed
        except RuntimeError as error:
            print(f"no CUDA graph: {first_line(error)}")

    for name, gain in gains.items():
        print(f"{name}: {gain:.2f} times as fast")

    page = {
        "machine": describe_machine(),
        "packages": read_package_versions(),
        "measures": measures,
        "left_out": len(loads) - len(measures),
        "gains": gains,
    }
    if doctor:
        page["doctor"] = check_device(device, start + seconds - time.monotonic())
        print(page["doctor"])
    out.write_text(json.dumps(page, indent=1), "utf-8")
    print(f"wrote {out}")


if __name__ == "__main__":
    main()
