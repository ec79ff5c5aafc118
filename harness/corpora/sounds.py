"""Reading recordings: decoding WAV and FLAC files, unpacking archives into the cache."""

from __future__ import annotations

import shutil
import tarfile
import wave
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from harness.caches import in_cache, is_unusable
from harness.errors import RESTORE, UserError
from harness.locks import locked
from harness.sources import digest, file_hash


def samples(path: Path, name: str) -> tuple[int, np.ndarray]:
    """Read a recording: samples per second, and samples in -1..1 averaged over channels, (n,) float32.

    Raises UserError naming the recording.
    """
    try:
        rate, values = _wav(path) if path.suffix.lower() == ".wav" else _other(path)
    except ImportError as error:
        raise UserError(
            f"{path.suffix} files need the package soundfile; run `pip install 'sentence-harness[audio]'`"
        ) from error
    except (wave.Error, EOFError, ValueError, RuntimeError, OSError) as error:
        why = f"cannot be read: {str(error) or 'unexpected end of file'}"
    else:
        if len(values) and np.isfinite(values).all():
            return rate, values.astype(np.float32)
        why = "has samples that are not finite numbers" if len(values) else "is empty"
    raise UserError(f"the recording {name} {why}; remove or replace it")


def _wav(path: Path) -> tuple[int, np.ndarray]:
    with wave.open(str(path)) as file:
        if file.getsampwidth() != 2:
            raise ValueError("its samples do not have 16 bits")
        found = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2")
        return file.getframerate(), found.reshape(-1, file.getnchannels()).mean(axis=1) / 2**15


def _other(path: Path) -> tuple[int, np.ndarray]:
    import soundfile

    values, rate = soundfile.read(path, always_2d=True)
    return int(rate), values.mean(axis=1)


def located(place: Path, names: Sequence[str]) -> list[Path]:
    """The file of each recording in a folder or an archive. Raises UserError naming a missing one."""
    files = _unpacked(place, names) if place.is_file() else [place / name for name in names]
    absent = next((name for name, file in zip(names, files, strict=True) if not file.is_file()), None)
    if absent is not None:
        raise UserError(
            f"{place} has no recording {absent}, which its index lists; add it, or remove its line from the index"
        )
    return files


def _unpacked(place: Path, names: Sequence[str]) -> list[Path]:
    """Unpack members of an archive into the cache, all or none, under numbers instead of their own paths.

    Links are not followed.
    """
    key = digest(file_hash(place), names)
    files = {name: f"{number:06d}{Path(name).suffix}" for number, name in enumerate(names)}

    def found(cache: Path) -> list[Path]:
        folder = cache / key
        with locked(folder.with_suffix(".lock"), folder):
            if not folder.is_dir():
                part = folder.with_suffix(".part")
                shutil.rmtree(part, ignore_errors=True)
                part.mkdir()
                _unpack(place, files, part)
                part.replace(folder)
        return [folder / file for file in files.values()]

    return in_cache("recordings", found)


def _unpack(place: Path, files: Mapping[str, str], folder: Path) -> None:
    try:
        with tarfile.open(place) as archive:
            for member in archive:
                short = member.name.rpartition("/")[2]
                known = next((name for name in (member.name.removeprefix("./"), short) if name in files), None)
                stream = archive.extractfile(member) if known and member.isreg() else None
                if known and stream is not None:
                    with (folder / files[known]).open("wb") as out:
                        shutil.copyfileobj(stream, out)
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        if isinstance(error, OSError) and is_unusable(error):  # the cache, not the archive
            raise
        raise UserError(f"the archive {place} cannot be read: {error}; {RESTORE}") from error
