"""Damaged and inconsistent files: each is reported in one line.

What the tests beside this one already hold (damaged sentences and features, Parquet files of another shape,
images that cannot be decoded, flawed shards) is not repeated.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest

from harness.corpora.files import CaptionsFile, TripletsFile
from harness.corpora.labelled_audio import LabelledAudio
from harness.corpora.labelled_images import LabelledImages
from harness.errors import UserError

IDS = ["a", "b", "c"]
CAPTIONS = {"image_id": IDS, "captions": [["one"], ["two"], ["three"]]}
FEATURES = np.arange(12, dtype=np.float32).reshape(3, 4)


def table(**columns: object) -> bytes:
    stream = io.BytesIO()
    parquet.write_table(arrow.table(columns), stream)
    return stream.getvalue()


def features() -> bytes:
    return table(image_id=IDS, feature=list(FEATURES))


def npy(values: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


def wav(count: int, rate: int = 8000, width: int = 2) -> bytes:
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(np.random.default_rng(0).bytes(width * count))
    return stream.getvalue()


def packed(files: dict[str, bytes], mode: str = "w") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:  # type: ignore[call-overload]
        for name, raw in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(raw)
            archive.addfile(member, io.BytesIO(raw))
    return stream.getvalue()


TRIPLETS = "sent0\tsent1\thard_neg\n" + "".join(f"p {n}\te {n}\tc {n}\n" for n in range(500))
NOISE = {f"{n}.wav": wav(2000 + n) for n in range(3)}
INDEX = b"file\tspeaker_id\n" + b"".join(f"{n}.wav\t{n}\n".encode() for n in range(3))


def read_captions(root: Path) -> object:
    (name,) = (item.name for item in root.glob("captions.*"))
    return list(CaptionsFile(name, "").load(root).texts)


def read_features(root: Path) -> object:
    (name,) = (item.name for item in root.glob("features.*"))
    (captions,) = (item.name for item in root.glob("captions.*"))
    return CaptionsFile(captions, "", features={"net": {"file": name, "how": ""}}).load(root).features["net"]


def read_triplets(root: Path) -> object:
    return TripletsFile("triplets.tsv.gz", "").load(root)


def read_images(root: Path) -> object:
    return LabelledImages("images.parquet", "").load(root)


def read_audio(root: Path) -> object:
    (name,) = (item.name for item in root.glob("wav.*"))
    return LabelledAudio(name, "", index="index.tsv", bins=8, frames=20).load(root)


HOSTILE: dict[str, tuple[Callable[[Path], object], dict[str, bytes], str]] = {
    "captions in Latin-1": (
        read_captions,
        {"captions.txt": "un café\nun thé\n".encode("latin-1")},
        r"captions\.txt, line 1, cannot be read as UTF-8 text",
    ),
    "an image twice among the captions": (
        read_captions,
        {"captions.parquet": table(image_id=["a", "b", "a"], captions=CAPTIONS["captions"])},
        r"captions\.parquet has the image a twice",
    ),
    "triplets in a gzip cut short": (
        read_triplets,
        {"triplets.tsv.gz": gzip.compress(TRIPLETS.encode())[:-20]},
        r"triplets\.tsv\.gz cannot be read as UTF-8 text",
    ),
    "labelled images in a Parquet file cut short": (
        read_images,
        {"images.parquet": table(jpeg=[b"x"], label=[0])[:-10]},
        r"images\.parquet is not a Parquet file",
    ),
    "a recording without samples": (
        read_audio,
        {"wav.tar": packed({**NOISE, "1.wav": wav(0)}), "index.tsv": INDEX},
        r"the recording 1\.wav is empty; remove or replace it",
    ),
    "a recording of no bytes": (
        read_audio,
        {"wav.tar": packed({**NOISE, "2.wav": b""}), "index.tsv": INDEX},
        r"the recording 2\.wav cannot be read: unexpected end of file",
    ),
    "a recording of 8 bits": (
        read_audio,
        {"wav.tar": packed({**NOISE, "2.wav": wav(2000, width=1)}), "index.tsv": INDEX},
        r"the recording 2\.wav cannot be read: its samples do not have 16 bits",
    ),
    "a recording at another rate": (
        read_audio,
        {"wav.tar": packed({**NOISE, "2.wav": wav(2000, rate=16000)}), "index.tsv": INDEX},
        r"several sampling rates, \[8000, 16000\], such as 2\.wav",
    ),
    "a packed archive cut short": (
        read_audio,
        {"wav.tgz": packed(NOISE, "w:gz")[:3000], "index.tsv": INDEX},
        r"the archive .*wav\.tgz cannot be read",
    ),
    "an index in Latin-1": (
        read_audio,
        {"wav.tar": packed(NOISE), "index.tsv": INDEX + "é.wav\t4\n".encode("latin-1")},
        r"index\.tsv, line 5, cannot be read as UTF-8 text",
    ),
    "an index that names a recording twice": (
        read_audio,
        {"wav.tar": packed(NOISE), "index.tsv": INDEX + b"1.wav\t2\n"},
        r"index\.tsv lists the recording 1\.wav twice",
    ),
}


@pytest.mark.parametrize("state", HOSTILE)
def test_a_hostile_file_is_one_line_that_names_it(tmp_path: Path, state: str) -> None:
    read, files, line = HOSTILE[state]
    for name, raw in files.items():
        (tmp_path / name).write_bytes(raw)
    with pytest.raises(UserError, match=line) as error:
        read(tmp_path)
    assert "\n" not in str(error.value)


def test_the_same_files_in_good_order_are_read(tmp_path: Path) -> None:
    good = {
        "captions.parquet": table(**CAPTIONS),
        "features.parquet": features(),
        "triplets.tsv.gz": gzip.compress(TRIPLETS.encode()),
        "wav.tar": packed(NOISE),
        "index.tsv": INDEX,
    }
    for name, raw in good.items():
        (tmp_path / name).write_bytes(raw)
    for read in (read_captions, read_features, read_triplets, read_audio):
        assert len(read(tmp_path)) > 2  # type: ignore[arg-type]
