"""Slots for jobs on one machine: cores, or GPUs that several runs share by memory."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from harness.processors import cores
from harness.runs.environment import Allocation, Resources

VISIBLE = "CUDA_VISIBLE_DEVICES"
#: The part of a card's memory that runs are given; the rest is for what others do on it.
USABLE = 0.95
#: Runs on one card at a time, where memory allows more: they share its processors.
MOST_ON_A_CARD = 4
#: Cores of a job that uses no GPU, on a machine whose runs use them.
PREPARING_CPUS = 4


#: Lets runs on one card share what one of them frees; read when a process first uses CUDA.
SHARED = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


@dataclass(frozen=True)
class Gpu:
    """A GPU, or a MIG instance, by its name in CUDA_VISIBLE_DEVICES, with its memory in MB.

    `free_mb` asks for the memory that no process has now.
    """

    name: str
    memory_mb: float
    free_mb: Callable[[], float]


def visible_gpus(ask: Callable[[str], tuple[float, float]]) -> list[Gpu]:
    """The GPUs that this process may use; `ask` returns the free and the total memory of one, by its name, in MB."""
    return [Gpu(name, ask(name)[1], partial(_free, ask, name)) for name in visible_names()]


def visible_names() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them.

    A process is shown the first of several MIG instances only, so those that are named are all taken.
    """
    import torch

    names = [name.strip() for name in os.environ.get(VISIBLE, "").split(",") if name.strip()]
    if not any(name.startswith("MIG-") for name in names):
        count = torch.cuda.device_count()
        names = names[:count] or [str(index) for index in range(count)]
    return names


def most_on_each(cards: int, jobs: int) -> int:
    """How many runs are on one card at a time at most."""
    return min(MOST_ON_A_CARD, -(-jobs // cards))


def _free(ask: Callable[[str], tuple[float, float]], name: str) -> float:
    return ask(name)[0]


@dataclass(frozen=True, eq=False)
class Seat:
    """A slot for one job: its share of the machine, the environment of its process, and its GPU number."""

    allocation: Allocation
    environment: Mapping[str, str] = field(default_factory=dict)
    card: int | None = None


class Seats(ABC):
    """The slots of a machine."""

    @abstractmethod
    def take(self, job: str, needs: Callable[[], Resources], *, alone: bool = False) -> Seat | None:
        """Return a seat for a job, by its id, or None where there is no room now; `alone` asks for a whole card."""

    @abstractmethod
    def free(self, seat: Seat) -> None:
        """Give a seat back."""


class CoreSeats(Seats):
    """A fixed number of jobs at a time, each with an equal share of the cores."""

    def __init__(self, jobs: int) -> None:
        self._left, self._allocation = jobs, Allocation.equal("cpu", jobs)

    def take(self, job: str, needs: Callable[[], Resources], *, alone: bool = False) -> Seat | None:
        if not self._left:
            return None
        self._left -= 1
        # a process that must not use a GPU sees none
        return Seat(self._allocation, {VISIBLE: ""})

    def free(self, seat: Seat) -> None:
        self._left += 1


class CardSeats(Seats):
    """GPUs: each job on the card with the most free memory, several on one where their memory fits.

    `jobs` is the most that use a GPU at a time, None for as many as fit. A job too large for now
    reserves the emptiest GPU, so that smaller jobs cannot starve it. Jobs that need no GPU run beside them.
    """

    def __init__(self, cards: Sequence[Gpu], jobs: int | None = None) -> None:
        self._cards, self._jobs = cards, jobs or MOST_ON_A_CARD * len(cards)
        #: the most on one card; a job that shares its card with none has no limit
        self._each = most_on_each(len(cards), self._jobs)
        #: of each card, the memory that is not used by others, and its seats with their shares of it
        self._usable = [USABLE * card.memory_mb for card in cards]
        self._taken: list[dict[Seat, float]] = [{} for _ in cards]
        #: the card that a job waits for
        self._reserved: dict[int, str] = {}
        self._cpus = max(1, cores() // self._jobs)
        self._without = max(1, cores() // PREPARING_CPUS)

    def take(self, job: str, needs: Callable[[], Resources], *, alone: bool = False) -> Seat | None:
        asked = needs()
        if not asked.gpu_memory_mb:
            return self._on_cores()
        if sum(map(len, self._taken)) >= self._jobs:
            return None
        numbers = [number for number in range(len(self._cards)) if self._reserved.get(number, job) == job]
        open_ = [number for number in numbers if len(self._taken[number]) < self._each]
        free = {number: self._look(number) for number in open_ or numbers}
        if not free:
            return None
        card = max(free, key=lambda number: (self._left(number) * self._usable[number], -number))
        share = 1.0 if alone else asked.gpus(self._usable[card])
        short = bool(self._taken[card]) and free[card] < asked.gpu_memory_mb
        if share > self._left(card) or short or not open_:
            if job not in self._reserved.values():
                self._reserved[card] = job
            return None
        self._reserved = {number: name for number, name in self._reserved.items() if name != job}
        lone = alone or self._each == 1
        given = 1.0 if lone else share * self._usable[card] / self._cards[card].memory_mb
        environment = {VISIBLE: self._cards[card].name, **({} if lone else SHARED)}
        seat = Seat(Allocation("cuda", self._cpus, 1.0 if share == 1 else given), environment, card)
        self._taken[card][seat] = share
        return seat

    def _look(self, number: int) -> float:
        """The memory that a card has free now; what others use of it is read while none of these jobs is on it."""
        card = self._cards[number]
        free = card.free_mb()
        if not self._taken[number]:
            self._usable[number] = max(1.0, min(USABLE * card.memory_mb, free))
        return free

    def free(self, seat: Seat) -> None:
        if seat.card is None:
            self._without += 1
        else:
            del self._taken[seat.card][seat]

    def _on_cores(self) -> Seat | None:
        if not self._without:
            return None
        self._without -= 1
        return Seat(Allocation("cpu", min(PREPARING_CPUS, cores())), {VISIBLE: ""})

    def _left(self, card: int) -> float:
        """The free share of a card's usable memory."""
        return 1.0 - sum(self._taken[card].values())
