"""Sentences a second of `Student.embed`, beside the public evaluation's way on the same sentences.

The public way (SentEval forks of SimCSE and MCSE) embeds every side of every pair, repeated sentences
included, in file order, in batches of 128 padded to the longest. The harness embeds each distinct
sentence once, in order of length.

    python benchmarks/embedding.py [FOLDER_OF_AN_ENCODER FILE.tsv]

FILE.tsv is a similarity file with columns sentence1 and sentence2; without arguments the toy encoder
embeds the toy similarity test.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import torch

from harness.encoders.student import Student
from harness.toy import student_folder
from harness.toy.tasks import TOY_STS


def read(path: Path) -> list[str]:
    lines = [line.split("\t") for line in path.read_text(encoding="utf-8").removesuffix("\n").split("\n")]
    first, second = lines[0].index("sentence1"), lines[0].index("sentence2")
    return [line[side] for line in lines[1:] for side in (first, second)]


def toy_sentences() -> list[str]:
    subsets = TOY_STS.load(None).values()
    return [side for pairs in subsets for first, second, _ in pairs for side in (first, second)]


@torch.inference_mode()
def public_way(student: Student, sentences: list[str]) -> np.ndarray:
    parts = []
    for start in range(0, len(sentences), 128):
        tokens = student.tokenize(sentences[start : start + 128], 512)
        parts.append(student.pooled(tokens).numpy())
    return np.concatenate(parts)


def harness_way(student: Student, sentences: list[str]) -> np.ndarray:
    distinct = list(dict.fromkeys(sentences))
    rows = dict(zip(distinct, student.embed(distinct), strict=True))
    return np.stack([rows[text] for text in sentences])


def main() -> None:
    given = sys.argv[1:]
    student = Student.load(Path(given[0]) if given else student_folder()).eval()
    sentences = read(Path(given[1])) if given else toy_sentences()
    seconds = {}
    vectors = {}
    for name, way in (("public", public_way), ("harness", harness_way)):
        way(student, sentences[:256])
        clock = time.perf_counter()
        vectors[name] = way(student, sentences)
        seconds[name] = time.perf_counter() - clock
        print(f"{name:8} {seconds[name]:.2f} s, {len(sentences) / seconds[name]:.0f} sentences/s")
    print(
        f"ratio {seconds['public'] / seconds['harness']:.2f}, "
        f"largest difference {np.abs(vectors['public'] - vectors['harness']).max():.1e}"
    )


if __name__ == "__main__":
    main()
