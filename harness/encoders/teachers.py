"""Frozen image teachers, read by open_clip from a folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from harness.errors import UserError

BATCH = 256


class ImageTeacher:
    """The image tower of a dual encoder, in evaluation mode."""

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        """Load open_clip_config.json and the weights of a folder in float32.

        Raises UserError when open_clip cannot read the folder.
        """
        import open_clip

        try:
            model, self._preprocess = open_clip.create_model_from_pretrained(
                f"local-dir:{folder}", device=device, precision="fp32", return_transform=True
            )
        except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise UserError(
                f"the teacher folder {folder} cannot be read: {first}; "
                "it needs open_clip_config.json and weights, as open_clip saves them"
            ) from error
        self._tower: torch.nn.Module = model.eval()
        self._device = device
        about = model.visual.preprocess_cfg
        size = about["size"]
        self._size = (size, size) if isinstance(size, int) else tuple(size)
        self._mean, self._std = (torch.tensor(about[name]).view(3, 1, 1) for name in ("mean", "std"))

    @torch.inference_mode()
    def encode_images(self, pixels: np.ndarray) -> np.ndarray:
        """Unnormalised features of images: (n, h, w, 3) uint8 -> (n, f) float32."""
        batches = [self._encoded(pixels[start : start + BATCH]) for start in range(0, len(pixels), BATCH)]
        return np.concatenate(batches)

    def _encoded(self, pixels: np.ndarray) -> np.ndarray:
        features: Tensor = self._tower.encode_image(self._prepared(pixels).to(self._device))  # type: ignore[operator]
        return features.float().cpu().numpy()

    def _prepared(self, pixels: np.ndarray) -> Tensor:
        """What the tower takes, (n, 3, H, W): resized and cropped only where the size differs."""
        if pixels.shape[1:3] == self._size:
            scaled = torch.from_numpy(np.ascontiguousarray(pixels)).permute(0, 3, 1, 2) / 255
            return (scaled - self._mean) / self._std
        return torch.stack([self._preprocess(Image.fromarray(image)) for image in pixels])
