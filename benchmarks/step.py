"""Training steps beside a padded reference in the style of the public code, in one run on this
machine.

Each side of a case is a process of its own with the same encoder and threads
(benchmarks/step_sides.py); they take turns, a step each, and the ratio is that of the medians. The
reference computes in float32, as the public scripts do. Limits: the ratio of padded to real tokens,
and the time of a step's matrix products alone, counted from the shapes and divided by the rate of
this machine's products, which is measured in the same run. Memory is each process's peak.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import replace

import click
import numpy as np
from step_sides import (
    CASES,
    IMAGES,
    LAYERS,
    LONGEST,
    PATCH,
    PIXELS,
    ROWS,
    WIDTH,
    Case,
    encoder,
    serve,
)

#: what a step should be faster by: in float32, and in bf16
BARS = {
    "text": (1.15, 2.5),
    "mcse": (1.75, 3.5),
    "kdmcse": (1.75, 3.5),
    "dalr": (2.6, 4.5),
    "visualcse": (1.3, 2.0),
}


class Side:
    """A process that takes a step when it is told."""

    def __init__(self, program: str, *words: str) -> None:
        command = [sys.executable, program, "--serve", *words]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._read()
        self.seconds: list[float] = []

    def step(self) -> None:
        """Take a step; its time counts from the second one on."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.seconds.append(self._read())

    def end(self) -> float:
        """Stop, and return the peak of memory in MB."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        peak = self._read()
        self._process.wait()
        return peak

    @property
    def median(self) -> float:
        return statistics.median(self.seconds[1:])

    def _read(self) -> float:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            status = self._process.wait()
            why = (
                "was killed: does it fit into memory?"
                if status < 0
                else "failed: its error is above"
            )
            raise SystemExit(f"a side of the benchmark {why}")
        return json.loads(line)


def rates() -> dict[str, float]:
    """Operations a second of a product of the encoder's shapes, in each precision."""
    import torch

    found = {}
    for name, kind in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        tokens = torch.randn(2048, WIDTH).to(kind)
        weight = torch.randn(WIDTH, 4 * WIDTH).to(kind)
        times = []
        for _ in range(12):
            clock = time.perf_counter()
            tokens @ weight
            times.append(time.perf_counter() - clock)
        found[name] = 2 * tokens.numel() * weight.shape[1] / min(times)
    return found


def lengths(case: Case) -> np.ndarray:
    """Tokens of each sentence of the reference's first batches: (batches, rows)."""
    tokenizer = encoder()[1]
    ids = tokenizer(case.texts[0], truncation=True, max_length=LONGEST)["input_ids"]
    counts = np.array([len(row) for row in ids])
    return counts.reshape(-1, case.rows)


def operations(tokens: float, rows: float, longest: float) -> float:
    """Matrix operations of a training step over `tokens` in rows of about `longest`, the last layer's second part at
    one token a row."""
    layer = 12 * WIDTH**2
    weights = LAYERS * layer * tokens - 9 * WIDTH**2 * (tokens - rows)
    return 6 * (weights + 2 * LAYERS * tokens * longest * WIDTH / 2 * 2)


def limits(case: Case, rate: dict[str, float]) -> tuple[float, dict[str, float]]:
    """The ratio of padded to real tokens, and the seconds of a step's matrix products by precision."""
    counts = lengths(case)
    real = 2 * counts.sum(1).mean()
    padded = 2 * case.rows * counts.max(1).mean()
    work = operations(real, 2 * case.rows, counts.mean())
    if case.method == "visualcse":
        patches = (PIXELS // PATCH) ** 2 + 1
        work += operations(2 * IMAGES * patches, 2 * IMAGES, patches)
    return padded / real, {precision: work / each for precision, each in rate.items()}


def measured(
    name: str, rows: int, precisions: list[str], rounds: int, rate: dict[str, float]
) -> None:
    """Print the table of a case."""
    sides = {side: Side(__file__, name, side, str(rows)) for side in ("reference", *precisions)}
    for _ in range(1 + rounds):
        for side in sides.values():
            side.step()
    ratio, least = limits(replace(CASES[name], rows=rows), rate)
    peaks = {key: side.end() for key, side in sides.items()}
    slow = sides["reference"].median
    print(
        f"{name}: reference {slow:.2f} s a step, {peaks['reference']:,.0f} MB; padded tokens {ratio:.2f} x real ones"
    )
    for precision in precisions:
        fast = sides[precision].median
        bar = BARS[name][precision == "bf16"]
        print(
            f"  {precision}: {fast:.2f} s, {slow / fast:.2f}x (bar {bar}x), {peaks[precision]:,.0f} MB; its matrix "
            f"products alone {least[precision]:.2f} s",
            flush=True,
        )


@click.command(help=__doc__)
@click.argument("cases", nargs=-1, type=click.Choice([*CASES]), metavar="[CASE]...")
@click.option("--rounds", default=5, show_default=True, help="Steps of each side that count.")
@click.option(
    "--precision", type=click.Choice(["auto", "fp32", "bf16"]), default="auto", show_default=True
)
@click.option("--rows", default=ROWS, show_default=True, help="Sentences or captions of a step.")
@click.option("--serve", "side", type=(str, str, int), hidden=True)
def main(
    cases: tuple[str, ...],
    rounds: int,
    precision: str,
    rows: int,
    side: tuple[str, str, int] | None,
) -> None:
    if side:
        serve(*side)
        return
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    from harness.processors import count_cores, has_bf16
    from harness.runs.execution import read_processor

    took = {"auto": ["fp32", "bf16"] if has_bf16() else ["fp32"]}.get(precision, [precision])
    os.environ.setdefault("OMP_NUM_THREADS", str(count_cores()))
    rate = rates()
    print(
        f"{read_processor()}, {os.environ['OMP_NUM_THREADS']} threads; precisions taken: {', '.join(took)}"
    )
    print(
        "products a second: "
        + ", ".join(f"{name} {each / 1e9:,.0f} GFLOP" for name, each in rate.items())
    )
    print(
        f"{rows} rows x 2 views; lengths of "
        + " and ".join(CASES[each].texts[1] for each in ("text", "mcse"))
    )
    for name in cases or CASES:
        measured(name, rows, took, rounds if name != "visualcse" else max(1, rounds // 2), rate)


if __name__ == "__main__":
    main()
