"""Recordings with speaker labels, which belong to no sentence: an index with WAV files, or LibriSpeech's folders."""

from __future__ import annotations

import csv
import io
import tarfile
import wave
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from harness.corpora.base import CorpusSource, Media
from harness.corpora.files import read_lines
from harness.encoders.audio import filterbank, masked
from harness.errors import MissingData, UserError
from harness.sources import Missing, digest, file_hash


class Recordings(Media):
    """Waves, whose filterbanks are computed once and kept; with mix-up they are computed afresh."""

    def __init__(
        self, waves: list[np.ndarray], rate: int, labels: np.ndarray, bins: int, frames: int, augment: bool
    ) -> None:
        self.labels, self._waves, self._rate = labels, waves, rate
        self._bins, self._frames, self._augment = bins, frames, augment
        self._kept: dict[int, np.ndarray] = {}

    def batch(self, rows: np.ndarray, rng: np.random.Generator) -> dict[str, Tensor]:
        """Spectrograms (B, frames, bins); the two views of an item differ by the encoder's dropout alone."""
        if not self._augment:
            return {"spectrograms": torch.from_numpy(np.stack([self._plain(int(row)) for row in rows]))}
        mixed = np.stack([self._mixed(int(row), rng) for row in rows])
        return {"spectrograms": torch.from_numpy(masked(mixed, rng))}

    def _plain(self, row: int) -> np.ndarray:
        if row not in self._kept:
            self._kept[row] = self._bank(self._waves[row])
        return self._kept[row]

    def _bank(self, samples: np.ndarray) -> np.ndarray:
        return filterbank(samples, self._rate, bins=self._bins, frames=self._frames)

    def _mixed(self, row: int, rng: np.random.Generator) -> np.ndarray:
        """Mix-up of waves with probability one half, weight from Beta(10, 10), as the public code does it.

        A weight below one half would give the item the partner's label there; here the larger part stays
        the item's own, so that its label holds.
        """
        if rng.random() >= 0.5:
            return self._plain(row)
        own, partner = self._waves[row], self._waves[int(rng.integers(len(self._waves)))]
        weight = rng.beta(10, 10)
        weight = max(weight, 1 - weight)
        other = np.zeros_like(own)
        other[: len(partner)] = partner[: len(own)]
        return self._bank(weight * (own - own.mean()) + (1 - weight) * (other - other.mean()))


class LabelledAudio(CorpusSource):
    """WAV files of an archive or a folder, with a tab-separated index that has columns `file` and the label's.

    Without an index the folder is LibriSpeech's, SPEAKER/CHAPTER/*.flac, which the package soundfile reads.
    `top` keeps the classes with most recordings; `split` those rows of the index; `augment` is the public
    code's mix-up and masking.
    """

    stream: Literal["sentences", "pairs", "triplets", "images", "audio"] = "audio"

    def __init__(
        self,
        path: str,
        how: str,
        index: str | None = None,
        label: str = "speaker_id",
        split: str | None = None,
        top: int | None = None,
        bins: int = 128,
        frames: int = 1024,
        augment: bool = False,
    ) -> None:
        if top is not None and top < 1:
            raise UserError(f"top = {top} leaves no recording; give 1 or more in the profile, or leave it out")
        self.path, self.how, self.index, self.label, self.split = path, how, index, label, split
        self.top, self.bins, self.frames, self.augment = top, bins, frames, augment

    def missing(self, root: Path | None) -> list[Missing]:
        """The archive or folder, and the index."""
        wanted = [name for name in (self.path, self.index) if name]
        return [Missing(name, self.how) for name in wanted if root is None or not (root / name).exists()]

    def fingerprint(self, root: Path | None) -> str:
        """Contents and options."""
        place = self._places(root)[0]
        files = [place] if place.is_file() else sorted(item for item in place.rglob("*.*") if item.is_file())
        content = [[file.relative_to(place.parent).as_posix(), file_hash(file)] for file in files]
        index = file_hash(self._places(root)[1]) if self.index else ""
        return digest(content, index, self.label, self.split, self.top, self.bins, self.frames, self.augment)

    def load(self, root: Path | None) -> Recordings:
        """Read every recording that is kept. Raises UserError naming one that cannot be read."""
        place, index = self._places(root)
        names = _indexed(index, self.label, self.split) if self.index else _speakers(place)
        kept = {name for name, _ in Counter(names.values()).most_common(self.top)}
        names = {name: label for name, label in names.items() if label in kept}
        waves: dict[str, tuple[int, np.ndarray]] = dict(_read(place, set(names)))
        absent = next((name for name in names if name not in waves), None)
        if absent is not None:
            raise UserError(f"{place} has no recording {absent}, which its index names; fetch both again")
        rates = {rate for rate, _ in waves.values()}
        if len(rates) != 1:
            raise UserError(f"{place} has recordings at {sorted(rates)} samples a second; bring them to one rate")
        labels = np.unique(list(names.values()), return_inverse=True)[1].astype(np.int64)
        samples = [waves[name][1] for name in names]
        return Recordings(samples, rates.pop(), labels, self.bins, self.frames, self.augment)

    def _places(self, root: Path | None) -> tuple[Path, Path]:
        absent = self.missing(root)
        if absent or root is None:
            raise MissingData("; ".join(map(str, absent)))
        return root / self.path, root / (self.index or self.path)


