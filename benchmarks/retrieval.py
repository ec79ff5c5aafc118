"""Exact ranks of 25,000 captions among 5,000 images (COCO's test split) and back, beside a full
argsort in NumPy.

Each way runs in a process of its own, so that its peak memory is its own. The argsort goes through
the captions in blocks of 1,000, as one matrix with its order would take 1.5 GB.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable

import click
import numpy as np

from harness.evaluation.retrieval import compute_recalls, score_both_ways

CAPTIONS = 5
WIDTH = 256
#: noise of a caption around its image that leaves R@1 near a third
NOISE = 5.0


def vectors(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    images = rng.normal(size=(count, WIDTH)).astype(np.float32)
    image_of = np.repeat(np.arange(count), CAPTIONS)
    noise = rng.normal(size=(len(image_of), WIDTH)).astype(np.float32)
    return images[image_of] + NOISE * noise, images, image_of


def counted(texts: np.ndarray, images: np.ndarray, image_of: np.ndarray) -> dict[str, float]:
    parts = score_both_ways(texts, images, image_of)[1]
    return {
        f"{name} {part}": value for part, values in parts.items() for name, value in values.items()
    }


def argsorted(texts: np.ndarray, images: np.ndarray, image_of: np.ndarray) -> dict[str, float]:
    """The protocols `one` and `five`, as `counted`."""
    texts = texts / np.linalg.norm(texts, axis=1, keepdims=True)
    images = images / np.linalg.norm(images, axis=1, keepdims=True)
    first = np.arange(0, len(texts), CAPTIONS)
    scores = {}
    for protocol, rows in (("five", np.arange(len(texts))), ("one", first)):
        every = np.arange(len(images))
        found = {
            "t2i": sorted_ranks(texts[rows], images, image_of[rows], every),
            "i2t": sorted_ranks(images, texts[rows], every, image_of[rows]),
        }
        for way, ranks in found.items():
            scores |= {
                f"{way}_{name} {protocol}": value for name, value in compute_recalls(ranks).items()
            }
    return scores


def sorted_ranks(
    queries: np.ndarray, gallery: np.ndarray, query_of: np.ndarray, gallery_of: np.ndarray
) -> np.ndarray:
    found = []
    for top in range(0, len(queries), 1000):
        order = np.argsort(-(queries[top : top + 1000] @ gallery.T), axis=1)
        found.append(1 + np.argmax(gallery_of[order] == query_of[top : top + 1000, None], axis=1))
    return np.concatenate(found)


def measured(
    way: Callable[..., dict[str, float]], count: int, results: multiprocessing.Queue
) -> None:
    given = vectors(count)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    clock = time.perf_counter()
    scores = way(*given)
    seconds = time.perf_counter() - clock
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    results.put((scores, seconds, before / 1024, after / 1024))


@click.command(help=__doc__)
@click.option("--images", default=5_000, show_default=True)
def main(images: int) -> None:
    processes = multiprocessing.get_context("spawn")
    scores = {}
    seconds = {}
    for way in (counted, argsorted):
        results = processes.Queue()
        process = processes.Process(target=measured, args=(way, images, results))
        process.start()
        scores[way], seconds[way], before, after = results.get()
        process.join()
        print(
            f"{way.__name__:9} {seconds[way]:6.2f} s, peak {after:.0f} MB, {before:.0f} MB of it before ranking"
        )
    shared = sorted(scores[argsorted])
    furthest = max(abs(scores[counted][name] - scores[argsorted][name]) for name in shared)
    print(
        f"ratio {seconds[argsorted] / seconds[counted]:.1f}; largest difference of {len(shared)} scores "
        f"{furthest:.3f}; t2i R@1 {scores[counted]['t2i_R@1 five']:.1f}"
    )


if __name__ == "__main__":
    main()
