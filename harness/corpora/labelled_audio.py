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

from harness.caches import is_unusable, make_in_cache, read_or_make_note
from harness.census import Account, account_for, is_ignored
from harness.columns import DefaultColumn, account_for_columns
from harness.corpora.base import PLANNED_BYTES, CorpusSource, Media, check_positive
from harness.datarows import TablePart, read_rows
from harness.encoders.features import Ragged, load_cached_ragged
from harness.encoders.media import (
    WINDOW_MS,
    compute_energies,
    compute_filterbank,
    mask_bands,
    mix_waves,
    pad_frames,
)
from harness.errors import RESTORE, UserError
from harness.files import check_unpacked, open_regular
from harness.formatting import first_of
from harness.locks import hold_lock
from harness.remarks import list_label_remarks
from harness.sources import (
    OWN_FILE,
    Findings,
    Missing,
    digest,
    hash_file,
    hash_named_files,
    hash_reading_code,
    list_absent,
    list_versions,
    resolve_path,
)

if TYPE_CHECKING:
    from torch import Tensor


def read_samples(path: Path, name: str) -> tuple[int, np.ndarray]:
    """Read a recording: samples per second, and samples in -1..1 averaged over channels, (n,)
    float32.

    Raises UserError naming the recording.
    """
    try:
        with open_regular(path) as file:
            read = _decode_wav if file.read(4) in (b"", b"RIFF") else _decode_other_format
        rate, samples = read(path)
    except ImportError as error:
        raise UserError(
            f"the recording {name} is no WAV; other formats need the package soundfile; "
            "run `pip install 'sentence-harness[audio]'`"
        ) from error
    except (wave.Error, EOFError, ValueError, RuntimeError, OSError) as error:
        wrong = f"cannot be read: {str(error) or 'unexpected end of file'}"
    else:
        wrong = _describe_fault(rate, samples)
    if wrong:
        raise UserError(f"the recording {name} {wrong}; remove or replace it")
    return rate, samples.astype(np.float32)


def _describe_fault(rate: int, samples: np.ndarray) -> str:
    """What is wrong with samples; '' for good ones."""
    window = WINDOW_MS * rate // 1000
    if not len(samples):
        return "is empty"
    if window <= 0 or len(samples) < window:
        return f"is shorter than {WINDOW_MS} ms"
    if not np.isfinite(samples).all():
        return "has samples that are not finite numbers"
    return ""


#: suffixes of the names of recordings
SOUND_SUFFIXES = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a", ".aac", ".aiff", ".sph")
#: sizes of data from which a header was written into a pipe, before the size was known
_STREAMED = 0x7FFFF000


