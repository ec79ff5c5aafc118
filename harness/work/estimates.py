"""Memory needs of runs: a table by encoder and batch size, refined by the peak of similar runs.

Finished runs of the store say so from the beginning, runs in progress from their first report.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from harness.planning.ingredients import Experiment
from harness.runs.environment import Resources
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

#: What decides how much memory a run takes: method, setting, encoder, batch, its rows at a time, length, precision.
Likeness = tuple[str, str, str, int, int, int, str]


def model_mb(folder: Path) -> tuple[float, float]:
    """Megabytes of the float32 weights of an encoder, and of what one token leaves for the backward pass."""
    try:
        about = json.loads((folder / "config.json").read_bytes())
        layers, width, words = (int(about[name]) for name in ("num_hidden_layers", "hidden_size", "vocab_size"))
    except (OSError, ValueError, KeyError, TypeError):
        layers, width, words = BASE
    weights = 4 * (words * width + layers * 12 * width**2) / 1e6
    return weights, layers * width * 80 / 1e6


def expected(experiment: Experiment, chunk: int | None = None) -> Resources:
    """What a run needs by the size of its encoder and its batch, of which `chunk` rows are encoded at a time.

    Training keeps weights, gradients and two moments; a step keeps the activations of its batch.
    """
    run, (weights, token) = experiment.resolved, _model_of(experiment)
    if not run.trains:
        took = weights + INFERENCE_MB
    else:
        batches = [run.training.batch_size, *(steps.batch_size for steps in run.own_steps.values())]
        rows = sum(min(batch, chunk or batch) for batch in batches)
        took = 4 * weights + rows * VIEWS * run.training.max_length * token
    return Resources(memory_mb=round(PROCESS_MB + MARGIN * took), gpu_memory_mb=round(CONTEXT_MB + MARGIN * took))


def _model_of(experiment: Experiment) -> tuple[float, float]:
    source = experiment.encoder.source
    return model_mb(Path() if source.missing(None) else source.path())


def _likeness(experiment: Experiment, chunk: int | None) -> Likeness:
    spec, training = experiment.resolved.spec, experiment.resolved.training
    named = spec.variant.name, str(spec.setting), spec.encoder
    if not experiment.resolved.trains:
        return *named, 0, 0, 0, ""
    return *named, training.batch_size, chunk or 0, training.max_length, training.precision


class Estimates:
    """What runs need, by those that have finished or have reported."""

    def __init__(self, results: Iterable[Result] = ()) -> None:
        self._peaks: dict[tuple[Likeness, str], float] = {}
        self._expected: dict[Likeness, Resources] = {}
        for result in results:
            self.learn(result)

    def learn(self, result: Result) -> None:
        """Remember what a finished run took: of its process on the CPU, of tensors on a GPU."""
        training = result.hyperparameters.get("training", {})
        spec, hardware = result.spec, result.hardware
        values = (training.get("batch_size"), hardware.get("chunk") if training else 0, training.get("max_length"))
        batch, chunk, length = (int(value) if isinstance(value, int | float) else 0 for value in values)
        shape = (spec.method, spec.setting, spec.encoder, batch, chunk, length, str(training.get("precision", "")))
        self._remember(shape, str(hardware.get("device", "cpu")), result.peak_memory_mb)

    def hear(self, experiment: Experiment, chunk: int | None, device: str, peak_mb: float) -> None:
        """Remember what a run in training took so far, but not less than its evaluation is expected to take."""
        shape = _likeness(experiment, chunk)
        if peak_mb > self._peaks.get((shape, device), 0.0):
            least = _model_of(experiment)[0] + INFERENCE_MB + (PROCESS_MB if device == "cpu" else 0)
            self._remember(shape, device, max(peak_mb, least))

    def _remember(self, shape: Likeness, device: str, peak_mb: float) -> None:
        self._peaks[shape, device] = max(self._peaks.get((shape, device), 0.0), peak_mb)

    def of(self, experiment: Experiment, chunk: int | None = None) -> Resources:
        shape = _likeness(experiment, chunk)
        if shape not in self._expected:
            self._expected[shape] = expected(experiment, chunk)
        found = self._expected[shape]
        on_gpu, on_cpu = self._peaks.get((shape, "cuda")), self._peaks.get((shape, "cpu"))
        if on_gpu is not None:
            found = replace(found, gpu_memory_mb=round(CONTEXT_MB + MEASURED_MARGIN * on_gpu))
        if on_cpu is not None:
            found = replace(found, memory_mb=round(MEASURED_MARGIN * on_cpu))
        return found
