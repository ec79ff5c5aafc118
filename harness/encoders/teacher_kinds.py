"""Kinds of teachers: from folders, dual encoders of open_clip, image networks of timm and frozen
sentence encoders.

A substitute for CLIP (`lit`) is fitted: a linear layer each over the features of an image network
and of a sentence encoder that were trained apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from harness.encoders.features import Stacked
from harness.encoders.media import process_images
from harness.encoders.modules import read_settings
from harness.encoders.rows import NAMES
from harness.encoders.student import Student
from harness.encoders.teachers import ImageArrays, Teacher, compute_in_batches
from harness.encoders.weights import convert_errors
from harness.errors import UserError

#: images or sentences in one forward pass, on the CPU and on other devices
BATCH = 64
DEVICE_BATCH = 256


class _Preparation:
    """The preprocessing of a library in two parts: resizing an image, by its worker, and scaling a
    batch.
    """

    def __init__(self, chain: Any) -> None:
        *resizing, convert, normalise = chain.transforms
        ends = (type(convert).__name__, type(normalise).__name__)
        if ends not in (("ToTensor", "Normalize"), ("MaybeToTensor", "Normalize")):
            raise ValueError(
                f"its preprocessing does not end with ToTensor and Normalize: {chain.transforms}"
            )
        self._resizing = resizing
        self._mean = torch.as_tensor(normalise.mean, dtype=torch.float32).view(3, 1, 1)
        self._std = torch.as_tensor(normalise.std, dtype=torch.float32).view(3, 1, 1)

    def resize(self, image: np.ndarray) -> np.ndarray:
        """Resize and crop an image, (h, w, 3) uint8, to the size of the network: (H, W, 3) uint8."""
        picture = Image.fromarray(image)
        for step in self._resizing:
            picture = step(picture)
        return np.asarray(picture)

    def scale(self, images: np.ndarray, device: str) -> Tensor:
        """Scale and normalise resize images, (n, H, W, 3) uint8, on a device: (n, 3, H, W)
        float32.
        """
        pixels = torch.from_numpy(np.ascontiguousarray(images)).to(device)
        pixels = pixels.permute(0, 3, 1, 2) / 255
        return (pixels - self._mean.to(device)) / self._std.to(device)

    def prepare(self, images: ImageArrays, device: str) -> Tensor:
        """Resize, scale and normalise n images: (n, 3, H, W) float32 on a device."""
        resized = np.stack(list(process_images(images, self.resize)))
        return self.scale(resized, device).contiguous()


def _refuse_trust(folder: Path) -> None:
    """Raise ValueError for a folder of open_clip whose settings ask for its code to be executed.

    `get_tokenizer` passes them on, and takes no setting of the caller's for CLIP's own tokenizer.
    """
    settings = read_settings(folder / "open_clip_config.json")
    text_settings = settings.get("model_cfg", {}).get("text_cfg", {})
    if text_settings.get("tokenizer_kwargs", {}).get("trust_remote_code"):
        raise ValueError(
            "its open_clip_config.json asks for trust_remote_code, and code of a model is not "
            "executed; remove that key"
        )


def _compute_on(device: str, items: Any, compute: Callable[[Any], Tensor]) -> np.ndarray:
    """Compute features of n > 0 items in batches that suit a device: (n, ...) float32."""
    return compute_in_batches(items, BATCH if device == "cpu" else DEVICE_BATCH, compute)


class ClipTeacher(Teacher):
    """Features of images and captions in one space, not normalised: (n, f).

    Captions are tokenised by the folder's tokenizer if open_clip_config.json names one, else by
    CLIP's own, and cut at the context length of the text tower; `pooling` and `max_length` are
    ignored.
    """

    gives = ("image", "caption")

    def __init__(self, folder: Path, *, pooling: str, max_length: int, device: str) -> None:
        import open_clip

        needs = "it needs open_clip_config.json, weights and a tokenizer (unless CLIP's own), as open_clip saves them"
        with convert_errors("teacher folder", folder, needs):
            _refuse_trust(folder)
            model, chain = open_clip.create_model_from_pretrained(
                f"local-dir:{folder}",
                device=device,
                precision="fp32",
                return_transform=True,
                weights_only=True,
            )
            self._tokenizer = open_clip.get_tokenizer(f"local-dir:{folder}")
            self._preparation = _Preparation(chain)

        self._model: Any = model.eval()
        self._device = device

        size = model.visual.preprocess_cfg["size"]
        self._size = (size, size) if isinstance(size, int) else tuple(size)

    def images(self, pixels: ImageArrays) -> np.ndarray:
        """Compute features of n images, each (h, w, 3) uint8: (n, f) float32; resize only where
        the size differs.
        """
        encode = self._model.encode_image
        return _compute_on(self._device, pixels, lambda part: encode(self._prepare(part)))

    def captions(self, sentences: Sequence[str]) -> np.ndarray:
        encode = self._model.encode_text
        tokenize = self._tokenizer
        device = self._device
        return _compute_on(device, sentences, lambda part: encode(tokenize(part).to(device)))

    def _prepare(self, pixels: ImageArrays) -> Tensor:
        if isinstance(pixels, np.ndarray) and pixels.shape[1:3] == self._size:
            return self._preparation.scale(pixels, self._device)
        return self._preparation.prepare(pixels, self._device)


class TimmTeacher(Teacher):
    """Pooled features of an image network before its classifier: (n, f); `pooling` and `max_length`
    are ignored.

    Images are prepared as the folder's configuration says. For timm/resnet50.tv_in1k that is MCSE's
    public code: shorter side 256, bilinear, central 224 x 224, ImageNet mean and deviation; 2,048
    features.
    """

    gives = ("image",)

    def __init__(self, folder: Path, *, pooling: str, max_length: int, device: str) -> None:
        import timm
        from timm.data import create_transform, resolve_model_data_config

        needs = "it needs config.json and weights, as timm saves them"
        with convert_errors("teacher folder", folder, needs):
            model = timm.create_model(f"local-dir:{folder}", pretrained=True, num_classes=0)
            settings = resolve_model_data_config(model)
            self._preparation = _Preparation(create_transform(**settings, is_training=False))

        self._model: Any = model.float().eval().to(device)
        self._device = device

    def images(self, pixels: ImageArrays) -> np.ndarray:
        prepare = self._preparation.prepare
        device = self._device
        return _compute_on(device, pixels, lambda part: self._model(prepare(part, device)))


#: sentences in one forward pass
TEXT_BATCH = 128


class TextTeacher(Teacher):
    """Sentence vectors of an encoder by a registered pooling, (n, d), and the last layer at every
    token, (n, L, d).
    """

    gives = ("caption", "tokens")
    pooled = True

    def __init__(self, folder: Path, *, pooling: str, max_length: int, device: str) -> None:
        student = Student.load(folder, pooling, what="teacher folder")
        self._student = student.eval().to(torch.device(device))
        self._max_length = max_length

    def captions(self, sentences: Sequence[str]) -> np.ndarray:
        return self._student.embed(sentences, longest=self._max_length, rows=TEXT_BATCH)

    def tokens(self, sentences: Sequence[str], max_length: int) -> np.ndarray:
        """Compute the last layer at all positions of sentences padded to `max_length`: (n,
        max_length, d) float32.

        Position 0 and padding are included: the public code of DALR normalises over all tokens.
        """

        student = self._student

        def compute_states(part: Sequence[str]) -> Tensor:
            tokens = student.tokenizer(
                list(part),
                truncation=True,
                padding="max_length",
                max_length=max_length,
                return_tensors="pt",
            )
            (last,) = student.run_padded({name: tokens[name].to(student.device) for name in NAMES})
            return last

        return compute_in_batches(sentences, TEXT_BATCH, compute_states)


#: rows read at a time to compute mean and deviation
CHUNK = 4096
#: CLIP's upper bound of 1 / temperature
LARGEST_SCALE = 100.0


@dataclass(frozen=True)
class Tower:
    """Standardise by the moments of the training rows, project and normalise: a dot product is then
    a cosine.
    """

    mean: np.ndarray
    spread: np.ndarray
    weight: np.ndarray

    def __call__(self, features: np.ndarray) -> np.ndarray:
        standardised = _standardise(features, self.mean, self.spread)
        projected: np.ndarray = standardised @ self.weight.T
        lengths = np.linalg.norm(projected, axis=1, keepdims=True)
        projected /= np.maximum(lengths, np.float32(1e-12))
        return projected


def _standardise(features: np.ndarray, mean: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Rows less the mean of each dimension, divided by its deviation: (n, f) float32."""
    standardised: np.ndarray = (np.asarray(features, dtype=np.float32) - mean) / spread
    return standardised


