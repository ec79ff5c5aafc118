"""Thousands of recordings: what stays in memory, what is read again, and what an archive may hold."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import wave
from pathlib import Path

import numpy as np
import pytest

from harness.corpora import labelled_audio
from harness.corpora.labelled_audio import LabelledAudio
from harness.encoders.audio import filterbank
from harness.errors import UserError
from harness.seeds import generator

RATE, SECONDS = 8000, 1.5


def wav(samples: np.ndarray, rate: int = RATE) -> bytes:
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((samples * 32767).astype("<i2").tobytes())
    return stream.getvalue()


def tone(number: int) -> np.ndarray:
    return 0.4 * np.sin(2 * np.pi * (150 + number) * np.arange(int(RATE * SECONDS)) / RATE)


def corpus(root: Path, count: int) -> LabelledAudio:
    """`count` recordings of 24 kB each, of ten speakers, all of them links to a few."""
    (root / "wav").mkdir()
    for number in range(20):
        (root / "wav" / f"{number}.wav").write_bytes(wav(tone(number)))
    for number in range(20, count):
        (root / "wav" / f"{number}.wav").hardlink_to(root / "wav" / f"{number % 20}.wav")
    lines = ["file\tspeaker_id", *(f"{number}.wav\t{number % 10}" for number in range(count))]
    (root / "index.tsv").write_text("\n".join(lines) + "\n")
    return LabelledAudio("wav", "", index="index.tsv", bins=16, frames=150)


RESIDENT = """
import sys
from pathlib import Path
import numpy as np
from harness.corpora.labelled_audio import LabelledAudio
from harness.seeds import generator

def resident():
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024

few = LabelledAudio("wav.tar", "", index="few.tsv", bins=16, frames=150).load(Path(sys.argv[1]))
few.batch(np.arange(40), generator(seed=0))
before = resident()
many = LabelledAudio("wav.tar", "", index="index.tsv", bins=16, frames=150).load(Path(sys.argv[1]))
for start in range(0, len(many), 48):
    many.batch(np.arange(start, min(start + 48, len(many))), generator(seed=0))
print(resident() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="needs /proc to see memory")
def test_thousands_of_recordings_take_no_memory(tmp_path: Path) -> None:
    """1,500 waves are 72 MB as floats and their filterbanks 14 MB; reading all of them leaves far less behind."""
    corpus(tmp_path, 1500)
    with tarfile.open(tmp_path / "wav.tar", "w") as archive:
        for number in range(1500):
            raw = (tmp_path / "wav" / f"{number}.wav").read_bytes()
            member = tarfile.TarInfo(f"./wav/{number}.wav")
            member.size = len(raw)
            archive.addfile(member, io.BytesIO(raw))
    (tmp_path / "few.tsv").write_text("".join((tmp_path / "index.tsv").read_text().splitlines(keepends=True)[:41]))
    done = subprocess.run([sys.executable, "-c", RESIDENT, str(tmp_path)], capture_output=True, text=True, check=True)
    grown_mb = float(done.stdout)
    assert grown_mb < 7


def test_filterbanks_are_kept_and_waves_are_read_again_for_mixing_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    source = corpus(tmp_path, 30)
    source.load(tmp_path)
    opened: list[str] = []
    real = labelled_audio.samples
    monkeypatch.setattr(labelled_audio, "samples", lambda path, name: opened.append(name) or real(path, name))
    plain = source.load(tmp_path)
    found = plain.batch(np.arange(30), generator(seed=0))["spectrograms"].numpy()
    assert opened == ["0.wav"], "the rate is asked of one file"
    for row in (0, 19, 27):
        expected = filterbank(real(tmp_path / "wav" / f"{row}.wav", "")[1], RATE, bins=16, frames=150)
        np.testing.assert_allclose(found[row], expected, atol=0.005)
    source.augment = True
    mixing = source.load(tmp_path)
    assert (mixing.costly, plain.costly) == (True, False)
    mixing.batch(np.arange(30), generator(seed=0))
    assert 20 < len(opened) < 45


def test_a_member_of_an_archive_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.wav").write_bytes(wav(tone(0)))
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        link = tarfile.TarInfo("0.wav")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path / "secret.wav")
        archive.addfile(link)
    (tmp_path / "index.tsv").write_text("file\tspeaker_id\n0.wav\t1\n")
    with pytest.raises(UserError, match=r"a\.tar has no recording 0\.wav"):
        LabelledAudio("a.tar", "", index="index.tsv").load(tmp_path)


@pytest.mark.parametrize("place", ["../outside.wav", "/outside.wav"])
def test_an_archive_is_unpacked_into_the_cache_alone(tmp_path: Path, place: str) -> None:
    raw = wav(tone(0))
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        member = tarfile.TarInfo(place)
        member.size = len(raw)
        archive.addfile(member, io.BytesIO(raw))
    (tmp_path / "index.tsv").write_text("file\tspeaker_id\noutside.wav\t1\n")
    media = LabelledAudio("a.tar", "", index="index.tsv", bins=16, frames=20).load(tmp_path)
    assert media.batch(np.arange(1), generator(seed=0))["spectrograms"].shape == (1, 20, 16)
    assert not (tmp_path.parent / "outside.wav").exists()


def test_flac_is_read_where_the_package_is(tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile", reason="FLAC needs the extra 'audio'; this check did not run")
    for speaker in ("19", "26"):
        (tmp_path / "speech" / speaker / "198").mkdir(parents=True)
        soundfile.write(tmp_path / "speech" / speaker / "198" / f"{speaker}-198-0000.flac", tone(int(speaker)), RATE)
    media = LabelledAudio("speech", "", bins=16, frames=150).load(tmp_path)
    found = media.batch(np.arange(2), generator(seed=0))["spectrograms"].numpy()
    np.testing.assert_allclose(found[1], filterbank(tone(26), RATE, bins=16, frames=150), atol=0.05)
