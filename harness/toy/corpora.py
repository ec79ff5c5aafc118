"""Training data of the toy world: text, captioned pictures, and pictures and tones that belong to
no sentence.

The class of a labelled picture or tone is a colour and a shape. Fingerprints of generated data are
cached.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from harness.caches import known_hash
from harness.corpora.base import CorpusSource, Pairs, Phrases, PhraseSource, Sentences, Triplets
from harness.corpora.labelled_audio import Recordings
from harness.corpora.labelled_images import AugmentedImages
from harness.encoders.media import VIEWS_VERSION, filterbank
from harness.errors import UserError
from harness.seeds import generator
from harness.sources import Generated, digest, file_hash
from harness.toy.world import (
    ATTRIBUTES,
    GENRES,
    LEXICON,
    OBJECTS,
    SIDE,
    SIZES,
    classes,
    describe,
    draw_distinct_scenes,
    draw_scenes,
    draw_templates,
    find_phrase,
    frequent_scenes,
    ground_boxes,
    render,
    render_with_boxes,
)


def cached_hash(what: object, compute: Callable[[], str]) -> str:
    """The cached hash (hex) of the data that the current code generates for the options `what`."""
    code = [file_hash(path) for path in sorted(Path(__file__).parent.glob("*.py"))]
    return known_hash(f"toy/{digest(repr(what), np.__version__, code)}", compute)


class ToyCorpus(Generated, CorpusSource):
    """A corpus determined by its seed and size."""

    rows: ClassVar[int] = 4096

    def __init__(self, seed: int = 0, size: int | None = None) -> None:
        self.seed = seed
        self.size = self.rows if size is None else size

    def fingerprint(self, root: Path | None) -> str:
        return cached_hash([type(self).__name__, vars(self)], self.row_hash)

    @abstractmethod
    def row_hash(self) -> str:
        """Generate the rows and hash them."""


class ToySentences(ToyCorpus):
    """Descriptions of scenes without pictures."""

    stream = "sentences"
    rows = 8192

    def row_hash(self) -> str:
        return digest(self.load(None).texts)

    def load(self, root: Path | None) -> Sentences:
        rng = generator(world="toy", part="sentences", seed=self.seed)
        return Sentences(describe(draw_scenes(rng, self.size), rng))


class ToyPairs(ToyCorpus):
    """Captioned pictures; the scenes of the test split are distinct, so that each caption fits one
    picture.
    """

    stream = "pairs"

    def __init__(
        self, seed: int = 0, size: int | None = None, split: str = "train", repeats: float = 0.0
    ) -> None:
        """`split` is 'train' or 'test'; `repeats` is the fraction, 0 to 1, of training pairs with a
        frequent scene.
        """
        super().__init__(seed, size)
        if not 0 <= repeats <= 1:
            raise UserError(
                f"repeats = {repeats:g} of the toy pairs must be a fraction from 0 to 1"
            )
        self.split = split
        self.repeats = repeats

    def row_hash(self) -> str:
        pairs = self.load(None)
        return digest(pairs.texts, hashlib.sha256(np.asarray(pairs.images).tobytes()).hexdigest())

    def load(self, root: Path | None) -> Pairs:
        scenes = self.scenes()
        rng = generator(world="toy", part="pairs", split=self.split, seed=self.seed)
        return Pairs(describe(scenes, rng), render(scenes, rng))

    @property
    def phrases(self) -> PhraseSource:
        """The words of each caption for the thing that its picture shows, and for the ground."""
        return ToyPhrases(self)

    def load_phrases(self) -> Phrases:
        """Two phrases a caption, in the order of OBJECTS, and the regions of its picture."""
        scenes = self.scenes()
        rng = generator(world="toy", part="pairs", split=self.split, seed=self.seed)
        texts = describe(scenes, rng)
        _, things = render_with_boxes(scenes, rng)
        spans = [find_phrase(text, name) for text in texts for name in OBJECTS]
        owners = np.repeat(np.arange(len(texts)), len(OBJECTS))
        boxes = np.stack([things, ground_boxes(things)], axis=1)
        return Phrases(
            captions=owners,
            spans=np.array(spans),
            regions=np.arange(len(owners)),
            images=owners,
            boxes=boxes.reshape(-1, 4),
        )

    def scenes(self) -> np.ndarray:
        """The scene of each pair, (size, attributes) int64."""
        rng = generator(world="toy", part="scenes of pairs", split=self.split, seed=self.seed)
        if self.split == "test":
            return draw_distinct_scenes(rng, self.size)
        scenes = draw_scenes(rng, self.size)
        repeated = rng.random(self.size) < self.repeats
        frequent = frequent_scenes(rng)
        scenes[repeated] = frequent[rng.integers(0, len(frequent), repeated.sum())]
        return scenes

    def image_ids(self, root: Path | None) -> list[str]:
        return [f"toy-{self.split}-{self.seed}-{number}" for number in range(self.size)]


class ToyPhrases(Generated, PhraseSource):
    """The phrases of captioned pictures, and their regions."""

    def __init__(self, pairs: ToyPairs) -> None:
        self.pairs = pairs

    def fingerprint(self, root: Path | None) -> str:
        return cached_hash(["ToyPhrases", vars(self.pairs)], self.row_hash)

    def row_hash(self) -> str:
        """Hash of the regions of all phrases."""
        phrases = self.load(None)
        assert phrases.boxes is not None
        return digest(phrases.spans.tolist(), phrases.regions.tolist(), phrases.boxes.tolist())

    def load(self, root: Path | None) -> Phrases:
        return self.pairs.load_phrases()


class ToyTriplets(ToyCorpus):
    """A description, another of the same scene, and one of a scene that differs in one attribute.

    The three share a template, as hypotheses in NLI follow their premise; with templates drawn anew
    the student, whose [CLS] tells templates apart but not words, learns equal vectors only.
    Synonyms are drawn anew for each.
    """

    stream = "triplets"

    def row_hash(self) -> str:
        triplets = self.load(None)
        return digest(triplets.premises, triplets.entailed, triplets.contradicted)

    def load(self, root: Path | None) -> Triplets:
        rng = generator(world="toy", part="triplets", seed=self.seed)
        scenes = draw_scenes(rng, self.size)
        changed = scenes.copy()
        which = rng.integers(0, len(ATTRIBUTES), self.size)
        rows = np.arange(self.size)
        changed[rows, which] = (changed[rows, which] + rng.integers(1, SIZES[which])) % SIZES[which]
        genres = rng.integers(0, len(GENRES), self.size)
        templates = draw_templates(rng, genres)
        return Triplets(
            *(describe(shown, rng, genres, templates) for shown in (scenes, scenes, changed))
        )


#: samples per second, and samples of a tone
RATE = 8000
SAMPLES = 4000
#: a tone of half a second has 48 windows
FRAMES = 48
BINS = 32
#: weights of the first four harmonics, one row per shape
_TIMBRES = np.array(
    [[1, 0, 0, 0], [1, 0, 1, 0], [1, 1, 0, 0], [1, 0, 0, 1], [1, 1, 1, 1], [0, 1, 0, 1]],
    dtype=np.float64,
)
_LOWEST_HZ = 220.0


class ToyImages(ToyCorpus):
    """Labelled pictures; crops are large and colours change little, since they define the class."""

    stream = "images"

    def row_hash(self) -> str:
        pixels, labels = labelled_pictures(self.size, self.seed)
        return digest(
            VIEWS_VERSION, digest(hashlib.sha256(pixels.tobytes()).hexdigest(), labels.tolist())
        )

    def load(self, root: Path | None) -> AugmentedImages:
        from harness.encoders.vision import (
            Augmentation,
        )  # imports torch, which planning does not need

        augmentation = Augmentation(SIDE, smallest=0.6, jitter=0.25, grey=0.0)
        return AugmentedImages(*labelled_pictures(self.size, self.seed), augmentation)


class ToyTones(ToyCorpus):
    """Labelled tones."""

    stream = "audio"
    rows = 1024

    def row_hash(self) -> str:
        """Hash of the labels and of the waves at 16 bits: the last bits of a sine differ between
        processors.
        """
        waves, labels = labelled_tones(self.size, self.seed)
        return digest(
            hashlib.sha256(np.round(waves * 2**15).astype("<i4").tobytes()).hexdigest(),
            labels.tolist(),
        )

    def load(self, root: Path | None) -> Recordings:
        waves, labels = labelled_tones(self.size, self.seed)
        banks = np.stack([filterbank(wave, RATE, bins=BINS, frames=FRAMES) for wave in waves])
        return Recordings(labels, banks, partial(_wave, waves), bins=BINS, frames=FRAMES)


def _wave(waves: np.ndarray, row: int) -> tuple[int, np.ndarray]:
    return RATE, waves[row]


def labelled_pictures(size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Pictures and their classes: (size, 32, 32, 3) uint8 and (size,) int64 below CLASSES."""
    rng = generator(world="toy", part="labelled images", split="train", seed=seed)
    scenes = draw_scenes(rng, size)
    return render(scenes, rng), classes(scenes)