def fit(
    images: np.ndarray | Stacked,
    texts: np.ndarray | Stacked,
    *,
    width: int = 256,
    steps: int = 600,
    batch_size: int = 512,
    learning_rate: float = 1e-3,
    dropout: float = 0.2,
    seed: int = 0,
) -> tuple[Tower, Tower]:
    """Fit the towers of images and of texts to n pairs of rows, (n, f) and (n, g), by InfoNCE in
    both directions.

    CLIP's loss (Radford et al. 2021, Figure 3) with a learnable temperature, over standardised
    features of frozen models as in LiT (Zhai et al. 2022). Deterministic on one machine and number
    of threads. Raises UserError for fewer than two pairs.
    """
    if len(images) != len(texts):
        raise ValueError(f"{len(images)} images for {len(texts)} captions")
    if len(images) < 2:
        raise UserError("fitting a dual encoder needs at least two pairs; use a larger corpus")

    generator = torch.Generator().manual_seed(seed)
    features = (images, texts)
    moments = [_compute_moments(values) for values in features]
    weights = []
    for mean, _ in moments:
        drawn = torch.randn(width, len(mean), generator=generator)
        weights.append((drawn / len(mean) ** 0.5).requires_grad_())
    log_scale = torch.tensor(np.log(1 / 0.07), dtype=torch.float32, requires_grad=True)

    def project(side: int, rows: np.ndarray) -> Tensor:
        """Project rows with dropout, norm 1: (B, width); a cosine needs no rescaling for dropout."""
        values = torch.from_numpy(_standardise(features[side][rows], *moments[side]))
        is_kept = torch.rand(values.shape, generator=generator) >= dropout
        return functional.normalize((values * is_kept) @ weights[side].T, dim=1)

    optimizer = torch.optim.AdamW([*weights, log_scale], lr=learning_rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        # distinct rows in file order, for features mapped from disk
        rows = np.sort(torch.randperm(len(images), generator=generator)[:batch_size].numpy())
        loss = _compute_loss(project(0, rows), project(1, rows), log_scale)

        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()

    image_tower, text_tower = (
        Tower(*moments[side], weights[side].detach().numpy()) for side in (0, 1)
    )
    return image_tower, text_tower


def _compute_loss(first: Tensor, second: Tensor, log_scale: Tensor) -> Tensor:
    logits = first @ second.T * log_scale.exp().clamp(max=LARGEST_SCALE)
    target = torch.arange(len(logits))
    to_second = functional.cross_entropy(logits, target)
    to_first = functional.cross_entropy(logits.T, target)
    return (to_second + to_first) / 2


def _compute_moments(features: np.ndarray | Stacked) -> tuple[np.ndarray, np.ndarray]:
    """Compute mean and deviation of each dimension, in float64 and by chunks; constant dimensions
    have deviation 1.
    """
    count, width = features.shape
    total = np.zeros(width)
    squares = np.zeros(width)
    for start in range(0, count, CHUNK):
        rows = np.arange(start, min(start + CHUNK, count))
        values = np.asarray(features[rows], dtype=np.float64)
        total += values.sum(0)
        squares += (values**2).sum(0)

    mean = total / count
    variance = squares / count - mean**2
    is_constant = variance <= 1e-12 * np.maximum(mean**2, np.finfo(np.float64).tiny)
    deviation = np.sqrt(np.where(is_constant, 1, variance))
    return mean.astype(np.float32), deviation.astype(np.float32)
