"""What runs are expected to take: by encoder and batch, then by what was measured."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from builders import result
from executor_jobs import jobs

from harness.store import Result, Store, index
from harness.work.queue import Queue
from harness.work.resources import (
    CONTEXT_MB,
    INFERENCE_MB,
    MARGIN,
    MEASURED_MARGIN,
    Estimates,
    Resources,
    estimate_model_mb,
    estimate_resources,
)


def test_an_encoder_is_as_large_as_its_configuration_says(tmp_path: Path) -> None:
    # BERT-base has 109.5 million weights, RoBERTa-large 355.4 million
    for name, layers, width, words, millions in (
        ("base", 12, 768, 30_522, 109.5),
        ("large", 24, 1024, 50_265, 355.4),
    ):
        about = {"num_hidden_layers": layers, "hidden_size": width, "vocab_size": words}
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(about))
        assert estimate_model_mb(tmp_path / name)[0] == pytest.approx(4 * millions, rel=0.02)
    assert estimate_model_mb(tmp_path) == estimate_model_mb(tmp_path / "base"), (
        "an unknown encoder counts as BERT-base"
    )


def test_more_rows_take_more_and_an_encoder_that_is_only_evaluated_takes_no_gradients(
    tmp_path: Path,
) -> None:
    (small,) = jobs(tmp_path, "simcse", batch_size=8)
    (large,) = jobs(tmp_path, "simcse", batch_size=800)
    (plain,) = jobs(tmp_path, "none")
    of_small, other, untrained = (
        estimate_resources(job.run.experiment) for job in (small, large, plain)
    )
    weights, token = estimate_model_mb(small.run.experiment.encoder.source.path())
    length = small.run.resolved.training.max_length
    assert other.gpu_memory_mb - of_small.gpu_memory_mb == pytest.approx(
        MARGIN * 792 * 3 * length * token, abs=1
    )
    assert untrained.gpu_memory_mb == round(CONTEXT_MB + MARGIN * (weights + INFERENCE_MB))


def finished(device: str, peak: float, batch: int = 8, seed: int = 0) -> Result:
    training = {"batch_size": batch, "max_length": 32, "precision": "fp32"}
    about = {
        "hyperparameters": {"training": training},
        "hardware": {"device": device},
        "peak_memory_mb": peak,
    }
    return result("simcse", seed).model_copy(update=about)


def test_what_finished_runs_took_is_known_from_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "WORTH_FILES", 1)
    store = Store(tmp_path)
    for seed in range(3):
        store.save(finished("cpu", 4_000.0, seed=seed))
    monkeypatch.setattr(
        time, "time_ns", lambda: 2 * 10**18
    )  # when these files are old enough to be trusted
    assert len(store.frames()) == 3
    reads: list[Path] = []
    monkeypatch.setattr(Store, "read", lambda self, path: reads.append(path))
    (job,) = jobs(tmp_path / "other", "simcse")
    queue = Queue([replace(job, store=store)])
    assert [queue.estimate_resources(each).memory_mb for each in queue.waiting] == [5_000]
    assert not reads


def test_a_batch_in_pieces_takes_the_memory_of_a_piece(tmp_path: Path) -> None:
    (large,) = jobs(tmp_path, "simcse", batch_size=800)
    (small,) = jobs(tmp_path, "simcse", batch_size=8)
    assert replace(large, chunk=8).estimate_resources(Estimates()) == small.estimate_resources(
        Estimates()
    )
    whole, pieces = finished("cuda", 9_000.0, batch=800), finished("cuda", 900.0, batch=800)
    pieces = pieces.model_copy(update={"hardware": {**pieces.hardware, "chunk": 8}})
    known = Estimates([whole, pieces])
    assert large.estimate_resources(known).gpu_memory_mb == round(
        CONTEXT_MB + MEASURED_MARGIN * 9_000
    )
    assert replace(large, chunk=8).estimate_resources(known).gpu_memory_mb == round(
        CONTEXT_MB + MEASURED_MARGIN * 900
    )
    by_one = pieces.model_copy(update={"hardware": {**pieces.hardware, "chunk": 1}})
    assert large.estimate_resources(Estimates([by_one])) == large.estimate_resources(Estimates()), (
        "nothing is known of whole batches"
    )


def test_what_an_untrained_encoder_took_is_known_too(tmp_path: Path) -> None:
    (job,) = jobs(tmp_path, "none")
    measured = result("none", 0).model_copy(
        update={
            "spec": job.run.resolved.spec,
            **{"hyperparameters": {}, "hardware": {"device": "cuda"}, "peak_memory_mb": 700.0},
        }
    )
    assert job.estimate_resources(Estimates([measured])).gpu_memory_mb == round(
        CONTEXT_MB + MEASURED_MARGIN * 700
    )


def test_what_was_measured_counts_by_device_and_the_largest_decides(tmp_path: Path) -> None:
    (job,) = jobs(tmp_path, "simcse")
    training = job.run.resolved.training
    assert (training.batch_size, training.max_length, training.precision) == (8, 32, "fp32")
    weights, _ = estimate_model_mb(job.run.experiment.encoder.source.path())
    table, known = (
        job.estimate_resources(Estimates()),
        Estimates([finished("cuda", 9_000.0, batch=64)]),
    )
    assert job.estimate_resources(known) == table, "of another batch"
    # a run in training says what others take, but not less than their evaluation
    for heard, counts in ((10.0, weights + INFERENCE_MB), (7_000.0, 7_000.0), (6_000.0, 7_000.0)):
        known.observe_memory(job.run.experiment, job.chunk, "cuda", heard)
        assert job.estimate_resources(known) == Resources(
            table.memory_mb, round(CONTEXT_MB + MEASURED_MARGIN * counts)
        )
    for peak, counts in ((8_000.0, 8_000.0), (900.0, 8_000.0)):
        known.learn([finished("cuda", peak)])
        assert job.estimate_resources(known).gpu_memory_mb == round(
            CONTEXT_MB + MEASURED_MARGIN * counts
        )
    known.learn([finished("cpu", 4_000.0)])
    measured = job.estimate_resources(known)
    assert measured.memory_mb == 5_000
