"""Time to read 10,000 results into a tidy frame, compared with parsing the same files as plain JSON.

python benchmarks/store.py
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

from harness.store import DevCurve, Evaluation, LossCurves, Protocol, Result, Spec, Store, frame_of
from harness.store.upgrade import suite_metrics

RESULTS = 10_000
TASKS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R", "Avg")


def sample(seed: int) -> Result:
    """A result of the size of a paper's run: seven tasks, a dev curve of 125 points, loss curves of 100."""
    steps = list(range(125))
    finished = "2026-01-01T00:00:01+00:00"
    return Result(
        spec=Spec(method="mcse", variant="mcse", setting="s", encoder="e", seed=seed),
        profile="bench",
        profile_origin="file",
        overrides={},
        fingerprint=f"{seed:016d}" + "0" * 48,
        group="0" * 64,
        hyperparameters={
            "method": {"temperature": 0.05},
            "training": {"batch_size": 64},
            "encoder": {"pooling": "cls"},
        },
        teachers={},
        evaluations=[
            Evaluation(
                suite="sts",
                protocol=Protocol(version=1, data="0" * 64, metrics=suite_metrics("sts")),
                scores={task: {"spearman": 70.0 + seed % 7, "pearson": 70.0, "n": 1000.0} for task in TASKS},
                seconds=1.0,
                finished=finished,
            )
        ],
        dev=DevCurve(
            task="STS-B-dev",
            metric="spearman",
            steps=steps,
            scores=[70.123456789] * 125,
            best_step=0,
            best_score=70.123456789,
        ),
        losses=LossCurves(steps=steps[:100], terms={"text": [0.0123456789] * 100, "info": [None] * 100}),
        train_seconds=1.0,
        peak_memory_mb=1.0,
        hardware={"device": "cpu"},
        packages={"torch": "2"},
        revision=None,
        started="2026-01-01T00:00:00+00:00",
        finished=finished,
        warnings=[],
    )


def main() -> None:
    """Write the results, then time both ways of reading them."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        for seed in range(RESULTS):
            result = sample(seed)
            path = store.path(result)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(result.model_dump_json())
        size = sum(path.stat().st_size for path in store.files()) / 1e6
        clock = time.perf_counter()
        for path in store.files():
            json.loads(path.read_bytes())
        plain = time.perf_counter() - clock
        clock = time.perf_counter()
        results, problems = store.load()
        frame = frame_of(results)
        ours = time.perf_counter() - clock
        assert len(results) == RESULTS
        assert not problems
        print(f"{RESULTS} results, {size:.0f} MB, {len(frame)} rows")
        print(f"plain json.loads: {plain:.2f} s; store to checked tidy frame: {ours:.2f} s; ratio {ours / plain:.2f}")


if __name__ == "__main__":
    main()
