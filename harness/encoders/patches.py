"""Patch embeddings: images and spectrograms as input sequences of a text encoder's layers.

VisualCSE uses the embedding layer of a pretrained ViT (patches, class token, positions), AudioCSE a
convolution as in SSAST; their output is the input of the first layer (NonLing section 3.3, Figure
1).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from harness.encoders.kernels import compute_attention
from harness.encoders.packed import EncoderLayer, run_layers
from harness.errors import RESTORE, UserError

#: names of class token, positions, patch weight and patch bias in the files that hold a ViT,
#: without prefix
_LAYOUTS = (
    (
        "embeddings.cls_token",
        "embeddings.position_embeddings",
        "embeddings.patch_embeddings.projection.weight",
        "embeddings.patch_embeddings.projection.bias",
    ),
    ("cls_token", "pos_embed", "patch_embed.proj.weight", "patch_embed.proj.bias"),
    ("class_embedding", "positional_embedding", "conv1.weight"),
)
_PREFIXES = ("", "vit.", "visual.")


class ImagePatches(nn.Module):
    """A ViT's embedding layer, trainable: pixels (N, 3, H, W) -> (N, 1 + patches, d)."""

    def __init__(
        self, token: Tensor, positions: Tensor, weight: Tensor, bias: Tensor | None
    ) -> None:
        """Class token (d,), positions (1 + patches, d), patch weight (d, 3, p, p) and bias (d,)."""
        super().__init__()
        width, channels, size, _ = weight.shape
        self.token = nn.Parameter(token.clone())
        self.positions = nn.Parameter(positions.clone())
        self.projection = nn.Conv2d(channels, width, size, size, bias=bias is not None)

        with torch.no_grad():
            self.projection.weight.copy_(weight)
            if bias is not None and self.projection.bias is not None:
                self.projection.bias.copy_(bias)

    @classmethod
    def create(cls, width: int, pixels: int, size: int) -> ImagePatches:
        """Initialise an embedding for images of `pixels` x `pixels` in patches of `size`, to be
        trained from scratch.

        Weights are truncated normal of deviation 0.02 (Dosovitskiy et al. 2021 in timm and
        transformers), the bias is 0. Raises UserError where the patches do not tile the images.
        """
        if size < 1 or pixels % size:
            raise UserError(
                f"patches of {size} x {size} do not tile images of {pixels} x {pixels}; name a divisor"
            )

        patches = (pixels // size) ** 2
        token = _draw_weights(width)
        positions = _draw_weights(1 + patches, width)
        weight = _draw_weights(width, 3, size, size)
        return cls(token, positions, weight, torch.zeros(width))

    @classmethod
    def load(cls, folder: Path, width: int) -> ImagePatches:
        """Read the embedding of a ViT of transformers, timm or open_clip. Raises UserError for
        another width.
        """
        token, positions, weight, bias = _load_embedding(folder)
        if token.numel() != width:
            raise UserError(
                f"the patch embedding in {folder} is {token.numel()} wide and the encoder {width}; "
                "name one of the encoder's width with the option patches=NAME"
            )
        return cls(token.view(-1), positions.view(-1, width), weight, bias)

    def forward(self, pixels: Tensor) -> Tensor:
        size = self.projection.kernel_size[0] * round((len(self.positions) - 1) ** 0.5)
        height, width = pixels.shape[-2:]
        if (height, width) != (size, size):
            raise UserError(
                f"images of {height} x {width} pixels do not fit a patch embedding made for {size} x {size}; "
                f"give the corpus size = {size}"
            )

        patches = self.projection(pixels).flatten(2).transpose(1, 2)
        return _prepend(self.token, patches) + self.positions


def _draw_weights(*shape: int) -> Tensor:
    return nn.init.trunc_normal_(torch.empty(shape), std=0.02)


def _prepend(token: Tensor, patches: Tensor) -> Tensor:
    """A class token, (d,), before the patches of each item: (N, P, d) -> (N, 1 + P, d)."""
    return torch.cat([token.expand(len(patches), 1, -1), patches], dim=1)


class AudioPatches(nn.Module):
    """A class token and square patches of a spectrogram: (N, frames, bins) -> (N, 1 + patches, d).

    Patches do not overlap; 1,024 frames of 128 bins in patches of 24 make 211 vectors (NonLing
    appendix B). Without `positions`, as in the public code, the patches are unordered.
    """

    def __init__(self, width: int, frames: int, bins: int, size: int, *, positions: bool) -> None:
        super().__init__()
        if size < 1 or min(frames, bins) < size:
            raise UserError(
                f"patches of {size} x {size} do not fit spectrograms of {frames} frames and {bins} bins; "
                "give a smaller patch_size"
            )

        count = 1 + (frames // size) * (bins // size)
        self.projection = nn.Conv2d(1, width, size, size)
        self.token = nn.Parameter(torch.randn(width) * 0.02)
        self.positions = nn.Parameter(torch.randn(count, width) * 0.02) if positions else None

    def forward(self, spectrograms: Tensor) -> Tensor:
        images = spectrograms.transpose(1, 2).unsqueeze(1)
        patches = self.projection(images).flatten(2).transpose(1, 2)
        tokens = _prepend(self.token, patches)
        return tokens if self.positions is None else tokens + self.positions


def forward_media(model: Any, embeddings: Tensor, layers: Sequence[EncoderLayer] = ()) -> Tensor:
    """Run embeddings (X, L, d) through a text encoder's layers and take the first position: (X, d).

    The text's embedding layer is skipped, and no position is masked; with `layers` (`Packing`) the
    last layer is computed at the first position only. Raises UserError unless the layers are laid
    out as in BERT and RoBERTa.
    """
    # the encoders of T5 and ALBERT take other inputs
    if not hasattr(getattr(model, "encoder", None), "layer"):
        raise UserError(
            f"{type(model).__name__} has no module 'encoder' for images and audio; use a BERT or RoBERTa encoder"
        )

    if not layers:
        hidden: Tensor = model.encoder(embeddings).last_hidden_state
        return hidden[:, 0]

    items, positions, _ = embeddings.shape

    def attend(query: Tensor, key: Tensor, value: Tensor, dropout: float, scale: float) -> Tensor:
        query, key, value = (
            part.view(items, positions, *part.shape[1:]).transpose(1, 2)
            for part in (query, key, value)
        )
        attended = compute_attention(query, key, value, None, dropout, scale)
        return attended.transpose(1, 2).flatten(0, 1)

    states = embeddings.flatten(0, 1)
    firsts = torch.arange(0, items * positions, positions, device=embeddings.device)
    return run_layers(layers, states, attend, training=model.training, kept=firsts)[-1]


def _load_embedding(folder: Path) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Read class token, positions, patch weight and bias from a folder's safetensors. Raises
    UserError.
    """
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(path, framework="pt") as file:
                for prefix, layout in product(_PREFIXES, _LAYOUTS):
                    names = [prefix + name for name in layout]
                    if set(names).issubset(file.keys()):
                        tensors = [file.get_tensor(name).float() for name in names]
                        token, positions, weight, *bias = tensors
                        return token, positions, weight, bias[0] if bias else None
        except (OSError, SafetensorError) as error:
            raise UserError(f"the weights {path} cannot be read: {error}; {RESTORE}") from error
    raise UserError(
        f"{folder} has no ViT patch embedding in safetensors; give the folder of a ViT or CLIP model that has one"
    )
