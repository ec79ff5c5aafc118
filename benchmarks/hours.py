"""Hours of the papers' runs on one H200 by arithmetic, as docs/reproduce.md prints them.

The arithmetic is that of `harness run --dry-run` (harness/planning/estimate.py).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

import harness
from harness.grid import resolve
from harness.planning.estimate import H200, count_training_steps, estimate
from harness.profiles import load_profile
from harness.spec import RunSpec

PAGE = Path(__file__).parents[1] / "docs" / "reproduce.md"
BEGIN = "<!-- python benchmarks/hours.py -->\n"
END = "<!-- end -->\n"
METHODS = ("dalr", "kdmcse", "mcse")
#: the columns of the first table: setting and encoder
PLACES = (
    "wiki+flickr/bert-base-uncased",
    "wiki+flickr/roberta-base",
    "wiki+coco/bert-base-uncased",
    "wiki+coco/roberta-base",
)
#: what the last table sums up: a name, and the options of `harness run`
SUMS = {
    "`--table dalr:T1`": {"table": "dalr:T1"},
    "`--table dalr:T1 --readings official`": {"table": "dalr:T1", "readings": "official"},
    "`--methods dalr,kdmcse --seeds 5`": {"methods": "dalr,kdmcse", "seeds": 5},
}


def format_table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def estimate_minutes(key: str) -> float:
    run = resolve(load_profile("paper"), RunSpec.parse(key), {})
    steps = count_training_steps(run)
    assert steps is not None
    return H200.find_training_seconds(run, steps) / 60


def list_minutes() -> Iterator[list[str]]:
    """Minutes of one training, both readings, by setting and encoder."""
    for method in METHODS:
        for variant in (method, f"{method}@official"):
            minutes = [estimate_minutes(f"{variant}/{place}/seed-0") for place in PLACES]
            yield [f"`{variant}`", *(f"{value:.0f}" for value in minutes)]


def list_sums() -> Iterator[list[str]]:
    """Hours of whole selections, trainings and suites."""
    with tempfile.TemporaryDirectory() as empty:
        for name, options in SUMS.items():
            plan = harness.plan(results=empty, **options)
            expected = estimate(plan)
            assert expected is not None
            assert expected.h200 is not None
            yield [name, str(len(plan.runs)), f"{expected.h200 / 3600:.1f}"]


def make_tables() -> str:
    minutes = format_table(["method", *PLACES], list_minutes())
    sums = format_table(["`harness run ...`", "runs", "H200"], list_sums())
    return (
        f"Minutes of one training on the H200:\n\n{minutes}\n"
        f"Hours of all runs of a selection, one at a time, with the suites:\n\n{sums}"
    )


@click.command(help=__doc__)
@click.option("--write", is_flag=True, help="Put the tables into the page.")
def main(write: bool) -> None:
    tables = make_tables()
    print(tables)
    if write:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n{tables}\n{END}{after}")


if __name__ == "__main__":
    main()
