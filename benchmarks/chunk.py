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
from collections.abc import Collection, Mapping
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Size:
    """The size of an encoder."""

    parameters: float
    layers: int
    width: int
    heads: int


ROBERTA_LARGE = Size(355e6, layers=24, width=1024, heads=16)
BATCH = 512
VIEWS = 2
GB = 1e9


def make_student() -> Student:
    """A small RoBERTa."""
    config = RobertaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=4 * WIDTH,
        max_position_embeddings=LENGTH + 2,
    )
    encoder = RobertaModel(config, add_pooling_layer=False)
    return Student(encoder, AutoTokenizer.from_pretrained(str(student_folder())))


class SavedBytes:
    """Counts the bytes of saved tensors that are alive, apart from the weights."""

    def __init__(self, weights: Collection[int]) -> None:
        # a weight has a user for good, so that it is never counted
        self.users = dict.fromkeys(weights, 1)
        self.now = 0
        self.peak = 0

    def pack(self, value: Tensor) -> tuple[Tensor, _Note]:
        """Count a tensor until its note is dropped."""
        return value, _Note(self, value.untyped_storage())

    def count(self, place: int, size: int, users: int) -> None:
        """A storage has that many users more, or fewer."""
        before = self.users.get(place, 0)
        self.users[place] = before + users
        if before == 0 or before + users == 0:
            self.now += users * size
            self.peak = max(self.peak, self.now)


class _Note:
    """A user of a storage, for as long as a graph holds it."""

    def __init__(self, saved: SavedBytes, storage: torch.UntypedStorage) -> None:
        self._saved = saved
        self._place = storage.data_ptr()
        self._size = storage.nbytes()
        saved.count(self._place, self._size, 1)

    def __del__(self) -> None:
        self._saved.count(self._place, self._size, -1)


def take_step(student: Student, encode: Encode, tokens: TokenRows) -> None:
    """One forward and backward pass of SimCSE."""
    student.zero_grad()
    first, second = encode(tokens, VIEWS).unbind(1)
    info_nce(first, second, 0.05).backward()


def measure_graph_bytes(student: Student, encode: Encode, tokens: TokenRows) -> int:
    """The most bytes that a step's graph holds at a time."""
    saved = SavedBytes({value.untyped_storage().data_ptr() for value in student.parameters()})
    with torch.autograd.graph.saved_tensors_hooks(saved.pack, lambda note: note[0]):
        take_step(student, encode, tokens)
    return saved.peak


def measure_step_seconds(
    student: Student, ways: Mapping[str, Encode], tokens: TokenRows, rounds: int
) -> dict[str, float]:
    """The median wall time of a step of each way, in turns."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, encode in ways.items():
            start = time.perf_counter()
            take_step(student, encode, tokens)
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


@click.command(help=__doc__)
@click.option("--rows", default=16, show_default=True, help="Rows of a batch.")
@click.option("--chunk", default=2, show_default=True, help="Rows at a time.")
@click.option("--rounds", default=3, show_default=True, help="Steps of each way.")
def main(rows: int, chunk: int, rounds: int) -> None:
    student = make_student().train()
    tokens = TokenRows.from_lists(torch.randint(5, VOCABULARY, (rows, LENGTH)).tolist(), 1)
    ways: dict[str, Encode] = {"whole": student.encode, "pieces": Chunked(student.encode, chunk)}
    graph_bytes = {}
    for name, encode in ways.items():
        graph_bytes[name] = measure_graph_bytes(student, encode, tokens)
    seconds = measure_step_seconds(student, ways, tokens, rounds)

    print(f"{rows} rows x {VIEWS} views x {LENGTH} tokens, {chunk} rows at a time")
    for name in ways:
        size = f"{graph_bytes[name] / 1e6:6.1f} MB"
        print(f"  {name:6} {seconds[name]:6.2f} s a step, graphs hold {size}")
    time_ratio = seconds["pieces"] / seconds["whole"]
    memory_ratio = graph_bytes["pieces"] / graph_bytes["whole"]
    print(f"  in pieces {time_ratio:.2f} x the time and {memory_ratio:.3f} x the memory of graphs")
    print_large(graph_bytes["whole"] / rows)


def print_large(row_bytes: float) -> None:
    """Print the memory of RoBERTa-large, from the bytes that the small encoder saves of a row."""
    large = ROBERTA_LARGE
    # by width for rows, by heads for attention: whichever grows more
    scale = large.layers / LAYERS * max(large.width / WIDTH, large.heads / HEADS)
    # float32 weights, gradients and two moments: 16 bytes a parameter
    fixed_gb = 16 * large.parameters / GB
    print(
        f"RoBERTa-large in float32 by arithmetic: weights, gradients and moments {fixed_gb:.1f} GB"
    )
    for rows in (BATCH, 64, 32, 16):
        graphs_gb = rows * row_bytes * scale / GB
        print(
            f"  {rows:3} of {BATCH} rows at a time: graphs {graphs_gb:6.1f} GB, "
            f"in all {fixed_gb + graphs_gb:6.1f} GB"
        )


if __name__ == "__main__":
    main()
