"""A user's own image features: whatever is wrong with them is one line before anything is trained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import harness
from harness.errors import UserError
from harness.fetching.archives import write_parquet

CAPTIONS = 6
PROFILE = """
extends = "tiny"
images = "mine"

[corpora.my-captions]
kind = "captions-file"
file = "./captions.parquet"

[corpora.my-captions.features.mine]
file = "./{file}"

[settings.pairs]
corpora = ["my-captions"]

[training]
steps = 2
eval_every = 2
batch_size = 4
"""


def features(rows: int = CAPTIONS) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(rows, 5)).astype(np.float32)


def table(path: Path, rows: int = CAPTIONS, name: str = "image_id") -> None:
    ids = [f"photo{row}" for row in reversed(range(rows))]
    write_parquet(path, {name: ids, "feature": list(features(rows))})


#: with ids, and without; tests/corpora/test_features.py has every format
WRITERS: dict[str, Callable[..., None]] = {
    "f.parquet": table,
    "f.npy": lambda path, rows=CAPTIONS: np.save(path, features(rows)),
}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Captions of six photographs."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    names = [f"photo{row}" for row in range(CAPTIONS)]
    captions = [[f"a {word} dog"] for word in ("red", "blue", "small", "large", "green", "dark")]
    write_parquet(tmp_path / "captions.parquet", {"image_id": names, "captions": captions})
    return tmp_path


def plan(world: Path, file: str, method: str = "mcse", profile: str = PROFILE) -> harness.Plan:
    (world / "own.toml").write_text(profile.format(file=file))
    where = {"settings": "pairs", "seeds": 1, "suites": "sts", "results": world / "results"}
    return harness.plan(str(world / "own.toml"), methods=method, **where)


@pytest.mark.parametrize("file", WRITERS)
def test_features_with_and_without_ids_are_planned_and_trained_on(world: Path, file: str) -> None:
    WRITERS[file](world / file)
    finished = harness.execute(plan(world, file), executor="serial")
    assert (len(finished), finished.failures) == (1, ())
    assert finished.runs[0].whole().teachers["image"].source == str(world / file)


def test_rows_and_columns_are_checked_when_planned(world: Path) -> None:
    WRITERS["f.npy"](world / "f.npy", CAPTIONS - 1)
    with pytest.raises(UserError, match=r"f\.npy has 5 rows for 6 captioned images"):
        plan(world, "f.npy")
    assert plan(world, "f.npy", "simcse").todo, "a method without images does not read it"
    table(world / "f.parquet", name="picture")
    with pytest.raises(UserError, match=r"f\.parquet has no column image_id; it has picture, feature"):
        plan(world, "f.parquet")
    table(world / "f.parquet", CAPTIONS + 3)
    assert plan(world, "f.parquet").todo, "with ids, features of more images than are captioned do no harm"


def test_features_that_no_key_names_are_named(world: Path) -> None:
    WRITERS["f.npy"](world / "f.npy")
    unnamed = PROFILE.replace('images = "mine"\n', "")
    with pytest.raises(UserError, match='only features of mine; write images = "mine" at the top of the profile'):
        plan(world, "f.npy", profile=unnamed)
    assert plan(world, "f.npy", "mcse[images=mine]", unnamed).todo
    with pytest.raises(UserError, match="has no images for the teacher 'toy-clip', and no features"):
        plan(world, "f.npy", profile=unnamed.replace('[corpora.my-captions.features.mine]\nfile = "./{file}"\n', ""))


def test_a_suite_whose_images_have_no_such_features_is_skipped_when_planned(world: Path) -> None:
    WRITERS["f.npy"](world / "f.npy")
    plan(world, "f.npy")
    both = harness.plan(
        str(world / "own.toml"),
        methods="mcse,simcse",
        settings="pairs",
        seeds=1,
        suites="sts,retrieval",
        results=world / "results",
    )
    (skip,) = both.skipped
    assert skip.what == "mcse/pairs, suite retrieval"
    assert "no file has mine features of its images" in skip.why
    assert {run.key.partition("/")[0]: run.todo for run in both.runs} == {
        "mcse": ("sts",),
        "simcse": ("sts", "retrieval"),
    }