def _indexed(path: Path, label: str, split: str | None) -> dict[str, str]:
    """File -> label, in the index's order."""
    rows = list(csv.DictReader(read_lines(path), delimiter="\t", quoting=csv.QUOTE_NONE))
    if not rows or not {"file", label} <= set(rows[0]):
        raise UserError(f"{path} is no tab-separated index with the columns file and {label}; fetch it again")
    short = next((number for number, row in enumerate(rows, 2) if not row["file"] or not row[label]), None)
    if short is not None:
        raise UserError(f"{path}, line {short}: the columns file and {label} are not both filled; mend the line")
    found = {row["file"]: row[label] for row in rows if split is None or row.get("split") == split}
    if not found:
        raise UserError(f"{path} has no row of the split '{split}'; name one that it has")
    return found


def _speakers(place: Path) -> dict[str, str]:
    files = sorted(place.glob("*/*/*.flac"))
    if not files:
        raise UserError(f"{place} holds no SPEAKER/CHAPTER/*.flac; give the folder of a LibriSpeech part")
    return {file.relative_to(place).as_posix(): file.parts[-3] for file in files}


def _read(place: Path, names: set[str]) -> Iterator[tuple[str, tuple[int, np.ndarray]]]:
    if place.is_dir():
        for name in sorted(name for name in names if (place / name).is_file()):
            yield name, _decoded(place / name, (place / name).read_bytes())
        return
    try:
        with tarfile.open(place) as archive:
            for member in archive:
                short = member.name.rpartition("/")[2]
                known = [each for each in (member.name.removeprefix("./"), short) if each in names]
                stream = archive.extractfile(member) if known else None
                if stream is not None:
                    yield known[0], _decoded(Path(member.name), stream.read())
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise UserError(f"the archive {place} cannot be read: {error}; fetch it again") from error


def _decoded(path: Path, raw: bytes) -> tuple[int, np.ndarray]:
    """Rate and samples within -1..1, channels averaged. Raises UserError naming the recording."""
    try:
        if path.suffix.lower() == ".wav":
            with wave.open(io.BytesIO(raw)) as file:
                if file.getsampwidth() != 2:
                    raise ValueError("its samples are not of 16 bits")
                samples = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2")
                found = samples.reshape(-1, file.getnchannels()).mean(axis=1) / 2**15, file.getframerate()
        else:
            import soundfile

            values, rate = soundfile.read(io.BytesIO(raw), always_2d=True)
            found = values.mean(axis=1), rate
    except ImportError as error:
        raise UserError(f"{path.suffix} files need the package soundfile; install it with pip") from error
    except (wave.Error, EOFError, ValueError, RuntimeError) as error:
        raise UserError(f"the recording {path} cannot be read: {error}; remove or replace it") from error
    if not len(found[0]):
        raise UserError(f"the recording {path} is empty; remove or replace it")
    return int(found[1]), found[0].astype(np.float32)
