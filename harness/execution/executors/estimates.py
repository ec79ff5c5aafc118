"""How much memory runs take: a table by size of encoder and batch, refined by what finished runs of the store took."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from harness.execution.ingredients import Experiment
from harness.execution.resources import Resources
from harness.store import Result

#: What a process takes beside tensors: torch and its libraries, in memory; the CUDA context, on the GPU (MB).
PROCESS_MB, CONTEXT_MB = 1_500, 600
#: A frozen teacher at work, and what an encoder takes beside its weights that is only evaluated (MB).
TEACHER_MB, INFERENCE_MB = 6_000, 3_000
#: Factors on expectations and on measurements, for fragmentation and longer batches.
MARGIN, MEASURED_MARGIN = 1.3, 1.25
#: BERT-base, for encoders whose configuration is not there: layers, width, vocabulary.
BASE = (12, 768, 30_522)
#: Views of a sentence that a training step encodes: two, three of triplets.
VIEWS = 3

#: What decides how much memory a run takes: method, setting, encoder, batch, length, precision.
Likeness = tuple[str, str, str, int, int, str]


def model_mb(folder: Path) -> tuple[float, float]:
    """Megabytes of the float32 weights of an encoder, and of what one token leaves for the backward pass."""
    layers, width, words = _size(folder)
    weights = 4 * (words * width + layers * 12 * width**2) / 1e6
    return weights, layers * width * 80 / 1e6


def _size(folder: Path) -> tuple[int, int, int]:
    try:
        about = json.loads((folder / "config.json").read_bytes())
        return int(about["num_hidden_layers"]), int(about["hidden_size"]), int(about["vocab_size"])
    except (OSError, ValueError, KeyError, TypeError):
        return BASE


def expected(experiment: Experiment) -> Resources:
    """What a run needs by the size of its encoder and its batch.

    Training keeps weights, gradients and two moments; a step keeps the activations of its batch.
    """
    run, source = experiment.resolved, experiment.ingredients.encoder.source
    weights, token = model_mb(source.path()) if not source.missing(None) else model_mb(Path())
    if not run.method.trains:
        took = weights + INFERENCE_MB
    else:
        rows = run.training.batch_size + sum(steps.batch_size for steps in run.own_steps.values())
        took = 4 * weights + rows * VIEWS * run.training.max_length * token
    return Resources(memory_mb=round(PROCESS_MB + MARGIN * took), gpu_memory_mb=round(CONTEXT_MB + MARGIN * took))


class Estimates:
    """What runs need, by those that have finished."""

    def __init__(self, results: Iterable[Result] = ()) -> None:
        self._peaks: dict[tuple[Likeness, str], float] = {}
        self._expected: dict[Likeness, Resources] = {}
        for result in results:
            self.learn(result)

    def learn(self, result: Result) -> None:
        """Remember what a finished run took: of its process on the CPU, of tensors on a GPU."""
        training = result.hyperparameters.get("training", {})
        spec, values = result.spec, [training.get(name, 0) for name in ("batch_size", "max_length")]
        batch, length = (int(value) if isinstance(value, int | float) else 0 for value in values)
        shape = (spec.method, spec.setting, spec.encoder, batch, length, str(training.get("precision", "")))
        key = (shape, str(result.hardware.get("device", "cpu")))
        self._peaks[key] = max(self._peaks.get(key, 0.0), result.peak_memory_mb)

    def of(self, experiment: Experiment) -> Resources:
        """What a run needs."""
        run = experiment.resolved
        trains, training = run.method.trains, run.training
        numbers = (training.batch_size, training.max_length, training.precision) if trains else (0, 0, "")
        shape = (run.spec.variant.name, str(run.spec.setting), run.spec.encoder, *numbers)
        if shape not in self._expected:
            self._expected[shape] = expected(experiment)
        found = self._expected[shape]
        on_gpu, on_cpu = self._peaks.get((shape, "cuda")), self._peaks.get((shape, "cpu"))
        if on_gpu is not None:
            found = replace(found, gpu_memory_mb=round(CONTEXT_MB + MEASURED_MARGIN * on_gpu))
        if on_cpu is not None:
            found = replace(found, memory_mb=round(MEASURED_MARGIN * on_cpu))
        return found
