"""How long the runs of a plan will take: from finished runs, else from the minutes that DALR Table 7 prints.

Printed is the wall time of KDMCSE and DALR on one A100: 4 epochs over Wikipedia and a caption set with BERT-base. A
run's time is taken as proportional to the examples that it sees (steps x batch) and to the size of its encoder. This
is an order of magnitude: methods differ, and so do batches and machines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from harness.execution.plan import Plan, PlannedRun
from harness.grid import Resolved
from harness.inputs import Stream
from harness.papers.published import read_published
from harness.setting import kept_rows
from harness.store import IndexedResults

#: Examples of the papers' corpora: MCSE section 4.1, SimCSE's NLI file, KDMCSE appendix B (a million pairs each).
EXAMPLES = {"flickr": 29_783, "coco": 82_783, "nli": 275_601}
MILLION = 1_000_000
#: RoBERTa-large against BERT-base: 302 and 85 million weights without the embeddings.
LARGE = 302 / 85


@dataclass(frozen=True)
class Estimate:
    """Time of all runs one after another, on this device (from finished runs) or on one A100 (from print)."""

    seconds: float
    source: Literal["finished runs", "DALR Table 7"]


def estimate(plan: Plan) -> Estimate | None:
    """The time of the runs still to do; None where nothing like them is finished or printed."""
    finished = plan.store.indexed().of_profile(plan.request.profile.name)
    if finished or not plan.todo:
        return Estimate(sum(map(_Pools(finished).expected, plan.todo)), "finished runs")
    examples = [examples_seen(run.resolved) for run in plan.todo]
    known = [count for count in examples if count is not None]
    if len(known) < len(examples):
        return None
    return Estimate(60 * minutes_an_example() * sum(known), "DALR Table 7")


def minutes_an_example() -> float:
    """Minutes of one A100 an example, the mean over the four rows of DALR Table 7."""
    printed = {
        (key.method, key.setting, key.task): number.value
        for key, number in read_published().items()
        if (key.paper, key.table) == ("dalr", "T7")
    }
    rates = [
        minutes / (printed[method, setting, "epochs"] * sum(EXAMPLES.get(name, MILLION) for name in setting.split("+")))
        for (method, setting, task), minutes in printed.items()
        if task == "total_time_min"
    ]
    return sum(rates) / len(rates)


def examples_seen(run: Resolved) -> float | None:
    """Examples of BERT-base's size that a run trains on; None where a corpus is none of the papers'."""
    if not run.method.trains:
        return 0.0
    sizes = [_size(run, name, stream) for name, stream in run.streams.items() if stream not in run.own_steps]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return None
    training = run.training
    steps = training.steps or math.ceil(training.epochs * sum(known) / training.batch_size)
    batch = training.batch_size + sum(stream.batch_size for stream in run.own_steps.values())
    return steps * batch * (LARGE if "large" in run.spec.encoder else 1.0)


def _size(run: Resolved, corpus: str, stream: Stream) -> int | None:
    """The rows of a corpus that decide the number of steps."""
    rows = EXAMPLES.get(corpus, MILLION if corpus.startswith(("wiki", "cc12m")) else None)
    kept = kept_rows(run.options, stream)
    return min(rows, kept.rows) if rows and kept and not kept.steps_of_all else rows


class _Pool:
    """Times of finished runs: the sum of seconds and the number of runs, of training ('') and of each suite."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[float, int]] = {}

    def add(self, what: str, seconds: float) -> None:
        total, count = self._found.get(what, (0.0, 0))
        self._found[what] = total + seconds, count + 1

    def mean(self, what: str) -> float:
        total, count = self._found.get(what, (0.0, 1))
        return total / count


class _Pools:
    """The pool of each method and encoder, and that of all runs."""

    def __init__(self, finished: IndexedResults) -> None:
        self._all, self._same = _Pool(), dict[tuple[str, str], _Pool]()
        for method, encoder, training, suites in finished.times():
            for pool in (self._all, self._same.setdefault((method, encoder), _Pool())):
                for what, seconds in {"": training, **suites}.items():
                    pool.add(what, seconds)

    def expected(self, run: PlannedRun) -> float:
        """The mean time of finished runs of the same method and encoder, or of all without any."""
        spec = run.resolved.spec
        pool = self._same.get((spec.variant.name, spec.encoder), self._all)
        return (0.0 if run.result else pool.mean("")) + sum(map(pool.mean, run.todo))
