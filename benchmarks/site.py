"""Time and memory of a report of 10,000 results: its tables, and the whole site with a page for each run.

python benchmarks/site.py [RESULTS]
"""

from __future__ import annotations

import hashlib
import math
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from harness.metrics import Metric
from harness.papers.published import read_papers, read_published
from harness.reporting.build import render
from harness.reporting.contents import Contents
from harness.reporting.seeds.headline import headline
from harness.reporting.site.methods import methods_from_a_process
from harness.reporting.tables.filled import paper_tables
from harness.reporting.tables.grids import summary_grid
from harness.store import Result, Store

RESULTS = 10_000
LOG_LINE = "2026-01-01T00:00:00Z  step 125/15625, dev 50.00, 12.3 steps a second\n"
SEEDS, VARIANTS, ENCODERS = 5, 20, 10
TASKS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R", "Avg")


def name(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def samples(count: int) -> Iterator[Result]:
    """Results of two profiles, 20 variants, 10 encoders, 5 seeds and the settings needed."""
    for index in range(count):
        rest, seed = divmod(index, SEEDS)
        rest, variant = divmod(rest, VARIANTS)
        rest, encoder = divmod(rest, ENCODERS)
        setting, profile = divmod(rest, 2)
        yield sample(seed, "simcse" if variant == 0 else f"mcse[lambda={variant}]", setting, encoder, profile)


def sample(seed: int, variant: str, setting: int, encoder: int, profile: int) -> Result:
    """A result as large as that of a paper's run: 7 tasks, a dev curve of 125 points, 2 loss curves of 100."""
    group = (variant, setting, encoder, profile)
    value = 70 + int(name(*group, seed)[:4], 16) / 65536
    scores = {task: {"spearman": value + place, "pearson": value, "n": 1000.0} for place, task in enumerate(TASKS)}
    dev = [value * (1 - math.exp(-step / 20)) for step in range(1, 126)]
    return Result.model_validate(
        {
            "spec": {
                **{"method": variant.partition("[")[0], "variant": variant, "setting": f"corpus-{setting}"},
                **{"encoder": f"encoder-{encoder}", "seed": seed},
            },
            "profile": f"bench-{profile}",
            "profile_origin": "file",
            "overrides": {},
            "fingerprint": name(*group, seed),
            "group": name(*group),
            "hyperparameters": {
                "method": {"temperature": 0.05, "lambda": 0.01, "projection_dim": 256},
                "training": {"batch_size": 64, "learning_rate": 3e-5, "epochs": 3, "precision": "fp32"},
            },
            "teachers": {},
            "evaluations": [
                {
                    **{"suite": "sts", "scores": scores, "seconds": 60.0, "finished": "2026-01-01T01:00:00+00:00"},
                    "protocol": {"version": 1, "data": "0" * 64, "metrics": [Metric("spearman")]},
                }
            ],
            "dev": {
                **{"task": "STS-B-dev", "metric": "spearman", "steps": list(range(125, 15750, 125)), "scores": dev},
                **{"best_step": 15625, "best_score": dev[-1]},
            },
            "losses": {
                "steps": list(range(100)),
                "terms": {term: [math.exp(-step / 30) for step in range(100)] for term in ("text", "info")},
            },
            "train_seconds": 3600.0,
            "peak_memory_mb": 4000.0,
            "hardware": {"device": "cuda", "processor": "a processor", "cores": 16, "threads": 8},
            "packages": {"torch": "2", "transformers": "5", "numpy": "2"},
            "revision": "0" * 40,
            "started": "2026-01-01T00:00:00+00:00",
            "finished": "2026-01-01T01:00:00+00:00",
            "warnings": [],
        }
    )


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else RESULTS
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "results")
        for one in samples(count):
            path = store.path(one)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(one.model_dump_json())
            path.with_suffix(".log").write_text(LOG_LINE * 130)
        clock = time.perf_counter()
        results, problems = store.load()
        methods, _ = methods_from_a_process()
        contents = Contents(store, results, methods=methods)
        scores = len(contents.frame)
        loaded = time.perf_counter() - clock
        assert len(results) == count
        assert not problems

        clock = time.perf_counter()
        filled = paper_tables(read_papers(), read_published(), contents.frame)
        lines = (section.lines for table in contents.tables for section in summary_grid(table).sections)
        assert sum(map(len, lines)) >= count // SEEDS
        headline(contents.tables, filled)
        tabled = time.perf_counter() - clock

        clock = time.perf_counter()
        out = Path(folder) / "site"
        render(contents, [], out)
        whole = time.perf_counter() - clock
        pages = sum(1 for _ in out.rglob("*.html"))
        size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file()) / 1e6
        largest = max(out.rglob("*.html"), key=lambda path: path.stat().st_size)
        assert pages > count
        print(f"{count} results read in {loaded:.1f} s; {scores} scores")
        print(f"tables: {tabled:.1f} s; rest of the site: {whole:.1f} s, {pages / whole:.0f} pages/s, {size:.0f} MB")
        print(f"largest page: {largest.relative_to(out)}, {largest.stat().st_size / 1e6:.1f} MB")
        print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
