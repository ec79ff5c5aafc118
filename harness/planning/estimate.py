"""How long the runs of a plan will take: from finished runs, else from their operations, counted, on known cards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.planning.cards import CARDS
from harness.planning.operations import Passes, shape_of, suite_work, training_work
from harness.planning.plan import Plan, PlannedRun
from harness.store import IndexedResults


@dataclass(frozen=True)
class Estimate:
    """Seconds of all runs one after another: `here` from finished runs, otherwise `cards`, by the card's name."""

    here: float | None = None
    cards: Mapping[str, float] = field(default_factory=dict)


def estimate(plan: Plan) -> Estimate | None:
    """The time of the runs still to do; None where no run is finished and some corpus is none of the papers'."""
    finished = plan.store.indexed().of_profile(plan.request.profile.name)
    if finished or not plan.todo:
        return Estimate(here=sum(map(_Pools(finished).expected, plan.todo)))
    cards = dict.fromkeys((card.name for card in CARDS), 0.0)
    for run in plan.todo:
        work = planned_work(run)
        if work is None:
            return None
        for card in CARDS:
            cards[card.name] += card.seconds(shape_of(run.resolved), work)
    return Estimate(cards=cards)


def planned_work(run: PlannedRun) -> list[Passes] | None:
    """What a run has still to compute, as far as it is counted; None where a corpus is none of the papers'."""
    training: list[Passes] | None = [] if run.result else training_work(run.resolved)
    return None if training is None else [*training, *suite_work(run.resolved, run.todo)]


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
