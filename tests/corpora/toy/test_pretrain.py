"""The shipped student and image teacher, and the code that made them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import open_clip
import torch
from transformers import AutoTokenizer

from harness.corpora.toy import clip_folder, student_folder
from harness.corpora.toy.corpora import ToyPairs
from harness.corpora.toy.grammar import vocabulary
from harness.corpora.toy.pretrain import pretrain_clip, pretrain_student
from harness.encoders.student import Student
from harness.encoders.teachers import open_teacher


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
    assert found > 0.5, "chance is 0.003"


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
