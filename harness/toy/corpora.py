"""Training data of the toy world: text, captioned pictures, and pictures and tones that belong to
no sentence.

The class of a labelled picture or tone is a colour and a shape. Fingerprints of generated data are
cached.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from harness.caches import read_or_compute_hash
from harness.corpora.base import CorpusSource, Pairs, Phrases, PhraseSource, Sentences, Triplets
from harness.corpora.labelled_audio import Recordings
from harness.corpora.labelled_images import AugmentedImages
from harness.encoders.media import VIEWS_VERSION, compute_filterbank
from harness.errors import UserError
from harness.seeds import make_generator
from harness.sources import Generated, digest, hash_file
from harness.toy.world import (
    ATTRIBUTES,
    GENRES,
    LEXICON,
    OBJECTS,
    SIDE,
    SIZES,
    describe,
    draw_distinct_scenes,
    draw_frequent_scenes,
    draw_scenes,
    draw_templates,
    find_ground_boxes,
    find_phrase,
    get_classes,
    render,
    render_with_boxes,
)


def hash_generated(what: object, compute: Callable[[], str]) -> str:
    """The cached hash (hex) of the data that the current code generates for the options `what`."""
    code = [hash_file(path) for path in sorted(Path(__file__).parent.glob("*.py"))]
    return read_or_compute_hash(f"toy/{digest(repr(what), np.__version__, code)}", compute)


class ToyCorpus(Generated, CorpusSource):
    """A corpus determined by its seed and size."""

    rows: ClassVar[int] = 4096

    def __init__(self, seed: int = 0, size: int | None = None) -> None:
        self.seed = seed
        self.size = self.rows if size is None else size

    def fingerprint(self, root: Path | None) -> str:
        return hash_generated([type(self).__name__, vars(self)], self.hash_rows)

    @abstractmethod
    def hash_rows(self) -> str:
        """Generate the rows and hash them."""


class ToySentences(ToyCorpus):
    """Descriptions of scenes without pictures."""

    stream = "sentences"
    rows = 8192

    def hash_rows(self) -> str:
        return digest(self.load(None).texts)

    def load(self, root: Path | None) -> Sentences:
        rng = make_generator(world="toy", part="sentences", seed=self.seed)
        return Sentences(describe(draw_scenes(rng, self.size), rng))


class Pictures(Sequence[np.ndarray]):
    """Pictures of n scenes, (32, 32, 3) uint8 each, all drawn when one is first asked for: a run
    whose features are in the cache asks for none.
    """

    def __init__(self, scenes: np.ndarray, rng: np.random.Generator) -> None:
        self._scenes = scenes
        self._rng = rng

    def __len__(self) -> int:
        return len(self._scenes)

    def __getitem__(self, index: int | slice) -> Any:
        return self._pixels[index]

    @cached_property
    def _pixels(self) -> np.ndarray:
        return render(self._scenes, self._rng)


class ToyPairs(ToyCorpus):
    """Captioned pictures; the scenes of the test split are distinct, so that each caption fits one
    picture.
    """

    stream = "pairs"

    def __init__(
        self, seed: int = 0, size: int | None = None, split: str = "train", repeats: float = 0.0
    ) -> None:
        """`split` is 'train' or 'test'; `repeats` is the fraction, 0 to 1, of training pairs with a
        frequent scene, which the test split does not have.
        """
        super().__init__(seed, size)
        if not 0 <= repeats <= 1:
            raise UserError(
                f"repeats = {repeats:g} of the toy pairs must be a fraction from 0 to 1"
            )
        self.split = split
        self.repeats = repeats

    def hash_rows(self) -> str:
        scenes = self.draw_scenes()
        rng = self._start_generator()
        texts = describe(scenes, rng)
        return digest(texts, hashlib.sha256(render(scenes, rng).tobytes()).hexdigest())

    def load(self, root: Path | None) -> Pairs:
        scenes = self.draw_scenes()
        rng = self._start_generator()
        texts = describe(scenes, rng)
        return Pairs(texts, Pictures(scenes, rng))

    @property
    def phrases(self) -> PhraseSource:
        """The words of each caption for the thing that its picture shows, and for the ground."""
        return ToyPhrases(self)

    def load_phrases(self) -> Phrases:
        """Two phrases a caption, in the order of OBJECTS, and the regions of its picture."""
        scenes = self.draw_scenes()
        rng = self._start_generator()
        texts = describe(scenes, rng)
        _, things = render_with_boxes(scenes, rng)
        boxes = np.stack([things, find_ground_boxes(things)], axis=1)

        spans = []
        for text in texts:
            spans += [find_phrase(text, name) for name in OBJECTS]
        numbers = np.repeat(np.arange(len(texts)), len(OBJECTS))
        return Phrases(
            captions=numbers,
            spans=np.array(spans),
            regions=np.arange(len(numbers)),
            images=numbers,
            boxes=boxes.reshape(-1, 4),
        )

    def _start_generator(self) -> np.random.Generator:
        """The random numbers of descriptions and pictures, from the first one."""
        return make_generator(world="toy", part="pairs", split=self.split, seed=self.seed)

    def draw_scenes(self) -> np.ndarray:
        """The scene of each pair, (size, attributes) int64."""
        rng = make_generator(world="toy", part="scenes of pairs", split=self.split, seed=self.seed)
        if self.split == "test":
            return draw_distinct_scenes(rng, self.size)
        scenes = draw_scenes(rng, self.size)
        repeated = rng.random(self.size) < self.repeats
        frequent = draw_frequent_scenes(rng)
        scenes[repeated] = frequent[rng.integers(0, len(frequent), repeated.sum())]
        return scenes

    def image_ids(self, root: Path | None) -> list[str]:
        return [f"toy-{self.split}-{self.seed}-{number}" for number in range(self.size)]


class ToyPhrases(Generated, PhraseSource):
    """The phrases of captioned pictures, and their regions."""

    def __init__(self, pairs: ToyPairs) -> None:
        self.pairs = pairs

    def fingerprint(self, root: Path | None) -> str:
        return hash_generated(["ToyPhrases", vars(self.pairs)], self.hash_rows)

    def hash_rows(self) -> str:
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

    def hash_rows(self) -> str:
        triplets = self.load(None)
        return digest(triplets.premises, triplets.entailed, triplets.contradicted)

    def load(self, root: Path | None) -> Triplets:
        rng = make_generator(world="toy", part="triplets", seed=self.seed)
        scenes = draw_scenes(rng, self.size)
        attributes = rng.integers(0, len(ATTRIBUTES), self.size)
        steps = rng.integers(1, SIZES[attributes])
        genres = rng.integers(0, len(GENRES), self.size)
        templates = draw_templates(rng, genres)

        changed = scenes.copy()
        places = np.arange(self.size), attributes
        changed[places] = (scenes[places] + steps) % SIZES[attributes]
        return Triplets(
            describe(scenes, rng, genres, templates),
            describe(scenes, rng, genres, templates),
            describe(changed, rng, genres, templates),
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

    def hash_rows(self) -> str:
        pixels, labels = draw_labelled_pictures(self.size, self.seed)
        content = digest(hashlib.sha256(pixels.tobytes()).hexdigest(), labels.tolist())
        return digest(VIEWS_VERSION, content)

    def load(self, root: Path | None) -> AugmentedImages:
        # imports torch, which planning does not need
        from harness.encoders.vision import Augmentation

        pixels, labels = draw_labelled_pictures(self.size, self.seed)
        augmentation = Augmentation(SIDE, smallest=0.6, jitter=0.25, grey=0.0)
        return AugmentedImages(pixels, labels, augmentation)


class ToyTones(ToyCorpus):
    """Labelled tones."""

    stream = "audio"
    rows = 1024

    def hash_rows(self) -> str:
        """Hash of the labels and of the waves at 16 bits: the last bits of a sine differ between
        processors.
        """
        waves, labels = draw_labelled_tones(self.size, self.seed)
        whole_numbers = np.round(waves * 2**15).astype("<i4")
        return digest(hashlib.sha256(whole_numbers.tobytes()).hexdigest(), labels.tolist())

    def load(self, root: Path | None) -> Recordings:
        waves, labels = draw_labelled_tones(self.size, self.seed)
        banks = np.stack(
            [compute_filterbank(wave, RATE, bins=BINS, frames=FRAMES) for wave in waves]
        )
        return Recordings(labels, banks, partial(_get_wave, waves), bins=BINS, frames=FRAMES)


def _get_wave(waves: np.ndarray, row: int) -> tuple[int, np.ndarray]:
    return RATE, waves[row]


def draw_labelled_pictures(size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Pictures and their classes: (size, 32, 32, 3) uint8 and (size,) int64 below CLASSES."""
    rng = make_generator(world="toy", part="labelled images", split="train", seed=seed)
    scenes = draw_scenes(rng, size)
    return render(scenes, rng), get_classes(scenes)


