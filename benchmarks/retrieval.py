"""Exact ranks of 25,000 captions among 5,000 images (COCO's test split) and back, beside a full
argsort in NumPy.

Each way runs in a process of its own, so that its peak memory is its own. The argsort goes through
the captions in blocks of 1,000, as one matrix with its order would take 1.5 GB.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from typing import NamedTuple

import click
import numpy as np

from harness.evaluation.retrieval import compute_recalls, score_both_ways
from harness.processors import measure_peak_memory_mb

CAPTIONS = 5
WIDTH = 256
#: noise of a caption around its image that leaves R@1 near a third
NOISE = 5.0


def draw_vectors(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vectors of captions and of images, and the image of each caption."""
    rng = np.random.default_rng(0)
    images = rng.normal(size=(count, WIDTH)).astype(np.float32)
    image_of = np.repeat(np.arange(count), CAPTIONS)
    noise = rng.normal(size=(len(image_of), WIDTH)).astype(np.float32)
    return images[image_of] + NOISE * noise, images, image_of


def score_by_counting(
    texts: np.ndarray, images: np.ndarray, image_of: np.ndarray
) -> dict[str, float]:
    """What the harness makes of it."""
    scores = {}
    for protocol, values in score_both_ways(texts, images, image_of)[1].items():
        for name, value in values.items():
            scores[f"{name} {protocol}"] = value
    return scores


def score_by_argsort(
    texts: np.ndarray, images: np.ndarray, image_of: np.ndarray
) -> dict[str, float]:
    """The protocols `one` and `five`, as `score_by_counting`."""
    texts = texts / np.linalg.norm(texts, axis=1, keepdims=True)
    images = images / np.linalg.norm(images, axis=1, keepdims=True)
    all_images = np.arange(len(images))
    all_texts = np.arange(len(texts))
    first_texts = np.arange(0, len(texts), CAPTIONS)
    scores = {}
    for protocol, rows in (("five", all_texts), ("one", first_texts)):
        ranks_by_way = {
            "t2i": find_ranks(texts[rows], images, image_of[rows], all_images),
            "i2t": find_ranks(images, texts[rows], all_images, image_of[rows]),
        }
        for way, ranks in ranks_by_way.items():
            for name, value in compute_recalls(ranks).items():
                scores[f"{way}_{name} {protocol}"] = value
    return scores


def find_ranks(
    queries: np.ndarray, gallery: np.ndarray, query_of: np.ndarray, gallery_of: np.ndarray
) -> np.ndarray:
    """The rank of the first right row of the gallery for each query."""
    ranks = []
    for start in range(0, len(queries), 1000):
        block = slice(start, start + 1000)
        order = np.argsort(-(queries[block] @ gallery.T), axis=1)
        is_right = gallery_of[order] == query_of[block, None]
        ranks.append(1 + np.argmax(is_right, axis=1))
    return np.concatenate(ranks)


class Measures(NamedTuple):
    """What a way of scoring takes, and the peak of memory in MB before it and after it."""

    scores: dict[str, float]
    seconds: float
    before_mb: float
    peak_mb: float


def measure_way(
    way: Callable[..., dict[str, float]], count: int, measures: multiprocessing.Queue
) -> None:
    """Put the measures of a way on so many images."""
    vectors = draw_vectors(count)
    before_mb = measure_peak_memory_mb("cpu")
    start = time.perf_counter()
    scores = way(*vectors)
    seconds = time.perf_counter() - start
    measures.put(Measures(scores, seconds, before_mb, measure_peak_memory_mb("cpu")))


WAYS = {"counted": score_by_counting, "argsorted": score_by_argsort}


@click.command(help=__doc__)
@click.option("--images", default=5_000, show_default=True)
def main(images: int) -> None:
    # a forked process would begin with the memory of this one
    processes = multiprocessing.get_context("spawn")
    measures = {}
    for name, way in WAYS.items():
        queue = processes.Queue()
        process = processes.Process(target=measure_way, args=(way, images, queue))
        process.start()
        taken = queue.get()
        process.join()
        measures[name] = taken
        print(
            f"{name:9} {taken.seconds:6.2f} s, peak {taken.peak_mb:.0f} MB, "
            f"{taken.before_mb:.0f} MB of it before ranking"
        )

    counted = measures["counted"]
    argsorted = measures["argsorted"]
    furthest = max(abs(counted.scores[name] - score) for name, score in argsorted.scores.items())
    print(
        f"ratio {argsorted.seconds / counted.seconds:.1f}; largest difference of "
        f"{len(argsorted.scores)} scores {furthest:.3f}; "
        f"t2i R@1 {counted.scores['t2i_R@1 five']:.1f}"
    )


if __name__ == "__main__":
    main()
