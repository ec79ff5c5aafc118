"""What `--chunk` costs and saves: time and peak memory of a step, whole and in pieces, with the
same gradient.

The encoder has RoBERTa's architecture at a small size (4 layers, 256 wide), with random weights.
Its time per step is compared in one run; what a graph holds is counted by the tensors that it
saves, and scaled to RoBERTa-large at batch 512, two views of 32 tokens: a row's saved numbers are
proportional to layers x width, those of attention to layers x heads x tokens.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import click
import torch
from torch import Tensor
from transformers import AutoTokenizer, RobertaConfig, RobertaModel

from harness.encoders.rows import TokenRows
from harness.encoders.student import Student
from harness.losses.contrastive import info_nce
from harness.method import Encode
from harness.toy import student_folder
from harness.training.stepper import Chunked

LENGTH = 32
VOCABULARY = 1000
LAYERS = 4
WIDTH = 256
HEADS = 4
#: RoBERTa-large: parameters, layers, width, heads
LARGE = 355e6, 24, 1024, 16
BATCH = 512
VIEWS = 2
GB = 1e9


def small() -> Student:
    """A small RoBERTa."""
    config = RobertaConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        intermediate_size=4 * WIDTH, max_position_embeddings=LENGTH + 2,
    )  # fmt: skip
    return Student(
        RobertaModel(config, add_pooling_layer=False),
        AutoTokenizer.from_pretrained(str(student_folder())),
    )


class Kept:
    """Counts the bytes of saved tensors that are alive, apart from the weights."""

    def __init__(self, apart: set[int]) -> None:
        self.users = dict.fromkeys(apart, 1)
        self.now = self.most = 0

    def pack(self, value: Tensor) -> tuple[Tensor, _Note]:
        """Count a tensor until its note is dropped."""
        return value, _Note(self, value.untyped_storage())


class _Note:
    def __init__(self, kept: Kept, storage: torch.UntypedStorage) -> None:
        self.kept, self.place, self.size = kept, storage.data_ptr(), storage.nbytes()
        self._count(1)

    def __del__(self) -> None:
        self._count(-1)

    def _count(self, more: int) -> None:
        before = self.kept.users.get(self.place, 0)
        self.kept.users[self.place] = before + more
        if before == 0 or before + more == 0:
            self.kept.now += more * self.size
            self.kept.most = max(self.kept.most, self.kept.now)


def step(student: Student, encode: Encode, tokens: TokenRows) -> None:
    """One forward and backward pass of SimCSE."""
    student.zero_grad()
    first, second = encode(tokens, VIEWS).unbind(1)
    info_nce(first, second, 0.05).backward()


def held(student: Student, encode: Encode, tokens: TokenRows) -> int:
    """The most bytes that a step's graph holds at a time."""
    kept = Kept({value.untyped_storage().data_ptr() for value in student.parameters()})
    with torch.autograd.graph.saved_tensors_hooks(kept.pack, lambda note: note[0]):
        step(student, encode, tokens)
    return kept.most


def seconds(work: Callable[[], None]) -> float:
    """The wall time of a call."""
    clock = time.perf_counter()
    work()
    return time.perf_counter() - clock


@click.command(help=__doc__)
@click.option("--rows", default=16, show_default=True, help="Rows of a batch.")
@click.option("--chunk", default=2, show_default=True, help="Rows at a time.")
@click.option("--rounds", default=3, show_default=True, help="Steps of each way.")
def main(rows: int, chunk: int, rounds: int) -> None:
    student = small().train()
    tokens = TokenRows.from_lists(torch.randint(5, VOCABULARY, (rows, LENGTH)).tolist(), 1)
    ways: dict[str, Encode] = {"whole": student.encode, "pieces": Chunked(student.encode, chunk)}
    bytes_held = {name: held(student, encode, tokens) for name, encode in ways.items()}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, encode in ways.items():
            times[name].append(seconds(lambda encode=encode: step(student, encode, tokens)))
    middle = {name: statistics.median(each) for name, each in times.items()}
    print(f"{rows} rows x {VIEWS} views x {LENGTH} tokens, {chunk} rows at a time")
    for name in ways:
        print(
            f"  {name:6} {middle[name]:6.2f} s a step, graphs hold {bytes_held[name] / 1e6:6.1f} MB"
        )
    print(f"  in pieces {middle['pieces'] / middle['whole']:.2f} x the time and "
          f"{bytes_held['pieces'] / bytes_held['whole']:.3f} x the memory of graphs")  # fmt: skip
    parameters, layers, width, heads = LARGE
    scale = layers / LAYERS * max(width / WIDTH, heads / HEADS)
    row = bytes_held["whole"] / rows * scale
    fixed = 16 * parameters / GB
    print(f"RoBERTa-large in float32 by arithmetic: weights, gradients and moments {fixed:.1f} GB")
    for together in (BATCH, 64, 32, 16):
        graphs = together * row / GB
        print(
            f"  {together:3} of {BATCH} rows at a time: graphs {graphs:6.1f} GB, in all {fixed + graphs:6.1f} GB"
        )


if __name__ == "__main__":
    main()
