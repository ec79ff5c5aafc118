"""CLIP teachers: both towers of a dual encoder, loaded by open_clip from a folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from harness.encoders.teachers import UNREADABLE, Images, Teacher, unreadable

#: images or sentences in one forward pass
BATCH = 64


class ClipTeacher(Teacher):
    """Features of images and captions in one space, not normalised: (n, f).

    Captions are tokenised by the tokenizer in the folder where open_clip_config.json names one, else by
    CLIP's own, and cut at the context length of the text tower.
    """

    gives = ("image", "caption")

    def __init__(self, folder: Path, *, pooling: str = "cls", max_length: int = 0, device: str = "cpu") -> None:
        """Load open_clip_config.json and the weights of a folder in float32; `pooling` and `max_length` are ignored.

        Raises UserError.
        """
        import open_clip

        try:
            model, self._preprocess = open_clip.create_model_from_pretrained(
                f"local-dir:{folder}", device=device, precision="fp32", return_transform=True
            )
            self._tokenizer = open_clip.get_tokenizer(f"local-dir:{folder}")
        except UNREADABLE as error:
            needs = "open_clip_config.json, weights and, unless it is CLIP's own, a tokenizer, as open_clip saves them"
            raise unreadable(folder, error, needs) from error
        self._model: Any = model.eval()
        self._device = device
        about = model.visual.preprocess_cfg
        size = about["size"]
        self._size = (size, size) if isinstance(size, int) else tuple(size)
        self._mean, self._std = (torch.tensor(about[name]).view(3, 1, 1) for name in ("mean", "std"))

    def images(self, pixels: Images) -> np.ndarray:
        """Compute features of n images, each (h, w, 3) uint8: (n, f) float32; resized only where the size differs."""
        return self._batched(pixels, lambda part: self._model.encode_image(self._prepared(part).to(self._device)))

    def captions(self, sentences: Sequence[str]) -> np.ndarray:
        """Compute features of n captions: (n, f) float32."""
        return self._batched(sentences, lambda part: self._model.encode_text(self._tokenizer(part).to(self._device)))

    @torch.inference_mode()
    def _batched(self, items: Any, encode: Callable[[Any], Tensor]) -> np.ndarray:
        parts = [items[start : start + BATCH] for start in range(0, len(items), BATCH)]
        return np.concatenate([encode(part).float().cpu().numpy() for part in parts])

    def _prepared(self, pixels: Images) -> Tensor:
        """Return the input of the image tower, (n, 3, H, W)."""
        if isinstance(pixels, np.ndarray) and pixels.shape[1:3] == self._size:
            scaled = torch.from_numpy(np.ascontiguousarray(pixels)).permute(0, 3, 1, 2) / 255
            return (scaled - self._mean) / self._std
        return torch.stack([self._preprocess(Image.fromarray(image)) for image in pixels])
