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
from harness.processors import cores, memory_groups
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
        about = json.loads((folder / "config.json").read_bytes())
        layers, width, words = (
            int(about[name]) for name in ("num_hidden_layers", "hidden_size", "vocab_size")
        )
    except (OSError, ValueError, KeyError, TypeError):
        layers, width, words = BASE
    weights = 4 * (words * width + layers * 12 * width**2) / 1e6
    return weights, layers * width * 80 / 1e6


def estimate_resources(experiment: Experiment, chunk: int | None = None) -> Resources:
    """A run's needs, estimated from its encoder and its batch, of which `chunk` rows are encoded at
    a time.

    Training keeps weights, gradients and two moments; a step keeps the activations of its batch.
    """
    run = experiment.resolved
    weights, token = _estimate_encoder_mb(experiment)
    if not run.trains:
        took = weights + INFERENCE_MB
    else:
        batches = [run.training.batch_size, *(steps.batch_size for steps in run.own_steps.values())]
        rows = sum(min(batch, chunk or batch) for batch in batches)
        took = 4 * weights + rows * VIEWS * run.training.max_length * token
    return Resources(
        memory_mb=round(PROCESS_MB + MARGIN * took), gpu_memory_mb=round(CONTEXT_MB + MARGIN * took)
    )


def _estimate_encoder_mb(experiment: Experiment) -> tuple[float, float]:
    source = experiment.encoder.source
    return estimate_model_mb(Path() if source.missing(None) else source.path())


def _describe_likeness(experiment: Experiment, chunk: int | None) -> Likeness:
    spec = experiment.resolved.spec
    training = experiment.resolved.training
    named = spec.variant.name, str(spec.setting), spec.encoder
    if not experiment.resolved.trains:
        return *named, 0, 0, 0, ""
    return *named, training.batch_size, chunk or 0, training.max_length, training.precision


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
        names = zip(*map(frames.texts, ("method", "setting", "encoder")), strict=True)
        values = (
            map(cache(json.loads), frames.texts(name)) for name in ("hyperparameters", "hardware")
        )
        peaks = frames.table["peak_memory_mb"].to_pylist()
        for named, hyperparameters, hardware, peak_mb in zip(names, *values, peaks, strict=True):
            training = hyperparameters.get("training", {})
            numbers = (
                training.get("batch_size"),
                hardware.get("chunk") if training else 0,
                training.get("max_length"),
            )
            batch, chunk, length = (
                int(value) if isinstance(value, int | float) else 0 for value in numbers
            )
            shape = (*named, batch, chunk, length, str(training.get("precision", "")))
            self._keep_peak(shape, str(hardware.get("device", "cpu")), peak_mb)

    def observe_memory(
        self, experiment: Experiment, chunk: int | None, device: str, peak_mb: float
    ) -> None:
        """Record the peak memory of a run in training so far, but not less than its evaluation is
        expected to take.
        """
        shape = _describe_likeness(experiment, chunk)
        if peak_mb > self._peaks.get((shape, device), 0.0):
            least = (
                _estimate_encoder_mb(experiment)[0]
                + INFERENCE_MB
                + (PROCESS_MB if device == "cpu" else 0)
            )
            self._keep_peak(shape, device, max(peak_mb, least))

    def _keep_peak(self, shape: Likeness, device: str, peak_mb: float) -> None:
        self._peaks[shape, device] = max(self._peaks.get((shape, device), 0.0), peak_mb)

    def of(self, experiment: Experiment, chunk: int | None = None) -> Resources:
        shape = _describe_likeness(experiment, chunk)
        if shape not in self._expected:
            self._expected[shape] = estimate_resources(experiment, chunk)
        resources = self._expected[shape]
        on_gpu = self._peaks.get((shape, "cuda"))
        on_cpu = self._peaks.get((shape, "cpu"))
        if on_gpu is not None:
            resources = replace(
                resources, gpu_memory_mb=round(CONTEXT_MB + MEASURED_MARGIN * on_gpu)
            )
        if on_cpu is not None:
            resources = replace(resources, memory_mb=round(MEASURED_MARGIN * on_cpu))
        return resources


