"""The checks of `harness doctor --device`: each computation of a run against the CPU, and the speed
of training steps.

On the CPU, the same checks run with fewer methods and a small encoder, and skipped checks are
reported.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Barrier
from types import SimpleNamespace
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from transformers import BertConfig, BertModel

from harness.corpora.tokens import TokenFile, Tokens
from harness.encoders.kernels import trials
from harness.encoders.precision import TYPES, autocast, check_precision, float32_products
from harness.encoders.student import Student
from harness.encoders.teachers import open_teacher
from harness.encoders.trial import TrialFindings
from harness.errors import UserError, first_line
from harness.events import Event, listening
from harness.grid import resolve
from harness.method import Dimensions, method_named
from harness.planning.estimate import training_steps
from harness.planning.experiments import Experiments
from harness.planning.inventory import Inventory
from harness.processors import safe_path
from harness.profiles import Training, load_profile
from harness.registry import OWN, names, target
from harness.runs.environment import Device
from harness.runs.inputs import teacher_folders, training_inputs
from harness.runs.train import make_weights, trainer_of
from harness.spec import OptionValue, RunSpec
from harness.stopping import SIGNALS, Stopped
from harness.store import Store
from harness.toy import clip_folder, student_folder
from harness.toy.corpora import ToyPairs
from harness.training.streams import TrainingData
from harness.training.trainer import Trainer

Precision = Literal["fp32", "tf32", "bf16", "fp16"]
#: results of a computation by name
NamedNumbers = Mapping[str, np.ndarray]
#: largest relative difference from the CPU in float32 without TF32
CLOSE = 1e-2
NOT_CHECKED = "not checked: "
_NEEDS_A_CARD = f"{NOT_CHECKED}needs a GPU"
_SHORT: dict[str, OptionValue] = {"steps": 4, "eval_every": 2, "batch_size": 8, "precision": "fp32"}
#: range from which a row's number of tokens is drawn: a mean of 22, like Wikipedia's sentences
_LENGTHS = (12, 33)
#: seconds that a process waits for the others before the timed steps
_PATIENCE = 120
#: where processes that are timed together meet: each gets it as it starts, since it cannot be sent
#: with a task
_together: Barrier | None = None
#: the runs of `harness run --methods dalr,kdmcse --seeds 5`, and how many of each
_MISSION, _SEEDS = ("dalr", "kdmcse"), 5


class Outcome(NamedTuple):
    """One check with its result; `ok` is false if the device's numbers differ from the CPU's or the
    check fails.
    """

    check: str
    result: str
    ok: bool = True


@dataclass(frozen=True)
class Load:
    """Training steps to time: of BERT-base on a GPU, of a small encoder on the CPU."""

    device: Device
    precision: Precision
    rows: int
    steps: int

    def trainer(self, folder: Path) -> Trainer:
        """A trainer of SimCSE on random tokens."""
        small = {
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 256,
        }
        config = BertConfig(**small if self.device == "cpu" else {})
        found = TrialFindings(rows="packed", direct=True)
        encoder = BertModel(config, add_pooling_layer=False)
        student = Student(encoder, SimpleNamespace(pad_token_id=0), found=found).to(self.device)
        rng = np.random.default_rng(0)
        lengths = rng.integers(*_LENGTHS, 64 * self.rows)
        ids = rng.integers(1000, 30_000, lengths.sum()).astype(np.uint16)
        tokens = Tokens(
            [TokenFile(ids, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))], 0
        )
        method = method_named("simcse")
        built = method(method.configure("paper", {}), Dimensions(student.width)).to(self.device)
        training = Training(precision=self.precision, batch_size=self.rows, steps=10**6)
        data = TrainingData({"sentences": tokens})
        made = Trainer(
            student,
            built,
            data,
            training,
            seed=0,
            setting="x",
            dev=lambda embed: 0.0,
            folder=folder,
        )
        made.student.train()
        made.method.train()
        return made


class Timed(NamedTuple):
    """A step's seconds, operations (6 per layer weight and token) and tokens, and the peak memory
    in GiB.
    """

    seconds: float
    operations: float
    tokens: float
    memory: float


@dataclass
class DeviceCheck:
    """All checks of a device, in order."""

    device: Device
    #: seconds of a step in TF32, by rows and number of processes
    steps: dict[tuple[int, int], float] = field(default_factory=dict)

    @property
    def sections(self) -> Mapping[str, Callable[[], Iterator[Outcome]]]:
        return {
            f"{self.device}: what is there": self.cards,
            "attention against the padded pass, forward and gradient": self.attention,
            f"losses and gradient norms, {'against the CPU' if self.device == 'cuda' else 'twice'}": self.methods,
            "training and teachers": self.training,
            f"steps of {'BERT-base' if self.device == 'cuda' else 'a small encoder'}": self.speed,
        }

    def cards(self) -> Iterator[Outcome]:
        """Report the GPUs with their free memory, the driver, and the processes on the GPUs."""
        if self.device == "cpu":
            yield Outcome("GPU", f"{NOT_CHECKED}--device cuda does")
            return
        for index in range(torch.cuda.device_count()):
            free, total = (size / 2**30 for size in torch.cuda.mem_get_info(index))
            capability = ".".join(map(str, torch.cuda.get_device_capability(index)))
            name = torch.cuda.get_device_name(index)
            yield Outcome(
                f"cuda:{index}",
                f"{name}, capability {capability}, {free:.1f} of {total:.1f} GiB free",
            )
        yield Outcome(
            "CUDA of torch, cuDNN", f"{torch.version.cuda}, {torch.backends.cudnn.version()}"
        )  # type: ignore[no-untyped-call]
        yield Outcome("driver", _smi("--query-gpu=driver_version"))
        yield Outcome(
            "processes", _smi("--query-compute-apps=pid,process_name,used_memory") or "none"
        )

    def attention(self) -> Iterator[Outcome]:
        """Check each attention kernel in each precision, with the heads of BERT-base."""
        for precision in get_args(Precision):
            try:
                check_precision(precision, self.device)
            except UserError as error:
                yield Outcome(precision, f"{NOT_CHECKED}{error}")
                continue
            with float32_products(precision, self.device):
                dtype = TYPES.get(precision, torch.float32)
                for _, name, why in trials(torch.device(self.device), dtype, 12, 64):
                    yield Outcome(f"{precision}, {name}", why or "the same", why is None)

    def methods(self) -> Iterator[Outcome]:
        """Check one training step of every method without dropout; on the CPU, of SimCSE only."""
        trained = [name for name in names("method") if target("method", name).split(".")[0] in OWN]
        trained = [name for name in trained if method_named(name).trains]
        for name in trained if self.device == "cuda" else ("simcse",):
            yield self._beside_the_cpu(name, partial(_one_step, name))
        if self.device == "cpu":
            yield Outcome(f"{len(trained) - 1} other methods", _NEEDS_A_CARD)

    def training(self) -> Iterator[Outcome]:
        """Check a stopped and resumed training against an uninterrupted one, and teacher features
        against the CPU.
        """
        whole, resumed = (
            partial(_curves, self.device, stopped=stopped) for stopped in (False, True)
        )
        yield _compared("a training stopped and resumed, against one that is not", whole, resumed)
        pairs = ToyPairs(size=8).load(None)
        texts, images = list(pairs.texts), pairs.images
        assert images is not None
        images = images[:8]

        def features(kind: str, folder: Path, what: str, device: str) -> NamedNumbers:
            teacher = open_teacher(kind, folder, device=device)
            return {"": teacher.captions(texts) if what == "captions" else teacher.images(images)}

        clip, student = ("open-clip", clip_folder()), ("text", student_folder())
        with float32_products("fp32", self.device):
            for kind, folder, what in (
                (*clip, "captions"),
                (*clip, "pictures"),
                (*student, "captions"),
            ):
                yield self._beside_the_cpu(
                    f"{kind}: features of {what}", partial(features, kind, folder, what)
                )

    def _beside_the_cpu(self, check: str, compute: Callable[[str], NamedNumbers]) -> Outcome:
        return _compared(check, partial(compute, "cpu"), partial(compute, self.device))

    def speed(self) -> Iterator[Outcome]:
        """Time training steps, alone and beside other processes, and estimate the hours of ten
        runs.
        """
        card = self.device == "cuda"
        wanted: tuple[Precision, ...] = ("tf32", "bf16") if card else ("fp32",)
        for precision in wanted:
            try:
                check_precision(precision, self.device)
            except UserError as error:
                yield Outcome(precision, f"{NOT_CHECKED}{error}")
                continue
            rate = product_rate(self.device, precision)
            yield Outcome(f"{precision}: products", f"{rate / 1e9:,.0f} GFLOP/s")
            for processes in (1, 2, 4) if card and precision == "tf32" else (1,):
                for rows in (64, 128) if card else (8,):
                    yield self._timed(
                        Load(self.device, precision, rows, 60 if card else 2), processes, rate
                    )
        yield from self._hours()

    def _timed(self, load: Load, processes: int, rate: float) -> Outcome:
        others = f", {processes} processes" if processes > 1 else ""
        check = f"{load.precision}: {load.rows} rows{others}"
        try:
            timed = together(load, processes)
        except Exception as error:
            return Outcome(check, f"fails: {first_line(error)}", ok=False)
        mean = Timed(*np.mean(timed, axis=0))
        if load.precision == "tf32":
            self.steps[load.rows, processes] = mean.seconds
        memory = f", {mean.memory:.1f} GiB each" if load.device == "cuda" else ""
        each = processes / mean.seconds
        speed = f"{1000 * mean.seconds:.1f} ms a step, {each * mean.tokens:,.0f} tokens/s"
        return Outcome(
            check, f"{speed}, {each * mean.operations / rate:.0%} of the rate of products{memory}"
        )

    def _hours(self) -> Iterator[Outcome]:
        what = f"training steps of `harness run --methods {','.join(_MISSION)} --seeds {_SEEDS}`"
        if not self.steps:
            yield Outcome(what, _NEEDS_A_CARD)
        for processes in sorted({each for _, each in self.steps}):
            seconds = 0.0
            for method in _MISSION:
                spec = RunSpec.parse(f"{method}/wiki+flickr/bert-base-uncased/seed-0")
                run = resolve(load_profile("paper"), spec, {})
                steps = sum(each.count for each in training_steps(run) or ())
                seconds += (
                    _SEEDS
                    * steps
                    * self.steps.get((run.training.batch_size, processes), float("nan"))
                )
            yield Outcome(what, f"{seconds / processes / 3600:.1f} h, {processes} at a time")


def product_rate(device: Device, precision: str) -> float:
    """Operations a second of large matrix products."""
    size = 8192 if device == "cuda" else 512
    square, best = torch.randn(size, size, device=device), float("inf")
    with float32_products(precision, device), autocast(precision, device):
        for _ in range(10):
            _wait(device)
            clock = time.perf_counter()
            square @ square
            _wait(device)
            best = min(best, time.perf_counter() - clock)
    return float(2 * size**3 / best)


def together(load: Load, processes: int) -> list[Timed]:
    """Time the steps of processes that train at the same time; a single one on the CPU runs in this
    process.
    """
    if processes == 1 and load.device == "cpu":
        return [_time(load, None)]
    # forked from one process that has imported torch, which takes longer than the steps
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with safe_path(), context.Pool(processes, _starts, (context.Barrier(processes),)) as pool:
        return pool.map(_time_with_others, [load] * processes, chunksize=1)


def _starts(barrier: Barrier) -> None:
    global _together
    _together = barrier
    # a server that loads batches has blocked them, and the pool ends its processes by one
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    torch.set_num_threads(1)


def _time_with_others(load: Load) -> Timed:
    assert _together is not None
    try:
        return _time(load, _together)
    except BaseException:
        _together.abort()
        raise


def _time(load: Load, barrier: Barrier | None) -> Timed:
    with TemporaryDirectory() as folder:
        trainer = load.trainer(Path(folder))

        def steps(first: int, count: int) -> None:
            with float32_products(load.precision, load.device):
                for number in range(first, first + count):
                    for _, total, _ in trainer.losses(number):
                        assert total is not None
                        trainer.main.step(total, number)
            _wait(load.device)

        steps(0, 5 if load.device == "cuda" else 1)
        if barrier is not None:
            barrier.wait(_PATIENCE)
        clock = time.perf_counter()
        steps(5, load.steps)
        seconds = (time.perf_counter() - clock) / load.steps
    tokens = 2 * load.rows * (_LENGTHS[0] + _LENGTHS[1] - 1) / 2
    layers: torch.nn.Module = trainer.student.model.get_submodule("encoder")
    weights = sum(each.numel() for each in layers.parameters() if each.ndim == 2)
    memory = torch.cuda.max_memory_allocated() / 2**30 if load.device == "cuda" else 0.0
    return Timed(seconds, 6 * weights * tokens, tokens, memory)


def _wait(device: Device) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _toy(method: str, device: str, folder: str) -> Trainer:
    profile = load_profile("tiny")
    run = resolve(profile, RunSpec.parse(f"{method}/toy/toy-bert/seed-0"), _SHORT)
    experiment = Experiments(Inventory(profile, None, {}), _SHORT).of(run)
    store = Store(Path(folder))
    for teacher in experiment.teachers:
        make_weights(teacher, store, device)
    inputs = training_inputs(experiment, device, teacher_folders(experiment, store))
    return trainer_of(experiment, inputs, store.work(experiment.fingerprint))


def _one_step(method: str, device: str) -> NamedNumbers:
    """The loss terms of the first batch of each kind and the norm of their gradient, without
    dropout (it is random).
    """
    outcomes = {}
    with TemporaryDirectory() as folder:
        trainer = _toy(method, device, folder)
        trainer.student.eval()
        trainer.method.eval()
        mixing = trainer.batches.mixing
        kinds = {mixing.step(step)[0]: step for step in reversed(range(mixing.cycle + 1))}
        parameters = [*trainer.student.parameters(), *trainer.method.parameters()]
        for step in kinds.values():
            for stream, total, terms in trainer.losses(step):
                assert total is not None
                with float32_products("fp32", device):
                    norms = torch.autograd.grad(total, parameters, allow_unused=True)
                norm = torch.stack([each.norm() for each in norms if each is not None]).norm()
                for name, value in {**terms, "gradient": norm}.items():
                    outcomes[f"{step} {stream} {name}"] = value.detach().cpu().numpy()
        trainer.batches.close()
    return outcomes


def _curves(device: str, *, stopped: bool) -> NamedNumbers:
    """The loss and dev curves of a training; with `stopped`, it is stopped in the middle and
    resumed.
    """

    def stop(event: Event) -> None:
        if event.progress and event.progress.step >= 2:
            raise Stopped

    with TemporaryDirectory() as folder:
        if stopped:
            with suppress(Stopped), listening("", stop):
                _toy("simcse", device, folder).run()
        trainer = _toy("simcse", device, folder)
        record = trainer.run()
        if stopped and not trainer.first:
            raise RuntimeError("it started again")
    return {"loss": np.array(record.losses["text"], np.float32), "dev": np.array(record.dev_scores)}


def _compared(
    check: str, expected: Callable[[], NamedNumbers], compute: Callable[[], NamedNumbers]
) -> Outcome:
    """Compare the named numbers of two computations; an error in either becomes the result."""
    try:
        wanted, computed = expected(), compute()
    except Exception as error:
        return Outcome(check, f"fails: {first_line(error)}", ok=False)
    far = 0.0
    for name, value in wanted.items():
        most = float(np.abs(value).max()) or 1.0
        far = max(
            far, float(np.nan_to_num(np.abs(computed[name] - value), nan=np.inf).max()) / most
        )
    return Outcome(check, f"differs by {far:.1e} at most", far <= CLOSE)


def _smi(query: str) -> str:
    """The output of nvidia-smi for a query, in one line."""
    try:
        asked = subprocess.run(
            ["nvidia-smi", query, "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"{NOT_CHECKED}nvidia-smi: {first_line(error)}"
    return "; ".join(sorted(set(asked.stdout.strip().splitlines())))
