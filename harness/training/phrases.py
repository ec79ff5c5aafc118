"""The phrases of a run's captions as places in rows of tokens, and those of each batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from harness.corpora.base import Pairs, Phrases
from harness.corpora.tokens import find_token_spans
from harness.encoders.rows import send
from harness.errors import UserError
from harness.method import PhraseRows


@dataclass(frozen=True)
class TokenPhrases:
    """p phrases of n captions, over all corpora of pairs of a run.

    Those of caption i are `starts[i] : starts[i + 1]`, (n + 1,). `spans` are their tokens in the
    row of the caption, (p, 2), the last not included, and `regions` the row of each in the features
    of the `roles`, (p,). `cut` counts phrases that were left out.
    """

    starts: np.ndarray
    spans: np.ndarray
    regions: np.ndarray
    roles: frozenset[str]
    cut: int = 0

    @classmethod
    def find(
        cls,
        loaded: Sequence[tuple[Pairs, Phrases]],
        tokenizer: object,
        max_length: int,
        roles: frozenset[str],
    ) -> TokenPhrases:
        """Find the tokens of phrases of corpora in order, without those that no row has whole.

        Raises UserError for a tokenizer that does not say where its tokens stand, and if no phrase
        is left.
        """
        captions = []
        spans = []
        regions = []
        caption_count = 0
        region_count = 0
        for pairs, phrases in loaded:
            captions.append(phrases.captions + caption_count)
            regions.append(phrases.regions + region_count)
            spans.append(find_token_spans(pairs.texts, phrases, tokenizer, max_length))
            caption_count += len(pairs)
            region_count += len(phrases.images)

        token_spans = np.concatenate(spans)
        is_whole = token_spans[:, 0] >= 0
        if not is_whole.any():
            raise UserError(
                f"none of the {len(is_whole)} phrases lies within the first {max_length} tokens of "
                "its caption; raise max_length"
            )
        per_caption = np.bincount(np.concatenate(captions)[is_whole], minlength=caption_count)
        return cls(
            starts=np.concatenate([[0], np.cumsum(per_caption)]),
            spans=token_spans[is_whole],
            regions=np.concatenate(regions)[is_whole],
            roles=roles,
            cut=int((~is_whole).sum()),
        )

    def find_regions(self, rows: np.ndarray) -> np.ndarray:
        """The region of each phrase of some captions, (P,)."""
        phrases, _ = self._select(rows)
        regions: np.ndarray = self.regions[phrases]
        return regions

    def batch(self, rows: np.ndarray, device: torch.device) -> PhraseRows:
        """The phrases of the captions of a batch, in their order."""
        phrases, places = self._select(rows)
        values = (places, self.spans[phrases], self.regions[phrases])
        return PhraseRows(*(send(torch.from_numpy(value), device) for value in values))

    def _select(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The phrases of some captions, (P,), and the place of the caption of each among these."""
        counts = self.starts[rows + 1] - self.starts[rows]
        places = np.repeat(np.arange(len(rows)), counts)
        before = np.cumsum(counts) - counts
        return (self.starts[rows] - before)[places] + np.arange(len(places)), places
