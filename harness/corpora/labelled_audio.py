"""Labelled recordings that belong to no sentence: WAV files with an index, or the folders of LibriSpeech."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from harness.corpora.base import CorpusSource, check_positive
from harness.corpora.recordings import Recordings
from harness.corpora.sounds import located, samples
from harness.encoders.audio import energies, padded
from harness.encoders.ragged import Ragged, cached_ragged
from harness.errors import UserError
from harness.sources import OWN_FILE, Missing, digest, file_hash, is_there, placed
from harness.textfiles import read_table

#: version of the filterbanks, part of the fingerprint
VERSION = 2


class AudioFiles(Recordings):
    """Recordings with cached filterbanks; mix-up reads the files again."""

    def __init__(self, files: Mapping[str, Path], banks: Ragged, labels: np.ndarray, *, bins: int, frames: int) -> None:
        """`files` are located by name, and `banks` are their filterbanks without padding, each (t, bins)."""
        super().__init__(labels, bins=bins, frames=frames)
        self._files, self._banks = list(files.items()), banks

    def bank(self, row: int) -> np.ndarray:
        """The cached filterbank, padded."""
        return padded(self._banks[row], self.frames)

    def wave(self, row: int) -> tuple[int, np.ndarray]:
        """The file's samples."""
        name, path = self._files[row]
        return samples(path, name)


class LabelledAudio(CorpusSource):
    """WAV files in an archive or a folder, with a tab-separated index with the columns `file` and `label`.

    Without an index, the folder is LibriSpeech's, SPEAKER/CHAPTER/*.flac, read by the package soundfile. `label`
    names the label's column, `split` selects rows of the index, and `top` keeps the classes with most recordings.
    Filterbanks are computed once and cached as float16; waves are not kept in memory.
    """

    stream = "audio"

    def __init__(
        self,
        path: str,
        how: str = OWN_FILE,
        index: str | None = None,
        label: str = "speaker_id",
        split: str | None = None,
        top: int | None = None,
        bins: int = 128,
        frames: int = 1024,
    ) -> None:
        check_positive("top", top)
        self.path, self.how, self.index, self.label, self.split = path, how, index, label, split
        self.top, self.bins, self.frames = top, bins, frames

    def missing(self, root: Path | None) -> list[Missing]:
        """The archive or folder, and the index."""
        wanted = [name for name in (self.path, self.index) if name]
        return [Missing(name, self.how) for name in wanted if not is_there(placed(root, name))]

    def fingerprint(self, root: Path | None) -> str:
        """Hash of contents and options."""
        index = file_hash(self.require(root) / self.index) if self.index else ""
        options = self.label, self.split, self.top, self.bins, self.frames
        return digest(VERSION, self._content(root), index, *options)

    def load(self, root: Path | None) -> AudioFiles:
        """Locate the recordings and compute their filterbanks. Raises MissingData, or UserError naming a recording."""
        place = self.require(root) / self.path
        names = _indexed(self.require(root) / self.index, self.label, self.split) if self.index else _speakers(place)
        kept = {name for name, _ in Counter(names.values()).most_common(self.top)}
        names = {name: label for name, label in names.items() if label in kept}
        listed = list(names)
        files = dict(zip(listed, located(place, listed), strict=True))
        labels = np.unique(list(names.values()), return_inverse=True)[1].astype(np.int64)
        rate, _ = samples(files[listed[0]], listed[0])

        def bank(row: int) -> np.ndarray:
            name = listed[row]
            found, wave = samples(files[name], name)
            if found != rate:
                raise UserError(
                    f"{place} has recordings with several sampling rates, {sorted({rate, found})}, such as {name}; "
                    "resample them to one rate"
                )
            return energies(wave, rate, bins=self.bins, frames=self.frames)

        key = digest("filterbanks", VERSION, self._content(root), listed, self.frames)
        banks = cached_ragged(key, len(files), self.bins, bank)
        return AudioFiles(files, banks, labels, bins=self.bins, frames=self.frames)

    def _content(self, root: Path | None) -> str:
        place = self.require(root) / self.path
        files = [place] if place.is_file() else sorted(item for item in place.rglob("*.*") if item.is_file())
        return digest([[file.relative_to(place.parent).as_posix(), file_hash(file)] for file in files])


def _indexed(path: Path, label: str, split: str | None) -> dict[str, str]:
    """Label by file, in the order of the index. Raises UserError."""
    rows = read_table(path, "file", label)
    short = next((number for number, row in enumerate(rows, 2) if not row["file"] or not row[label]), None)
    if short is not None:
        raise UserError(f"{path}, line {short}: the columns file and {label} are not both filled; correct the line")
    kept = [row for row in rows if split is None or row.get("split") == split]
    found = {row["file"]: row[label] for row in kept}
    if len(found) < len(kept):
        twice = next(name for name, count in Counter(row["file"] for row in kept).items() if count > 1)
        raise UserError(f"{path} lists the recording {twice} twice; remove one of the lines")
    if not found:
        raise UserError(f"{path} has no rows of the split '{split}'; choose one of its splits")
    return found


def _speakers(place: Path) -> dict[str, str]:
    files = sorted(place.glob("*/*/*.flac"))
    if not files:
        raise UserError(f"{place} has no files SPEAKER/CHAPTER/*.flac; use the folder of a part of LibriSpeech")
    return {file.relative_to(place).as_posix(): file.parts[-3] for file in files}
