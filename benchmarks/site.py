"""Seconds and memory of `harness status`, of tables and of the site as results grow.

Prints lines for 1,000 and 10,000 results, or for the numbers given; 100,000 need 10 GB of disk.
Each step is a process of its own. Results are made up from real ones (`made_up.py`): 5 seeds, 4
encoders, 10 settings, and as many variants as are needed, with a log each. With --chromium, the
slowest pages are opened: the milliseconds until a page can be used, its tools being there.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import click
from made_up import write_results

GROWTH = (1_000, 10_000)
STATUS = """
import sys
from harness.cli.main import main
sys.argv = ["harness", "status", "--profile", "tiny", "--methods", "simcse", "--seeds", "1", "--results", sys.argv[1]]
main()
"""
TABLES = """
import sys
from pathlib import Path
from harness.reporting.contents import Contents
from harness.reporting.sections.leaderboard import LeaderboardSection
from harness.reporting.sections.seen import SeenSection
from harness.reporting.tables.grids import make_summary_grid
from harness.store import Store
contents = Contents.of(Store(Path(sys.argv[1])))
grids = [make_summary_grid(table) for table in contents.tables]
filled = contents.filled
boards = LeaderboardSection("leaderboard", contents)
print(len(boards.sentences), "sentences,", len(SeenSection("seen", contents).tables), "of seen pairs")
"""
#: 500 variants x 10 settings: the newest against plain SimCSE by every test
COMPARISON = """
import sys
import harness
results = harness.results(sys.argv[1])
variants = sorted({str(run.spec.variant) for run in results.runs} - {"simcse"})
where = {"setting": "corpus-0", "encoder": "encoder-0"}
tasks = any("sts" in run.suites for run in results.runs)
print(results.compare(variants[-1], "simcse", "sts.Avg.spearman", **where).conclusion() if tasks else "no sts")
"""
SITE = """
import sys
from pathlib import Path
from harness.reporting.build import render
from harness.reporting.contents import Contents
from harness.store import Store
out = Path(sys.argv[2])
render(Contents.of(Store(Path(sys.argv[1]))), out)
largest = max(out.rglob("*.html"), key=lambda path: path.stat().st_size)
print(f"largest page {largest.name}, {largest.stat().st_size / 1e6:.1f} MB")
"""
OPENED = """
import sys
from pathlib import Path
from playwright.sync_api import sync_playwright
site = Path(sys.argv[1])
largest = sorted(site.rglob("*.html"), key=lambda path: path.stat().st_size)[-3:]
with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=sys.argv[2], args=["--no-sandbox"])
    times = []
    for path in dict.fromkeys([site / "index.html", site / "overview.html", *largest]):
        page = browser.new_page()
        page.goto(path.as_uri(), timeout=600_000)
        ms = page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
        times.append(f"{path.name} {ms:.0f} ms")
print(", ".join(times))
"""
USAGE = """
import atexit as _atexit, resource as _resource, time as _time
from harness.cli.start import collect_rarely as _as_the_command
_start = _time.perf_counter()
_as_the_command()
def _usage():
    wall, peak = _time.perf_counter() - _start, _resource.getrusage(_resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{wall:.1f} s ({_time.process_time():.1f} s of CPU), {peak:.0f} MiB")
_atexit.register(_usage)
"""


def run_step(name: str, code: str, *words: object) -> None:
    """Run code in a process of its own and print the last lines."""
    command = [sys.executable, "-c", USAGE + code, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr}")
    print(f"  {name:26} {'; '.join(done.stdout.splitlines()[-2:])}", flush=True)


@click.command(help=__doc__)
@click.argument("results", nargs=-1, type=click.IntRange(1))
@click.option("--chromium", type=click.Path(exists=True, dir_okay=False))
def main(results: tuple[int, ...], chromium: str | None) -> None:
    """Print the growth."""
    for count in results or GROWTH:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "results"
            out = Path(name) / "site"
            write_results(folder, count)
            print(f"{count} results", flush=True)
            run_step("status, first", STATUS, folder)
            run_step("status", STATUS, folder)
            run_step("tables", TABLES, folder)
            run_step("comparison", COMPARISON, folder)
            run_step("site", SITE, folder, out)
            if chromium:
                run_step("opened", OPENED, out, chromium)


if __name__ == "__main__":
    main()
