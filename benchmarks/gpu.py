"""Training steps of BERT-base on a CUDA card; its target: a full DALR wiki+flickr run in 20 minutes of one H200, 40 of
an A100.

    python benchmarks/gpu.py [--compile] [--graphs] [--steps N]
    python benchmarks/gpu.py --short        # a small encoder on the CPU: checks that the program works, not its speed

For batches of 64 and 128 sentences and captions, two views: steps and tokens a second, the share of the card's rate of
bf16 products that the matrix products of a step use (the rate is measured in the same run), memory, and how many such
runs the card's memory holds. `--compile` trains by torch.compile. `--graphs` replays a CUDA graph of each of a few
token counts, to which batches are filled up by rows that no loss reads. No number of the README comes from here.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from step_sides import LONGEST, encoder, texts
from torch import Tensor
from transformers import BertConfig, BertModel

from harness.encoders.packed import first_tokens
from harness.encoders.precision import autocast
from harness.encoders.rows import Packed, TokenRows
from harness.encoders.student import Student
from harness.grid import resolve
from harness.losses.contrastive import info_nce
from harness.profiles import Training, load_profile
from harness.spec import RunSpec
from harness.training.batching import mixed
from harness.training.stepper import Stepper

#: rows of the mission's run: Wikipedia's sentences and Flickr30k's training images
SENTENCES, CAPTIONS = 1_000_000, 29_783
#: token counts of CUDA graphs are multiples of this share of a full batch
SHARE = 8
VIEWS = 2


@dataclass(frozen=True)
class Bench:
    """A student on a device with its optimizer and its sentences by stream."""

    student: Student
    stepper: Stepper
    device: torch.device
    ids: dict[str, list[list[int]]]

    @classmethod
    def made(cls, short: bool, steps: int) -> Bench:
        device = torch.device("cpu" if short else "cuda")
        small = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256}
        tokenizer = encoder()[1]
        config = BertConfig(**small if short else {})
        student = Student(BertModel(config, add_pooling_layer=False), tokenizer).to(device).train()
        ids = {
            stream: tokenizer(texts(stream)[0], truncation=True, max_length=LONGEST)["input_ids"]
            for stream in ("sentences", "pairs")
        }
        return cls(student, Stepper([student], Training(precision="bf16"), steps, device, None), device, ids)

    def rows(self, stream: str, size: int, number: int) -> TokenRows:
        """The rows of a step, on the device."""
        listed = self.ids[stream]
        start = number * size % (len(listed) - size)
        return TokenRows.listed(listed[start : start + size], 0).to(self.device)

    def loss(self, vectors: Tensor) -> Tensor:
        return info_nce(*vectors.unbind(1), 0.05)

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def eager(bench: Bench, stream: str, size: int, compiled: bool) -> Callable[[int], None]:
    """A step as the trainer takes it."""
    encode = torch.compile(bench.student.encode, dynamic=True) if compiled else bench.student.encode

    def step(number: int) -> None:
        with autocast("bf16", bench.device.type):
            loss = bench.loss(encode(bench.rows(stream, size, number), VIEWS))
        bench.stepper.step(loss, number)

    return step


def filled(packed: Packed, tokens: int, spare: int) -> Packed:
    """Add `spare` rows with what lacks to `tokens` tokens: at least one a row, at most LONGEST."""
    lacking = tokens - len(packed.ids)
    counts = np.full(spare, lacking // spare) + (np.arange(spare) < lacking % spare)
    device = packed.ids.device
    columns = torch.from_numpy(np.concatenate([np.arange(count) for count in counts])).to(device)
    rows = torch.from_numpy(np.repeat(np.arange(spare), counts)).to(device)
    ends = torch.from_numpy(np.cumsum(counts)).to(device) + packed.offsets[-1]
    return Packed(
        ids=torch.cat([packed.ids, torch.zeros_like(columns)]),
        columns=torch.cat([packed.columns, columns]),
        # the places of a row are those of its full length, so that they do not depend on the batch
        places=torch.cat([packed.places, (packed.rows + rows) * packed.longest + columns]),
        offsets=torch.cat([packed.offsets, ends]),
        longest=packed.longest,
        shortest=1,
    )


def graphed(bench: Bench, stream: str, size: int) -> Callable[[int], None]:
    """A step whose forward and backward pass is a CUDA graph of its token count."""
    grain = VIEWS * size * LONGEST // SHARE
    spare = grain // LONGEST + 1
    graphs: dict[int, tuple[torch.cuda.CUDAGraph, Packed, Tensor]] = {}
    assert bench.student.packing is not None
    packing = bench.student.packing

    def whole(number: int) -> Packed:
        packed = replace(bench.rows(stream, size, number).packed.repeated(VIEWS), longest=LONGEST)
        rows = torch.repeat_interleave(
            torch.arange(packed.rows, device=bench.device), packed.offsets.diff(), output_size=len(packed.ids)
        )
        packed = replace(packed, places=rows * LONGEST + packed.columns)
        return filled(packed, -(-(len(packed.ids) + spare) // grain) * grain, spare)

    def passes(packed: Packed) -> Tensor:
        with autocast("bf16", bench.device.type):
            firsts = first_tokens(bench.student.model, packed, packing)[: VIEWS * size]
            loss = bench.loss(firsts.view(VIEWS, size, -1).transpose(0, 1))
        loss.backward()
        return loss

    def captured(packed: Packed) -> tuple[torch.cuda.CUDAGraph, Packed, Tensor]:
        stream_aside = torch.cuda.Stream()
        stream_aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream_aside):
            for _ in range(3):
                bench.student.zero_grad(set_to_none=False)
                passes(packed)
        torch.cuda.current_stream().wait_stream(stream_aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = passes(packed)
        return graph, packed, loss

    def step(number: int) -> None:
        packed = whole(number)
        if len(packed.ids) not in graphs:
            graphs[len(packed.ids)] = captured(packed)
        graph, kept, _ = graphs[len(packed.ids)]
        for name in ("ids", "columns", "places", "offsets"):
            getattr(kept, name).copy_(getattr(packed, name))
        bench.student.zero_grad(set_to_none=False)
        graph.replay()
        torch.nn.utils.clip_grad_norm_(bench.stepper.parameters, 1.0)
        bench.stepper.optimizer.step()

    return step


def rate(device: torch.device) -> float:
    """Operations a second of large products in bf16."""
    size = 8192 if device.type == "cuda" else 512
    one = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    best = float("inf")
    for _ in range(10):
        if device.type == "cuda":
            torch.cuda.synchronize()
        clock = time.perf_counter()
        one @ one
        if device.type == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - clock)
    return 2 * size**3 / best


def mission_steps(size: int) -> int:
    """Steps of DALR on wiki+flickr with batches of `size`."""
    run = resolve(load_profile("paper"), RunSpec.parse("dalr/wiki+flickr/bert-base-uncased/seed-0"), {})
    rule = run.method.mixing(run.hyperparameters)
    return run.training.epochs * mixed(SENTENCES, CAPTIONS, size, rule).epoch


def report(bench: Bench, name: str, step: Callable[[int], None], stream: str, size: int, steps: int) -> None:
    """Print one line on a kind of step."""
    for number in range(3):
        step(number)
    bench.wait()
    if bench.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    clock = time.perf_counter()
    for number in range(steps):
        step(number)
    bench.wait()
    seconds = (time.perf_counter() - clock) / steps
    tokens = VIEWS * np.mean([len(row) for row in bench.ids[stream]]) * size
    weights = sum(p.numel() for p in bench.student.model.encoder.parameters())
    share = 6 * weights * tokens / seconds / rate(bench.device)
    memory = ""
    if bench.device.type == "cuda":
        peak, whole = torch.cuda.max_memory_allocated(), torch.cuda.get_device_properties(0).total_memory
        memory = f"; {peak / 2**30:.1f} GiB, {int(whole // (1.15 * peak))} such runs a card by memory"
    minutes = mission_steps(size) * seconds / 60
    print(
        f"{name}, {size} {stream}: {1 / seconds:,.1f} steps/s, {tokens / seconds:,.0f} tokens/s, {share:.0%} of the "
        f"rate of products{memory}; DALR wiki+flickr at this rate {minutes:,.0f} min",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--graphs", action="store_true")
    parser.add_argument("--steps", type=int, default=100)
    chosen = parser.parse_args()
    if not chosen.short and not torch.cuda.is_available():
        raise SystemExit("torch finds no CUDA device here; --short checks the program on the CPU")
    if chosen.graphs and chosen.short:
        raise SystemExit("CUDA graphs need a card; leave out --graphs or --short")
    steps = 2 if chosen.short else chosen.steps
    print(torch.cuda.get_device_name() if not chosen.short else "a small encoder on the CPU")
    for size in (8,) if chosen.short else (64, 128):
        for stream in ("sentences", "pairs"):
            bench = Bench.made(chosen.short, steps + 3)
            report(bench, "eager", eager(bench, stream, size, compiled=False), stream, size, steps)
            if chosen.compile:
                report(bench, "compiled", eager(bench, stream, size, compiled=True), stream, size, steps)
            if chosen.graphs:
                report(bench, "graphs", graphed(bench, stream, size), stream, size, steps)


if __name__ == "__main__":
    main()
