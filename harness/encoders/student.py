"""The student: a Hugging Face encoder with its tokenizer and its pooling, which embeds sentences."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from harness.encoders.adapters import add_adapters, merge_weights, remove_adapters
from harness.encoders.changes import Hooks
from harness.encoders.embedded import (
    NO_CHANGE,
    ChangeEmbedded,
    EmbeddingChange,
    PlaceTokens,
    apply_change,
    pad_positions,
    set_dropout,
)
from harness.encoders.heads import WordHead
from harness.encoders.kernels import replace_dropout
from harness.encoders.modules import write_modules
from harness.encoders.packed import (
    Packing,
    States,
    compute_positions,
    find_layers,
    restore_packing,
    run_packed,
    run_padded,
    run_to_first_tokens,
)
from harness.encoders.patches import forward_media
from harness.encoders.poolings import get_pooling
from harness.encoders.rows import (
    NAMES,
    EncoderInputs,
    IdRows,
    Packed,
    TokenRows,
    count_tokens_a_batch,
    make_batches,
)
from harness.encoders.tokenizer import read_tokenizer
from harness.encoders.trial import ROWS_OF_IDS, TrialFindings, TrialKey, load_tried, try_student
from harness.encoders.weights import convert_errors, load_encoder
from harness.errors import UserError

log = logging.getLogger(__name__)

#: largest difference of packed and padded states on any device, relative to the largest value
CLOSE = 1e-3
HOOKED = "its modules have hooks, which a packed pass would go round"


class Student(nn.Module):
    """An encoder that turns sentences into vectors of `width` dimensions, packed where its
    architecture allows that.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any,
        pooling: str = "cls",
        *,
        max_length: int = 0,
        rates: tuple[float, float] = (-1.0, -1.0),
        found: TrialFindings | None = None,
        remarks: tuple[str, ...] = (),
    ) -> None:
        """`model` is on the CPU, where a trial decides how rows are read, unless an earlier one has
        `found` it; `remarks` on how it was read are kept with what the trial finds.

        `max_length` is what sentences of training are cut at, 0 for none; `rates` are those of
        dropout, of states and of attention, that were asked for, -1 for none. Raises UserError for
        a model that cannot be used with this pooling or length, or does not follow these rates.
        """
        super().__init__()
        replace_dropout(model)
        self.model = model
        self.tokenizer = tokenizer
        self.pooling = get_pooling(pooling)

        self.patches = nn.ModuleDict()
        # in a tuple, which hides its parameters from the student: the head belongs to the method
        self._heads: tuple[nn.Module, ...] = ()

        self.folder: Path | None = None
        #: the rank of the matrices that are trained in place of the encoder's weights; 0 for none
        self.lora_rank = 0
        #: how sentences are packed; None for an encoder that computes on padding
        self.packing: Packing | None = None
        self._hooks = Hooks(model)
        #: why rows are padded though the trial allows to pack them; empty where they are packed
        self.why_unpacked = ""
        #: what the trial has found
        self.found = found or TrialFindings()
        if found is None:
            try_student(self, max_length, rates)
            self.found = replace(self.found, remarks=remarks)
        elif found.rows == "packed":
            self.packing = restore_packing(model, found.position, direct=found.direct)

        if self.packing is None:
            log.warning(
                "%s computes on padding too: its attention does not go through transformers' AttentionInterface, or "
                "needs more than the tokens of a sentence",
                type(model).__name__,
            )

    @classmethod
    def load(
        cls,
        folder: Path,
        pooling: str = "cls",
        *,
        own_head: bool = True,
        trusted: bool = False,
        max_length: int = 0,
        rates: tuple[float, float] = (-1.0, -1.0),
        what: str = "model folder",
        found: TrialFindings | None = None,
    ) -> Student:
        """Read a model folder (config.json, weights, tokenizer), called `what` in messages, in
        float32, and try it.

        The encoder's pooler is dropped, or becomes the head if the pooling needs one; a method that
        trains its own head does not use it (`own_head=False`). `trusted` allows code in the folder
        to be executed. `rates` of dropout, of states and of attention, replace those of its
        config.json, -1 keeps them. A model that an equal one was `found` to be like is not tried.
        Raises UserError for an unknown pooling, a folder that
        transformers cannot read, weights that do not fit, dropout that the encoder does not have,
        and as the constructor.
        """
        with_pooler = own_head and get_pooling(pooling).head
        with convert_errors(
            what,
            folder,
            "it needs config.json, weights and a tokenizer, as transformers saves them",
            trusted=trusted,
        ):
            model = load_encoder(folder, pooler=with_pooler, trusted=trusted, rates=rates)
            tokenizer, remarks = read_tokenizer(folder, trusted=trusted)

        pooler = getattr(model, "pooler", None)
        if hasattr(model, "pooler"):
            model.pooler = nn.Identity()  # some encoders call theirs unconditionally
        # as rows are padded here, and for those who load an exported model
        tokenizer.padding_side = "right"

        make = partial(cls, model, tokenizer, pooling, max_length=max_length, rates=rates)
        if found is None:
            key = TrialKey(folder, pooling, own_head, trusted, max_length, rates)
            student = load_tried(key, what, lambda known: make(found=known, remarks=remarks))
        else:
            student = make(found=found)

        student.folder = folder

        if with_pooler and pooler is not None:
            student.read_through(nn.Sequential(pooler.dense, nn.Tanh()))
        return student

    @property
    def width(self) -> int:
        config: Any = self.model.config
        return int(config.hidden_size)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence that `embed` reads."""
        return self.found.longest

    def tokenize(self, sentences: Sequence[str], max_length: int) -> TokenRows:
        """Token ids of B > 0 sentences with special tokens, cut at `max_length`, on the CPU."""
        encoded = self.tokenizer(list(sentences), truncation=True, max_length=max_length)
        return self._make_token_rows(encoded["input_ids"])

    def _make_token_rows(self, rows: IdRows) -> TokenRows:
        return TokenRows.from_lists(rows, self.tokenizer.pad_token_id)

    def attach(self, name: str, patches: nn.Module) -> None:
        """Add the patch embedding for inputs called `name` ('pixels', 'spectrograms'), of the
        encoder's width.
        """
        self.patches[name] = patches.to(self.device)

    def read_through(self, head: nn.Module | None) -> None:
        """Set the head, (n, d) -> (n, d), that is applied to pooled vectors if the pooling uses
        one.
        """
        self._heads = () if head is None else (head,)

    def adapt(self, rank: int) -> None:
        """Train matrices of a rank beside the encoder's linear layers, and none of its weights. Raises
        UserError.
        """
        add_adapters(self.model, rank)
        self.lora_rank = rank
        self.look_again()

    def load_whole(self, weights: dict[str, Tensor]) -> None:
        """Load the weights of a saved model, which has no low-rank matrices: those of this one are
        removed.
        """
        if self.lora_rank:
            remove_adapters(self.model)
            self.lora_rank = 0
            self.look_again()
        self.model.load_state_dict(weights)

    def get_whole_weights(self) -> dict[str, Tensor]:
        """The encoder's weights as a saved model has them, with low-rank matrices merged into them."""
        return merge_weights(self.model) if self.lora_rank else self.model.state_dict()

    def forward(self, inputs: EncoderInputs, views: int, **changes: Any) -> Tensor:
        return self.encode(inputs, views, **changes)

    def encode(
        self,
        inputs: EncoderInputs,
        views: int,
        *,
        dropout: float | None = None,
        places: PlaceTokens | None = None,
        embedded: ChangeEmbedded | None = None,
    ) -> Tensor:
        """Compute the vector of each item under `views` views in one forward pass: (B, views, d).

        Sentences (input_ids and attention_mask, (B, L)), pooled before any head, and spectrograms
        (B, frames, bins) are repeated; pixels are (B, views, 3, H, W). Images and spectrograms
        enter the encoder's layers as sequences of patches, of which the first is taken. `dropout`,
        `places` and `embedded` are those of `harness.method.Encode`.
        """
        if dropout is not None:
            with self._set_dropout(dropout):
                return self.encode(inputs, views, places=places, embedded=embedded)

        change = EmbeddingChange(places, embedded)
        if "input_ids" in inputs:
            return _split_views(self._pool(inputs, views, change), views)

        if not change.is_empty:
            raise UserError("places= and embedded= change tokens; images and recordings have none")

        ((name, media),) = inputs.items()
        # pixels come with the augmented views of an item
        items = media.flatten(0, 1) if name == "pixels" else media.repeat_interleave(views, dim=0)
        packing = self._get_packing()
        layers = packing.layers if packing else ()
        vectors = forward_media(self.model, self.patches[name](items), layers)
        return vectors.view(-1, views, vectors.shape[-1])

    def states(
        self,
        inputs: EncoderInputs,
        views: int = 1,
        *,
        dropout: float | None = None,
        places: PlaceTokens | None = None,
        embedded: ChangeEmbedded | None = None,
    ) -> Tensor:
        """Compute the last layer at every token of B rows: (B, views, L, d), of no meaning at
        padding; changed as by `encode`.
        """
        if dropout is not None:
            with self._set_dropout(dropout):
                return self.states(inputs, views, places=places, embedded=embedded)

        change = EmbeddingChange(places, embedded)

        (last,) = self._encode_layers(inputs, views, all_layers=False, change=change)
        return _split_views(last, views)

    def second(self) -> Student:
        """Copy this student, in the same mode, with weights of its own, which no optimizer moves
        unless `.requires_grad_(True)` is called on the copy.
        """
        return copy.deepcopy(self, {id(self.tokenizer): self.tokenizer}).requires_grad_(False)

    @torch.no_grad()
    def follow(self, other: Student, momentum: float) -> None:
        """Replace each weight by `momentum` times itself plus 1 - `momentum` times that of an equal
        student.
        """
        torch._foreach_lerp_([*self.model.parameters()], [*other.model.parameters()], 1 - momentum)

    def word_head(self, *, fresh: bool = False) -> WordHead:
        """The head for masked words of this model's folder; a missing one is random if `fresh`.
        Raises UserError.
        """
        return WordHead(self.folder or self.model.config, fresh=fresh).to(self.device)

    def views(self, sentences: Sequence[str], count: int) -> Tensor:
        """Compute `count` vectors of each of n sentences in one pass, equal unless dropout is
        active: (n, count, d).
        """
        vectors = self.pool(self.tokenize(sentences, self.longest).to(self.device), count)
        return _split_views(vectors, count)

    def pool(self, tokens: EncoderInputs, views: int = 1) -> Tensor:
        """Encode the rows `views` times, one set after another, with pooling and head: (views x B,
        d).
        """
        vectors = self._pool(tokens, views)
        headed: Tensor = self._heads[0](vectors) if self.pooling.head else vectors
        return headed

    def compute_vectors(self, rows: IdRows, views: int = 1) -> Tensor:
        """Encode B rows of token ids `views` times, pooled without a head, on the CPU: (views x B,
        d).
        """
        return self._pool(self._make_token_rows(rows), views)

    def compute_layers(self, rows: IdRows) -> States:
        """Encode B rows of token ids on the CPU: (B, L, d), the last of the hidden states."""
        return self._encode_layers(self._make_token_rows(rows), 1, all_layers=False)

    @contextmanager
    def _set_dropout(self, rate: float) -> Iterator[None]:
        """Encode with another rate of dropout."""
        packing = self.packing
        with set_dropout(self.model, rate):
            if packing is not None and packing.layers:
                self.packing = replace(packing, layers=find_layers(self.model))
            try:
                yield
            finally:
                self.packing = packing

    def _pool(
        self, tokens: EncoderInputs, views: int = 1, change: EmbeddingChange = NO_CHANGE
    ) -> Tensor:
        if self.pooling.first_token:
            # without the mask of the rows, which a packed pass need not have on its device
            firsts = self._encode_first_tokens(tokens, views, change).unsqueeze(1)
            mask = torch.ones(firsts.shape[:2], dtype=torch.int64, device=firsts.device)
            return self.pooling((firsts,), mask)

        all_layers = self.pooling.all_layers
        layers = self._encode_layers(tokens, views, all_layers=all_layers, change=change)
        return self.pooling(layers, tokens["attention_mask"].repeat(views, 1))

    def _encode_first_tokens(
        self, tokens: EncoderInputs, views: int, change: EmbeddingChange
    ) -> Tensor:
        """Encode the rows `views` times; the last layer at the first token, one set after another:
        (views x B, d).
        """
        packed = self._pack(tokens, views)
        if packed:
            return run_to_first_tokens(self.model, *packed, change)

        (last,) = self._encode_layers(tokens, views, all_layers=False, change=change)
        return last[:, 0]

    def _encode_layers(
        self,
        tokens: EncoderInputs,
        views: int,
        *,
        all_layers: bool,
        change: EmbeddingChange = NO_CHANGE,
    ) -> States:
        """Encode the rows `views` times; hidden states of the last or all layers: (views x B, L, d)
        each.
        """
        packed = self._pack(tokens, views)
        if packed:
            states = run_packed(self.model, *packed, all_layers=all_layers, change=change)
            return tuple(map(packed[0].pad, states))

        repeated = {name: value.repeat(views, 1) for name, value in tokens.items()}
        if not change.is_empty:
            return self._run_changed(repeated, change, all_layers=all_layers)
        if self.found.rows == "equal lengths":
            return self._run_by_length(repeated, all_layers=all_layers)
        return self.run_padded(repeated, all_layers=all_layers)

    def _run_changed(
        self, tokens: EncoderInputs, change: EmbeddingChange, *, all_layers: bool
    ) -> States:
        """As `run_padded`, with changed places or embeddings. Raises UserError for an encoder whose
        rows could never be packed, since it is not known how it places tokens.
        """
        rows = TokenRows.from_tokens(tokens)
        if rows is None or not (self.packing or self.why_unpacked):
            raise UserError(
                f"{type(self.model).__name__} computes on padding, so places= and embedded= cannot "
                "say which tokens they change; use an encoder such as BERT or RoBERTa"
            )

        packed = rows.packed
        first = self.found.position
        positions = change.move_positions(compute_positions(packed, first), packed)
        more_inputs = {"position_ids": pad_positions(positions, packed, first)}
        with apply_change(self.model, change, packed):
            return self.run_padded(tokens, all_layers=all_layers, more=more_inputs)

    def run_padded(
        self,
        tokens: EncoderInputs,
        *,
        all_layers: bool = False,
        more: EncoderInputs | None = None,
    ) -> States:
        """Run the encoder over rows padded at their end, with `more` of its inputs: (B, L, d) each,
        the last of the hidden states or all.
        """
        inputs = {name: tokens[name] for name in NAMES}
        if any(self.found.types):
            first, within, last = self.found.types
            types = torch.full_like(inputs["input_ids"], within)
            types[:, 0] = first
            last_columns = inputs["attention_mask"].sum(1, keepdim=True) - 1
            types.scatter_(1, last_columns, last)
            inputs["token_type_ids"] = types

        return run_padded(self.model, inputs | dict(more or {}), all_layers=all_layers)

    def _run_by_length(self, tokens: EncoderInputs, *, all_layers: bool) -> States:
        """Run the encoder over rows of each length apart: as `run_padded`, with zeros at padding."""
        lengths = tokens["attention_mask"].sum(1)
        longest = int(lengths.max())

        rows_by_length = []
        layers_by_length = []
        for length in sorted(set(lengths.tolist())):
            rows = (lengths == length).nonzero().flatten()
            cut = {name: value[rows, :length] for name, value in tokens.items()}
            layers = self.run_padded(cut, all_layers=all_layers)
            padding = (0, 0, 0, longest - length)
            rows_by_length.append(rows)
            layers_by_length.append([nn.functional.pad(states, padding) for states in layers])

        order = torch.cat(rows_by_length).argsort()
        return tuple(torch.cat(states)[order] for states in zip(*layers_by_length, strict=True))

    def _pack(self, tokens: EncoderInputs, views: int) -> tuple[Packed, Packing] | None:
        """Return `views` packed copies of the rows and the packing to use; None if rows stay
        padded.
        """
        allowed = self._get_packing()
        packing = allowed.select_attention(self.model) if allowed else None
        if packing is None:
            return None

        rows = TokenRows.from_tokens(tokens)
        return None if rows is None else (rows.packed.repeat(views), packing)

    def _get_packing(self) -> Packing | None:
        """The packing; None for an encoder with hooks, which a packed pass would go round."""
        if self.packing is None or torch.compiler.is_compiling() or not self._hooks:
            return self.packing

        self.why_unpacked = HOOKED
        return None

    def look_again(self) -> None:
        """Adapt to an encoder that other code has changed: rows are padded from now on where its
        modules have hooks, or compute other vectors than a packed pass.
        """
        self._hooks = Hooks(self.model)
        if self.packing is None:
            return

        if self.packing.layers:
            self.packing = replace(self.packing, layers=find_layers(self.model))
        if self._hooks:
            self.why_unpacked = HOOKED
        elif not self._is_packed_rightly():
            self.why_unpacked = "its modules compute other vectors than its parameters alone"

        if self.why_unpacked:
            self.packing = None
            self.found = replace(self.found, rows="padded")

    @torch.no_grad()
    def _is_packed_rightly(self) -> bool:
        """Whether packed and padded rows have the same states in evaluation mode."""
        tokens = self._make_token_rows(ROWS_OF_IDS).to(self.device)
        modes = {module: module.training for module in self.modules()}
        self.eval()
        (packed,) = self._encode_layers(tokens, 1, all_layers=False)
        (padded,) = self.run_padded(tokens)
        for module, was_training in modes.items():
            module.training = was_training

        is_token = tokens["attention_mask"].bool()
        difference = (packed - padded)[is_token].abs().max()
        return bool(difference <= CLOSE * padded[is_token].abs().max())

    def embed(
        self,
        sentences: Sequence[str],
        report: Callable[[int, int], None] = lambda done, total: None,
        *,
        longest: int | None = None,
        rows: int | None = None,
        headed: bool = True,
    ) -> np.ndarray:
        """Embed n sentences in evaluation mode and the order given: float32 (n, d).

        Sentences are tokenised once, cut at `longest` tokens where that is given, and batched by
        length: `rows` of them a batch, or with a bounded number of tokens. `report` is called with
        (sentences done, n) before the first batch and after each. `headed=False` leaves out the
        head of the pooling.
        """
        if not sentences:
            return np.empty((0, self.width), dtype=np.float32)
        report(0, len(sentences))
        return self.embed_rows(self.list_ids(sentences, longest), report, rows=rows, headed=headed)

    def list_ids(self, sentences: Sequence[str], longest: int | None = None) -> IdRows:
        """The token ids of n > 0 sentences that `embed` reads."""
        max_length = self.longest if longest is None else longest
        encoded = self.tokenizer(list(sentences), truncation=True, max_length=max_length)
        rows: IdRows = encoded["input_ids"]
        return rows

    @torch.inference_mode()
    def embed_rows(
        self,
        ids: IdRows,
        report: Callable[[int, int], None] = lambda done, total: None,
        *,
        rows: int | None = None,
        headed: bool = True,
    ) -> np.ndarray:
        """Embed n > 0 rows of token ids as `embed` does sentences; `report` is called after each
        batch.
        """
        was_training = self.training
        self.eval()
        lengths = np.array(list(map(len, ids)), dtype=np.int64)

        pool = self.pool if headed else self._pool
        vectors = np.empty((len(ids), self.width), dtype=np.float32)
        done = 0
        for batch in make_batches(lengths, rows, count_tokens_a_batch(self.device, self.width)):
            tokens = self._make_token_rows([ids[row] for row in batch]).to(self.device)
            vectors[batch] = pool(tokens).float().cpu().numpy()
            done += len(batch)
            report(done, len(ids))

        self.train(was_training)
        return vectors

    def save(self, folder: Path) -> None:
        """Write the encoder and its tokenizer as a folder that AutoModel and sentence-transformers
        load.

        Its bytes do not depend on what was encoded before; low-rank matrices are merged. The head
        becomes the model's pooler: the same layer and tanh. Only AutoModel loads a folder with a
        pooling that sentence-transformers does not have. Raises UserError for a pooling that needs
        a head where there is none.
        """
        weights = dict(self.get_whole_weights())
        head_weights = {}
        for head in self._heads:
            for full_name, value in head.state_dict().items():
                name = full_name.rpartition(".")[2]
                head_weights[name] = value
                weights[f"pooler.dense.{name}"] = value

        # transformers 5 would write the weight names of the original file, such as `gamma` of the
        # first BERT
        self.model.save_pretrained(str(folder), state_dict=weights, save_original_format=False)  # type: ignore[operator]

        # a fast tokenizer would save how its last caller cut and padded
        fast = getattr(self.tokenizer, "backend_tokenizer", None)
        if fast is not None:
            fast.no_truncation()
            fast.no_padding()
        self.tokenizer.save_pretrained(str(folder))
        write_modules(folder, self.pooling, self.width, self.longest, head_weights)


def _split_views(values: Tensor, views: int) -> Tensor:
    """Rows encoded `views` times, one set after another, as views of each: (B, views, ...)."""
    return values.view(views, -1, *values.shape[1:]).transpose(0, 1)
