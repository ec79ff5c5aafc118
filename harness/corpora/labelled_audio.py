"""Labelled recordings that belong to no sentence: WAV files with an index, or the folders of
LibriSpeech.

Batches are spectrograms, plain or augmented as in the public code of AudioCSE.
"""

from __future__ import annotations

import shutil
import tarfile
import wave
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from harness.caches import cached_note, in_cache, is_unusable
from harness.census import Account, account_for, is_ignored
from harness.columns import DefaultColumn, account_for_columns
from harness.corpora.base import PLANNED_BYTES, CorpusSource, Media, check_positive
from harness.datafiles import TablePart, label_remarks, read_rows
from harness.encoders.features import Ragged, cached_ragged
from harness.encoders.media import WINDOW_MS, energies, filterbank, masked, mixed, padded
from harness.errors import RESTORE, UserError
from harness.files import check_unpacked, open_regular
from harness.formatting import first_of
from harness.locks import locked
from harness.sources import (
    OWN_FILE,
    Findings,
    Missing,
    absent,
    digest,
    file_hash,
    hashes_within,
    installed,
    placed,
    reading_code,
)

if TYPE_CHECKING:
    from torch import Tensor


def samples(path: Path, name: str) -> tuple[int, np.ndarray]:
    """Read a recording: samples per second, and samples in -1..1 averaged over channels, (n,)
    float32.

    Raises UserError naming the recording.
    """
    try:
        with open_regular(path) as file:
            rate, values = _wav(path) if file.read(4) in (b"", b"RIFF") else _other(path)
    except ImportError as error:
        raise UserError(
            f"the recording {name} is no WAV; other formats need the package soundfile; "
            "run `pip install 'sentence-harness[audio]'`"
        ) from error
    except (wave.Error, EOFError, ValueError, RuntimeError, OSError) as error:
        why = f"cannot be read: {str(error) or 'unexpected end of file'}"
    else:
        if len(values) >= WINDOW_MS * rate // 1000 > 0 and np.isfinite(values).all():
            return rate, values.astype(np.float32)
        short = f"is shorter than {WINDOW_MS} ms" if len(values) else "is empty"
        why = (
            short
            if len(values) < WINDOW_MS * rate // 1000
            else "has samples that are not finite numbers"
        )
    raise UserError(f"the recording {name} {why}; remove or replace it")


#: suffixes of the names of recordings
SOUND_SUFFIXES = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a", ".aac", ".aiff", ".sph")
#: sizes of data from which a header was written into a pipe, before the size was known
_STREAMED = 0x7FFFF000


