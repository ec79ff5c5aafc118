"""The resources that jobs need, and those that one machine offers.

Needs are estimated from encoder and batch size, refined by the peak memory of similar runs:
finished ones of the store, and those in progress from their first report. A machine has cores, or
GPUs that several runs share by memory.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from harness.planning.experiments import Experiment
from harness.processors import count_cores, list_memory_groups
from harness.runs.execution import Seat
from harness.store import Result, frames_of

#: Memory of a process besides tensors, in MB: torch and its libraries; on the GPU, the CUDA
#: context.
PROCESS_MB = 1_500
CONTEXT_MB = 600
#: Memory in MB of a frozen teacher at work, and of an encoder that is only evaluated, besides its
#: weights.
TEACHER_MB = 6_000
INFERENCE_MB = 3_000
#: Safety factors on expected and on measured memory, for fragmentation and longer batches.
MARGIN = 1.3
MEASURED_MARGIN = 1.25
#: BERT-base, assumed for encoders without a configuration: layers, width, vocabulary.
BASE = (12, 768, 30_522)
#: Encoded texts per row of a training batch: two views of a sentence, or three texts of a triplet.
VIEWS = 3
VISIBLE = "CUDA_VISIBLE_DEVICES"
#: of a process that must not use a GPU
NO_GPU = {VISIBLE: ""}
#: The files of a control group with its limit of memory and what is used of it, version 2 and 1.
GROUP_FILES = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
#: The fraction of a card's memory that runs may use; the rest is left for other processes.
USABLE = 0.95
#: Most runs on one card at a time, even if memory allows more: they share its processors.
MOST_ON_A_CARD = 4
#: Cores of a job that uses no GPU, on a machine whose runs use GPUs.
PREPARING_CPUS = 4
#: Lets runs on one card use the memory that another one frees; read when a process first uses CUDA.
SHARED = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}

#: The values that determine a run's memory: method, setting, encoder, batch, its rows at a time,
#: length, precision.
Likeness = tuple[str, str, str, int, int, int, str]


@dataclass(frozen=True)
class Resources:
    """What one job needs: memory in MB, and memory of one GPU in MB (0: it uses no GPU)."""

    memory_mb: int = 2_000
    gpu_memory_mb: int = 0


def estimate_model_mb(folder: Path) -> tuple[float, float]:
    """Megabytes of an encoder's float32 weights, and of the activations that one token keeps for
    the backward pass.
    """
    try:
        config = json.loads((folder / "config.json").read_bytes())
        layers = int(config["num_hidden_layers"])
        width = int(config["hidden_size"])
        words = int(config["vocab_size"])
    except (OSError, ValueError, KeyError, TypeError):
        layers, width, words = BASE

    weights = words * width + layers * 12 * width**2
    return 4 * weights / 1e6, layers * width * 80 / 1e6


def estimate_resources(experiment: Experiment, chunk: int | None = None) -> Resources:
    """A run's needs, estimated from its encoder and its batch, of which `chunk` rows are encoded at
    a time.

    Training keeps weights, gradients and two moments; a step keeps the activations of its batch.
    """
    run = experiment.resolved
    weights_mb, token_mb = _estimate_encoder_mb(experiment)
    if run.trains:
        batches = [run.training.batch_size]
        batches += [steps.batch_size for steps in run.own_steps.values()]
        rows = sum(min(batch, chunk or batch) for batch in batches)
        model_mb = 4 * weights_mb + rows * VIEWS * run.training.max_length * token_mb
    else:
        model_mb = weights_mb + INFERENCE_MB

    return Resources(
        memory_mb=round(PROCESS_MB + MARGIN * model_mb),
        gpu_memory_mb=round(CONTEXT_MB + MARGIN * model_mb),
    )


def _estimate_encoder_mb(experiment: Experiment) -> tuple[float, float]:
    source = experiment.encoder.source
    return estimate_model_mb(Path() if source.missing(None) else source.path())


def _describe_likeness(experiment: Experiment, chunk: int | None) -> Likeness:
    spec = experiment.resolved.spec
    names = spec.variant.name, str(spec.setting), spec.encoder
    if not experiment.resolved.trains:
        return *names, 0, 0, 0, ""
    training = experiment.resolved.training
    return *names, training.batch_size, chunk or 0, training.max_length, training.precision


class Estimates:
    """The resources that runs need, estimated from similar runs that have finished or reported."""

    def __init__(self, results: Sequence[Result] = ()) -> None:
        self._peaks: dict[tuple[Likeness, str], float] = {}
        self._expected: dict[Likeness, Resources] = {}
        self.learn(results)

    def learn(self, results: Sequence[Result]) -> None:
        """Record the peak memory of finished runs: of their process on the CPU, of tensors on a
        GPU.
        """
        frames = frames_of(results)
        parse = cache(json.loads)
        for method, setting, encoder, values, machine, peak_mb in zip(
            frames.texts("method"),
            frames.texts("setting"),
            frames.texts("encoder"),
            frames.texts("hyperparameters"),
            frames.texts("hardware"),
            frames.table["peak_memory_mb"].to_pylist(),
            strict=True,
        ):
            training = parse(values).get("training", {})
            hardware = parse(machine)
            chunk = hardware.get("chunk") if training else 0
            likeness = (
                method,
                setting,
                encoder,
                _read_size(training.get("batch_size")),
                _read_size(chunk),
                _read_size(training.get("max_length")),
                str(training.get("precision", "")),
            )
            self._keep_peak(likeness, str(hardware.get("device", "cpu")), peak_mb)

    def observe_memory(
        self, experiment: Experiment, chunk: int | None, device: str, peak_mb: float
    ) -> None:
        """Record the peak memory of a run in training so far, but not less than its evaluation is
        expected to take.
        """
        likeness = _describe_likeness(experiment, chunk)
        if peak_mb <= self._peaks.get((likeness, device), 0.0):
            return

        weights_mb, _ = _estimate_encoder_mb(experiment)
        evaluation_mb = weights_mb + INFERENCE_MB
        if device == "cpu":
            evaluation_mb += PROCESS_MB
        self._keep_peak(likeness, device, max(peak_mb, evaluation_mb))

    def _keep_peak(self, likeness: Likeness, device: str, peak_mb: float) -> None:
        known_mb = self._peaks.get((likeness, device), 0.0)
        self._peaks[likeness, device] = max(known_mb, peak_mb)

    def of(self, experiment: Experiment, chunk: int | None = None) -> Resources:
        likeness = _describe_likeness(experiment, chunk)
        if likeness not in self._expected:
            self._expected[likeness] = estimate_resources(experiment, chunk)
        resources = self._expected[likeness]

        gpu_peak_mb = self._peaks.get((likeness, "cuda"))
        if gpu_peak_mb is not None:
            gpu_memory_mb = round(CONTEXT_MB + MEASURED_MARGIN * gpu_peak_mb)
            resources = replace(resources, gpu_memory_mb=gpu_memory_mb)
        cpu_peak_mb = self._peaks.get((likeness, "cpu"))
        if cpu_peak_mb is not None:
            resources = replace(resources, memory_mb=round(MEASURED_MARGIN * cpu_peak_mb))
        return resources


def _read_size(value: object) -> int:
    """A number of rows in a result; 0 where a result of another version has none."""
    return int(value) if isinstance(value, int | float) else 0


def measure_free_memory() -> float:
    """Memory that new processes can have, in MB: what is available of the machine and of this
    container.
    """
    limits = []
    file = Path("/proc/meminfo")
    if file.is_file():
        fields = dict(line.split(":", 1) for line in file.read_text().splitlines())
        limits.append(int(fields["MemAvailable"].split()[0]) * 1024 / 1e6)
    for group, (limit_file, use_file) in itertools.product(list_memory_groups(), GROUP_FILES):
        with suppress(OSError, ValueError):  # "max" is no limit
            limit = int((group / limit_file).read_text())
            use = int((group / use_file).read_text())
            limits.append((limit - use) / 1e6)

    if limits:
        return min(limits)
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e6


def list_visible_cards() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them.

    CUDA shows a process only the first of several MIG instances, so all named instances are
    returned.
    """
    import torch

    names = [name.strip() for name in os.environ.get(VISIBLE, "").split(",")]
    names = [name for name in names if name]
    if any(name.startswith("MIG-") for name in names):
        return names

    count = torch.cuda.device_count()
    return names[:count] or [str(index) for index in range(count)]


