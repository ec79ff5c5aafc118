"""Labelled recordings: loading, filterbanks, archives, memory and invalid files."""

from __future__ import annotations

import importlib.util
import tarfile
from pathlib import Path

import numpy as np
import pytest
from made_files import RATE, riff, write_tar

from harness.corpora import labelled_audio
from harness.corpora.base import Media
from harness.corpora.labelled_audio import LabelledAudio, read_samples
from harness.encoders.media import compute_energies, compute_filterbank, mask_bands, mix_waves
from harness.errors import UserError
from harness.seeds import make_generator


def wav(samples: np.ndarray, rate: int = RATE) -> bytes:
    return riff((samples * 32767).astype("<i2").tobytes(), rate=rate)


def tone(number: int) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * (200 + 100 * number) * np.arange(8000) / RATE)


@pytest.fixture
def speech(tmp_path: Path) -> Path:
    """Six recordings of three speakers."""
    lines = ["file\tspeaker_id\tsplit"]
    (tmp_path / "wav").mkdir()
    for number, speaker in enumerate((0, 0, 0, 1, 1, 2)):
        (tmp_path / "wav" / f"{number}.wav").write_bytes(wav(tone(speaker)))
        lines.append(f"{number}.wav\t{speaker}\t{'test' if number == 2 else 'train'}")
    (tmp_path / "index.tsv").write_text("\n".join(lines) + "\n")
    return tmp_path


def audio(**options: object) -> LabelledAudio:
    return LabelledAudio(
        "wav", "fetch it", **{"index": "index.tsv", "bins": 32, "frames": 60, **options}
    )


def drawn(media: Media, rows: list[int], seed: int = 0) -> np.ndarray:
    return media.ready(media.batch(np.array(rows), make_generator(seed=seed)))[
        "spectrograms"
    ].numpy()


def test_filterbanks_are_kept_and_waves_are_read_again_for_mixing_alone(
    speech: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(speech / "cache"))
    audio().load(speech)
    opened: list[str] = []
    real = labelled_audio.read_samples
    monkeypatch.setattr(
        labelled_audio, "read_samples", lambda path, name: opened.append(name) or real(path, name)
    )
    plain = audio().load(speech)
    banks = drawn(plain, list(range(6)))
    assert opened == ["0.wav"], "the rate is asked of one file"
    for row in range(6):
        expected = compute_filterbank(
            real(speech / "wav" / f"{row}.wav", "")[1], RATE, bins=32, frames=60
        )
        np.testing.assert_allclose(banks[row], expected, atol=0.005)
    mixing = plain.augmented("mixup+masks")
    assert (mixing.costly, plain.costly) == (True, False)
    mixing.batch(np.arange(30) % 6, make_generator(seed=0))
    assert 20 < len(opened) < 45


def test_an_archive_is_read_like_a_folder(speech: Path) -> None:
    """It is unpacked into the cache alone, and no link in it is followed."""
    with tarfile.open(speech / "wav.tar.gz", "w:gz") as archive:
        archive.add(speech / "wav", "some/folder")
    packed = LabelledAudio("wav.tar.gz", "", index="index.tsv", bins=32, frames=60)
    np.testing.assert_array_equal(
        drawn(packed.load(speech), [0, 5]), drawn(audio().load(speech), [0, 5])
    )
    (speech / "wav.tar.gz").write_bytes((speech / "wav.tar.gz").read_bytes()[:-200])
    with pytest.raises(UserError, match=r"cannot be read: .*restore it"):
        packed.load(speech)
    (speech / "index.tsv").write_text("file\tspeaker_id\noutside.wav\t1\n")
    for name in ("../outside.wav", "/outside.wav"):
        write_tar(speech / "a.tar", {name: wav(tone(0))})
        assert drawn(LabelledAudio("a.tar", "", index="index.tsv").load(speech), [0]).shape[0] == 1
        assert not (speech.parent / "outside.wav").exists()
    write_tar(speech / "a.tar", {"outside.wav": speech / "wav" / "0.wav"})
    with pytest.raises(UserError, match=r"a\.tar has no recording outside\.wav"):
        LabelledAudio("a.tar", "", index="index.tsv").load(speech)


def test_two_recordings_of_one_name_in_an_archive_are_refused(speech: Path) -> None:
    """The index names a file alone, so that either could be meant."""
    (speech / "index.tsv").write_text("file\tspeaker_id\n0.wav\t1\n")
    write_tar(speech / "a.tar", {"first/0.wav": wav(tone(0)), "second/0.wav": wav(tone(1))})
    with pytest.raises(UserError, match=r"has 0\.wav twice, as first/0\.wav and second/0\.wav"):
        LabelledAudio("a.tar", "", index="index.tsv").load(speech)