def _decode_wav(path: Path) -> tuple[int, np.ndarray]:
    try:
        with wave.open(str(path)) as file:
            bits = 8 * file.getsampwidth()
            channels = file.getnchannels()
            frames = file.getnframes()
            rate = file.getframerate()
            if bits != 16:
                raise ValueError(f"its samples have {bits} bits; convert it to 16-bit PCM")
            values = np.frombuffer(file.readframes(frames), dtype="<i2")
    except wave.Error as error:
        raise ValueError(f"{error}; convert it to 16-bit PCM") from error

    if 2 * channels * frames < _STREAMED - 2 * channels:
        _check_whole(len(values) // channels, frames)
    complete = len(values) - len(values) % channels
    return rate, values[:complete].reshape(-1, channels).mean(axis=1) / 2**15


def _check_whole(held: int, promised: int) -> None:
    if held != promised:
        raise ValueError(f"it holds {held} of the {promised} samples that its header promises")


def _decode_other_format(path: Path) -> tuple[int, np.ndarray]:
    import soundfile

    with soundfile.SoundFile(path) as file:
        values = file.read(always_2d=True)
        _check_whole(len(values), file.frames)
        return int(file.samplerate), values.mean(axis=1)


def find_recordings(path: Path, names: Sequence[str]) -> list[Path]:
    """The file of each recording in a folder or an archive. Raises UserError naming a missing one."""
    files = _unpack_recordings(path, names) if path.is_file() else [path / name for name in names]
    for name, file in zip(names, files, strict=True):
        if not file.is_file():
            raise UserError(
                f"{path} has no recording {name}, which its index lists; add it, or remove its line from the index"
            )
    return files


def _unpack_recordings(path: Path, names: Sequence[str]) -> list[Path]:
    """Unpack members of an archive into the cache, all or none, named by number instead of by their
    own paths.

    Links are not followed.
    """
    key = digest(hash_file(path), names)
    files = {name: f"{number:06d}{Path(name).suffix}" for number, name in enumerate(names)}

    def unpack(cache: Path) -> list[Path]:
        folder = cache / key
        with hold_lock(folder.with_suffix(".lock"), folder):
            if not folder.is_dir():
                part = folder.with_suffix(".part")
                shutil.rmtree(part, ignore_errors=True)
                part.mkdir()
                _extract_recordings(path, files, part)
                part.replace(folder)
        return [folder / file for file in files.values()]

    return make_in_cache("recordings", unpack)


def _extract_recordings(path: Path, files: Mapping[str, str], folder: Path) -> None:
    size = 0
    members_of = dict[str, str]()
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                size += member.size
                check_unpacked(path, size)
                name = _find_listed(member.name, files)
                stream = archive.extractfile(member) if name and member.isreg() else None
                if name is None or stream is None:
                    continue
                if name in members_of:
                    raise UserError(
                        f"{path} has {name} twice, as {members_of[name]} and {member.name}; list "
                        "the recordings by their paths in the archive"
                    )
                members_of[name] = member.name
                with (folder / files[name]).open("wb") as out:
                    shutil.copyfileobj(stream, out)
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        # an error of the cache, not of the archive
        if isinstance(error, OSError) and is_unusable(error):
            raise
        raise UserError(f"the archive {path} cannot be read: {error}; {RESTORE}") from error


def _find_listed(name: str, listed: Mapping[str, str]) -> str | None:
    """The name by which an index lists a file, its path or its name alone; None if it does not."""
    for spelling in (name.removeprefix("./"), name.rpartition("/")[2]):
        if spelling in listed:
            return spelling
    return None


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
            banks = [self._get_bank(int(row)) for row in rows]
            return {"spectrograms": torch.from_numpy(np.stack(banks))}

        banks = []
        sources = []
        for row in rows:
            bank, source = self._draw_bank(int(row), rng)
            banks.append(bank)
            sources.append(source)
        spectrograms = torch.from_numpy(mask_bands(np.stack(banks), rng))
        return {"spectrograms": spectrograms, "labels": torch.from_numpy(self.labels[sources])}

    def _get_bank(self, row: int) -> np.ndarray:
        return pad_frames(self._banks[row], self.frames)

    def _draw_bank(self, row: int, rng: np.random.Generator) -> tuple[np.ndarray, int]:
        """Return a filterbank, and the number of the recording that gives its class.

        With probability one half, the wave is mixed with another by a weight from Beta(10, 10), and
        the heavier of the two gives the class (NonLing AudioCSE/src/audio_dataloader.py and
        trainers.py).
        """
        if rng.random() >= 0.5:
            return self._get_bank(row), row

        partner = int(rng.integers(len(self)))
        weight = float(rng.beta(10, 10))
        rate, samples = self._wave(row)
        _, partner_samples = self._wave(partner)
        blend = mix_waves(samples, partner_samples, weight)
        bank = compute_filterbank(blend, rate, bins=self.bins, frames=self.frames)
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
        lacking = list_absent(root, self.path, self.how, folder=True)
        if self.index:
            lacking += list_absent(root, self.index, self.how, folder=True)
        return lacking

    def fingerprint(self, root: Path | None) -> str:
        index = hash_file(resolve_path(self.require(root), self.index)) if self.index else ""
        options = self.label, self.split, self.top, self.bins, self.frames
        return digest(VERSION, self._hash_recordings(root), index, *options)

    def examined(self, root: Path | None) -> Findings:
        """Look for all recordings, and decode those of a corpus of at most PLANNED_BYTES, once for
        its content.
        """
        labels, files = self._find_files(root)
        if sum(file.stat().st_size for file in files.values()) <= PLANNED_BYTES:
            self._check_recordings(root, files)

        classes = sorted({*labels.values()})
        if len(classes) < 2:
            raise UserError(
                f"{self.path} has one class only, {classes[0]}; give recordings of two classes"
            )

        remarks = list_label_remarks(self._load_labels(root).values())
        return Findings(len(labels), remarks, accounts=self._account_for_recordings(root, labels))

    def _check_recordings(self, root: Path | None, files: Mapping[str, Path]) -> None:
        """Raise UserError for recordings that cannot be used."""
        key = digest("note on recordings", 1, self._hash_recordings(root), sorted(files))
        note = read_or_make_note(
            f"recordings/{key}.json",
            "the recordings will be read again",
            lambda: {"faults": _find_faults(files)},
        )

        faults = note["faults"]
        if faults:
            raise UserError(
                f"{self.path}: {len(faults)} of {len(files)} recordings cannot be used: {first_of(faults, 5, '; ')}"
            )

    def _account_for_recordings(self, root: Path | None, names: Mapping[str, str]) -> list[Account]:
        """What became of the columns of the index, and of all files. Raises UserError."""
        path = resolve_path(self.require(root), self.path)
        listed = self._load_labels(root)
        dropped = [name for name in listed if name not in names]
        accounts = account_for("recordings", names, "read")
        accounts += account_for("recordings", dropped, "left out", f"top = {self.top}")

        index_path = None
        if self.index:
            index_path = resolve_path(self.require(root), self.index)
            part = TablePart.parse(self.split)
            columns = ("file", self.label)
            accounts += account_for_columns(index_path, columns, self.ignore, part, _DEFAULTS)

        sort = "members" if path.is_file() else "files"
        files = _list_members(path) if path.is_file() else _list_files_within(path)
        unlisted = [name for name in files if _find_listed(name, listed) is None]
        unread = [name for name in unlisted if path / name != index_path]
        if self.index:
            return accounts + account_for(sort, unread, "left out", "not in the index")

        for name in unread:
            is_sound = Path(name).suffix.lower() in SOUND_SUFFIXES
            if is_sound and not is_ignored(name, self.ignore):
                raise UserError(
                    f"{path} has {name}, which is no SPEAKER/CHAPTER/*.flac; name the recordings in an index: "
                    f"index = '...', or leave such files out: ignore = ['*{Path(name).suffix}']"
                )
        why = "no recordings of LibriSpeech's folders"
        return accounts + account_for(sort, unread, "left out", why)

    def _load_labels(self, root: Path | None) -> dict[str, str]:
        """Label by file. Raises UserError."""
        if not self.index:
            return _list_speakers(resolve_path(root, self.path))
        return _load_index(resolve_path(self.require(root), self.index), self.label, self.split)

    def _find_files(self, root: Path | None) -> tuple[dict[str, str], dict[str, Path]]:
        """Label and file of each recording by name. Raises UserError."""
        path = resolve_path(self.require(root), self.path)
        labels = self._load_labels(root)
        frequent = {label for label, _ in Counter(labels.values()).most_common(self.top)}
        labels = {name: label for name, label in labels.items() if label in frequent}
        files = find_recordings(path, list(labels))
        return labels, dict(zip(labels, files, strict=True))

    def load(self, root: Path | None) -> Recordings:
        path = resolve_path(self.require(root), self.path)
        label_of, files = self._find_files(root)
        names = list(label_of)
        _, classes = np.unique(list(label_of.values()), return_inverse=True)
        rate, _ = read_samples(files[names[0]], names[0])

        def compute_bank(row: int) -> np.ndarray:
            name = names[row]
            own_rate, samples = read_samples(files[name], name)
            if own_rate != rate:
                raise UserError(
                    f"{path} has recordings with several sampling rates, {sorted({rate, own_rate})}, such as {name}; "
                    "resample them to one rate"
                )
            return compute_energies(samples, rate, bins=self.bins, frames=self.frames)

        code = (VERSION, hash_reading_code(), list_versions("soundfile"))
        key = digest("filterbanks", *code, self._hash_recordings(root), names, self.frames)
        banks = load_cached_ragged(key, len(files), self.bins, compute_bank)
        read = partial(_decode_recording, list(files.items()))
        labels = classes.astype(np.int64)
        return Recordings(labels, banks, read, bins=self.bins, frames=self.frames)

    def _hash_recordings(self, root: Path | None) -> str:
        path = resolve_path(self.require(root), self.path)
        files = [path]
        if path.is_dir():
            files = sorted(file for file in path.rglob("*.*") if file.is_file())
        return digest(hash_named_files(path.parent, files))


def _decode_recording(files: Sequence[tuple[str, Path]], row: int) -> tuple[int, np.ndarray]:
    name, path = files[row]
    return read_samples(path, name)


def _find_faults(files: Mapping[str, Path]) -> list[str]:
    """What is wrong with recordings: unreadable ones, and other sampling rates than that of the
    first.
    """
    faults = list[str]()
    rates = dict[str, int]()
    for name, path in files.items():
        try:
            rates[name], _ = read_samples(path, name)
        except UserError as error:
            faults.append(str(error))

    first_rate = next(iter(rates.values()), 0)
    odd = [name for name, rate in rates.items() if rate != first_rate]
    if odd:
        listed = sorted({*rates.values()})
        faults.append(
            f"several sampling rates, {listed}, such as {odd[0]}; resample them to one rate"
        )
    return faults


def _load_index(path: Path, label: str, split: str | None) -> dict[str, str]:
    """Label by file, in the order of the index. Raises UserError."""
    labels: dict[str, str] = {}
    for place, (file, name) in read_rows(path, "file", label, split=TablePart.parse(split)):
        if not file or not name:
            raise UserError(
                f"{place}: the columns file and {label} are not both filled; correct the line"
            )
        if file in labels:
            raise UserError(f"{place} lists the recording {file} twice; remove one of the lines")
        labels[file] = name
    return labels


def _list_speakers(path: Path) -> dict[str, str]:
    files = sorted(file for file in path.glob("*/*/*.flac") if _is_shown(path, file))
    if not files:
        raise UserError(
            f"{path} has no files SPEAKER/CHAPTER/*.flac; use the folder of a part of LibriSpeech"
        )
    return {file.relative_to(path).as_posix(): file.parts[-3] for file in files}


def _is_shown(folder: Path, file: Path) -> bool:
    """Whether no part of a path within a folder is hidden."""
    return not any(part.startswith(".") for part in file.relative_to(folder).parts)


def _list_files_within(folder: Path) -> list[str]:
    """The files below a folder that are not hidden, by paths within it."""
    files = (path for path in folder.rglob("*") if path.is_file() and _is_shown(folder, path))
    return sorted(path.relative_to(folder).as_posix() for path in files)


def _list_members(archive: Path) -> list[str]:
    """The files of an archive. Raises UserError."""
    note = f"members/{digest('members', hash_file(archive))}.json"

    def read() -> dict[str, list[str]]:
        try:
            with tarfile.open(archive) as opened:
                return {"names": [member.name for member in opened if not member.isdir()]}
        except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
            raise UserError(f"the archive {archive} cannot be read: {error}; {RESTORE}") from error

    return list(read_or_make_note(note, "the archive will be read again", read)["names"])
