"""Hours of the papers' runs on known cards from counted operations, as docs/reproduce.md prints them.

    python benchmarks/hours.py            # the tables of the page
    python benchmarks/hours.py --measure  # and the count beside a step measured on this machine's processor
    python benchmarks/hours.py --write    # puts the tables into the page

The count is that of `harness run --dry-run` (harness/planning/operations.py and cards.py).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import harness
from harness.grid import resolve
from harness.planning.cards import CARDS
from harness.planning.estimate import estimate
from harness.planning.operations import TRAINING, Shape, shape_of, training_work
from harness.profiles import load_profile
from harness.spec import RunSpec

PAGE = Path(__file__).parents[1] / "docs" / "reproduce.md"
BEGIN, END = "<!-- python benchmarks/hours.py -->\n", "<!-- end -->\n"
METHODS = ("dalr", "kdmcse", "mcse")
SETTINGS = ("wiki+flickr", "wiki+coco")
ENCODERS = ("bert-base-uncased", "roberta-base")
#: what the last table sums up: a name, and the options of `harness run`
SUMS = {
    "`--table dalr:T1`": {"table": "dalr:T1"},
    "`--table dalr:T1 --readings official`": {"table": "dalr:T1", "readings": "official"},
    "`--methods dalr,kdmcse --seeds 5`": {"methods": "dalr,kdmcse", "seeds": 5},
}


def table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def minutes(key: str) -> list[float]:
    run = resolve(load_profile("paper"), RunSpec.parse(key), {})
    work = training_work(run)
    assert work is not None
    return [card.seconds(shape_of(run), work) / 60 for card in CARDS]


def one_run() -> Iterator[list[str]]:
    """Minutes of one training, both readings."""
    for method in METHODS:
        for setting in SETTINGS:
            for encoder in ENCODERS:
                for name in (method, f"{method}@official"):
                    found = minutes(f"{name}/{setting}/{encoder}/seed-0")
                    yield [f"`{name}`", setting, encoder, *(f"{value:.0f}" for value in found)]


def sums() -> Iterator[list[str]]:
    """Hours of whole selections, trainings and suites."""
    with tempfile.TemporaryDirectory() as empty:
        for name, options in SUMS.items():
            plan = harness.plan(results=empty, **options)
            found = estimate(plan)
            assert found is not None
            yield [name, str(len(plan.runs)), *(f"{seconds / 3600:.1f}" for seconds in found.cards.values())]


def tables() -> str:
    names = [card.name for card in CARDS]
    return "\n".join(
        (
            "Minutes of one training:\n\n" + table(["method", "setting", "encoder", *names], one_run()),
            "Hours of all runs of a selection, one at a time, with the suites:\n\n"
            + table(["`harness run ...`", "runs", *names], sums()),
        )
    )


def measure() -> str:
    """One step of a small encoder on this processor: its counted operations a second beside those of a product."""
    import torch
    from transformers import BertConfig, BertModel

    shape, rows, length = Shape(6, 384, 1536), 128, 22
    config = BertConfig(
        num_hidden_layers=shape.layers, hidden_size=shape.width, intermediate_size=shape.inner, num_attention_heads=12
    )
    model = BertModel(config, add_pooling_layer=False).train()
    update = torch.optim.AdamW(model.parameters(), lr=1e-5)
    ids = torch.randint(1000, 20_000, (rows, length))
    square = torch.randn(1024, 1024)

    def step() -> None:
        model(input_ids=ids).last_hidden_state[:, 0].pow(2).mean().backward()
        update.step()
        update.zero_grad()

    def seconds(work: object, repeats: int) -> float:
        found = []
        for _ in range(repeats):
            start = time.perf_counter()
            work()  # type: ignore[operator]
            found.append(time.perf_counter() - start)
        return statistics.median(found)

    step()
    trained = TRAINING * shape.forward(rows, length) / seconds(step, 7) / 1e9
    product = 2 * 1024**3 / seconds(lambda: square @ square, 15) / 1e9
    return (
        f"6 layers, 384 wide, {rows} rows of {length} tokens, float32, {torch.get_num_threads()} thread(s): counted "
        f"{trained:.0f} GFLOP/s in a training step, {product:.0f} in a product of 1024 x 1024 ({trained / product:.0%})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    made = tables()
    print(made)
    if given.measure:
        print(measure())
    if given.write:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{made}\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
