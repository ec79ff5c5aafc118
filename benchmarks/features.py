"""The feature store on 82,783 x 768 floats (COCO's training images): rows a second and resident
memory.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import click
import numpy as np
from usage import read_resident_mb

from harness.encoders.features import Stacked, load_cached_features

WIDTH = 768
BATCH = 64
BATCHES = 2_000


def draw_features(start: int, stop: int) -> np.ndarray:
    return np.random.default_rng(start).standard_normal((stop - start, WIDTH), dtype=np.float32)


def measure_batches(features: np.ndarray | Stacked) -> float:
    """Rows a second of random batches."""
    random = np.random.default_rng(0)
    start = time.perf_counter()
    for _ in range(BATCHES):
        features[random.integers(0, len(features), BATCH)]
    return BATCH * BATCHES / (time.perf_counter() - start)


@click.command(help=__doc__)
@click.option("--rows", default=82_783, show_default=True)
def main(rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HARNESS_CACHE"] = folder
        # what the numbers themselves take, without a store
        start = time.perf_counter()
        for first in range(0, rows, 4096):
            draw_features(first, min(first + 4096, rows))
        seconds_alone = time.perf_counter() - start

        start = time.perf_counter()
        load_cached_features("benchmark", rows, draw_features)
        seconds_stored = time.perf_counter() - start
        print(
            f"computing: {rows / seconds_alone:,.0f} rows/s alone, "
            f"{rows / seconds_stored:,.0f} rows/s kept on disk as well"
        )

        for name in ("first start after", "later start"):
            start = time.perf_counter()
            mapped = load_cached_features("benchmark", rows, draw_features)
            print(f"{name}: mapped in {1000 * (time.perf_counter() - start):.0f} ms")

        file = Path(str(mapped.filename))  # type: ignore[attr-defined]
        openers = {
            "stored file": lambda: Stacked([mapped]),
            "mapped file": lambda: mapped,
            "np.load": lambda: np.load(file),
        }
        for name, open_features in openers.items():
            before_mb = read_resident_mb()
            start = time.perf_counter()
            features = open_features()
            seconds = time.perf_counter() - start
            rate = measure_batches(features)
            more_mb = read_resident_mb() - before_mb
            print(
                f"{name}: open {seconds:.2f} s, {rate:,.0f} rows/s, {more_mb:.0f} MB more resident"
            )


if __name__ == "__main__":
    main()
