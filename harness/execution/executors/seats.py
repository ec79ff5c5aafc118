"""Slots for jobs on one machine: cores, or GPUs that several runs share by memory."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.execution.resources import Allocation, Resources
from harness.processors import cores

VISIBLE = "CUDA_VISIBLE_DEVICES"
#: The part of a card's memory that runs are given; the rest is for what others do on it.
USABLE = 0.95
#: Runs on one card at a time, where memory allows more: they share its processors.
MOST_ON_A_CARD = 4
#: Cores of a job that uses no GPU, on a machine whose runs use them.
PREPARING_CPUS = 4


@dataclass(frozen=True)
class Gpu:
    """A GPU by its name in CUDA_VISIBLE_DEVICES, with its memory in MB."""

    name: str
    memory_mb: float


def visible_gpus() -> list[Gpu]:
    """The GPUs that this process sees."""
    import torch

    names = [name for name in os.environ.get(VISIBLE, "").split(",") if name.strip()]
    count = torch.cuda.device_count()
    memory = [torch.cuda.get_device_properties(index).total_memory / 1e6 for index in range(count)]
    return [Gpu(names[index] if names else str(index), memory[index]) for index in range(count)]


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
        """Return a seat while there is one."""
        if not self._left:
            return None
        self._left -= 1
        # a process that must not use a GPU sees none
        return Seat(self._allocation, {VISIBLE: ""})

    def free(self, seat: Seat) -> None:
        """Give a seat back."""
        self._left += 1


class CardSeats(Seats):
    """GPUs: each job on the card with the most free memory, several on one where their memory fits.

    `jobs` is the most that use a GPU at a time, None for as many as fit. A job that does not fit
    reserves the emptiest card, so that smaller jobs do not pass it for ever. Jobs that need no GPU run beside them.
    """

    def __init__(self, cards: Sequence[Gpu], jobs: int | None = None) -> None:
        self._cards, self._jobs = cards, jobs or MOST_ON_A_CARD * len(cards)
        #: of each card, its seats with their shares of its usable memory
        self._taken: list[dict[Seat, float]] = [{} for _ in cards]
        #: the card that a job waits for
        self._reserved: dict[int, str] = {}
        self._cpus = max(1, cores() // self._jobs)
        self._without = max(1, cores() // PREPARING_CPUS)

    def take(self, job: str, needs: Callable[[], Resources], *, alone: bool = False) -> Seat | None:
        """Return a seat on a card, or on cores for a job that uses no GPU."""
        asked = needs()
        if not asked.gpu_memory_mb:
            return self._on_cores()
        if sum(map(len, self._taken)) >= self._jobs:
            return None
        free = [number for number in range(len(self._cards)) if self._reserved.get(number, job) == job]
        if not free:
            return None
        card = max(free, key=lambda number: (self._left(number), -number))
        share = 1.0 if alone else asked.gpus(USABLE * self._cards[card].memory_mb)
        if share > self._left(card) or len(self._taken[card]) == MOST_ON_A_CARD:
            if job not in self._reserved.values():
                self._reserved[card] = job
            return None
        self._reserved = {number: name for number, name in self._reserved.items() if name != job}
        given = 1.0 if share == 1 else USABLE * share
        seat = Seat(Allocation("cuda", self._cpus, given), {VISIBLE: self._cards[card].name}, card)
        self._taken[card][seat] = share
        return seat

    def free(self, seat: Seat) -> None:
        """Give a seat back."""
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
