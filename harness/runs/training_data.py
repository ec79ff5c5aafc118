"""What one run trains on: tokens, images, recordings and teacher features."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from transformers import PreTrainedTokenizerBase

from harness.corpora.base import Media, Pairs
from harness.corpora.tokens import TokenFile, Tokens, cached_tokens
from harness.encoders.features import Stacked
from harness.errors import UserError
from harness.grid import Resolved
from harness.inputs import MEDIA, Stream
from harness.planning.events import Stage
from harness.planning.ingredients import Experiment
from harness.planning.inventory import UsedCorpus
from harness.planning.pairs import FeatureContext, KnownPairs
from harness.seeds import generator
from harness.setting import kept_rows
from harness.sources import digest
from harness.training.batching import Mixing
from harness.training.streams import Subset, TrainingData


@dataclass(frozen=True)
class RunFeatures:
    """The teacher features of one run: of its own pairs for training, and of other pairs for evaluation."""

    experiment: Experiment
    context: FeatureContext

    def load(self, pairs: Sequence[KnownPairs]) -> dict[str, Stacked | np.ndarray]:
        """The features of each role over the run's pair corpora, one row a caption, (n, ...)."""
        roles, seed = self.experiment.ingredients.features, self.experiment.resolved.spec.seed
        return {role: features.load(pairs, seed, self.context) for role, features in roles.items()}

    def of_images(self, pairs: Pairs, content: str) -> np.ndarray:
        """The role 'image' of other images, (n, f); `content` is their hash. A control has the true features here."""
        teacher = self.experiment.ingredients.test_teachers["image"]
        return teacher.features(KnownPairs.of_content(pairs, content), self.context)

    def of_captions(self, texts: Sequence[str], content: str) -> np.ndarray | None:
        """Features of n other captions, (n, f); None unless one teacher has both roles 'image' and 'caption'."""
        teacher = self.experiment.ingredients.test_teachers.get("caption")
        if teacher is None:
            return None
        return teacher.features(KnownPairs.of_content(Pairs(texts), digest("captions", content)), self.context)


def training_data(features: RunFeatures, tokenizer: PreTrainedTokenizerBase) -> TrainingData:
    """Load the corpora of a run and the features that its method asks for, row by row of the pairs.

    Raises MissingData or UserError.
    """
    run, listen = features.experiment.resolved, features.context.listen
    streams: dict[Stream, list[UsedCorpus]] = {}
    for corpus in features.experiment.ingredients.corpora:
        streams.setdefault(corpus.stream, []).append(corpus)
    media = {stream: _media(run, listed) for stream, listed in streams.items() if stream in MEDIA}
    tokens = {
        stream: _tokens(run, listed, tokenizer, listen) for stream, listed in streams.items() if stream not in MEDIA
    }
    pairs = [KnownPairs.of_corpus(corpus) for corpus in streams.get("pairs", []) if run.features]
    loaded: list[Media | Pairs] = [*media.values(), *(known.pairs for known in pairs)]
    warnings = tuple(line for one in loaded for line in one.warnings)
    return TrainingData(tokens, features.load(pairs), media, _subsets(run, tokens), warnings)


def unread_text(run: Resolved, mixing: Mixing) -> Iterator[str]:
    """A warning if the mixing of a run's steps never reads the setting's text."""
    if mixing.leaves_out_text:
        text = ", ".join(name for name, stream in run.streams.items() if stream in ("sentences", "triplets"))
        yield f"{run.spec.variant} uses pairs in every step of {run.spec.setting}: the text ({text}) is never read"


def _tokens(
    run: Resolved,
    listed: Sequence[UsedCorpus],
    tokenizer: PreTrainedTokenizerBase,
    listen: Callable[[Stage], None],
) -> Tokens:
    """The tokens of a stream's corpora, in the setting's order."""
    files = [token_file(corpus, tokenizer, run.training.max_length, listen) for corpus in listed]
    return Tokens(files, tokenizer.pad_token_id, listed[0].read.source.per_row)


def token_file(
    corpus: UsedCorpus, tokenizer: PreTrainedTokenizerBase, max_length: int, listen: Callable[[Stage], None]
) -> TokenFile:
    """The tokens of a corpus, mapped from the cache; tokenised if they are not there."""
    read = corpus.read
    expected = cache(lambda: read.source.expected(read.root))
    return cached_tokens(
        read.fingerprint,
        lambda: read.source.texts(read.root),
        tokenizer,
        max_length,
        lambda done: listen(Stage("tokens", corpus.name, done, expected())),
    )


def _media(run: Resolved, listed: Sequence[UsedCorpus]) -> Media:
    if len(listed) > 1:
        names = ", ".join(corpus.name for corpus in listed)
        raise UserError(f"the setting {run.spec.setting} has two corpora of the same kind, {names}; keep one")
    read = listed[0].read
    loaded = read.source.load(read.root)
    assert isinstance(loaded, Media)
    return loaded


def _subsets(run: Resolved, tokens: Mapping[Stream, Tokens]) -> dict[Stream, Subset]:
    """The rows that the setting's options keep of each stream, drawn by the run's seed; larger draws contain smaller.

    Raises UserError for a stream that has fewer rows.
    """
    subsets: dict[Stream, Subset] = {}
    for stream, rows in tokens.items():
        kept = kept_rows(run.options, stream)
        if kept is not None:
            if kept.rows > len(rows):
                raise UserError(f"the setting {run.spec.setting} has only {len(rows)} {stream}; ask for fewer")
            order = generator(axis="part", seed=run.spec.seed, stream=stream).permutation(len(rows))
            subsets[stream] = Subset(order[: kept.rows], kept.steps_of_all)
    return subsets
