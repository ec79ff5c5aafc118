"""Low-rank training (LoRA, Hu et al. 2022) by peft: thin matrices beside the linear layers of an
encoder are trained in place of its weights.

A layer of weight W computes (W + B A) x, where A is drawn and B is 0 at first, without dropout.
Saved weights are W + B A, so that a saved model needs no peft. Plans import no torch by this file.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from harness.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor, nn

#: the name that peft gives to matrices of which there is one pair a layer
_ADAPTER = "default"


def check_peft() -> None:
    """Raise UserError where peft is not installed."""
    if find_spec("peft") is None:
        raise UserError(
            "lora_rank needs peft, which is not installed; install it with "
            "`pip install 'sentence-harness[lora]'`"
        )


def add_adapters(model: nn.Module, rank: int) -> None:
    """Freeze an encoder, and add matrices of a rank beside each of its linear layers; A is drawn
    from torch's generator on the CPU.

    Raises UserError without peft, and for an encoder that peft cannot adapt.
    """
    check_peft()
    from peft import LoraConfig, inject_adapter_in_model

    config = LoraConfig(
        r=rank, lora_alpha=rank, lora_dropout=0.0, target_modules="all-linear", bias="none"
    )
    try:
        inject_adapter_in_model(config, model, _ADAPTER)
    except (ValueError, NotImplementedError) as error:
        raise UserError(
            f"peft cannot adapt {type(model).__name__}: {error}; leave lora_rank out"
        ) from error


def merge_weights(model: nn.Module) -> dict[str, Tensor]:
    """The weights of an adapted encoder under the names that they have without adapters, each W
    replaced by W + B A.
    """
    weights = dict(model.state_dict())
    for name, layer in _adapted_layers(model):
        for own_name in layer.state_dict():
            del weights[f"{name}.{own_name}"]
        base = layer.get_base_layer()
        for own_name, value in base.state_dict().items():
            weights[f"{name}.{own_name}"] = value
        weights[f"{name}.weight"] = base.weight.detach() + layer.get_delta_weight(_ADAPTER).detach()
    return weights


def remove_adapters(model: Any) -> None:
    """Put the linear layers of an adapted encoder back in place, as they were before."""
    for name, layer in list(_adapted_layers(model)):
        parent, _, own_name = name.rpartition(".")
        setattr(model.get_submodule(parent), own_name, layer.get_base_layer())
    del model.peft_config


def _adapted_layers(model: nn.Module) -> Iterator[tuple[str, Any]]:
    from peft.tuners.lora import LoraLayer

    for name, module in model.named_modules():
        if isinstance(module, LoraLayer):
            yield name, module
