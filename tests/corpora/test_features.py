from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from safetensors.numpy import save_file

from harness.corpora.base import Pairs
from harness.corpora.files import CaptionsFile
from harness.corpora.images import FeatureFile
from harness.errors import MissingData, UserError
from harness.fetching.archives import write_parquet

HOW = "fetch it from the authors"
SUFFIXES = (".parquet", ".hdf5", ".h5", ".npy", ".safetensors")
VALUES = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
IMAGES = ("a", "b", "c", "d")


def write(root: Path, suffix: str, values: np.ndarray, ids: Sequence[object] = IMAGES) -> str:
    path = root / f"features{suffix}"
    if suffix == ".parquet":
        write_parquet(path, {"image_id": list(ids), "feature": list(values)})
    elif suffix == ".npy":
        np.save(path, values)
    elif suffix == ".safetensors":
        save_file({"features": np.ascontiguousarray(values)}, path)
    else:
        with h5py.File(path, "w") as file:
            file["features"] = values
    return path.name


def pairs(
    root: Path,
    features: str,
    ids: Sequence[object] | None = IMAGES,
    ids_file: str = "",
    **options: object,
) -> Pairs:
    """Two captions an image, all of them rows, with features beside."""
    if ids is None:
        (root / "captions.txt").write_text("\n".join(f"caption of {name}" for name in IMAGES))
        name = "captions.txt"
    else:
        name = "captions.parquet"
        texts = [[f"first of {item}", f"second of {item}"] for item in ids]
        write_parquet(root / name, {"image_id": list(ids), "captions": texts})
    table = {"file": features, "how": HOW, **options, **({"ids": ids_file} if ids_file else {})}
    return CaptionsFile(name, HOW, captions="all", features={"resnet": table}).load(root)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_gives_float32_rows_of_finite_numbers(tmp_path: Path, suffix: str) -> None:
    file = FeatureFile(f"features{suffix}")
    for kind in (np.float16, np.float32, np.float64):
        write(tmp_path, suffix, VALUES.astype(kind))
        ids, values = file.read(tmp_path)
        assert file.check_rows(tmp_path) == (ids, 4)
        assert values.dtype == np.float32
        np.testing.assert_array_equal(values, VALUES.astype(kind).astype(np.float32))
        assert ids == (list(IMAGES) if suffix == ".parquet" else None)
    for bad in (np.nan, np.inf):
        write(tmp_path, suffix, np.where(VALUES > 1, bad, VALUES))
        with pytest.raises(
            UserError,
            match=f"features{suffix} has .* of 4 rows with NaN or infinite numbers, the fir",
        ):
            file.check_rows(tmp_path)
    for content in (b"", b"no such format, and some bytes more"):
        (tmp_path / f"features{suffix}").write_bytes(content)
        with pytest.raises(UserError, match=f"features{suffix} is not a feature file") as error:
            file.read(tmp_path)
        assert "fetch" not in str(error.value), "it is the user's own"
        assert "pickle" not in str(error.value)


