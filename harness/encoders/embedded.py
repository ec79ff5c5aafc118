"""What a method changes where tokens are embedded, in one pass of an encoder: their places and their
embeddings.

Both are functions of packed rows, so that they see no padding: N tokens of all rows and views, one
row after another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from harness.encoders.rows import Packed
from harness.errors import UserError

#: rows -> the place of each token in its row, (N,) int64, in place of `rows.columns`
PlaceTokens = Callable[[Packed], Tensor]
#: embedded tokens and their rows -> other embedded tokens, (N, d) both
ChangeEmbedded = Callable[[Tensor, Packed], Tensor]


@dataclass(frozen=True)
class EmbeddingChange:
    """The functions of one pass; None where one of both stays."""

    places: PlaceTokens | None = None
    embedded: ChangeEmbedded | None = None

    @property
    def is_empty(self) -> bool:
        return self.places is None and self.embedded is None

    def move_positions(self, positions: Tensor, packed: Packed) -> Tensor:
        """The position ids of N tokens, (N,), as the places say. Raises UserError for places
        outside of the rows.
        """
        if self.places is None:
            return positions

        columns = self.places(packed)
        if columns.shape != packed.columns.shape:
            raise UserError(
                f"places= returned {tuple(columns.shape)} places for {len(packed.columns)} tokens; "
                "return the place of each token in its row"
            )

        # on an accelerator, looking at the values would block
        if columns.device.type == "cpu":
            lengths = packed.offsets.diff()[packed.row_numbers]
            if bool(((columns < 0) | (columns >= lengths)).any()):
                raise UserError(
                    "places= returned a place outside of its row; a row of L tokens has the places "
                    "0 to L - 1"
                )

        firsts = packed.firsts.long()[packed.row_numbers]
        return positions[firsts + columns]

    def change_states(self, states: Tensor, packed: Packed) -> Tensor:
        """The embedded tokens, (N, d), changed. Raises UserError for another shape."""
        if self.embedded is None:
            return states

        changed = self.embedded(states, packed)
        if changed.shape != states.shape:
            raise UserError(
                f"embedded= returned {tuple(changed.shape)} for embedded tokens of "
                f"{tuple(states.shape)}; return as many"
            )
        return changed


#: of a pass in which nothing is changed
NO_CHANGE = EmbeddingChange()


@contextmanager
def apply_change(model: Any, change: EmbeddingChange, packed: Packed) -> Iterator[None]:
    """Change what the embeddings of an encoder return while it runs by its modules, over one row of
    packed tokens, (1, N, d), or over padded rows, (B, L, d).

    Raises UserError for an encoder without a module `embeddings`.
    """
    if change.embedded is None:
        yield
        return

    embeddings = getattr(model, "embeddings", None)
    if not isinstance(embeddings, nn.Module):
        raise UserError(
            f"{type(model).__name__} has no module `embeddings`, whose states embedded= changes; "
            "use an encoder such as BERT or RoBERTa"
        )

    def change_output(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        states = output.flatten(0, 1)
        if len(states) == len(packed.ids):
            return change.change_states(states, packed).view_as(output)

        # padded rows: the change sees the tokens alone
        tokens = change.change_states(states.index_select(0, packed.places), packed)
        return states.index_copy(0, packed.places, tokens).view_as(output)

    handle = embeddings.register_forward_hook(change_output)
    try:
        yield
    finally:
        handle.remove()


def pad_positions(positions: Tensor, packed: Packed, first: int) -> Tensor:
    """The position ids of N tokens at their places in padded rows, (B, L); those of padding are
    that before `first`, the position of a row's first token.
    """
    shape = (packed.rows, packed.longest)
    position_of_padding = max(0, first - 1)
    padded = positions.new_full(shape, position_of_padding)
    padded.view(-1).index_copy_(0, packed.places, positions)
    return padded


@contextmanager
def set_dropout(model: nn.Module, rate: float) -> Iterator[None]:
    """Set the dropout of an encoder's states and attention to a rate; 0 is none. In evaluation mode
    there is none at any rate.

    Raises UserError for a rate below 0, and for 1 or more.
    """
    if not 0 <= rate < 1:
        raise UserError(f"dropout= must be 0 or more and below 1, not {rate:g}")

    # evaluation mode leaves out dropout whatever its name
    changed_value = rate if rate else False
    before: list[tuple[nn.Module, str, Any]] = []
    for module in model.modules():
        names = _list_rates(module) if rate else ["training"]
        before += [(module, name, getattr(module, name)) for name in names]

    try:
        for module, name, _ in before:
            setattr(module, name, changed_value)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def _list_rates(module: nn.Module) -> list[str]:
    """The names of a module's rates of dropout: `p`, or a number such as `attention_dropout`."""
    if isinstance(module, nn.Dropout):
        return ["p"]
    return [
        name
        for name, value in vars(module).items()
        if "dropout" in name and isinstance(value, float)
    ]
