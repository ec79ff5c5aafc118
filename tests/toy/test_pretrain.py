"""The shipped student and image teacher, and the code that made them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import open_clip
import pytest
import torch
from pretrain_toy import pretrain_clip, pretrain_student
from transformers import AutoTokenizer

from harness.encoders.student import Student
from harness.encoders.teachers import open_teacher
from harness.seeds import generator
from harness.toy import clip_folder, student_folder
from harness.toy.corpora import ToyPairs
from harness.toy.world import ATTRIBUTES, describe, draw_scenes, render, vocabulary


def test_the_tokenizers_know_every_word() -> None:
    for folder in (student_folder(), clip_folder()):
        tokenizer = AutoTokenizer.from_pretrained(str(folder))
        words = vocabulary()
        ids = [number for word in words for number in tokenizer(word)["input_ids"][1:-1]]
        assert len(set(ids)) == len(words)
        assert tokenizer.unk_token_id not in ids


def test_a_caption_finds_its_picture_among_pictures_it_was_not_trained_on() -> None:
    pairs = ToyPairs(size=300, split="test").load(None)
    assert pairs.images is not None
    images = torch.from_numpy(open_teacher("open-clip", clip_folder()).images(pairs.images))
    model = open_clip.create_model_from_pretrained(f"local-dir:{clip_folder()}", return_transform=False).eval()
    tokenizer = AutoTokenizer.from_pretrained(str(clip_folder()))
    config = json.loads((clip_folder() / "open_clip_config.json").read_text())
    length = config["model_cfg"]["text_cfg"]["context_length"]
    tokens = tokenizer(list(pairs.texts), padding="max_length", max_length=length, return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        texts = model.encode_text(tokens)
    scores = torch.nn.functional.normalize(texts, dim=-1) @ torch.nn.functional.normalize(images, dim=-1).T
    found = (scores.argmax(1) == torch.arange(300)).float().mean()
    assert found > 0.9, "chance is 0.003"


@pytest.fixture(scope="module")
def drawn() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """2,000 scenes that the teacher was not trained on, and its features of their pictures and descriptions."""
    rng, teacher = generator(test="probe"), open_teacher("open-clip", clip_folder())
    scenes = draw_scenes(rng, 2000)
    features = {"images": teacher.images(render(scenes, rng)), "captions": teacher.captions(describe(scenes, rng))}
    return scenes, {kind: rows / np.linalg.norm(rows, axis=1, keepdims=True) for kind, rows in features.items()}


@pytest.mark.parametrize("kind", ["images", "captions"])
@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_the_teacher_sees_every_attribute(
    drawn: tuple[np.ndarray, dict[str, np.ndarray]], kind: str, attribute: str
) -> None:
    """A linear probe, ridge regression on one-hot values of 1,500 scenes, is right in nine of ten others."""
    scenes, features = drawn
    rows, values = np.c_[features[kind], np.ones(2000)], scenes[:, ATTRIBUTES.index(attribute)]
    known, asked = rows[:1500], rows[1500:]
    wanted = known.T @ np.eye(values.max() + 1)[values[:1500]]
    probe = np.linalg.solve(known.T @ known + 0.01 * np.eye(rows.shape[1]), wanted)
    assert ((asked @ probe).argmax(1) == values[1500:]).mean() >= 0.9


def test_the_threshold_of_the_filter_separates_captions_of_one_scene_from_all_others(
    drawn: tuple[np.ndarray, dict[str, np.ndarray]],
) -> None:
    """KDMCSE drops negatives with a similarity above 0.85, which here are those of the same scene and few others."""
    scenes, features = drawn
    captions, images = features["captions"][:600], features["images"][:600]
    same = (scenes[:600, None] == scenes[None, :600]).all(2)
    other, among, across = ~same, captions @ captions.T > 0.85, captions @ images.T > 0.85
    assert among[same].all()
    assert among[other].mean() < 1e-3
    assert across[same].mean() > 0.8
    assert across[other].mean() < 1e-3


def test_features_are_those_of_the_tower_whatever_the_batch() -> None:
    pairs = ToyPairs(size=300).load(None)
    assert pairs.images is not None
    teacher = open_teacher("open-clip", clip_folder())
    features = teacher.images(pairs.images)
    assert features.dtype == np.float32
    assert features.shape == (300, 64)
    np.testing.assert_allclose(teacher.images(pairs.images[:3]), features[:3], atol=1e-5)


def test_pretraining_lowers_both_losses_and_writes_what_is_read(tmp_path: Path) -> None:
    losses = pretrain_student(tmp_path / "student", steps=40)
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.3
    assert Student.load(tmp_path / "student").embed(["a red circle"]).shape == (1, 64)
    losses = pretrain_clip(tmp_path / "clip", steps=20, pairs=512)
    assert np.mean(losses[-5:]) < np.mean(losses[:5])
    pixels = np.zeros((2, 32, 32, 3), np.uint8)
    assert open_teacher("open-clip", tmp_path / "clip").images(pixels).shape == (2, 64)
