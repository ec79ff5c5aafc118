"""How fast the store reads 10,000 results into a tidy frame, beside parsing the same files as plain JSON.

python benchmarks/store.py
"""

from __future__ import annotations

import copy
import json
import tempfile
import time
from pathlib import Path

import pandas

from harness.store import Result, Store

RESULTS = 10_000
TASKS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R", "Avg")


def sample(seed: int) -> Result:
    """A result of the size of a paper's run: seven tasks, a dev curve of 125 points, loss curves of 100."""
    scores = {task: {"spearman": 70.0 + seed % 7, "pearson": 70.0, "n": 1000.0} for task in TASKS}
    steps = list(range(125))
    return Result.model_validate(
        {
            "schema_version": 1,
            "spec": {"method": "mcse", "variant": "mcse", "setting": "s", "encoder": "e", "seed": seed},
            "profile": "bench",
            "overrides": {},
            **dict.fromkeys(("fingerprint", "group", "training_fingerprint"), f"{seed:012d}" + "0" * 52),
            "hyperparameters": {"method": {"temperature": 0.05}, "training": {"batch_size": 64}},
            "scores": {"sts": scores},
            "protocols": {"sts": {"version": 1, "data": "0" * 64}},
            "dev": {
                **{"task": "STS-B-dev", "metric": "spearman", "steps": steps, "scores": [70.123456789] * 125},
                **{"best_step": 0, "best_score": 70.123456789},
            },
            "losses": {"steps": steps[:100], "terms": {"text": [0.0123456789] * 100, "info": [None] * 100}},
            "timings": {"train_s": 1.0, "evaluate_s": {"sts": 1.0}, "total_s": 2.0},
            "peak_memory_mb": 1.0,
            "hardware": {"device": "cpu"},
            "packages": {"torch": "2"},
            "revision": None,
            "started": "2026-01-01T00:00:00+00:00",
            "finished": "2026-01-01T00:00:01+00:00",
            "warnings": [],
        }
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        first = sample(0)
        for seed in range(RESULTS):
            changed = copy.copy(first.__dict__)
            changed["spec"] = first.spec.model_copy(update={"seed": seed})
            changed["fingerprint"] = f"{seed:012d}" + "0" * 52
            result = first.model_copy(update=changed)
            path = store.path(result)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(result.model_dump()))
        size = sum(path.stat().st_size for path in store.files()) / 1e6
        clock = time.perf_counter()
        for path in store.files():
            json.loads(path.read_bytes())
        plain = time.perf_counter() - clock
        clock = time.perf_counter()
        results, problems = store.load()
        frame = store.frame(results)
        ours = time.perf_counter() - clock
        assert len(results) == RESULTS
        assert not problems
        assert isinstance(frame, pandas.DataFrame)
        print(f"{RESULTS} results, {size:.0f} MB, {len(frame)} rows")
        print(f"plain json.loads: {plain:.2f} s; store to checked tidy frame: {ours:.2f} s; ratio {ours / plain:.2f}")


if __name__ == "__main__":
    main()
