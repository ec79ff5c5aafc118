"""The attention of packed rows, as a function that transformers calls; `kernels.py` computes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from harness.encoders.kernels import within

#: the name of the function within transformers, and of the argument that hands it the attention of the rows
NAME, ARGUMENT = "harness-packed", "packed_rows"
#: Keyword arguments of attention without influence on it; any other could change what it computes, and is refused.
_WITHOUT_INFLUENCE = {"position_ids", "output_attentions", "output_hidden_states", "return_dict", "use_cache"}


def registered() -> bool:
    """Make the function known to transformers; False for an older version, which has no such interface."""
    try:
        from transformers import AttentionInterface
        from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
    except ImportError:
        return False
    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    return True


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    packed_rows: Callable[[Tensor, Tensor, Tensor, float, float], Tensor] | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention within rows, as transformers calls it: (B, heads, L, d) three times -> (B, L, heads, d).

    Packed rows are one row of N tokens. Raises TypeError where their attention would need more than the rows.
    """
    odd = [name for name, given in kwargs.items() if given is not None and name not in _WITHOUT_INFLUENCE]
    plain = not odd and attention_mask is None and not getattr(module, "is_causal", False)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    if packed_rows is None and plain and query.device.type == "cpu":
        return within(query, key, value, None, dropout, scale).transpose(1, 2).contiguous(), None
    if packed_rows is None:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        found: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
        return found
    if not plain:
        raise TypeError(f"attention over packed rows has no {', '.join(odd) or 'mask'}")
    query, key, value = (each.squeeze(0).transpose(0, 1) for each in (query, key, value))
    return packed_rows(query, key, value, dropout, scale).unsqueeze(0), None