@pytest.mark.parametrize("whole", [True, False])
def test_librispeechs_folders_need_a_package(tmp_path: Path, whole: bool) -> None:
    paths = [
        tmp_path / "speech" / speaker / "198" / f"{speaker}-198-0000.flac"
        for speaker in ("19", "26")
    ]
    for path, number in zip(paths, (19, 26), strict=True):
        path.parent.mkdir(parents=True)
        if whole:
            soundfile = pytest.importorskip(
                "soundfile", reason="no FLAC is read; install the extra dev"
            )
            soundfile.write(path, tone(number), RATE)
        else:
            path.write_bytes(b"fLaC")
    source = LabelledAudio("speech", "", bins=16, frames=150)
    if whole:
        banks = drawn(source.load(tmp_path), [0, 1])
        _, wave = read_samples(paths[1], "")  # of 16 bits
        np.testing.assert_allclose(wave, tone(26), atol=1e-4)
        np.testing.assert_allclose(
            banks[1], compute_filterbank(wave, RATE, bins=16, frames=150), atol=0.05
        )
    else:
        there = importlib.util.find_spec("soundfile") is not None
        needed = r"19-198-0000\.flac cannot be read" if there else "need the package soundfile"
        with pytest.raises(UserError, match=needed):
            source.load(tmp_path)


def test_recordings_have_their_speakers(speech: Path) -> None:
    for options, labels in (
        ({}, [0, 0, 0, 1, 1, 2]),
        ({"split": "train"}, [0, 0, 1, 1, 2]),
        ({"top": 2}, [0, 0, 0, 1, 1]),
    ):
        assert audio(**options).load(speech).labels.tolist() == labels
    media = audio().load(speech)
    assert drawn(media, [0, 3]).shape == (2, 60, 32)
    assert media.augmented("none") is media
    with pytest.raises(
        UserError, match="no augmentation 'echo'; give the method the option augment=none"
    ):
        media.augmented("echo")


def test_masks_are_bands_of_zeros_below_48_of_128_bins_and_192_of_1024_frames() -> None:
    """The public code's widths are those of an input of 1,024 x 128; here 36 x 64 has bands below
    24 and 6.75.
    """
    ones = np.ones((400, 36, 64), dtype=np.float32)
    out = mask_bands(ones, make_generator(seed=0))
    assert ones.all()
    seen = []
    for item in out:
        bins, frames = (
            np.flatnonzero((item == 0).all(axis=0)),
            np.flatnonzero((item == 0).all(axis=1)),
        )
        for band in (bins, frames):
            assert len(band) == 0 or band[-1] - band[0] + 1 == len(band)
        assert (item == 0).sum() == len(bins) * 36 + len(frames) * 64 - len(bins) * len(frames)
        seen.append((len(bins), len(frames)))
    widths, lengths = zip(*seen, strict=True)
    assert set(widths) == set(range(24))
    assert set(lengths) == set(range(7))


@pytest.mark.parametrize(("first", "second"), [(5, 3), (3, 5), (4, 4)])
def test_a_mixture_is_cut_or_padded_to_the_first_wave(first: int, second: int) -> None:
    """The public code in loops: means removed, the second wave cut or padded with zeros, then the
    weighted sum.
    """
    rng = np.random.default_rng(0)
    own, other, weight = rng.normal(size=first), rng.normal(size=second), 0.3
    expected = []
    for sample in range(first):
        beside = other[sample] - sum(other) / second if sample < second else 0.0
        expected.append(weight * (own[sample] - sum(own) / first) + (1 - weight) * beside)
    np.testing.assert_allclose(mix_waves(own, other, weight), expected, rtol=1e-12)
    assert compute_energies(np.ones(10), 16000, bins=8, frames=4).shape == (0, 8)
    assert not compute_filterbank(np.ones(10), 16000, bins=8, frames=4).any(), (
        "shorter than a window: silence"
    )


def test_an_augmented_batch_is_the_public_codes_in_loops(speech: Path) -> None:
    """With probability one half mixed by a Beta(10, 10) weight; the heavier recording gives the
    class; then masks.
    """
    plain = audio(bins=32).load(speech)
    media, rows = plain.augmented("mixup+masks"), np.array([0, 3, 5, 4, 0, 2])
    waves = [read_samples(speech / "wav" / f"{row}.wav", "")[1] for row in range(6)]
    partners = set()
    for seed in range(20):
        batch, rng = media.batch(rows, make_generator(seed=seed)), make_generator(seed=seed)
        banks, labels = [], []
        for row in rows:
            bank, label = drawn(plain, [row])[0], plain.labels[row]
            if rng.random() < 0.5:
                partner, weight = rng.integers(6), rng.beta(10, 10)
                bank = compute_filterbank(
                    mix_waves(waves[row], waves[partner], weight), 16000, bins=32, frames=60
                )
                votes = np.zeros(3)
                votes[plain.labels[row]] += weight
                votes[plain.labels[partner]] += 1 - weight
                label = votes.argmax()
                partners.add(label != plain.labels[row])
            banks.append(bank)
            labels.append(label)
        np.testing.assert_allclose(
            batch["spectrograms"], mask_bands(np.stack(banks), rng), atol=1e-5
        )
        assert batch["labels"].tolist() == labels
    assert partners == {True, False}


