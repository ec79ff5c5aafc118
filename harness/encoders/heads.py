"""Heads: those of methods, those published beside an encoder in MCSE's file `mcse.pt`, and those
for masked words.

The file holds the weights of two modules (MCSE src/train_mix.py, src/model.py): `grounding`
projects [CLS] itself, the `mlp` of `visn_model` projects ResNet-50 features; each is a linear layer
and a tanh into 256 dimensions.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from harness.encoders.modules import find_transformer_folder
from harness.encoders.weights import UNREADABLE, convert_errors
from harness.errors import RESTORE, UserError, first_line

if TYPE_CHECKING:
    from transformers import PretrainedConfig

#: the module's key in the file, and the prefix of its weights' names: for captions, then for images
_HEADS = (("grounding", "dense."), ("visn_model", "mlp.dense."))


class TanhHead(nn.Sequential):
    """One linear layer and a tanh: (..., d_in) -> (..., d_out).

    The single-layer MLP of MCSE section 4.1. With `std` the weights are normal of that deviation
    and the bias is 0, as in BERT (the text head of SimCSE and MCSE); otherwise PyTorch's default is
    kept (MCSE's multimodal heads).
    """

    def __init__(self, width_in: int, width_out: int, std: float | None = None) -> None:
        linear = nn.Linear(width_in, width_out)
        if std is not None:
            nn.init.normal_(linear.weight, std=std)
            nn.init.zeros_(linear.bias)
        super().__init__(linear, nn.Tanh())


class WordHead(nn.Module):
    """The head for masked words of a model, frozen: states (..., d) of the last layer -> scores
    (..., V).
    """

    def __init__(self, model: Path | PretrainedConfig, *, fresh: bool = False) -> None:
        """Raises UserError for a folder without such a head, unless a `fresh` one, drawn at random,
        will do.

        The head of a config is random and always the same.
        """
        from transformers import AutoModelForMaskedLM

        super().__init__()
        if isinstance(model, Path):
            masked_model = _load_masked_model(model, fresh=fresh)
        else:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                masked_model = AutoModelForMaskedLM.from_config(model)
        self.model = masked_model.float().eval().requires_grad_(False)

        # in place of the encoder, a function that takes its states
        encoder_name = masked_model.base_model_prefix
        delattr(masked_model, encoder_name)
        setattr(masked_model, encoder_name, _return_states)

    def forward(self, states: Tensor) -> Tensor:
        return self.model(inputs_embeds=states).logits  # type: ignore[no-any-return]


def _load_masked_model(folder: Path, *, fresh: bool) -> Any:
    """Read a model for masked words. Raises UserError for one that lacks weights, unless `fresh`
    ones will do.
    """
    from transformers import AutoModelForMaskedLM

    remedy = "name a model that predicts masked words"
    with convert_errors("head for masked words in", folder, remedy):
        model, about = AutoModelForMaskedLM.from_pretrained(
            find_transformer_folder(folder),
            output_loading_info=True,
            local_files_only=True,
            trust_remote_code=False,
        )
        missing = sorted(about["missing_keys"])
        if missing and not fresh:
            raise ValueError(f"it lacks {missing[0]}")
    return model


def _return_states(*args: Any, inputs_embeds: Tensor, **settings: Any) -> Any:
    from transformers.modeling_outputs import BaseModelOutput

    return BaseModelOutput(inputs_embeds)


def by_view(head: nn.Module, vectors: Tensor) -> tuple[Tensor, ...]:
    """Apply a head to (B, views, d) and return one (B, d_out) tensor per view."""
    return torch.unbind(head(vectors), dim=1)


def read_projections(file: Path) -> tuple[nn.Module, nn.Module]:
    """Read the heads of captions (..., d) -> (..., p) and of images (..., f) -> (..., p). Raises
    UserError.
    """
    try:
        loaded = torch.load(file, map_location="cpu", weights_only=True)
        texts, images = (_build_head(loaded[module], prefix) for module, prefix in _HEADS)
    except UNREADABLE as error:
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise UserError(f"{file} does not have MCSE's projections: {reason}; {RESTORE}") from error
    return texts, images


def _build_head(weights: dict[str, Tensor], prefix: str) -> nn.Module:
    """Build a head from its weights. Raises ValueError if they are not those of one linear layer."""
    if set(weights) != {f"{prefix}weight", f"{prefix}bias"}:
        raise ValueError(
            f"its weights are {', '.join(sorted(weights))}, not {prefix}weight and {prefix}bias"
        )

    weight = weights[f"{prefix}weight"]
    bias = weights[f"{prefix}bias"]

    head = TanhHead(weight.shape[1], weight.shape[0])
    head.load_state_dict({"0.weight": weight.float(), "0.bias": bias.float()})
    return head.eval()