def test_files_of_another_shape_are_one_line(tmp_path: Path) -> None:
    """Shapes and entries, an array larger than its file, and a link to another file."""
    huge = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        huge, {"descr": "<f4", "fortran_order": False, "shape": (10**9, 10**6)}
    )
    (tmp_path / "huge.npy").write_bytes(huge.getvalue())
    np.save(tmp_path / "texts.npy", np.array([["1", "2"]]))
    np.save(tmp_path / "complex.npy", np.array([[1 + 2j]]))
    for kind in ("int8", "bool"):
        np.save(tmp_path / f"{kind}.npy", VALUES.astype(kind))
    np.save(tmp_path / "same.npy", np.ones((4, 3)))
    for number, shape in enumerate(((4,), (2, 2, 3), (0, 3))):
        np.save(tmp_path / f"shape{number}.npy", np.ones(shape, np.float32))
    with h5py.File(tmp_path / "link.h5", "w") as file:
        file["features"] = h5py.ExternalLink("elsewhere.h5", "features")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["resnet"] = VALUES
    save_file({"resnet": VALUES}, tmp_path / "other.safetensors")
    write_parquet(
        tmp_path / "ragged.parquet", {"image_id": ["a", "b"], "feature": [[1.0, 2.0], [1.0]]}
    )
    (tmp_path / "x.csv").write_text("1,2\n")
    for name, message in {
        "shape0.npy": r"has 1 dimension \(4,\), 2 are needed",
        "shape1.npy": r"has 3 dimensions \(2, 2, 3\), 2 are needed",
        "shape2.npy": r"has 2 dimensions \(0, 3\), 2 are needed, neither of them 0",
        **dict.fromkeys(
            ["huge.npy", "texts.npy", "complex.npy", "link.h5", "ragged.parquet"], "cannot be read"
        ),
        **dict.fromkeys(
            ["other.h5", "other.safetensors"], "cannot be read: no 'features' among resnet"
        ),
        **dict.fromkeys(
            ["int8.npy", "bool.npy"], "cannot be read: it holds .*; use floating point"
        ),
        "same.npy": "has the same numbers in each of its 4 rows",
        "x.csv": r"is not a feature file; convert it to \.npy, \.npz, \.h5, \.pt, \.parquet or \.safetensors",
    }.items():
        with pytest.raises(UserError, match=f"{name} {message}"):
            FeatureFile(name).read(tmp_path)


def test_features_find_their_captions_by_image_id_in_another_order(tmp_path: Path) -> None:
    """Numbers and texts name the same image, and more features than captions do no harm."""
    order = [2, 0, 3, 1]
    loaded = pairs(
        tmp_path, write(tmp_path, ".parquet", VALUES[order], [IMAGES[row] for row in order])
    )
    assert loaded.texts[4] == "first of c"
    np.testing.assert_array_equal(loaded.features["resnet"], VALUES)
    assert loaded.image_of.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    numbered = pairs(
        tmp_path, write(tmp_path, ".parquet", VALUES[::-1], ["4", "3", "2", "1"]), ids=[1, 2, 3]
    )
    np.testing.assert_array_equal(numbered.features["resnet"], VALUES[:3])
    few = pairs(tmp_path, write(tmp_path, ".parquet", VALUES), ids=["d", "b"])
    np.testing.assert_array_equal(few.features["resnet"], VALUES[[3, 1]])


@pytest.mark.parametrize("suffix", [".hdf5", ".npy", ".safetensors"])
def test_files_without_ids_are_matched_by_row(tmp_path: Path, suffix: str) -> None:
    name = write(tmp_path, suffix, VALUES)
    for ids in (IMAGES, None):
        np.testing.assert_array_equal(pairs(tmp_path, name, ids).features["resnet"], VALUES)


@pytest.mark.parametrize(
    ("suffix", "rows", "ids", "message"),
    [
        (".npy", "abc", None, "has 3 rows for 4 captioned images"),
        (".npy", "abc", IMAGES, "has 3 rows for 4 captioned images"),
        (".parquet", "abd", IMAGES, "has no features of the image c"),
        (".parquet", "abbd", "ab", "has 1 of 3 image ids twice: b"),
    ],
)
def test_features_that_do_not_match_the_images_are_refused(
    tmp_path: Path, suffix: str, rows: str, ids: Sequence[str] | None, message: str
) -> None:
    name = write(tmp_path, suffix, VALUES[: len(rows)], rows)
    loaded = pairs(tmp_path, name, ids)
    with pytest.raises(UserError, match=f"{name} {message}"):
        loaded.features["resnet"]


def npz(**entries: object) -> Callable[[Path], None]:
    return lambda path: np.savez(path, **{"features": VALUES, **entries})


def hdf5(**entries: object) -> Callable[[Path], None]:
    def write_file(path: Path) -> None:
        with h5py.File(path, "w") as file:
            for name, values in {"features": VALUES, **entries}.items():
                file[name] = values

    return write_file


def parquet(**columns: list[Any]) -> Callable[[Path], None]:
    return lambda path: write_parquet(
        path, {"image_id": list("badc"), "feature": list(VALUES), **columns}
    )


