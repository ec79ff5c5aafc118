"""The shipped student and image teacher, and the code that made them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pretrain_toy import pretrain_clip, pretrain_student
from transformers import AutoTokenizer

from harness.encoders.student import Student
from harness.encoders.teachers import open_teacher
from harness.seeds import generator
from harness.toy import clip_folder, student_folder
from harness.toy.world import ATTRIBUTES, describe, draw_scenes, render, vocabulary


def test_the_tokenizers_know_every_word() -> None:
    for folder in (student_folder(), clip_folder()):
        tokenizer = AutoTokenizer.from_pretrained(str(folder))
        words = vocabulary()
        ids = [number for word in words for number in tokenizer(word)["input_ids"][1:-1]]
        assert len(set(ids)) == len(words)
        assert tokenizer.unk_token_id not in ids


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


def test_pretraining_lowers_both_losses_and_writes_what_is_read(tmp_path: Path) -> None:
    losses = pretrain_student(tmp_path / "student", steps=40)
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.3
    assert Student.load(tmp_path / "student").embed(["a red circle"]).shape == (1, 64)
    losses = pretrain_clip(tmp_path / "clip", steps=20, pairs=512)
    assert np.mean(losses[-5:]) < np.mean(losses[:5])
    pixels = np.zeros((2, 32, 32, 3), np.uint8)
    assert open_teacher("open-clip", tmp_path / "clip").images(pixels).shape == (2, 64)
