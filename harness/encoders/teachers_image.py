"""Image teachers, loaded from folders: the dual encoders of open_clip, and the image networks of timm."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from harness.encoders.teachers import ImageArrays, Teacher, in_batches, reading

#: images or sentences in one forward pass
BATCH = 64


class ClipTeacher(Teacher):
    """Features of images and captions in one space, not normalised: (n, f).

    Captions are tokenised by the tokenizer in the folder where open_clip_config.json names one, else by CLIP's own, and
    cut at the context length of the text tower; `pooling` and `max_length` are ignored.
    """

    gives = ("image", "caption")

    def __init__(self, folder: Path, *, pooling: str, max_length: int, device: str) -> None:
        import open_clip

        needs = "open_clip_config.json, weights and, unless it is CLIP's own, a tokenizer, as open_clip saves them"
        with reading(folder, needs):
            model, self._preprocess = open_clip.create_model_from_pretrained(
                f"local-dir:{folder}", device=device, precision="fp32", return_transform=True
            )
            self._tokenizer = open_clip.get_tokenizer(f"local-dir:{folder}")
        self._model: Any = model.eval()
        self._device = device
        about = model.visual.preprocess_cfg
        size = about["size"]
        self._size = (size, size) if isinstance(size, int) else tuple(size)
        self._mean, self._std = (torch.tensor(about[name]).view(3, 1, 1) for name in ("mean", "std"))

    def images(self, pixels: ImageArrays) -> np.ndarray:
        """Compute features of n images, each (h, w, 3) uint8: (n, f) float32; resized only where the size differs."""
        return in_batches(pixels, BATCH, lambda part: self._model.encode_image(self._prepared(part).to(self._device)))

    def captions(self, sentences: Sequence[str]) -> np.ndarray:
        """Compute features of n captions: (n, f) float32."""
        tokens = self._tokenizer
        return in_batches(sentences, BATCH, lambda part: self._model.encode_text(tokens(part).to(self._device)))

    def _prepared(self, pixels: ImageArrays) -> Tensor:
        """Return the input of the image tower, (n, 3, H, W)."""
        if isinstance(pixels, np.ndarray) and pixels.shape[1:3] == self._size:
            scaled = torch.from_numpy(np.ascontiguousarray(pixels)).permute(0, 3, 1, 2) / 255
            return (scaled - self._mean) / self._std
        return torch.stack([self._preprocess(Image.fromarray(image)) for image in pixels])


class TimmTeacher(Teacher):
    """Pooled features of an image network before its classifier: (n, f); `pooling` and `max_length` are ignored.

    Images are resized, cropped and normalised as the folder's configuration says. For timm/resnet50.tv_in1k that is
    the preprocessing of MCSE's public code: shorter side 256, bilinear, central 224 x 224, ImageNet mean and deviation;
    2,048 features.
    """

    gives = ("image",)

    def __init__(self, folder: Path, *, pooling: str, max_length: int, device: str) -> None:
        import timm
        from timm.data import create_transform, resolve_model_data_config

        with reading(folder, "config.json and weights, as timm saves them"):
            model = timm.create_model(f"local-dir:{folder}", pretrained=True, num_classes=0)
        self._model: Any = model.float().eval().to(device)
        self._transform = create_transform(**resolve_model_data_config(model), is_training=False)
        self._device = device

    def images(self, pixels: ImageArrays) -> np.ndarray:
        """Compute features of n images, each (h, w, 3) uint8: (n, f) float32."""
        return in_batches(pixels, BATCH, self._features)

    def _features(self, pixels: ImageArrays) -> Tensor:
        batch = torch.stack([self._transform(Image.fromarray(image)) for image in pixels])
        features: Tensor = self._model(batch.to(self._device))
        return features
