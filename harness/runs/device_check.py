"""The checks of `harness doctor --device`: each computation of a run against the CPU.

On the CPU, the same checks run with fewer methods and a small encoder, and skipped checks are
reported.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch

from harness.encoders.kernels import trials
from harness.encoders.precision import TYPES, check_precision, float32_products
from harness.encoders.teachers import open_teacher
from harness.errors import UserError, first_line
from harness.events import Event, listening
from harness.grid import resolve
from harness.method import method_named
from harness.planning.experiments import Experiments
from harness.planning.inventory import Inventory
from harness.profiles import load_profile
from harness.registry import OWN, names, target
from harness.runs.execution import Device
from harness.runs.inputs import find_teacher_folders, load_training_inputs
from harness.runs.train import make_trainer, make_weights
from harness.spec import OptionValue, RunSpec
from harness.stopping import Stopped
from harness.store import Store
from harness.toy import clip_folder, student_folder
from harness.toy.corpora import ToyPairs
from harness.training.trainer import Trainer

Precision = Literal["fp32", "tf32", "bf16", "fp16"]
#: results of a computation by name
NamedNumbers = Mapping[str, np.ndarray]
#: largest relative difference from the CPU in float32 without TF32
CLOSE = 1e-2
NOT_CHECKED = "not checked: "
_NEEDS_A_CARD = f"{NOT_CHECKED}needs a GPU"
_SHORT: dict[str, OptionValue] = {"steps": 4, "eval_every": 2, "batch_size": 8, "precision": "fp32"}


class Outcome(NamedTuple):
    """One check with its result; `ok` is false if the device's numbers differ from the CPU's or the
    check fails.
    """

    check: str
    result: str
    ok: bool = True


@dataclass
class DeviceCheck:
    """All checks of a device, in order."""

    device: Device

    @property
    def sections(self) -> Mapping[str, Callable[[], Iterator[Outcome]]]:
        return {
            f"{self.device}: what is there": self.check_cards,
            "attention against the padded pass, forward and gradient": self.check_attention,
            f"losses and gradient norms, {'against the CPU' if self.device == 'cuda' else 'twice'}": self.check_methods,
            "training and teachers": self.training,
        }

    def check_cards(self) -> Iterator[Outcome]:
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
        cudnn = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
        yield Outcome("CUDA of torch, cuDNN", f"{torch.version.cuda}, {cudnn}")
        yield Outcome("driver", _ask_nvidia_smi("--query-gpu=driver_version"))
        yield Outcome(
            "processes",
            _ask_nvidia_smi("--query-compute-apps=pid,process_name,used_memory") or "none",
        )

    def check_attention(self) -> Iterator[Outcome]:
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

    def check_methods(self) -> Iterator[Outcome]:
        """Check one training step of every method without dropout; on the CPU, of SimCSE only."""
        trained = [name for name in names("method") if target("method", name).split(".")[0] in OWN]
        trained = [name for name in trained if method_named(name).trains]
        for name in trained if self.device == "cuda" else ("simcse",):
            yield self._compare_with_cpu(name, partial(_compute_step, name))
        if self.device == "cpu":
            yield Outcome(f"{len(trained) - 1} other methods", _NEEDS_A_CARD)

    def training(self) -> Iterator[Outcome]:
        """Check a stopped and resumed training against an uninterrupted one, and teacher features
        against the CPU.
        """
        whole, resumed = (
            partial(_train_toy, self.device, stopped=stopped) for stopped in (False, True)
        )
        yield _compare("a training stopped and resumed, against one that is not", whole, resumed)
        pairs = ToyPairs(size=8).load(None)
        texts = list(pairs.texts)
        images = pairs.images
        assert images is not None
        images = images[:8]

        def features(kind: str, folder: Path, what: str, device: str) -> NamedNumbers:
            teacher = open_teacher(kind, folder, device=device)
            return {"": teacher.captions(texts) if what == "captions" else teacher.images(images)}

        clip = ("open-clip", clip_folder())
        student = ("text", student_folder())
        with float32_products("fp32", self.device):
            for kind, folder, what in (
                (*clip, "captions"),
                (*clip, "pictures"),
                (*student, "captions"),
            ):
                yield self._compare_with_cpu(
                    f"{kind}: features of {what}", partial(features, kind, folder, what)
                )

    def _compare_with_cpu(self, check: str, compute: Callable[[str], NamedNumbers]) -> Outcome:
        return _compare(check, partial(compute, "cpu"), partial(compute, self.device))


def _make_toy_trainer(method: str, device: str, folder: str) -> Trainer:
    profile = load_profile("tiny")
    run = resolve(profile, RunSpec.parse(f"{method}/toy/toy-bert/seed-0"), _SHORT)
    experiment = Experiments(Inventory(profile, None, {}), _SHORT).of(run)
    store = Store(Path(folder))
    for teacher in experiment.teachers:
        make_weights(teacher, store, device)
    inputs = load_training_inputs(experiment, device, find_teacher_folders(experiment, store))
    return make_trainer(experiment, inputs, store.work(experiment.fingerprint))


def _compute_step(method: str, device: str) -> NamedNumbers:
    """The loss terms of the first batch of each kind and the norm of their gradient, without
    dropout (it is random).
    """
    outcomes = {}
    with TemporaryDirectory() as folder:
        trainer = _make_toy_trainer(method, device, folder)
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


def _train_toy(device: str, *, stopped: bool) -> NamedNumbers:
    """The loss and dev curves of a training; with `stopped`, it is stopped in the middle and
    resumed.
    """

    def stop(event: Event) -> None:
        if event.progress and event.progress.step >= 2:
            raise Stopped

    with TemporaryDirectory() as folder:
        if stopped:
            with suppress(Stopped), listening("", stop):
                _make_toy_trainer("simcse", device, folder).run()
        trainer = _make_toy_trainer("simcse", device, folder)
        record = trainer.run()
        if stopped and not trainer.first:
            raise RuntimeError("it started again")
    return {"loss": np.array(record.losses["text"], np.float32), "dev": np.array(record.dev_scores)}


def _compare(
    check: str, expected: Callable[[], NamedNumbers], compute: Callable[[], NamedNumbers]
) -> Outcome:
    """Compare the named numbers of two computations; an error in either becomes the result."""
    try:
        wanted = expected()
        computed = compute()
    except Exception as error:
        return Outcome(check, f"fails: {first_line(error)}", ok=False)
    far = 0.0
    for name, value in wanted.items():
        most = float(np.abs(value).max()) or 1.0
        far = max(
            far, float(np.nan_to_num(np.abs(computed[name] - value), nan=np.inf).max()) / most
        )
    return Outcome(check, f"differs by {far:.1e} at most", far <= CLOSE)


def _ask_nvidia_smi(query: str) -> str:
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
