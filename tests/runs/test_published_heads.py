"""Public weights with their heads: retrieval through them, what it needs, and what identifies it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import harness
from harness.command_line import Selection
from harness.encoders.locate import FolderModel
from harness.encoders.student import Student
from harness.encoders.teachers import open_teacher
from harness.evaluation.retrieval import score_both_ways
from harness.planning.request import make_request
from harness.profiles import Profile, load_profile
from harness.profiles.schema import ReleasedTable
from harness.registry import get
from harness.store import Result
from harness.toy import student_folder

WIDTH, DIMENSIONS = 64, 16


def head(width: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(DIMENSIONS, width, generator=generator), torch.randn(
        DIMENSIONS, generator=generator
    )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data root with a student and random heads in MCSE's layout."""
    folder = tmp_path / "data" / "weights"
    shutil.copytree(student_folder(), folder)
    (weight, bias), (image_weight, image_bias) = head(WIDTH, 1), head(features().shape[1], 2)
    torch.save(
        {
            "visn_model": {"mlp.dense.weight": image_weight, "mlp.dense.bias": image_bias},
            "grounding": {"dense.weight": weight, "dense.bias": bias},
        },
        folder / "mcse.pt",
    )
    return tmp_path / "data"


@pytest.fixture
def profile(tmp_path: Path) -> str:
    """The tiny profile with public weights whose heads project toy CLIP's features."""
    values = {
        "folder": "weights",
        "pooling": "cls",
        "encoder": "bert-base-uncased",
        "heads": "mcse.pt",
    }
    lines = [
        f'{name} = "{value}"'
        for name, value in {**values, "images": "clip", "source": "here"}.items()
    ]
    path = tmp_path / "mine.toml"
    path.write_text(
        "\n".join(['extends = "tiny"', 'description = "heads"', "[released.weights]", *lines])
    )
    return str(path)


def features() -> np.ndarray:
    """Toy CLIP's features of the toy test images, (m, f)."""
    table = load_profile("tiny").teachers["clip"]
    teacher = open_teacher(
        table.kind,
        get("teacher", str(table.registered))(),
        pooling="cls",
        max_length=32,
        device="cpu",
    )
    return np.asarray(
        teacher.images(get("retrieval task", "ToyRetrieval").load(None).images.images)
    )


def test_captions_and_images_meet_in_the_published_space(
    tmp_path: Path, data: Path, profile: str
) -> None:
    def scored(results: str) -> Result:
        how = {"released": True, "suites": "retrieval", "data_root": data, "device": "cpu"}
        (run,) = harness.run(profile, results=tmp_path / results, **how).runs
        return run

    result = scored("results")
    test = get("retrieval task", "ToyRetrieval").load(None)
    (weight, bias), (image_weight, image_bias) = head(WIDTH, 1), head(features().shape[1], 2)
    vectors = torch.from_numpy(Student.load(data / "weights", "cls").embed(test.texts))
    texts = torch.tanh(vectors @ weight.T + bias).numpy()
    images = torch.tanh(torch.from_numpy(features()) @ image_weight.T + image_bias).numpy()
    expected, _ = score_both_ways(texts, images, test.image_of)
    row = result.evaluations[0].scores["ToyRetrieval"]
    assert row["n_images"] == 1000
    assert {name: row[name] for name in expected} == pytest.approx(expected, abs=0.2)
    assert [use.teacher for use in result.teachers.values()] == ["clip"]
    (data / "weights" / "mcse.pt").unlink()
    assert scored("without").evaluations[0].warnings == ["retrieval: the model has no image side"]


def test_vectors_of_another_pooling_are_not_projected(
    tmp_path: Path, data: Path, profile: str
) -> None:
    folders: dict[str, object] = {
        "profile": profile,
        "data_root": data,
        "results": tmp_path / "results",
    }
    given = f"weights={data / 'weights'}"
    cls, mean = (
        harness.plan(
            methods=f"none[pooling={name}]",
            settings="toy",
            encoders=given,
            suites="retrieval",
            **folders,
        )
        for name in ("cls", "mean")
    )
    (with_heads,), (without,) = cls.runs, mean.runs
    assert set(with_heads.experiment.features) == {"image"}
    assert not without.experiment.features


def test_the_heads_are_part_of_a_folders_content(data: Path) -> None:
    plain = FolderModel(data / "weights")
    beside = replace(plain, beside="mcse.pt")
    before = beside.fingerprint(None)
    assert before != plain.fingerprint(None)
    (data / "weights" / "mcse.pt").write_bytes(b"other")
    assert beside.fingerprint(None) != before
    (data / "weights" / "mcse.pt").unlink()
    assert beside.fingerprint(None) == plain.fingerprint(None)


def test_the_image_teacher_is_missing_where_images_are_scored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    name = "UdS-LSV/mcse-flickr-bert-base-uncased"
    table = load_profile("paper").released[name]
    folder = (
        tmp_path / "hub" / f"models--{name.replace('/', '--')}" / "snapshots" / str(table.revision)
    )
    shutil.copytree(student_folder(), folder)
    (folder / str(table.heads)).touch()
    plans = {
        table: harness.plan(released=True, table=table, results=tmp_path / "results")
        for table in ("mcse:T1", "mcse:T6")
    }
    images = "the weights of timm/resnet50.tv_in1k"
    assert not any(item.what.startswith(images) for item in plans["mcse:T1"].missing)
    inventory = plans["mcse:T6"].inventory
    (run,) = (run for run in plans["mcse:T6"].runs if run.resolved.spec.encoder == name)
    needed = run.experiment.list_missing_models(inventory.suites["retrieval"], inventory.root)
    assert [item.what.partition(" at ")[0] for item in needed] == [images]
    assert any(item.what.startswith(images) for item in plans["mcse:T6"].without_data["retrieval"])


def test_by_default_weights_with_heads_are_scored_on_images_too(tmp_path: Path) -> None:
    request = make_request(Selection("paper", released=True))
    scored = {
        spec.encoder for spec, suites in request.suites_by_run.items() if "retrieval" in suites
    }
    assert scored == {
        name for name, weights in load_profile("paper").released.items() if weights.heads
    }


def test_heads_without_their_image_teacher_are_refused() -> None:
    table = load_profile("paper").released["UdS-LSV/mcse-flickr-bert-base-uncased"]
    with pytest.raises(ValueError, match="'heads' and 'images'"):
        ReleasedTable(**{**table.model_dump(), "images": None})
    weights = {**table.model_dump(), "hub": None, "revision": None, "folder": "w"}
    with pytest.raises(
        ValueError, match=r"released.weights.images: there is no table \[teachers.resnet\]"
    ):
        Profile(**{**load_profile("tiny").model_dump(), "released": {"weights": weights}})
