"""Folders of sentence-transformers: what `modules.json`, a pooling file and a model card say, without loading."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.encoders.modules import declared_pooling, listed_modules, module_files, transformer_folder
from harness.encoders.student import Student
from harness.errors import UserError
from harness.toy import student_folder


@pytest.mark.parametrize("pooling", ["cls", "mean", "pooler"])
def test_a_saved_student_lists_its_modules(pooling: str, tmp_path: Path) -> None:
    Student.load(student_folder(), pooling).save(tmp_path)
    kinds = [module.kind for module in listed_modules(tmp_path)]
    assert kinds == ["Transformer", "Pooling", *(["Dense"] if pooling == "pooler" else [])]
    assert (declared_pooling(tmp_path), transformer_folder(tmp_path)) == ("modules", tmp_path)


def test_a_pooling_that_sentence_transformers_lacks_writes_no_modules(tmp_path: Path) -> None:
    Student.load(student_folder(), "avg-first-last").save(tmp_path)
    assert listed_modules(tmp_path) == ()
    assert declared_pooling(tmp_path) is None
    assert transformer_folder(tmp_path) == tmp_path


@pytest.mark.parametrize(
    ("settings", "pooling"),
    [
        ({"pooling_mode": "cls", "embedding_dimension": 64}, "cls"),
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, None),
        ({"pooling_mode": "weightedmean"}, None),
        ({"pooling_mode": ["cls", "mean"]}, None),
        ({}, None),
    ],
    ids=["newer", "older", "two", "unknown", "list", "none"],
)
def test_a_pooling_file_alone_names_the_pooling(
    settings: dict[str, object], pooling: str | None, tmp_path: Path
) -> None:
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    assert declared_pooling(tmp_path) == pooling


@pytest.mark.parametrize(
    ("card", "pooling"),
    [
        ("---\npooling: avg-first-last\nlicense: mit\n---\n# A model\n", "avg-first-last"),
        ("---\npooling: median\n---\n", None),
        ("---\npooling: modules\n---\n", None),
        ("---\nlicense: mit\n---\npooling: cls\n", None),
        ("# No front matter\n", None),
        ("---\npooling: [\n---\n", None),
    ],
    ids=["named", "unknown", "modules without a list", "in the text", "none", "damaged"],
)
def test_a_card_names_the_pooling(card: str, pooling: str | None, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(card)
    assert declared_pooling(tmp_path) == pooling


def listing(folder: Path, *modules: tuple[str, str]) -> None:
    listed = [{"idx": index, "path": path, "type": kind} for index, (kind, path) in enumerate(modules)]
    (folder / "modules.json").write_text(json.dumps(listed))


def test_the_encoder_of_an_older_layout_lies_in_its_own_folder(tmp_path: Path) -> None:
    listing(
        tmp_path,
        ("sentence_transformers.models.Transformer", "0_Transformer"),
        ("sentence_transformers.models.Pooling", "1_Pooling"),
    )
    (tmp_path / "0_Transformer" / "nested").mkdir(parents=True)
    for name in ("0_Transformer/config.json", "0_Transformer/nested/a.bin", "0_Transformer/README.md", "top.json"):
        (tmp_path / name).write_text("{}")
    assert transformer_folder(tmp_path) == tmp_path / "0_Transformer"
    read = {path.relative_to(tmp_path).as_posix() for path in module_files(tmp_path)}
    assert read == {"0_Transformer/config.json", "0_Transformer/nested/a.bin"}


def test_a_model_without_an_encoder_cannot_be_trained(tmp_path: Path) -> None:
    listing(tmp_path, ("sentence_transformers.models.StaticEmbedding", "0_StaticEmbedding"))
    with pytest.raises(UserError, match="begins with StaticEmbedding"):
        Student.load(tmp_path)


@pytest.mark.parametrize("content", ["[", "{}{}", '[{"type": "a"}]', "[1]"])
def test_a_damaged_list_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text(content)
    with pytest.raises(UserError, match=r"modules\.json is not a valid file") as refusal:
        listed_modules(tmp_path)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("path", ["../other", "/etc"])
def test_nothing_outside_the_folder_is_read(path: str, tmp_path: Path) -> None:
    listing(tmp_path, ("sentence_transformers.models.Pooling", path))
    with pytest.raises(UserError, match="outside the folder"):
        listed_modules(tmp_path)
