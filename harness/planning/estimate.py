"""Estimates of how long a plan takes: from the times of finished runs, else by arithmetic for the
one GPU that was measured.

A training step takes 6 operations per weight and token (2 forward, 4 backward) at the GPU's rate,
or the time that the host needs to launch them if that is longer. Weights are those of the encoder's
layers; heads, losses, the optimizer and padding are left out. Embedding takes 2 operations per
weight and token.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from harness.grid import Resolved
from harness.planning.plan import Plan, PlannedRun
from harness.setting import Captions, find_kept_rows
from harness.spec import Stream
from harness.training.batching import make_mixing

#: Rows of the papers' corpora: MCSE section 4.1, the splits of Karpathy and Fei-Fei, SimCSE's NLI
#: file.
ROWS = {
    "flickr": 29_783,
    "coco": 82_783,
    "flickr-karpathy": 29_000,
    "coco-karpathy": 82_783,
    "nli": 275_601,
}
#: Wiki1M, and CC12M's subsets in KDMCSE appendix B
MILLION = 1_000_000
CAPTIONS = 5
#: Mean BERT tokens of a row, special ones included, cut at 32: of the first 11,914 lines of Wiki1M,
#: MCSE's 29,783 captions, 30,000 captions of COCO, and 8,626 triplets of NLI (all three sentences).
#: Other corpora take the mean of the corpus that `_LIKE` gives for their stream.
TOKENS = {"wiki": 21.9, "flickr": 15.9, "coco": 13.8, "nli": 41.4}
_LIKE: dict[Stream, str] = {"sentences": "wiki", "pairs": "flickr", "triplets": "nli"}
#: Vectors of an image of 224 pixels in patches of 16, and of a recording (NonLing appendix B), with
#: the class token
VECTORS: dict[Stream, int] = {"images": 197, "audio": 211}
#: each row is encoded twice, with dropout or augmentation; each sentence of a triplet once
VIEWS = 2
#: Tokens of the distinct sentences of the seven STS tests, STS-B dev, test and all, SentEval's
#: transfer tasks, the test captions of Flickr30k (two splits) and COCO. The classifiers of transfer
#: tasks are not counted.
SENTENCES = {
    "sts": 26_083 * 14.3,
    "geometry": 20_897 * 15.4,
    "transfer": 108_108 * 16.5,
    "retrieval": 35_010 * 14.2,
}
DEV = 2_909 * 16.4
#: The fraction of a GPU's peak rate that steps of BERT-base reach, and seconds per layer of a step
#: on the host, both measured on one H200 (docs/reproduce.md)
UTILISATION = {"fp32": 0.53, "tf32": 0.21, "bf16": 0.11, "fp16": 0.11}
HOST = 0.0022
#: Bytes per weight of the model that stays of a run
KEPT = 4
#: Bytes of a checkpoint per weight (the weight and AdamW's two moments), and a disk's bytes per
#: second
SAVED = 12
DISK = 1e9
#: seconds that finished runs took for training ('') and for each suite
Times = Mapping[str, Sequence[float]]


class Shape(NamedTuple):
    """The size of an encoder: weights of its layers, and of its vocabulary's vectors."""

    layers: int
    weights: int
    vectors: int


#: BERT-base and BERT-large
BASE = Shape(12, 12 * 12 * 768**2, 30_522 * 768)
LARGE = Shape(24, 24 * 12 * 1024**2, 30_522 * 1024)


@dataclass(frozen=True)
class Steps:
    """Training steps that have the same number of tokens each."""

    count: int
    tokens: float


@dataclass(frozen=True)
class Card:
    """A GPU with its dense peak rates, in operations per second.

    `half` is bf16 and fp16 with sums in float32, `tf32` and `single` are float32 with and without
    TF32.
    """

    name: str
    half: float
    tf32: float
    single: float

    def find_seconds(self, operations: float, precision: str) -> float:
        """Seconds that the card computes."""
        rates = {"fp32": self.single, "tf32": self.tf32}
        rate = rates.get(precision, self.half)
        return operations / (UTILISATION[precision] * rate)

    def find_embedding_seconds(self, shape: Shape, tokens: float) -> float:
        """Seconds to embed sentences, in float32."""
        return self.find_seconds(2 * shape.weights * tokens, "fp32")

    def find_training_seconds(self, run: Resolved, steps: list[Steps]) -> float:
        """Seconds that a training takes, with its dev scores and checkpoints."""
        if not steps:
            return 0.0

        shape = choose_shape(run)
        host_seconds = HOST * shape.layers
        operations_per_token = 6 * shape.weights
        step_seconds = []
        for part in steps:
            operations = operations_per_token * part.tokens
            card_seconds = self.find_seconds(operations, run.training.precision)
            step_seconds.append(part.count * max(card_seconds, host_seconds))

        # scores are taken between steps on text and pairs
        scored_parts = steps[: len(steps) - len(run.own_steps)]
        scored_steps = sum(part.count for part in scored_parts)
        scores = math.ceil(scored_steps / run.training.eval_every)
        seconds = sum(step_seconds) + scores * self.find_embedding_seconds(shape, DEV)

        # one per minute and per new best score: in random order, the nth score is the best with
        # probability 1/n
        checkpoints = seconds / 60 + math.log(scores) + 1
        return seconds + checkpoints * SAVED * (shape.weights + shape.vectors) / DISK


#: the one GPU whose steps were timed; its rates are those of NVIDIA's data sheet
H200 = Card("H200", half=989.4e12, tf32=494.7e12, single=66.9e12)


