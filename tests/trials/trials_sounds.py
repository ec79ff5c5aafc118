"""Trials of recordings."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from trial import Trial, check_refused

from harness.corpora.labelled_audio import LabelledAudio, read_samples

RATE = 16000


def write_sound(path: Path, size: int | None, count: int = 8000) -> None:
    """A WAV of 16 bits whose header states a size of its data, the true one for None."""
    data = (np.sin(np.arange(count) / 10) * 8000).astype("<i2").tobytes()
    stated = len(data) if size is None else size
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, RATE, 2 * RATE, 2, 16)
    riff = b"RIFF" + struct.pack("<I", min(stated + 36, 0xFFFFFFFF)) + b"WAVE"
    path.write_bytes(riff + form + b"data" + struct.pack("<I", stated) + data)


def write_streamed(folder: Path) -> None:
    write_sound(folder / "streamed.wav", 0xFFFFFFFF)
    write_sound(folder / "sox.wav", 0x7FFFFFFF)
    write_sound(folder / "cut.wav", 20_000)


def check_streamed(folder: Path) -> None:
    for name in ("streamed.wav", "sox.wav"):
        rate, values = read_samples(folder / name, name)
        assert (rate, len(values)) == (RATE, 8000)
        expected = (np.sin(np.arange(8000) / 10) * 8000).astype(np.int16) / 2**15
        np.testing.assert_allclose(values, expected, atol=1e-6)
    check_refused(lambda: read_samples(folder / "cut.wav", "cut.wav"), "8000 of the 10000 samples")


def write_cut(folder: Path) -> None:
    write_sound(folder / "cut.wav", 16_000, count=3000)


def check_cut(folder: Path) -> None:
    words = "it holds 3000 of the 8000 samples that its header promises"
    check_refused(lambda: read_samples(folder / "cut.wav", "cut.wav"), words)


def write_indexed(folder: Path) -> None:
    (folder / "sounds").mkdir()
    for name in ("a.wav", "b.wav", "spare.wav"):
        write_sound(folder / "sounds" / name, None)
    rows = ["a.wav\tx\ttrain", "b.wav\ty\ttrain"]
    (folder / "index.tsv").write_text("\n".join(["file\tspeaker_id\tsplit", *rows]) + "\n")
    (folder / "parts.tsv").write_text(
        "\n".join(["file\tspeaker_id\tsplit", rows[0], rows[1].replace("train", "test")]) + "\n"
    )


def check_indexed(folder: Path) -> None:
    findings = LabelledAudio("sounds", index="index.tsv").examined(folder)
    assert findings.rows == 2
    left_out = [account for account in findings.accounts if account.sort == "files"]
    assert [account.names for account in left_out] == [("spare.wav",)]
    parts = LabelledAudio("sounds", index="parts.tsv")
    check_refused(lambda: parts.examined(folder), "'split' parts its rows", "split = 'train'")


TRIALS = [
    Trial("4/D6", write_cut, check_cut),
    Trial("5/I14", write_streamed, check_streamed),
    Trial("5/I2 recordings", write_indexed, check_indexed),
]
