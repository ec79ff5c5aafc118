"""The rows that one run trains on: tokens, teacher features, images and recordings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from transformers import PreTrainedTokenizerBase

from harness.corpora.base import Media, Pairs
from harness.corpora.tokens import TokenFile, Tokens, cached_tokens
from harness.errors import UserError
from harness.execution.events import Preparation
from harness.execution.features import RunFeatures
from harness.execution.inventory import UsedCorpus
from harness.execution.pairs import KnownPairs
from harness.grid import Resolved
from harness.inputs import Stream
from harness.seeds import generator
from harness.setting import kept_rows
from harness.training.streams import Subset, TrainingData

#: streams that are not text
MEDIA = ("images", "audio")


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


def _tokens(
    run: Resolved,
    listed: Sequence[UsedCorpus],
    tokenizer: PreTrainedTokenizerBase,
    listen: Callable[[Preparation], None],
) -> Tokens:
    """The tokens of a stream's corpora, in the setting's order."""

    def file(corpus: UsedCorpus) -> TokenFile:
        read = corpus.read
        return cached_tokens(
            read.fingerprint,
            lambda: read.source.texts(read.root),
            tokenizer,
            run.training.max_length,
            lambda done: listen(Preparation("tokens", corpus.name, done)),
        )

    return Tokens([file(corpus) for corpus in listed], tokenizer.pad_token_id, listed[0].read.source.per_row)


def _media(run: Resolved, listed: Sequence[UsedCorpus]) -> Media:
    if len(listed) > 1:
        names = ", ".join(corpus.name for corpus in listed)
        raise UserError(f"the setting {run.spec.setting} has two corpora of one stream, {names}; keep one")
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