@dataclass(frozen=True)
class Estimate:
    """Seconds of all runs one after another: `here` from finished runs, otherwise on one H200 by
    arithmetic.
    """

    here: float | None = None
    h200: float | None = None


def estimate(plan: Plan) -> Estimate | None:
    """The time of the runs still to do; None if no run is finished and a corpus is not one of the
    papers'.
    """
    finished = plan.frames.where(profile=[plan.request.profile.name])
    if finished or not plan.todo:
        times_by_kind = finished.collect_times()
        times_of_all: dict[str, list[float]] = {}
        for times in times_by_kind.values():
            for what, measured in times.items():
                times_of_all.setdefault(what, []).extend(measured)

        seconds_of_runs = [
            _find_usual_seconds(run, times_by_kind, times_of_all) for run in plan.todo
        ]
        return Estimate(here=sum(seconds_of_runs))

    seconds = 0.0
    for run in plan.todo:
        steps = [] if run.result else count_training_steps(run.resolved)
        if steps is None:
            return None
        tokens = sum(SENTENCES.get(suite, 0.0) for suite in run.todo)
        seconds += H200.find_training_seconds(run.resolved, steps)
        seconds += H200.find_embedding_seconds(choose_shape(run.resolved), tokens)
    return Estimate(h200=seconds)


def estimate_model_bytes(plan: Plan) -> int:
    """Bytes of the models that the trainings still to do leave behind: one of each run, as large as
    its encoder's weights.
    """
    model_bytes = 0
    for run in plan.todo:
        if not run.resolved.trains or run.result:
            continue
        encoder = run.experiment.encoder
        weights = 0
        if not encoder.missing:
            files = encoder.source.path().glob("*.safetensors")
            weights = sum(file.stat().st_size for file in files)
        shape = choose_shape(run.resolved)
        model_bytes += weights or KEPT * (shape.weights + shape.vectors)
    return model_bytes


def choose_shape(run: Resolved) -> Shape:
    """The shape of a run's encoder: BERT-large's if its name contains 'large', else BERT-base's."""
    return LARGE if "large" in run.spec.encoder else BASE


def count_training_steps(run: Resolved) -> list[Steps] | None:
    """A training's steps on text, on pairs and on other streams; None if a corpus is not one of the
    papers'.
    """
    if not run.trains:
        return []

    rows: dict[str, int] = {}
    for name, stream in run.streams.items():
        if stream in run.own_steps:
            continue
        rows_of_corpus = _find_rows(run, name, stream)
        if rows_of_corpus is None:
            return None
        rows[name] = rows_of_corpus

    training = run.training
    pairs = [name for name in rows if run.streams[name] == "pairs"]
    texts = [name for name in rows if name not in pairs]
    text_rows = sum(rows[name] for name in texts)
    pair_rows = sum(rows[name] for name in pairs)
    mixing = make_mixing(text_rows, pair_rows, training.batch_size, run.mixing_rule)
    steps = training.steps or training.epochs * mixing.epoch
    paired_steps = mixing.count_paired(steps)

    parts = []
    for count, names in ((steps - paired_steps, texts), (paired_steps, pairs)):
        if count:
            views = 1 if run.streams[names[0]] == "triplets" else VIEWS
            tokens = views * training.batch_size * _find_mean_length(run, names, rows)
            parts.append(Steps(count, tokens))
    for stream, own_steps in run.own_steps.items():
        parts.append(Steps(steps, VIEWS * own_steps.batch_size * VECTORS[stream]))
    return parts


def _find_mean_length(run: Resolved, names: list[str], rows: Mapping[str, int]) -> float:
    """The mean tokens of a row of corpora of one stream."""
    stream = run.streams[names[0]]
    tokens = 0.0
    for name in names:
        corpus, _, _ = name.partition("-")
        tokens += TOKENS.get(corpus, TOKENS[_LIKE[stream]]) * rows[name]
    mean_length = tokens / sum(rows[name] for name in names)

    sentences = 3 if stream == "triplets" else 1
    return min(run.training.max_length * sentences, mean_length)


def _find_rows(run: Resolved, corpus: str, stream: Stream) -> int | None:
    """The number of a corpus's rows that sets the number of steps; None if unknown."""
    rows = ROWS.get(corpus)
    if rows is None and corpus.startswith(("wiki", "cc12m")):
        rows = MILLION
    if rows is None:
        return None

    reads_all_captions = any(
        isinstance(option, Captions) and option.which == "all" for option in run.options
    )
    if reads_all_captions and stream == "pairs":
        rows *= CAPTIONS
    kept_rows = find_kept_rows(run.options, stream)
    if kept_rows is None or kept_rows.steps_of_all:
        return rows
    return min(rows, kept_rows.rows)


def _find_usual_seconds(
    run: PlannedRun, times_by_kind: Mapping[tuple[str, str], Times], times_of_all: Times
) -> float:
    """The median time of finished runs of the same method and encoder; without any, of all finished
    runs.

    A training of so many steps takes the time of as many of theirs. A mean would follow the few
    that shared their cores with others.
    """
    spec = run.resolved.spec
    times = times_by_kind.get((spec.variant.name, spec.encoder), times_of_all)
    seconds = sum(_find_median(times, suite) for suite in dict.fromkeys(run.todo))
    if not run.resolved.trains or run.result:
        return seconds

    steps = run.resolved.training.steps
    if steps and "step" in times:
        return seconds + steps * _find_median(times, "step")
    return seconds + _find_median(times, "")


def _find_median(times: Times, what: str) -> float:
    return median(times.get(what, [0.0]))