def measure_free_memory() -> float:
    """Memory that new processes can have, in MB: what is available of the machine and of this
    container.
    """
    limits = []
    about = Path("/proc/meminfo")
    if about.is_file():
        fields = dict(line.split(":", 1) for line in about.read_text().splitlines())
        limits.append(int(fields["MemAvailable"].split()[0]) * 1024 / 1e6)
    for group, (limit, used) in itertools.product(memory_groups(), GROUP_FILES):
        with suppress(OSError, ValueError):  # "max" is no limit
            limits.append(
                (int((group / limit).read_text()) - int((group / used).read_text())) / 1e6
            )
    return min(limits, default=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e6)


def list_visible_cards() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them.

    CUDA shows a process only the first of several MIG instances, so all named instances are
    returned.
    """
    import torch

    names = [name.strip() for name in os.environ.get(VISIBLE, "").split(",") if name.strip()]
    if not any(name.startswith("MIG-") for name in names):
        count = torch.cuda.device_count()
        names = names[:count] or [str(index) for index in range(count)]
    return names


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
        self._cards, self._memory_of, self._jobs = (
            cards,
            memory_of,
            jobs or MOST_ON_A_CARD * len(cards),
        )
        self._memory = [memory_of(card)[1] for card in cards]
        #: the most jobs on one card; a job that never shares its card has no memory limit
        self._each = count_runs_on_card(len(cards), self._jobs) if cards else 0
        #: for each card, the memory that others do not use, and its seats with their shares of that
        #: memory
        self._usable = [USABLE * memory for memory in self._memory]
        self._taken: list[dict[Seat, float]] = [{} for _ in cards]
        #: card -> the job that it is reserved for
        self._reserved: dict[int, str] = {}
        self._cpus = max(1, cores() // self._jobs)
        #: seats without a GPU that are free, and the cores of each
        self._without = max(1, cores() // PREPARING_CPUS) if cards else self._jobs
        self._cpus_without = min(PREPARING_CPUS, cores()) if cards else self._cpus

    def take(self, job: str, needs: Callable[[], Resources], *, alone: bool = False) -> Seat | None:
        """A seat for a job, by its id, or None where there is no room now; `alone` asks for a whole
        card.
        """
        if not self._cards or not (asked := needs()).gpu_memory_mb:
            return self._take_cores()
        if sum(map(len, self._taken)) >= self._jobs:
            return None
        numbers = [
            number for number in range(len(self._cards)) if self._reserved.get(number, job) == job
        ]
        open_ = [number for number in numbers if len(self._taken[number]) < self._each]
        free = {number: self._look_at_card(number) for number in open_ or numbers}
        if not free:
            return None
        card = max(
            free,
            key=lambda number: (self._measure_free_share(number) * self._usable[number], -number),
        )
        share = 1.0 if alone else min(1.0, asked.gpu_memory_mb / self._usable[card])
        short = bool(self._taken[card]) and free[card] < asked.gpu_memory_mb
        if share > self._measure_free_share(card) or short or not open_:
            if job not in self._reserved.values():
                self._reserved[card] = job
            return None
        self._reserved = {number: name for number, name in self._reserved.items() if name != job}
        lone = alone or self._each == 1
        given = 1.0 if lone else share * self._usable[card] / self._memory[card]
        environment = {VISIBLE: self._cards[card], **({} if lone else SHARED)}
        seat = Seat("cuda", self._cpus, 1.0 if share == 1 else given, environment, card)
        self._taken[card][seat] = share
        return seat

    def _look_at_card(self, number: int) -> float:
        """The memory that is free on a card now; the use by others is measured while none of these
        jobs is on it.
        """
        free = self._memory_of(self._cards[number])[0]
        if not self._taken[number]:
            self._usable[number] = max(1.0, min(USABLE * self._memory[number], free))
        return free

    def free(self, seat: Seat) -> None:
        if seat.card is None:
            self._without += 1
        else:
            del self._taken[seat.card][seat]

    def _take_cores(self) -> Seat | None:
        if not self._without:
            return None
        self._without -= 1
        return Seat("cpu", self._cpus_without, environment=NO_GPU)

    def _measure_free_share(self, card: int) -> float:
        """The free share of a card's usable memory."""
        return 1.0 - sum(self._taken[card].values())