def labelled_tones(size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Tones at 8 kHz and their classes: (size, 4000) float32 in -1..1, and (size,) int64 below
    CLASSES.

    The colour of a class sets the pitch, in steps of three semitones, and the shape the timbre.
    Phase, detuning (up to a third of a semitone), loudness and noise are random.
    """
    rng = generator(world="toy", part="tones", split="train", seed=seed)
    labels = classes(draw_scenes(rng, size))
    colour, shape = np.divmod(labels, len(LEXICON["shape"]))
    pitch = _LOWEST_HZ * 2 ** ((3 * colour + rng.uniform(-1 / 3, 1 / 3, size)) / 12)
    phases = rng.uniform(0, 2 * np.pi, (size, 4))
    time = np.arange(SAMPLES) / RATE
    wave = np.zeros((size, SAMPLES))
    for harmonic in range(4):
        angle = 2 * np.pi * (harmonic + 1) * pitch[:, None] * time + phases[:, harmonic, None]
        wave += _TIMBRES[shape, harmonic, None] * np.sin(angle)
    wave *= rng.uniform(0.5, 1, (size, 1)) * 0.9 / _TIMBRES.sum(axis=1)[shape, None]
    wave += rng.uniform(-0.05, 0.05, wave.shape)
    return wave.astype(np.float32), labels
