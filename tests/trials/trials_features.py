"""Trials of stored features, of captions and of tests, and of the order of what is paired."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from trial import Trial, check_refused

from harness.corpora.files import CaptionsFile
from harness.corpora.images import FeatureFile
from harness.planning.inventory import make_own_task
from harness.profiles import load_profile

WIDTH = 16


def write_numbered_parts(folder: Path) -> None:
    for part in range(12):
        rows = {"image": [f"{part}.jpg"], "caption": [f"a thing of part {part}"]}
        pq.write_table(pa.table(rows), folder / f"part-{part}.parquet")
    numbers = np.arange(12, dtype=np.float32)[:, None] * np.ones((1, WIDTH), np.float32)
    np.save(folder / "features.npy", numbers)
    (folder / "ids.txt").write_text("".join(f"{part}.jpg\n" for part in range(12)))


def check_numbered_parts(folder: Path) -> None:
    by_order = CaptionsFile("part-*.parquet", features={"net": {"file": "features.npy"}})
    check_refused(lambda: by_order.check_features(folder, "net"), "order", "ids = '...'")
    by_id = CaptionsFile(
        "part-*.parquet", features={"net": {"file": "features.npy", "ids": "ids.txt"}}
    )
    by_id.check_features(folder, "net")
    loaded = by_id.load(folder)
    for text, row in zip(loaded.texts, loaded.features["net"], strict=True):
        assert text == f"a thing of part {int(row[0])}"


def write_features_by_image(folder: Path) -> None:
    arrays = {f"{number}.jpg": np.full(WIDTH, number, np.float32) for number in range(6)}
    np.savez(folder / "features.npz", **arrays)
    with h5py.File(folder / "features.h5", "w") as file:
        for name, array in arrays.items():
            file[f"train/{name}"] = array
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    torch.save(tensors, folder / "features.pt")
    torch.save(torch.stack(list(tensors.values())), folder / "matrix.pt")
    torch.save({"features": torch.zeros(2, 3), "model": torch.nn.Linear(2, 2)}, folder / "code.pt")


def check_features_by_image(folder: Path) -> None:
    for file in ("features.npz", "features.pt"):
        ids, values = FeatureFile(file).read(folder)
        assert ids == [f"{number}.jpg" for number in range(6)]
        assert values[:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    ids, values = FeatureFile("features.h5").read(folder)
    assert ids == [f"train/{number}.jpg" for number in range(6)]
    assert values[:, -1].tolist() == [0, 1, 2, 3, 4, 5]
    ids, values = FeatureFile("matrix.pt").read(folder)
    assert (ids, values.shape) == (None, (6, WIDTH))
    check_refused(lambda: FeatureFile("code.pt").read(folder), "np.save('features.npy'")


OWN_TEST = """
extends = "tiny"
description = "a trial"
[tasks.mine]
kind = "retrieval"
captions = "./captions.csv"
[tasks.mine.features.net]
file = "./features.npz"
"""


def write_own_test(folder: Path) -> None:
    write_features_by_image(folder)
    rows = [f"{number}.jpg,a circle number {number}" for number in (2, 0, 1)]
    (folder / "captions.csv").write_text("\n".join(["image,caption", *rows]) + "\n")
    (folder / "own.toml").write_text(OWN_TEST)


def check_own_test(folder: Path) -> None:
    table = load_profile("own.toml").tasks["mine"]
    task = make_own_task("mine", table)
    assert task.missing(None) == []
    assert task.examined(None).images == 3
    assert task.load(None).images.features["net"][:, 0].tolist() == [2, 0, 1]
    check_refused(lambda: task.computes("other", None), "[tasks.mine.features.other]")


def write_odd_features(folder: Path) -> None:
    captions = pa.table({"image_id": ["a", "b"], "captions": [["x"], ["y"]]})
    pq.write_table(captions, folder / "captions.parquet")
    rows = np.array([[1, 2], [3, np.nan]], np.float32)
    np.save(folder / "nan.npy", rows)
    np.save(folder / "deep.npy", np.ones((1, 4, 8), np.float32))
    with h5py.File(folder / "ids.h5", "w") as file:
        file["features"] = np.array([[3, 4], [1, 2]], np.float32)
        file["image_id"] = ["b", "a"]


def check_odd_features(folder: Path) -> None:
    for name, words in (("nan", "1 of 2 rows with NaN"), ("deep", "3 dimensions")):
        corpus = CaptionsFile("captions.parquet", features={"net": {"file": f"{name}.npy"}})
        check_refused(lambda read=corpus: read.check_features(folder, "net"), words)
    corpus = CaptionsFile("captions.parquet", features={"net": {"file": "ids.h5"}})
    assert corpus.load(folder).features["net"].tolist() == [[1, 2], [3, 4]]


def write_numbered_lines(folder: Path) -> None:
    for part in range(12):
        (folder / f"part-{part}.txt").write_text(f"a thing of part {part}\n")
    np.save(folder / "features.npy", np.random.default_rng(0).normal(size=(12, WIDTH)))


def check_numbered_lines(folder: Path) -> None:
    by_order = CaptionsFile("part-*.txt", features={"net": {"file": "features.npy"}})
    check_refused(lambda: by_order.check_features(folder, "net"), "order", "part-10.txt")


TRIALS = [
    Trial("4/D9", write_odd_features, check_odd_features),
    Trial("5/I4 lines", write_numbered_lines, check_numbered_lines),
    Trial("5/I4", write_numbered_parts, check_numbered_parts),
    Trial("5/I18", write_features_by_image, check_features_by_image),
    Trial("5/I22", write_own_test, check_own_test),
]