def zeros(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("features", (10**6, 3000), "f4", chunks=(1000, 3000))


#: how to write VALUES with ids b, a, d, c
WITH_IDS = {
    "npz": npz(image_id=np.array(list("badc"))),
    "npz, ids": lambda path: np.savez_compressed(path, feature=VALUES, ids=np.array(list("badc"))),
    "hdf5": hdf5(image_id=list("badc"), labels=[1, 2, 3, 4]),
    "hdf5, bytes": hdf5(ids=np.array([b"b", b"a", b"d", b"c"])),
    "parquet": parquet(caption=list("wxyz")),
}


@pytest.mark.parametrize("kind", WITH_IDS)
@pytest.mark.parametrize("name", ["f.npz", "f.npy", "f"])
def test_ids_are_used_in_every_format_whatever_the_file_is_called(
    tmp_path: Path, kind: str, name: str
) -> None:
    WITH_IDS[kind](tmp_path / "made.npz")
    (tmp_path / "made.npz").rename(tmp_path / name)
    np.testing.assert_array_equal(pairs(tmp_path, name).features["resnet"], VALUES[[1, 0, 3, 2]])
    with pytest.raises(
        UserError,
        match=f"rows of {name} are matched by image, which their captions file does not nam",
    ):
        pairs(tmp_path, name, None).features["resnet"]


def test_ids_that_are_whole_numbers_or_lie_beside_a_file_are_used(tmp_path: Path) -> None:
    save_file({"features": VALUES, "image_id": np.array([3, 1, 4, 2])}, tmp_path / "f.safetensors")
    numbered = pairs(tmp_path, "f.safetensors", [1, 2, 3, 4]).features["resnet"]
    np.testing.assert_array_equal(numbered, VALUES[[1, 3, 0, 2]])
    np.save(tmp_path / "f.npy", VALUES)
    (tmp_path / "ids.txt").write_text("b\na\nd\nc\n")
    beside = pairs(tmp_path, "f.npy", ids_file="ids.txt")
    np.testing.assert_array_equal(beside.features["resnet"], VALUES[[1, 0, 3, 2]])
    prints = [
        FeatureFile("f.npy").fingerprint(tmp_path),
        FeatureFile("f.npy", ids="ids.txt").fingerprint(tmp_path),
    ]
    (tmp_path / "ids.txt").write_text("a\nb\nc\nd\n")
    prints.append(FeatureFile("f.npy", ids="ids.txt").fingerprint(tmp_path))
    assert len(set(prints)) == 3


#: how to write a file whose ids or rows cannot be used, and what the line says
UNUSABLE = {
    "unknown": (npz(names=np.array(list("abcd"))), "'names' has one value a ro"),
    "column": (hdf5(img=[[1], [2], [3], [4]]), "'img' has one value a row; name it"),
    "captions": (npz(caption=np.array(list("abcd"))), "'caption' has one value"),
    "few": (npz(ids=np.array(list("abc"))), "has 3 ids for 4 rows of features"),
    "floats": (npz(ids=np.arange(4.0)), r"the id of row 1 is 0\.0; write texts"),
    "null": (
        parquet(image_id=["a", None, "c", "d"]),
        "the id of row 2 is None; write texts or whole numbers",
    ),
    "two": (hdf5(image_id=list("abcd"), ids=list("abcd")), "has the ids image_id, ids"),
    "pickled": (npz(ids=np.array(list("abcd"), object)), "cannot be read: Object"),
    "deep": (npz(features=VALUES[None]), r"has 3 dimensions \(1, 4, 3\), 2 are needed"),
    "flat": (parquet(feature=[1.0, 2, 3, 4]), r"has 1 dimension \(4,\), 2 are needed"),
    "zeros": (zeros, r"unpacks to 12\.0 GB from 0\.0 MB"),
    "link": (
        lambda path: path.write_text("version https://git-lfs.github.com/spec/v1\n"),
        "is not a feature file",
    ),
}


@pytest.mark.parametrize("kind", UNUSABLE)
def test_ids_and_rows_that_cannot_be_used_are_refused_when_planned(
    tmp_path: Path, kind: str
) -> None:
    write_file, message = UNUSABLE[kind]
    write_file(tmp_path / "f.npz")
    with pytest.raises(UserError, match=message):
        FeatureFile("f.npz").check_rows(tmp_path)


def test_an_archive_that_unpacks_to_far_more_than_its_size_is_refused_before_it_is_unpacked(
    tmp_path: Path,
) -> None:
    """Its directory says so; the content of the member is not read."""
    np.savez(tmp_path / "f.npz", features=VALUES)
    raw = bytearray((tmp_path / "f.npz").read_bytes())
    entry = raw.rindex(b"PK\x01\x02")
    raw[entry + 24 : entry + 28] = (2 * 10**9).to_bytes(4, "little")
    (tmp_path / "f.npz").write_bytes(raw)
    with pytest.raises(
        UserError, match=r"f\.npz unpacks to 2\.0 GB from 0\.0 MB; .* save it without compression"
    ):
        FeatureFile("f.npz").check_rows(tmp_path)


def test_a_file_that_another_process_has_open_is_waited_for(tmp_path: Path) -> None:
    hdf5()(tmp_path / "f.h5")
    script = (
        "import h5py, sys; file = h5py.File(sys.argv[1], 'a'); print(flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", script, str(tmp_path / "f.h5")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with pytest.raises(
            UserError,
            match=r"another process has it open; wait until .*HDF5_USE_FILE_LOCKING=FALSE",
        ):
            FeatureFile("f.h5").check_rows(tmp_path)
        other.communicate()
    assert FeatureFile("f.h5").check_rows(tmp_path) == (None, 4)


def test_a_file_is_opened_only_when_its_teacher_is_asked_for(tmp_path: Path) -> None:
    loaded = pairs(tmp_path, "absent.npy")
    assert list(loaded.features) == ["resnet"]
    assert len(loaded) == 8
    with pytest.raises(KeyError):
        loaded.features["clip"]
    with pytest.raises(MissingData):
        loaded.features["resnet"]


def test_sqrt_standardise_is_its_formula_in_float64(tmp_path: Path) -> None:
    """Its statistics are of the file, whatever captions ask."""
    rng = np.random.default_rng(1)
    raw = (
        rng.gamma(0.5, size=(3000, 6)) * rng.choice([-1, 1], size=(3000, 6), p=[0.2, 0.8])
    ).astype(np.float32)
    raw[:, 5] = 0.1
    exact = raw.astype(np.float64)
    rooted = np.sign(exact) * np.sqrt(np.abs(exact))
    expected = (rooted - rooted.mean(axis=0)) / np.where(
        np.ptp(raw, axis=0) > 0, rooted.std(axis=0), 1
    )
    name = write(tmp_path, ".parquet", raw, [str(row) for row in range(3000)])
    _, values = FeatureFile(name, HOW, "sqrt-standardise").read(tmp_path)
    assert values.dtype == np.float32
    np.testing.assert_allclose(values, expected, atol=2e-6, rtol=2e-6)
    assert not values[:, 5].any(), "a column without spread becomes zero, not rounding blown up"
    part = pairs(tmp_path, name, ids=["7"], transform="sqrt-standardise").features["resnet"]
    np.testing.assert_array_equal(part, values[7:8])


def test_a_transform_changes_a_fingerprint_and_a_hint_does_not(tmp_path: Path) -> None:
    name = write(tmp_path, ".npy", VALUES)
    plain, hinted, other = (
        FeatureFile(name, *more) for more in ((HOW,), ("another hint",), (HOW, "sqrt-standardise"))
    )
    assert (
        plain.fingerprint(tmp_path) == hinted.fingerprint(tmp_path) != other.fingerprint(tmp_path)
    )
    with pytest.raises(
        UserError, match="transform = 'whiten' is unknown; write one of none, sqrt-standardise"
    ):
        FeatureFile(name, HOW, "whiten")
