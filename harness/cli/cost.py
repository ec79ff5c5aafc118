"""What runs to do would cost where none like them was done: from the minutes that DALR Table 7 prints.

Printed is the wall time of KDMCSE and DALR on one A100, 4 epochs over Wikipedia and a caption set, BERT-base. A run
is taken to cost in proportion to the examples it sees (steps x batch) and to the size of its encoder. This is an
order of magnitude: methods differ, and so do batches and machines.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from harness.execution.plan import Plan, PlannedRun
from harness.papers.published import read_published
from harness.profiles import Profile
from harness.store import Result

#: Examples of the papers' corpora: MCSE section 4.1, SimCSE's NLI file, KDMCSE appendix B (a million pairs each).
EXAMPLES = {"flickr": 29_783, "coco": 82_783, "nli": 275_601}
MILLION = 1_000_000
#: RoBERTa-large against BERT-base: 302 and 85 million weights without the embeddings.
LARGE = 302 / 85


def a100_hours(plan: Plan) -> float | None:
    """Hours of one A100 for the runs to do; None where a corpus is none of the papers'."""
    rate = minutes_an_example()
    seen = [examples_seen(run, plan.request.profile) for run in plan.todo if run.result is None]
    known = [count for count in seen if count is not None]
    return sum(known) * rate / 60 if len(known) == len(seen) else None


def minutes_an_example() -> float:
    """The mean over the four rows of DALR Table 7."""
    rates = list(_printed_rates())
    return sum(rates) / len(rates)


def examples_seen(run: PlannedRun, profile: Profile) -> float | None:
    """Examples of BERT-base's size that a run trains on; None where a corpus is none of the papers'."""
    resolved, training = run.resolved, run.resolved.training
    if not resolved.method.trains:
        return 0.0
    own = resolved.method.own_steps(resolved.hyperparameters)
    unmixed = {name for name in resolved.corpora(profile) if profile.corpora[name].kind.startswith("labelled-")}
    sizes = [
        _size(name, dict(resolved.spec.setting.options)) for name in resolved.corpora(profile) if name not in unmixed
    ]
    if None in sizes:
        return None
    text = sum(size for size in sizes if size is not None)
    steps = training.steps or math.ceil(training.epochs * text / training.batch_size)
    batch = training.batch_size + sum(stream.batch_size for stream in own.values())
    return steps * batch * (LARGE if "large" in resolved.spec.encoder else 1.0)


def _size(corpus: str, options: dict[str, str]) -> int | None:
    """A million of what is cut to a million; `shot` keeps the steps of all pairs, `size` does not."""
    known = EXAMPLES.get(corpus, MILLION if corpus.startswith(("wiki", "cc12m")) else None)
    return min(known, int(options["size"])) if known and "size" in options else known


def _printed_rates() -> Iterator[float]:
    printed = {
        (key.method, key.setting, key.task): number.value
        for key, number in read_published().items()
        if (key.paper, key.table) == ("dalr", "T7")
    }
    for (method, setting, task), minutes in printed.items():
        if task == "total_time_min":
            yield minutes / (printed[method, setting, "epochs"] * _examples(setting.split("+")))


def _examples(corpora: Iterable[str]) -> int:
    return sum(EXAMPLES.get(name, MILLION) for name in corpora)


def seconds_left(plan: Plan) -> float | None:
    """Seconds that the runs to do would take in turn, from finished runs of the profile; None without any."""
    finished = [result for result in plan.store.load()[0] if result.profile == plan.request.profile.name]
    return sum(_expected(run, finished) for run in plan.todo) if finished else None


def _expected(run: PlannedRun, finished: Sequence[Result]) -> float:
    spec = run.resolved.spec
    same = [r for r in finished if r.spec.method == spec.variant.name and r.spec.encoder == spec.encoder]
    pool = same or finished
    return sum(result.seconds for result in pool) / len(pool)
