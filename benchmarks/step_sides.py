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
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from media import PICTURES, make_photograph, make_public_transform
from servers import answer_steps
from small_inputs import find_student
from torch import Tensor
from trainers import make_token_file, make_trainer
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel
from transformers.utils import logging

from harness.corpora.labelled_images import AugmentedImages
from harness.corpora.tokens import Tokens
from harness.encoders.patches import ImagePatches
from harness.encoders.student import Student
from harness.encoders.vision import Augmentation
from harness.method import Dimensions, MediaBatch, Method, PairBatch, SentenceBatch, method_named
from harness.profiles import Training
from harness.spec import Stream
from harness.training.streams import TrainingData

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
FILES = {
    "sentences": "wiki/enwiki_sentences.txt.gz",
    "pairs": "captions/flickr30k_captions.tsv.gz",
}
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
        return read_texts(self.stream, 64 * self.rows)

    @property
    def has_images(self) -> bool:
        return self.method == "visualcse"


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


def read_texts(stream: Stream, count: int) -> tuple[list[str], str]:
    """Sentences or captions, and where they are from."""
    file = SHARED / FILES[stream]
    if file.is_file():
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            rows = itertools.islice(lines, 1, count + 1)
            return [row.rstrip("\n").split("\t")[-1] for row in rows], file.name

    lengths, shares = zip(*HISTOGRAM[stream], strict=True)
    chances = np.array(shares) / sum(shares)
    drawn = np.random.default_rng(0).choice(lengths, count, p=chances)
    return [" ".join(["red"] * (int(length) - 2)) for length in drawn], "a built-in histogram"


def load_encoder() -> tuple[Any, Any]:
    """The model with its tokenizer: of the package of the development extra, else of its shape."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        folder = str(find_student())
    except ImportError:
        from harness.toy import student_folder

        config = BertConfig(
            hidden_size=WIDTH, num_hidden_layers=LAYERS, intermediate_size=4 * WIDTH
        )
        tokenizer = AutoTokenizer.from_pretrained(str(student_folder()))
        return BertModel(config, add_pooling_layer=False), tokenizer
    model = AutoModel.from_pretrained(folder, add_pooling_layer=False)
    return model, AutoTokenizer.from_pretrained(folder)


def make_method(case: Case) -> Method:
    """The method with its heads."""
    method = method_named(case.method)
    values: dict[str, Any] = {"patches": f"fresh-{PATCH}"} if case.has_images else {}
    return method(method.configure("paper", values), Dimensions(WIDTH, case.features))


def draw_features(case: Case) -> dict[str, np.ndarray]:
    """Made features of the images, and of the captions where a teacher is run before training."""
    rng = np.random.default_rng(1)
    return {
        role: rng.standard_normal((64 * case.rows, width), dtype=np.float32)
        for role, width in case.features.items()
    }


def make_harness_step(case: Case, precision: str, folder: Path) -> Callable[[int], None]:
    """A step of the harness's own loop."""
    model, tokenizer = load_encoder()
    student = Student(model, tokenizer)
    ids = tokenizer(case.texts[0], truncation=True, max_length=LONGEST)["input_ids"]
    tokens = {case.stream: Tokens([make_token_file(ids)], tokenizer.pad_token_id)}
    media = {}
    if case.has_images:
        student.attach("pixels", ImagePatches.create(WIDTH, PIXELS, PATCH))
        pictures = [make_photograph(PICTURES["500 x 375"])] * IMAGES
        media["images"] = AugmentedImages(pictures, np.arange(IMAGES), Augmentation(PIXELS))

    data = TrainingData(tokens, draw_features(case), media)
    training = Training(batch_size=case.rows, precision=precision, steps=1000)
    trainer = make_trainer(student, make_method(case), data, training, folder)

    def take_step(number: int) -> None:
        for stream, total, _ in trainer.compute_losses(number):
            stepper = trainer.main if stream is None else trainer.own[stream]
            stepper.step(total, number)

    return take_step


def make_reference_step(case: Case) -> Callable[[int], None]:
    """A step in the style of the public code, in float32."""
    reference = Reference(case)

    def take_step(number: int) -> None:
        for batch in reference.make_batches(number):
            reference.update(batch)

    return take_step


class Reference:
    """The public code's way: padded rows, frozen teachers in the step, torch's own AdamW."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._model, self._tokenizer = load_encoder()
        self._method = make_method(case)
        self._teachers = {role: load_encoder()[0].eval() for role in case.taught}
        self._patches: torch.nn.Module = torch.nn.Module()
        if case.has_images:
            self._patches = ImagePatches.create(WIDTH, PIXELS, PATCH)
        self._sentences = case.texts[0]
        self._features = draw_features(case)
        self._photograph = make_photograph(PICTURES["500 x 375"])
        self._augment = make_public_transform(PIXELS)

        self._parameters: list[torch.nn.Parameter] = []
        for module in (self._model, self._method, self._patches):
            self._parameters += module.parameters()
        self._optimizer = torch.optim.AdamW(self._parameters, lr=3e-5)
        self._model.train()

    def make_batches(self, number: int) -> Iterator[SentenceBatch | MediaBatch]:
        """The batches of a step."""
        rows_of_step = np.arange(number * self._case.rows, (number + 1) * self._case.rows)
        rows = rows_of_step % len(self._sentences)
        tokens = self._tokenizer(
            [self._sentences[row] for row in rows],
            truncation=True,
            max_length=LONGEST,
            padding=True,
            return_tensors="pt",
        )
        inputs = {name: tokens[name] for name in ("input_ids", "attention_mask")}
        if self._case.features:
            yield PairBatch(inputs, self._read_features(rows, inputs))
        else:
            yield SentenceBatch(inputs)

        if self._case.has_images:
            pixels = [torch.stack(self._augment(self._photograph)) for _ in range(IMAGES)]
            yield MediaBatch({"pixels": torch.stack(pixels)}, torch.arange(IMAGES))

    def update(self, batch: SentenceBatch | MediaBatch) -> None:
        total, _ = self._method.loss(batch, self._encode)
        self._optimizer.zero_grad()
        total.backward()
        torch.nn.utils.clip_grad_norm_(self._parameters, 1.0)
        self._optimizer.step()

    def _encode(self, inputs: Any, views: int) -> Tensor:
        if "pixels" in inputs:
            patches = self._patches(inputs["pixels"].flatten(0, 1))
            states = self._model.encoder(patches).last_hidden_state
        else:
            states = self._model(**_repeat(inputs, views)).last_hidden_state
        return states[:, 0].view(-1, views, WIDTH)

    @torch.no_grad()
    def _read_features(self, rows: np.ndarray, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """The stored features of rows, and those that teachers compute of both views."""
        features = {role: torch.from_numpy(values[rows]) for role, values in self._features.items()}
        for role, teacher in self._teachers.items():
            states = teacher(**_repeat(inputs, 2)).last_hidden_state
            features[role] = states[::2, 0]
        return features


def _repeat(inputs: dict[str, Tensor], views: int) -> dict[str, Tensor]:
    """Each row as often as it has views."""
    return {name: value.repeat_interleave(views, dim=0) for name, value in inputs.items()}


def serve(name: str, side: str, rows: int) -> None:
    """Be a side of a case: the reference, or the harness in a precision."""
    case = replace(CASES[name], rows=rows)
    with tempfile.TemporaryDirectory() as folder:
        if side == "reference":
            answer_steps(make_reference_step(case))
        else:
            answer_steps(make_harness_step(case, side, Path(folder)))
