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

from harness.encoders.kernels import try_attentions
from harness.encoders.precision import TYPES, check_precision, set_float32_products
from harness.encoders.teachers import open_teacher
from harness.errors import UserError, first_line
from harness.events import Event, listen_in
from harness.grid import resolve
from harness.method import method_named
from harness.planning.experiments import Experiments
from harness.planning.inventory import Inventory
from harness.profiles import load_profile
from harness.registry import OWN, find_target, list_registered
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
        method_reference = "against the CPU" if self.device == "cuda" else "twice"
        return {
            f"{self.device}: what is there": self.check_cards,
            "attention against the padded pass, forward and gradient": self.check_attention,
            f"losses and gradient norms, {method_reference}": self.check_methods,
            "training and teachers": self.check_training,
        }

    def check_cards(self) -> Iterator[Outcome]:
        """Report the GPUs with their free memory, the driver, and the processes on the GPUs."""
        if self.device == "cpu":
            yield Outcome("GPU", f"{NOT_CHECKED}--device cuda does")
            return

        for index in range(torch.cuda.device_count()):
            free, total = torch.cuda.mem_get_info(index)
            capability = ".".join(map(str, torch.cuda.get_device_capability(index)))
            name = torch.cuda.get_device_name(index)
            memory = f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB free"
            yield Outcome(f"cuda:{index}", f"{name}, capability {capability}, {memory}")

        cudnn = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
        yield Outcome("CUDA of torch, cuDNN", f"{torch.version.cuda}, {cudnn}")
        yield Outcome("driver", _ask_nvidia_smi("--query-gpu=driver_version"))
        processes = _ask_nvidia_smi("--query-compute-apps=pid,process_name,used_memory")
        yield Outcome("processes", processes or "none")

    def check_attention(self) -> Iterator[Outcome]:
        """Check each attention kernel in each precision, with the heads of BERT-base."""
        for precision in get_args(Precision):
            try:
                check_precision(precision, self.device)
            except UserError as error:
                yield Outcome(precision, f"{NOT_CHECKED}{error}")
                continue
            with set_float32_products(precision, self.device):
                dtype = TYPES.get(precision, torch.float32)
                for _, name, reason in try_attentions(torch.device(self.device), dtype, 12, 64):
                    yield Outcome(f"{precision}, {name}", reason or "the same", reason is None)

    def check_methods(self) -> Iterator[Outcome]:
        """Check one training step of every method without dropout; on the CPU, of SimCSE only."""
        own_methods = []
        for name in list_registered("method"):
            module = find_target("method", name).split(".")[0]
            if module in OWN and method_named(name).trains:
                own_methods.append(name)

        for name in own_methods if self.device == "cuda" else ("simcse",):
            yield self._compare_with_cpu(name, partial(_compute_step, name))
        if self.device == "cpu":
            yield Outcome(f"{len(own_methods) - 1} other methods", _NEEDS_A_CARD)

    def check_training(self) -> Iterator[Outcome]:
        """Check a stopped and resumed training against an uninterrupted one, and teacher features
        against the CPU.
        """
        yield _compare(
            "a training stopped and resumed, against one that is not",
            partial(_train_toy, self.device, stopped=False),
            partial(_train_toy, self.device, stopped=True),
        )

        pairs = ToyPairs(size=8).load(None)
        assert pairs.images is not None
        captions = list(pairs.texts)
        images = pairs.images[:8]

        def embed_captions(kind: str, folder: Path, device: str) -> NamedNumbers:
            return {"": open_teacher(kind, folder, device=device).captions(captions)}

        def embed_images(kind: str, folder: Path, device: str) -> NamedNumbers:
            return {"": open_teacher(kind, folder, device=device).images(images)}

        clip = ("open-clip", clip_folder())
        student = ("text", student_folder())
        with set_float32_products("fp32", self.device):
            for check, compute in (
                ("open-clip: features of captions", partial(embed_captions, *clip)),
                ("open-clip: features of pictures", partial(embed_images, *clip)),
                ("text: features of captions", partial(embed_captions, *student)),
            ):
                yield self._compare_with_cpu(check, compute)

    def _compare_with_cpu(self, check: str, compute: Callable[[str], NamedNumbers]) -> Outcome:
        return _compare(check, partial(compute, "cpu"), partial(compute, self.device))


def _make_toy_trainer(method: str, device: str, folder: str) -> Trainer:
    profile = load_profile("tiny")
    run = resolve(profile, RunSpec.parse(f"{method}/toy/toy-bert/seed-0"), _SHORT)
    experiment = Experiments(Inventory(profile, None, {}), _SHORT).find(run)
    store = Store(Path(folder))
    for teacher in experiment.teachers:
        make_weights(teacher, store, device)
    inputs = load_training_inputs(experiment, device, find_teacher_folders(experiment, store))
    return make_trainer(experiment, inputs, store.work(experiment.fingerprint))


def _compute_step(method: str, device: str) -> NamedNumbers:
    """The loss terms of the first batch of each kind and the norm of their gradient, without
    dropout (it is random).
    """
    numbers = {}
    with TemporaryDirectory() as folder:
        trainer = _make_toy_trainer(method, device, folder)
        trainer.student.eval()
        trainer.method.eval()
        parameters = [*trainer.student.parameters(), *trainer.method.parameters()]

        mixing = trainer.batches.mixing
        first_steps = {}
        for step in reversed(range(mixing.cycle + 1)):
            kind, *_ = mixing.step(step)
            first_steps[kind] = step
        for step in first_steps.values():
            for stream, total, terms in trainer.compute_losses(step):
                assert total is not None
                with set_float32_products("fp32", device):
                    gradients = torch.autograd.grad(total, parameters, allow_unused=True)
                norms = [gradient.norm() for gradient in gradients if gradient is not None]
                norm = torch.stack(norms).norm()
                for name, value in {**terms, "gradient": norm}.items():
                    numbers[f"{step} {stream} {name}"] = value.detach().cpu().numpy()

        trainer.batches.close()

    return numbers


def _train_toy(device: str, *, stopped: bool) -> NamedNumbers:
    """The loss and dev curves of a training; with `stopped`, it is stopped in the middle and
    resumed.
    """

    def stop(event: Event) -> None:
        if event.progress and event.progress.step >= 2:
            raise Stopped

    with TemporaryDirectory() as folder:
        if stopped:
            with suppress(Stopped), listen_in("", stop):
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
        expected_numbers = expected()
        numbers = compute()
    except Exception as error:
        return Outcome(check, f"fails: {first_line(error)}", ok=False)

    largest = 0.0
    for name, value in expected_numbers.items():
        scale = float(np.abs(value).max()) or 1.0
        difference = np.nan_to_num(np.abs(numbers[name] - value), nan=np.inf)
        largest = max(largest, float(difference.max()) / scale)
    return Outcome(check, f"differs by {largest:.1e} at most", largest <= CLOSE)


def _ask_nvidia_smi(query: str) -> str:
    """The output of nvidia-smi for a query, in one line."""
    command = ["nvidia-smi", query, "--format=csv,noheader"]
    try:
        output = subprocess.check_output(command, stderr=subprocess.PIPE, text=True, timeout=30)
    except (OSError, subprocess.SubprocessError) as error:
        return f"{NOT_CHECKED}nvidia-smi: {first_line(error)}"
    return "; ".join(sorted(set(output.strip().splitlines())))
