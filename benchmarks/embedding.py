"""Sentences a second of `Student.embed`, beside the public evaluation's way on the same sentences.

The public way (SentEval forks of SimCSE and MCSE) embeds every side of every pair, repeated
sentences included, in file order, in batches of 128 padded to the longest. The harness embeds each
distinct sentence once, in order of length.

ENCODER is a model folder, FILE a similarity file with the columns sentence1 and sentence2; without
them the toy encoder embeds the toy similarity test.
"""

from __future__ import annotations

import time
from pathlib import Path

import click
import numpy as np
import torch

from harness.encoders.student import Student
from harness.toy import student_folder
from harness.toy.tasks import TOY_STS


def read(path: Path) -> list[str]:
    lines = [
        line.split("\t") for line in path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    ]
    first = lines[0].index("sentence1")
    second = lines[0].index("sentence2")
    return [line[side] for line in lines[1:] for side in (first, second)]


def toy_sentences() -> list[str]:
    subsets = TOY_STS.load(None).values()
    return [side for pairs in subsets for first, second, _ in pairs for side in (first, second)]


@torch.inference_mode()
def public_way(student: Student, sentences: list[str]) -> np.ndarray:
    parts = []
    for start in range(0, len(sentences), 128):
        tokens = student.tokenize(sentences[start : start + 128], 512)
        parts.append(student.pool(tokens).numpy())
    return np.concatenate(parts)


def harness_way(student: Student, sentences: list[str]) -> np.ndarray:
    distinct = list(dict.fromkeys(sentences))
    rows = dict(zip(distinct, student.embed(distinct), strict=True))
    return np.stack([rows[text] for text in sentences])


@click.command(help=__doc__)
@click.argument(
    "encoder", type=click.Path(exists=True, file_okay=False, path_type=Path), required=False
)
@click.argument(
    "file", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=False
)
def main(encoder: Path | None, file: Path | None) -> None:
    student = Student.load(encoder or student_folder()).eval()
    sentences = read(file) if file else toy_sentences()
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
