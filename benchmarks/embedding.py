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
from harness.evaluation.suites import list_sentences
from harness.toy import student_folder
from harness.toy.tasks import TOY_STS


def read_sentences(path: Path) -> list[str]:
    head, *lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    columns = head.split("\t")
    first = columns.index("sentence1")
    second = columns.index("sentence2")
    sentences = []
    for line in lines:
        cells = line.split("\t")
        sentences += [cells[first], cells[second]]
    return sentences


@torch.inference_mode()
def embed_publicly(student: Student, sentences: list[str]) -> np.ndarray:
    parts = []
    for start in range(0, len(sentences), 128):
        tokens = student.tokenize(sentences[start : start + 128], 512)
        parts.append(student.pool(tokens).numpy())
    return np.concatenate(parts)


def embed_as_harness(student: Student, sentences: list[str]) -> np.ndarray:
    distinct = list(dict.fromkeys(sentences))
    vectors = dict(zip(distinct, student.embed(distinct), strict=True))
    return np.stack([vectors[sentence] for sentence in sentences])


@click.command(help=__doc__)
@click.argument(
    "encoder", type=click.Path(exists=True, file_okay=False, path_type=Path), required=False
)
@click.argument(
    "file", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=False
)
def main(encoder: Path | None, file: Path | None) -> None:
    student = Student.load(encoder or student_folder()).eval()
    sentences = read_sentences(file) if file else list_sentences(TOY_STS.load(None))
    seconds = {}
    vectors = {}
    for name, embed in (("public", embed_publicly), ("harness", embed_as_harness)):
        embed(student, sentences[:256])  # the first batches are slower
        start = time.perf_counter()
        vectors[name] = embed(student, sentences)
        seconds[name] = time.perf_counter() - start
        print(f"{name:8} {seconds[name]:.2f} s, {len(sentences) / seconds[name]:.0f} sentences/s")

    furthest = np.abs(vectors["public"] - vectors["harness"]).max()
    ratio = seconds["public"] / seconds["harness"]
    print(f"ratio {ratio:.2f}, largest difference {furthest:.1e}")


if __name__ == "__main__":
    main()