PCM = (tone(0) * 32767).astype("<i2")
ODD = {
    "promises": (
        riff(PCM[:3000].tobytes(), promised=16000),
        "it holds 3000 of the 8000 samples that its header prom",
    ),
    "8 bits": (riff(bytes(8000), bits=8), "its samples have 8 bits; convert it to 16-bit PCM"),
    "24 bits": (riff(bytes(24000), bits=24), "its samples have 24 bits; convert it to 16-bit PCM"),
    "32 bits": (riff(bytes(32000), bits=32), "its samples have 32 bits; convert it to 16-bit PCM"),
    "float": (
        riff(tone(0).astype("<f4").tobytes(), bits=32, kind=3),
        "unknown format: 3; convert it to 16-bit PCM",
    ),
    "no channel": (riff(PCM.tobytes(), channels=0), "convert it to 16-bit PCM"),
    "few samples": (riff(PCM[:300].tobytes()), "is shorter than 25 ms"),
    "no samples": (riff(b""), "is empty"),
    "text": (
        b"version https://git-lfs.github.com/spec/v1",
        "cannot be read|need the package soundfile",
    ),
}


@pytest.mark.parametrize("odd", ODD)
def test_recordings_that_would_be_short_or_misread_are_counted_when_planned(
    speech: Path, odd: str
) -> None:
    content, message = ODD[odd]
    audio(ignore=["split"]).examined(speech)
    for name in ("1.wav", "4.wav"):
        (speech / "wav" / name).write_bytes(content)
    with pytest.raises(
        UserError, match=rf"wav: 2 of 6 recordings cannot be used: .*1\.wav .*({message})"
    ):
        audio(ignore=["split"]).examined(speech)


def test_a_recording_is_what_its_bytes_are_and_channels_are_averaged(tmp_path: Path) -> None:
    path = tmp_path / "song.flac"
    path.write_bytes(riff(np.stack([PCM, np.zeros_like(PCM)], axis=1).tobytes(), channels=2))
    rate, values = read_samples(path, "song")
    assert rate == RATE
    np.testing.assert_array_equal(values, (PCM / 2**16).astype(np.float32))
    soundfile = pytest.importorskip("soundfile", reason="no FLAC is read; install the extra dev")
    soundfile.write(path, tone(1), RATE, format="FLAC")
    whole = path.read_bytes()
    path.rename(tmp_path / "song.wav")
    np.testing.assert_allclose(read_samples(tmp_path / "song.wav", "song")[1], tone(1), atol=1e-4)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=r"song cannot be read: .*; remove or replace it"):
        read_samples(path, "song")


INDEX = b"file\tspeaker_id\tsplit\n0.wav\t0\ttrain\n"
#: file of the folder -> what it holds instead, options, and what the line says
HARMS = {
    "missing": ("wav/3.wav", None, {}, r"has no recording 3\.wav"),
    "empty": (
        "wav/1.wav",
        wav(np.ones(0)),
        {},
        r"the recording 1\.wav is empty; remove or replace it",
    ),
    "no bytes": ("wav/2.wav", b"", {}, r"2\.wav cannot be read: unexpected end"),
    "rate": (
        "wav/1.wav",
        wav(np.ones(900), 8000),
        {},
        r"several sampling rates, \[8000, 16000\], such as 1\.wav",
    ),
    "index short": ("index.tsv", INDEX + b"9.wav\n", {}, r"index\.tsv, line 3: 1 fields"),
    "index twice": (
        "index.tsv",
        INDEX + b"1.wav\t2\ttrain\n" * 2,
        {},
        r"index\.tsv, line 4 lists .* 1\.wav twice",
    ),
    "index Latin-1": (
        "index.tsv",
        INDEX + b"\xe9.wav\t4\ttrain\n",
        {},
        r"index\.tsv, line 3, cannot be read as UTF-8",
    ),
    "column": ("index.tsv", INDEX, {"label": "person"}, "no column 'person'"),
    "split": ("index.tsv", INDEX, {"split": "dev"}, "no rows of the split 'dev'"),
    "top": ("index.tsv", INDEX, {"top": 0}, "top = 0 selects no rows"),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_bad_recording_index_or_option_is_one_line(harm: str, speech: Path) -> None:
    file, content, options, message = HARMS[harm]
    (speech / file).unlink()
    if content is not None:
        (speech / file).write_bytes(content)
    with pytest.raises(UserError, match=message):
        audio(**options).load(speech)
