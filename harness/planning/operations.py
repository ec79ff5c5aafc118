"""The operations of a run, counted: matrix products of its encoder, on the tokens that its corpora have.

An operation is a multiplication or an addition, so a multiply-add counts two. Embedding tables, heads, losses and the
optimizer are left out (under a twentieth for BERT-base), and so is padding: rows count their real tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harness.grid import Resolved
from harness.inputs import Stream
from harness.setting import Captions, kept_rows
from harness.training.batching import mixed

#: Rows of the papers' corpora: MCSE section 4.1, the splits of Karpathy and Fei-Fei, SimCSE's NLI file.
ROWS = {"flickr": 29_783, "coco": 82_783, "flickr-karpathy": 29_000, "coco-karpathy": 82_783, "nli": 275_601}
#: Wiki1M, and CC12M's subsets in KDMCSE appendix B
MILLION = 1_000_000
CAPTIONS = 5
#: Tokens of BERT's vocabulary, special ones included, cut at 32: means over the first 11,914 lines of Wiki1M, MCSE's
#: 29,783 captions, 30,000 captions of COCO, and 8,626 triplets of NLI (all three sentences). Other corpora have those
#: of the first of their stream.
TOKENS = {"wiki": 21.9, "flickr": 15.9, "coco": 13.8, "nli": 41.4}
_LIKE: dict[Stream, str] = {"sentences": "wiki", "pairs": "flickr", "triplets": "nli"}
#: Vectors of an image of 224 pixels in patches of 16, and of a recording (NonLing appendix B), with the class token
VECTORS: dict[Stream, int] = {"images": 197, "audio": 211}
#: dropout or augmentation makes two of each row; of triplets, each sentence is encoded once
VIEWS = 2
#: Distinct sentences and their mean tokens: the seven STS tests, STS-B dev and test, SentEval's transfer tasks, the
#: test captions of Flickr30k (two splits) and COCO. Of a transfer task, the classifiers are not counted.
SENTENCES = {
    "sts": (26_083, 14.3), "geometry": (5_460, 15.5), "transfer": (108_108, 16.5), "retrieval": (35_010, 14.2),
}  # fmt: skip
DEV = (2_909, 16.4)
#: backward takes twice the operations of forward
TRAINING = 3
#: Bytes of a checkpoint a weight: the weight and AdamW's two moments, four bytes each. Every dev score writes one.
SAVED = 12


@dataclass(frozen=True)
class Shape:
    """The layers of an encoder, the width of its vectors, and that of its inner layers."""

    layers: int
    width: int
    inner: int

    def forward(self, rows: float, length: float) -> float:
        """Return the operations of encoding rows of a mean length in tokens."""
        weights = 4 * self.width**2 + 2 * self.width * self.inner
        return rows * length * self.layers * (2 * weights + 4 * length * self.width)

    @property
    def weights(self) -> int:
        """Weights of its matrices, with those of a vocabulary of 30,000."""
        return self.layers * (4 * self.width**2 + 2 * self.width * self.inner) + 30_000 * self.width


BASE, LARGE = Shape(12, 768, 3072), Shape(24, 1024, 4096)


@dataclass(frozen=True)
class Passes:
    """Equal passes through an encoder: `count` of them, each of so many operations.

    `trains` says whether backward and update are part of them; each writes so many bytes to disk.
    """

    count: int
    operations: float
    precision: str
    trains: bool
    written: int = 0


def shape_of(run: Resolved) -> Shape:
    """Return the shape of a run's encoder, BERT-large's where its name says so, else BERT-base's."""
    return LARGE if "large" in run.spec.encoder else BASE


def training_work(run: Resolved) -> list[Passes] | None:
    """Return the steps and dev scores of a training; None where a corpus is none of the papers'."""
    if not run.trains:
        return []
    rows = {name: _rows(run, name, stream) for name, stream in run.streams.items() if stream not in run.own_steps}
    if None in rows.values():
        return None
    counts = {name: count or 0 for name, count in rows.items()}
    training, pairs = run.training, [name for name in counts if run.streams[name] == "pairs"]
    texts = [name for name in counts if name not in pairs]
    sizes = [sum(counts[name] for name in names) for names in (texts, pairs)]
    mixing = mixed(sizes[0], sizes[1], training.batch_size, run.method.mixing(run.hyperparameters))
    steps = training.steps or training.epochs * mixing.epoch
    paired = mixing.paired_before_step(steps)
    shape, found = shape_of(run), []

    def add(count: int, rows: int, length: float) -> None:
        if count:
            found.append(Passes(count, TRAINING * shape.forward(rows, length), training.precision, trains=True))

    for count, names in ((steps - paired, texts), (paired, pairs)):
        if names:
            views = 1 if run.streams[names[0]] == "triplets" else VIEWS
            add(count, views * training.batch_size, _length(run, names, counts))
    for stream, own in run.own_steps.items():
        add(steps, VIEWS * own.batch_size, VECTORS[stream])
    scores = -(-steps // training.eval_every)
    return [*found, Passes(scores, shape.forward(*DEV), "fp32", trains=False, written=SAVED * shape.weights)]


def suite_work(run: Resolved, suites: Iterable[str]) -> Iterator[Passes]:
    """Yield the embedding of each suite's sentences; suites whose sentences are not counted here are left out."""
    for name in suites:
        if name in SENTENCES:
            yield Passes(1, shape_of(run).forward(*SENTENCES[name]), "fp32", trains=False)


def _length(run: Resolved, names: list[str], counts: dict[str, int]) -> float:
    """Return the mean tokens of a row of corpora of one stream."""
    longest = run.training.max_length * (3 if run.streams[names[0]] == "triplets" else 1)
    tokens = {name: TOKENS.get(name.partition("-")[0], TOKENS[_LIKE[run.streams[name]]]) for name in names}
    return min(longest, sum(tokens[name] * counts[name] for name in names) / sum(counts[name] for name in names))


def _rows(run: Resolved, corpus: str, stream: Stream) -> int | None:
    """Return the rows of a corpus that decide the number of steps."""
    rows = ROWS.get(corpus, MILLION if corpus.startswith(("wiki", "cc12m")) else None)
    if rows and any(isinstance(option, Captions) and option.which == "all" for option in run.options):
        rows *= CAPTIONS if stream == "pairs" else 1
    kept = kept_rows(run.options, stream)
    return min(rows, kept.rows) if rows and kept and not kept.steps_of_all else rows