def _wav(path: Path) -> tuple[int, np.ndarray]:
    try:
        with wave.open(str(path)) as file:
            bits = 8 * file.getsampwidth()
            channels = file.getnchannels()
            frames = file.getnframes()
            if bits != 16:
                raise ValueError(f"its samples have {bits} bits; convert it to 16-bit PCM")
            values = np.frombuffer(file.readframes(frames), dtype="<i2")
            if 2 * channels * frames < _STREAMED - 2 * channels:
                _check_whole(len(values) // channels, frames)
            whole = len(values) - len(values) % channels
            return file.getframerate(), values[:whole].reshape(-1, channels).mean(axis=1) / 2**15
    except wave.Error as error:
        raise ValueError(f"{error}; convert it to 16-bit PCM") from error


def _check_whole(held: int, promised: int) -> None:
    if held != promised:
        raise ValueError(f"it holds {held} of the {promised} samples that its header promises")


def _other(path: Path) -> tuple[int, np.ndarray]:
    import soundfile

    with soundfile.SoundFile(path) as file:
        values = file.read(always_2d=True)
        _check_whole(len(values), file.frames)
        return int(file.samplerate), values.mean(axis=1)


def located(path: Path, names: Sequence[str]) -> list[Path]:
    """The file of each recording in a folder or an archive. Raises UserError naming a missing one."""
    files = _unpacked(path, names) if path.is_file() else [path / name for name in names]
    absent = next(
        (name for name, file in zip(names, files, strict=True) if not file.is_file()), None
    )
    if absent is not None:
        raise UserError(
            f"{path} has no recording {absent}, which its index lists; add it, or remove its line from the index"
        )
    return files


def _unpacked(path: Path, names: Sequence[str]) -> list[Path]:
    """Unpack members of an archive into the cache, all or none, named by number instead of by their
    own paths.

    Links are not followed.
    """
    key = digest(file_hash(path), names)
    files = {name: f"{number:06d}{Path(name).suffix}" for number, name in enumerate(names)}

    def found(cache: Path) -> list[Path]:
        folder = cache / key
        with locked(folder.with_suffix(".lock"), folder):
            if not folder.is_dir():
                part = folder.with_suffix(".part")
                shutil.rmtree(part, ignore_errors=True)
                part.mkdir()
                _unpack(path, files, part)
                part.replace(folder)
        return [folder / file for file in files.values()]

    return in_cache("recordings", found)


def _unpack(path: Path, files: Mapping[str, str], folder: Path) -> None:
    try:
        with tarfile.open(path) as archive:
            size = 0
            places = dict[str, str]()
            for member in archive:
                size += member.size
                check_unpacked(path, size)
                short = member.name.rpartition("/")[2]
                known = next(
                    (name for name in (member.name.removeprefix("./"), short) if name in files),
                    None,
                )
                stream = archive.extractfile(member) if known and member.isreg() else None
                if known and stream is not None:
                    if known in places:
                        raise UserError(
                            f"{path} has {known} twice, as {places[known]} and {member.name}; list "
                            "the recordings by their paths in the archive"
                        )
                    places[known] = member.name
                    with (folder / files[known]).open("wb") as out:
                        shutil.copyfileobj(stream, out)
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        if isinstance(error, OSError) and is_unusable(
            error
        ):  # an error of the cache, not of the archive
            raise
        raise UserError(f"the archive {path} cannot be read: {error}; {RESTORE}") from error


#: the augmentation of the public code: mix-up of waves, then masks over bins and frames
MIXUP_AND_MASKS = "mixup+masks"


class Recordings(Media):
    """Recordings of labelled sources with their filterbanks; only mix-up reads the waves."""

    _augments = False

    def __init__(
        self,
        labels: np.ndarray,
        banks: Ragged | np.ndarray,
        wave: Callable[[int], tuple[int, np.ndarray]],
        *,
        bins: int,
        frames: int,
    ) -> None:
        """`banks` are the filterbanks, (t, bins) each, with or without padding to `frames`.

        `wave`, which is pickled with the batches' workers, returns samples per second of a
        recording, and its samples, (n,). It raises UserError for an unreadable one.
        """
        self.labels = labels
        self._banks = banks
        self._wave = wave
        self.bins = bins
        self.frames = frames

    def augmented(self, how: str) -> Media:
        if how != MIXUP_AND_MASKS:
            return super().augmented(how)
        augmented = copy(self)
        augmented._augments = augmented.costly = True
        return augmented

    def batch(self, rows: np.ndarray, rng: np.random.Generator) -> dict[str, Tensor]:
        """Spectrograms (B, frames, bins); the two views of an item differ only by the encoder's
        dropout.
        """
        import torch

        if not self._augments:
            return {
                "spectrograms": torch.from_numpy(np.stack([self._bank(int(row)) for row in rows]))
            }
        banks, sources = zip(*(self._mixed(int(row), rng) for row in rows), strict=True)
        spectrograms = torch.from_numpy(masked(np.stack(banks), rng))
        return {
            "spectrograms": spectrograms,
            "labels": torch.from_numpy(self.labels[list(sources)]),
        }

    def _bank(self, row: int) -> np.ndarray:
        return padded(self._banks[row], self.frames)

    def _mixed(self, row: int, rng: np.random.Generator) -> tuple[np.ndarray, int]:
        """Return a filterbank, and the number of the recording that gives its class.

        With probability one half, the wave is mixed with another by a weight from Beta(10, 10), and
        the heavier of the two gives the class (NonLing AudioCSE/src/audio_dataloader.py and
        trainers.py).
        """
        if rng.random() >= 0.5:
            return self._bank(row), row
        partner = int(rng.integers(len(self)))
        weight = float(rng.beta(10, 10))
        rate, own = self._wave(row)
        _, other = self._wave(partner)
        bank = filterbank(mixed(own, other, weight), rate, bins=self.bins, frames=self.frames)
        return bank, row if weight >= 0.5 else partner


#: the columns of an index where the profile names no others
_DEFAULTS = (DefaultColumn("file", "names"), DefaultColumn("speaker_id", "names", "label"))
#: version of the filterbanks, part of the fingerprint
VERSION = 2


class LabelledAudio(CorpusSource):
    """WAV files in an archive or a folder, with a tab-separated index with the columns `file` and
    `label`.

    Without an index, the folder is LibriSpeech's, SPEAKER/CHAPTER/*.flac, read by the package
    soundfile. `label` names the label's column, `split` selects rows of the index, and `top` keeps
    the classes with most recordings. `ignore` are patterns of the names of columns and files that
    may be left out. Filterbanks are computed once and cached as float16; waves are
    not kept in memory.
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
        ignore: Sequence[str] = (),
    ) -> None:
        check_positive("top", top)
        self.ignore = tuple(ignore)
        self.path = path
        self.how = how
        self.index = index
        self.label = label
        self.split = split
        self.top = top
        self.bins = bins
        self.frames = frames

    def missing(self, root: Path | None) -> list[Missing]:
        wanted = filter(None, (self.path, self.index))
        return [lacking for name in wanted for lacking in absent(root, name, self.how, folder=True)]

    def fingerprint(self, root: Path | None) -> str:
        index = file_hash(placed(self.require(root), self.index)) if self.index else ""
        options = self.label, self.split, self.top, self.bins, self.frames
        return digest(VERSION, self._content(root), index, *options)

    def examined(self, root: Path | None) -> Findings:
        """Look for all recordings, and decode those of a corpus of at most PLANNED_BYTES, once for
        its content.
        """
        names, files = self._files(root)
        if sum(file.stat().st_size for file in files.values()) <= PLANNED_BYTES:
            note = f"recordings/{digest('note on recordings', 1, self._content(root), sorted(files))}.json"
            read = cached_note(
                note, "the recordings will be read again", lambda: {"faults": _faults(files)}
            )
            if faults := read["faults"]:
                raise UserError(
                    f"{self.path}: {len(faults)} of {len(files)} recordings cannot be used: {first_of(faults, 5, '; ')}"
                )
        classes = sorted({*names.values()})
        if len(classes) < 2:
            raise UserError(
                f"{self.path} has one class only, {classes[0]}; give recordings of two classes"
            )
        remarks = label_remarks(self._labels(root).values())
        return Findings(len(names), remarks, accounts=self._accounts(root, names))

    def _accounts(self, root: Path | None, names: Mapping[str, str]) -> list[Account]:
        """What became of the columns of the index, and of all files. Raises UserError."""
        path = placed(self.require(root), self.path)
        accounts = account_for("recordings", names, "read")
        listed = self._labels(root)
        dropped = [name for name in listed if name not in names]
        accounts += account_for("recordings", dropped, "left out", f"top = {self.top}")
        if self.index:
            part = TablePart.parse(self.split)
            index = placed(self.require(root), self.index)
            columns = ("file", self.label)
            accounts += account_for_columns(index, columns, self.ignore, part, _DEFAULTS)

        there = _members(path) if path.is_file() else _files_within(path)
        index_path = placed(self.require(root), self.index) if self.index else None
        others = [
            name for name in there if not _is_listed(name, listed) and path / name != index_path
        ]
        why = "not in the index" if self.index else "no recordings of LibriSpeech's folders"
        for name in others:
            is_sound = Path(name).suffix.lower() in SOUND_SUFFIXES
            if not self.index and is_sound and not is_ignored(name, self.ignore):
                raise UserError(
                    f"{path} has {name}, which is no SPEAKER/CHAPTER/*.flac; name the recordings in an index: "
                    f"index = '...', or leave such files out: ignore = ['*{Path(name).suffix}']"
                )
        sort = "members" if path.is_file() else "files"
        return accounts + account_for(sort, others, "left out", why)

    def _labels(self, root: Path | None) -> dict[str, str]:
        """Label by file. Raises UserError."""
        index = placed(self.require(root), self.index or "")
        path = placed(root, self.path)
        return _indexed(index, self.label, self.split) if self.index else _speakers(path)

    def _files(self, root: Path | None) -> tuple[dict[str, str], dict[str, Path]]:
        """Label and file of each recording by name. Raises UserError."""
        path = placed(self.require(root), self.path)
        names = self._labels(root)
        kept = {name for name, _ in Counter(names.values()).most_common(self.top)}
        names = {name: label for name, label in names.items() if label in kept}
        return names, dict(zip(names, located(path, list(names)), strict=True))

    def load(self, root: Path | None) -> Recordings:
        path = placed(self.require(root), self.path)
        names, files = self._files(root)
        listed = list(names)
        labels = np.unique(list(names.values()), return_inverse=True)[1].astype(np.int64)
        rate, _ = samples(files[listed[0]], listed[0])

        def bank(row: int) -> np.ndarray:
            name = listed[row]
            frequency, wave = samples(files[name], name)
            if frequency != rate:
                raise UserError(
                    f"{path} has recordings with several sampling rates, {sorted({rate, frequency})}, such as {name}; "
                    "resample them to one rate"
                )
            return energies(wave, rate, bins=self.bins, frames=self.frames)

        key = digest(
            "filterbanks",
            VERSION,
            reading_code(),
            installed("soundfile"),
            self._content(root),
            listed,
            self.frames,
        )
        banks = cached_ragged(key, len(files), self.bins, bank)
        wave = partial(_samples_of, list(files.items()))
        return Recordings(labels, banks, wave, bins=self.bins, frames=self.frames)

    def _content(self, root: Path | None) -> str:
        path = placed(self.require(root), self.path)
        files = (
            [path]
            if path.is_file()
            else sorted(item for item in path.rglob("*.*") if item.is_file())
        )
        names = [file.relative_to(path.parent).as_posix() for file in files]
        hashes = hashes_within(path.parent, files)
        return digest([list(pair) for pair in zip(names, hashes, strict=True)])


def _samples_of(files: Sequence[tuple[str, Path]], row: int) -> tuple[int, np.ndarray]:
    name, path = files[row]
    return samples(path, name)


def _faults(files: Mapping[str, Path]) -> list[str]:
    """What is wrong with recordings: unreadable ones, and other sampling rates than that of the
    first.
    """
    faults = list[str]()
    rates = dict[str, int]()
    for name, path in files.items():
        try:
            rates[name] = samples(path, name)[0]
        except UserError as error:
            faults.append(str(error))
    odd = [name for name, rate in rates.items() if rate != next(iter(rates.values()))]
    if odd:
        faults.append(
            f"several sampling rates, {sorted({*rates.values()})}, such as {odd[0]}; resample them to one rate"
        )
    return faults


def _indexed(path: Path, label: str, split: str | None) -> dict[str, str]:
    """Label by file, in the order of the index. Raises UserError."""
    labels: dict[str, str] = {}
    part = TablePart.parse(split)
    for where, (file, named) in read_rows(path, "file", label, split=part):
        if not file or not named:
            raise UserError(
                f"{where}: the columns file and {label} are not both filled; correct the line"
            )
        if file in labels:
            raise UserError(f"{where} lists the recording {file} twice; remove one of the lines")
        labels[file] = named
    return labels


def _speakers(path: Path) -> dict[str, str]:
    files = sorted(file for file in path.glob("*/*/*.flac") if _is_shown(path, file))
    if not files:
        raise UserError(
            f"{path} has no files SPEAKER/CHAPTER/*.flac; use the folder of a part of LibriSpeech"
        )
    return {file.relative_to(path).as_posix(): file.parts[-3] for file in files}


def _is_shown(folder: Path, file: Path) -> bool:
    """Whether no part of a path within a folder is hidden."""
    return not any(part.startswith(".") for part in file.relative_to(folder).parts)


def _files_within(folder: Path) -> list[str]:
    """The files below a folder that are not hidden, by paths within it."""
    files = (path for path in folder.rglob("*") if path.is_file() and _is_shown(folder, path))
    return sorted(path.relative_to(folder).as_posix() for path in files)


def _members(archive: Path) -> list[str]:
    """The files of an archive. Raises UserError."""
    note = f"members/{digest('members', file_hash(archive))}.json"

    def read() -> dict[str, list[str]]:
        try:
            with tarfile.open(archive) as opened:
                return {"names": [member.name for member in opened if not member.isdir()]}
        except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
            raise UserError(f"the archive {archive} cannot be read: {error}; {RESTORE}") from error

    return list(cached_note(note, "the archive will be read again", read)["names"])


def _is_listed(name: str, listed: Mapping[str, str]) -> bool:
    """Whether an index lists a file, by its path or by its name alone."""
    return name.removeprefix("./") in listed or name.rpartition("/")[2] in listed