def draw_labelled_tones(size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Tones at 8 kHz and their classes: (size, 4000) float32 in -1..1, and (size,) int64 below
    CLASSES.

    The colour of a class sets the pitch, in steps of three semitones, and the shape the timbre.
    Phase, detuning (up to a third of a semitone), loudness and noise are random.
    """
    rng = make_generator(world="toy", part="tones", split="train", seed=seed)
    labels = get_classes(draw_scenes(rng, size))
    colours, shapes = np.divmod(labels, len(LEXICON["shape"]))
    semitones = 3 * colours + rng.uniform(-1 / 3, 1 / 3, size)
    pitches_hz = _LOWEST_HZ * 2 ** (semitones / 12)
    phases = rng.uniform(0, 2 * np.pi, (size, _TIMBRES.shape[1]))

    seconds = np.arange(SAMPLES) / RATE
    waves = np.zeros((size, SAMPLES))
    for harmonic in range(_TIMBRES.shape[1]):
        angles = 2 * np.pi * (harmonic + 1) * pitches_hz[:, None] * seconds
        angles += phases[:, harmonic, None]
        waves += _TIMBRES[shapes, harmonic, None] * np.sin(angles)

    # no tone is louder than 0.9, and noise adds at most 0.05
    waves *= rng.uniform(0.5, 1, (size, 1)) * 0.9 / _TIMBRES.sum(axis=1)[shapes, None]
    waves += rng.uniform(-0.05, 0.05, waves.shape)
    return waves.astype(np.float32), labels
