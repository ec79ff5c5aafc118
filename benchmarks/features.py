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

from harness.encoders.features import Stacked, load_cached_features

WIDTH = 768
BATCH = 64
BATCHES = 2_000


def generated(start: int, stop: int) -> np.ndarray:
    return np.random.default_rng(start).standard_normal((stop - start, WIDTH), dtype=np.float32)


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


def gathered(features: np.ndarray | Stacked) -> float:
    """Seconds that random batches take."""
    random = np.random.default_rng(0)
    clock = time.perf_counter()
    for _ in range(BATCHES):
        features[random.integers(0, len(features), BATCH)]
    return time.perf_counter() - clock


@click.command(help=__doc__)
@click.option("--rows", default=82_783, show_default=True)
def main(rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HARNESS_CACHE"] = folder
        clock = time.perf_counter()
        for start in range(0, rows, 4096):
            generated(start, min(start + 4096, rows))
        alone = time.perf_counter() - clock
        clock = time.perf_counter()
        load_cached_features("benchmark", rows, generated)
        stored = time.perf_counter() - clock
        print(
            f"computing: {rows / alone:,.0f} rows/s alone, {rows / stored:,.0f} rows/s kept on disk as well"
        )
        for what in ("first start after", "later start"):
            clock = time.perf_counter()
            mapped = load_cached_features("benchmark", rows, generated)
            print(f"{what}: mapped in {1000 * (time.perf_counter() - clock):.0f} ms")
        file = Path(str(mapped.filename))  # type: ignore[attr-defined]
        ways = {
            "stored file": lambda: Stacked([mapped]),
            "mapped file": lambda: mapped,
            "np.load": lambda: np.load(file),
        }
        for way, make in ways.items():
            before = resident_mb()
            clock = time.perf_counter()
            features = make()
            opened = time.perf_counter() - clock
            rate = BATCH * BATCHES / gathered(features)
            print(
                f"{way}: open {opened:.2f} s, {rate:,.0f} rows/s, {resident_mb() - before:.0f} MB more resident"
            )


if __name__ == "__main__":
    main()