def count_runs_on_card(cards: int, jobs: int) -> int:
    """The most runs on one card at a time."""
    return min(MOST_ON_A_CARD, -(-jobs // cards))


class Seats:
    """The slots of a machine: its cores or, with `cards`, its GPUs.

    Without cards, `jobs` run at a time, each with an equal share of the cores. With cards, each job
    is on the one with the most free memory, several on one where their memory fits; `jobs` is the
    most that use a GPU at a time, None for as many as fit. A job too large for now reserves the
    emptiest GPU, so that smaller jobs cannot starve it. Jobs that need no GPU run beside them.
    `cards` are names in CUDA_VISIBLE_DEVICES, `memory_of` returns the free and the total memory of
    one in MB.
    """

    def __init__(
        self,
        jobs: int | None,
        cards: Sequence[str] = (),
        memory_of: Callable[[str], tuple[float, float]] = lambda card: (0.0, 0.0),
    ) -> None:
        self._cards = cards
        self._memory_of = memory_of
        self._jobs = jobs or MOST_ON_A_CARD * len(cards)
        #: the memory of each card, and what jobs may use of it
        self._total_mb = [memory_of(card)[1] for card in cards]
        self._usable_mb = [USABLE * total_mb for total_mb in self._total_mb]
        #: the seats on each card, with their shares of what may be used
        self._occupied: list[dict[Seat, float]] = [{} for _ in cards]
        #: card -> the job that it is reserved for
        self._reserved: dict[int, str] = {}
        self._cpus = max(1, count_cores() // self._jobs)
        #: the most jobs on one card; a job that never shares its card has no memory limit
        self._most_on_card = 0
        #: seats without a GPU that are free, and the cores of each
        self._free_without_card = self._jobs
        self._cpus_without_card = self._cpus
        if cards:
            self._most_on_card = count_runs_on_card(len(cards), self._jobs)
            self._free_without_card = max(1, count_cores() // PREPARING_CPUS)
            self._cpus_without_card = min(PREPARING_CPUS, count_cores())

    def take(self, job: str, needs: Callable[[], Resources], *, alone: bool = False) -> Seat | None:
        """A seat for a job, by its id, or None where there is no room now; `alone` asks for a whole
        card.
        """
        needed_mb = needs().gpu_memory_mb if self._cards else 0
        if not needed_mb:
            return self._take_cores()
        if sum(map(len, self._occupied)) >= self._jobs:
            return None

        cards = [card for card in range(len(self._cards)) if self._reserved.get(card, job) == job]
        open_cards = [card for card in cards if len(self._occupied[card]) < self._most_on_card]
        free_mb = {card: self._measure_free_mb(card) for card in open_cards or cards}
        if not free_mb:
            return None

        # the one with the most free memory; of several, the first
        card = max(
            free_mb,
            key=lambda card: (self._compute_free_share(card) * self._usable_mb[card], -card),
        )
        share = 1.0 if alone else min(1.0, needed_mb / self._usable_mb[card])
        is_short = bool(self._occupied[card]) and free_mb[card] < needed_mb
        if share > self._compute_free_share(card) or is_short or not open_cards:
            if job not in self._reserved.values():
                self._reserved[card] = job
            return None

        self._reserved = {number: name for number, name in self._reserved.items() if name != job}
        seat = self._make_seat(card, share, alone=alone or self._most_on_card == 1)
        self._occupied[card][seat] = share
        return seat

    def _make_seat(self, card: int, share: float, *, alone: bool) -> Seat:
        """A seat on a card, with a share of the usable memory; one that is alone has no limit."""
        environment = {VISIBLE: self._cards[card]}
        gpu_share = 1.0
        if not alone:
            environment |= SHARED
            if share < 1:
                gpu_share = share * self._usable_mb[card] / self._total_mb[card]
        return Seat("cuda", self._cpus, gpu_share, environment, card)

    def _measure_free_mb(self, card: int) -> float:
        """The memory that is free on a card now; the use by others is measured while none of these
        jobs is on it.
        """
        free_mb, _ = self._memory_of(self._cards[card])
        if not self._occupied[card]:
            self._usable_mb[card] = max(1.0, min(USABLE * self._total_mb[card], free_mb))
        return free_mb

    def free(self, seat: Seat) -> None:
        if seat.card is None:
            self._free_without_card += 1
        else:
            del self._occupied[seat.card][seat]

    def _take_cores(self) -> Seat | None:
        if not self._free_without_card:
            return None
        self._free_without_card -= 1
        return Seat("cpu", self._cpus_without_card, environment=NO_GPU)

    def _compute_free_share(self, card: int) -> float:
        """The free share of a card's usable memory."""
        return 1.0 - sum(self._occupied[card].values())
