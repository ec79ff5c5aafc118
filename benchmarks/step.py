"""Training steps beside a padded reference in the style of the public code, in one run on this
machine.

Each side of a case is a process of its own with the same encoder and threads
(benchmarks/step_sides.py); they take turns, a step each, and the ratio is that of the medians. The
reference computes in float32, as the public scripts do. Limits: the ratio of padded to real tokens,
and the time of a step's matrix products alone, counted from the shapes and divided by the rate of
this machine's products, which is measured in the same run. Memory is each process's peak.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace

import click
import numpy as np
from servers import Stepper
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
    load_encoder,
    serve,
)

#: how many times as fast a step should be, by precision
BARS = {
    "text": {"fp32": 1.15, "bf16": 2.5},
    "mcse": {"fp32": 1.75, "bf16": 3.5},
    "kdmcse": {"fp32": 1.75, "bf16": 3.5},
    "dalr": {"fp32": 2.6, "bf16": 4.5},
    "visualcse": {"fp32": 1.3, "bf16": 2.0},
}


def measure_rates() -> dict[str, float]:
    """Operations a second of a product of the encoder's shapes, in each precision."""
    import torch

    rates = {}
    for name, kind in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        tokens = torch.randn(2048, WIDTH).to(kind)
        weight = torch.randn(WIDTH, 4 * WIDTH).to(kind)
        times = []
        for _ in range(12):
            start = time.perf_counter()
            tokens @ weight
            times.append(time.perf_counter() - start)
        rates[name] = 2 * tokens.numel() * weight.shape[1] / min(times)
    return rates


def count_tokens(case: Case) -> np.ndarray:
    """Tokens of each sentence of the reference's first batches: (batches, rows)."""
    tokenizer = load_encoder()[1]
    ids = tokenizer(case.texts[0], truncation=True, max_length=LONGEST)["input_ids"]
    lengths = np.array([len(row) for row in ids])
    return lengths.reshape(-1, case.rows)


def count_operations(tokens: float, rows: float, row_length: float) -> float:
    """Matrix operations of a training step over `tokens` in rows of about `row_length`, the last
    layer's second part at one token a row.
    """
    layer = 12 * WIDTH**2
    weights = LAYERS * layer * tokens - 9 * WIDTH**2 * (tokens - rows)
    attention = 2 * LAYERS * tokens * row_length * WIDTH
    return 6 * (weights + attention)


def find_padding_ratio(case: Case) -> float:
    """The ratio of padded to real tokens."""
    lengths = count_tokens(case)
    padded_lengths = lengths.max(1)
    return case.rows * padded_lengths.mean() / lengths.sum(1).mean()


def count_step_operations(case: Case) -> float:
    """Matrix operations of a step of a case, two views of each row."""
    lengths = count_tokens(case)
    tokens = 2 * lengths.sum(1).mean()
    operations = count_operations(tokens, 2 * case.rows, lengths.mean())
    if case.has_images:
        patches = (PIXELS // PATCH) ** 2 + 1
        operations += count_operations(2 * IMAGES * patches, 2 * IMAGES, patches)
    return operations


def measure_case(
    name: str, rows: int, precisions: list[str], rounds: int, rates: dict[str, float]
) -> None:
    """Print the table of a case."""
    steppers = {}
    for side in ("reference", *precisions):
        steppers[side] = Stepper(__file__, name, side, str(rows))
    # in turns, so that what else the machine does slows all; the first step does not count
    for _ in range(1 + rounds):
        for stepper in steppers.values():
            stepper.step()

    seconds = {side: stepper.median for side, stepper in steppers.items()}
    peaks_mb = {side: stepper.end() for side, stepper in steppers.items()}
    case = replace(CASES[name], rows=rows)
    print(
        f"{name}: reference {seconds['reference']:.2f} s a step, {peaks_mb['reference']:,.0f} MB; "
        f"padded tokens {find_padding_ratio(case):.2f} x real ones"
    )
    operations = count_step_operations(case)
    for precision in precisions:
        ratio = seconds["reference"] / seconds[precision]
        bar = BARS[name][precision]
        product_seconds = operations / rates[precision]
        print(
            f"  {precision}: {seconds[precision]:.2f} s, {ratio:.2f}x (bar {bar}x), "
            f"{peaks_mb[precision]:,.0f} MB; its matrix products alone {product_seconds:.2f} s",
            flush=True,
        )


@click.command(help=__doc__)
@click.argument("cases", nargs=-1, type=click.Choice([*CASES]), metavar="[CASE]...")
@click.option("--rounds", default=5, show_default=True, help="Steps of each side that count.")
@click.option(
    "--precision", type=click.Choice(["auto", "fp32", "bf16"]), default="auto", show_default=True
)
@click.option("--rows", default=ROWS, show_default=True, help="Sentences or captions of a step.")
@click.option("--serve", "served", type=(str, str, int), hidden=True)
def main(
    cases: tuple[str, ...],
    rounds: int,
    precision: str,
    rows: int,
    served: tuple[str, str, int] | None,
) -> None:
    if served:
        serve(*served)
        return

    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    from harness.processors import count_cores, has_bf16
    from harness.runs.execution import read_processor

    precisions = [precision]
    if precision == "auto":
        precisions = ["fp32", "bf16"] if has_bf16() else ["fp32"]
    os.environ.setdefault("OMP_NUM_THREADS", str(count_cores()))
    threads = os.environ["OMP_NUM_THREADS"]
    print(f"{read_processor()}, {threads} threads; precisions taken: {', '.join(precisions)}")

    rates = measure_rates()
    rate_texts = [f"{name} {rate / 1e9:,.0f} GFLOP" for name, rate in rates.items()]
    print(f"products a second: {', '.join(rate_texts)}")
    origins = [CASES[name].texts[1] for name in ("text", "mcse")]
    print(f"{rows} rows x 2 views; lengths of {' and '.join(origins)}")

    for name in cases or CASES:
        # a step with images takes several times as long
        case_rounds = max(1, rounds // 2) if CASES[name].has_images else rounds
        measure_case(name, rows, precisions, case_rounds, rates)


if __name__ == "__main__":
    main()
