"""The batches of a step from the streams of a run."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from harness.corpora.base import CorpusSource
from harness.corpora.tokens import Tokens, get_tokens
from harness.encoders.student import Student
from harness.method import OwnSteps, PairBatch, Patches, SentenceBatch, by_batches
from harness.profiles import Training
from harness.registry import get
from harness.seeds import make_generator
from harness.spec import Stream
from harness.toy import student_folder
from harness.training.streams import Batches, Subset, TrainingData

TRAINING = Training(epochs=2, batch_size=8, eval_every=3)
FEATURES = np.arange(36, dtype=np.float16).reshape(12, 3)


@pytest.fixture(scope="module")
def student() -> Student:
    return Student.load(student_folder())


def tokens(student: Student, kind: str, size: int) -> Tokens:
    source: CorpusSource = get("corpus", kind)(size=size)
    file = get_tokens(source.fingerprint(None), lambda: source.texts(None), student.tokenizer, 32)
    return Tokens([file], student.tokenizer.pad_token_id)


def batches(
    student: Student, subsets: dict[Stream, Subset], training: Training = TRAINING
) -> Batches:
    corpora: dict[Stream, Tokens] = {
        "sentences": tokens(student, "toy-sentences", 40),
        "pairs": tokens(student, "toy-pairs", 12),
    }
    data = TrainingData(corpora, {"image": FEATURES}, subsets=subsets)
    return Batches(student, data, training, {}, seed=0, setting="toy", rule=by_batches)


def test_paired_steps_carry_features_of_their_rows_in_single_precision(student: Student) -> None:
    made = batches(student, {})
    kinds = [type(batch) for step in range(made.mixing.epoch) for _, batch in made.take(step)]
    assert {*kinds} == {PairBatch, SentenceBatch}
    ((stream, batch),) = made.take(0)
    assert stream is None
    rows = made.orders["pairs"].batch(0)
    np.testing.assert_array_equal(
        batch.features["image"].numpy(), FEATURES[rows].astype(np.float32)
    )
    assert batch.tokens["input_ids"].shape == batch.tokens["attention_mask"].shape
    assert len(batch.tokens["input_ids"]) == len(rows)


@pytest.mark.parametrize("steps", [1, 4, 11])
@pytest.mark.parametrize("subsets", [{}, {"sentences": Subset(np.arange(3, 19)[::-1], True)}])
def test_rows_read_are_those_of_the_batches(
    student: Student, steps: int, subsets: dict[Stream, Subset]
) -> None:
    made = batches(student, subsets, TRAINING.model_copy(update={"steps": steps}))
    read: dict[str, set[int]] = {"sentences": set(), "pairs": set()}
    count = {"sentences": 0, "pairs": 0}
    for step in range(steps):
        kind, number = made.mixing.step(step)
        stream: Stream = "sentences" if kind == "text" else "pairs"
        rows = made.orders[stream].batch(number)
        count[stream] += len(rows)
        read[stream] |= set((subsets[stream].rows[rows] if stream in subsets else rows).tolist())
    assert {stream: sorted(rows.tolist()) for stream, rows in made.list_rows_read().items()} == {
        stream: sorted(rows) for stream, rows in read.items()
    }
    assert {stream: made.orders[stream].count(made.counts[stream]) for stream in count} == count


@pytest.mark.parametrize("steps_of_all", [True, False])
def test_a_subset_limits_the_rows_and_keeps_the_steps_only_if_asked(
    student: Student, steps_of_all: bool
) -> None:
    whole = batches(student, {})
    part = batches(student, {"sentences": Subset(np.arange(3, 19), steps_of_all)})
    assert (part.steps == whole.steps) is steps_of_all
    assert part.data.count_used("sentences") == 16
    text = [
        batch
        for step in range(part.steps)
        for _, batch in part.take(step)
        if type(batch) is SentenceBatch
    ]
    known, pad = part.data.tokens["sentences"], student.tokenizer.pad_token_id
    allowed = {tuple(known.batch(np.array([row]))["input_ids"][0].tolist()) for row in range(3, 19)}
    assert {
        tuple(row[row != pad].tolist()) for batch in text for row in batch.tokens["input_ids"]
    } <= allowed


@pytest.mark.parametrize("augment", ["none", "mixup+masks"])
def test_a_media_batch_has_the_classes_of_its_augmented_items(
    student: Student, augment: str
) -> None:
    media = get("corpus", "toy-tones")(size=24).load(None)
    first = augment == "none"
    own = OwnSteps(
        batch_size=12, learning_rate=1e-4, patches=Patches(size=8), augment=augment, first=first
    )
    data = TrainingData({"sentences": tokens(student, "toy-sentences", 40)}, media={"audio": media})
    made = Batches(student, data, TRAINING, {"audio": own}, seed=0, setting="toy", rule=by_batches)
    pairs = list(made.take(1))
    assert [stream for stream, _ in pairs] == (["audio", None] if first else [None, "audio"])
    (_, batch), (_, text) = pairs if first else reversed(pairs)
    assert type(text) is SentenceBatch
    rows, rng = (
        made.orders["audio"].batch(1),
        make_generator(axis="augmentation", seed=0, stream="audio", step=1),
    )
    expected = media.augmented(augment).batch(rows, rng)
    assert torch.equal(batch.inputs["spectrograms"], expected["spectrograms"])
    assert torch.equal(batch.labels, expected.get("labels", torch.from_numpy(media.labels[rows])))
    assert torch.equal(batch.labels, torch.from_numpy(media.labels[rows])) is (augment == "none")
