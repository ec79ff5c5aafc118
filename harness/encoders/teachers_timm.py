"""Image teachers of timm, such as the ResNet-50 of MCSE."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from harness.encoders.teachers import UNREADABLE, Images, Teacher, unreadable

#: images in one forward pass
BATCH = 64


class TimmTeacher(Teacher):
    """Pooled features of an image network before its classifier: (n, f).

    Images are resized, cropped and normalised as the folder's configuration says. For timm/resnet50.tv_in1k that is
    the preprocessing of MCSE's public code: shorter side 256, bilinear, central
    224 x 224, ImageNet mean and deviation; 2,048 features.
    """

    gives = ("image",)

    def __init__(self, folder: Path, *, pooling: str = "cls", max_length: int = 0, device: str = "cpu") -> None:
        """Load config.json and the weights of a folder in float32; `pooling` and `max_length` are ignored.

        Raises UserError.
        """
        import timm
        from timm.data import create_transform, resolve_model_data_config

        try:
            model = timm.create_model(f"local-dir:{folder}", pretrained=True, num_classes=0)
        except UNREADABLE as error:
            raise unreadable(folder, error, "config.json and weights, as timm saves them") from error
        self._model: Any = model.float().eval().to(device)
        self._transform = create_transform(**resolve_model_data_config(model), is_training=False)
        self._device = device

    @torch.inference_mode()
    def images(self, pixels: Images) -> np.ndarray:
        """Compute features of n images, each (h, w, 3) uint8: (n, f) float32."""
        features = np.empty((len(pixels), self._model.num_features), dtype=np.float32)
        for start in range(0, len(pixels), BATCH):
            part = pixels[start : start + BATCH]
            batch = torch.stack([self._transform(Image.fromarray(image)) for image in part])
            features[start : start + len(part)] = self._model(batch.to(self._device)).cpu().numpy()
        return features
