"""The profile `grounding`: its text-only student, and a run in its smallest form."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from shutil import copy
from typing import Any

import numpy as np
import pretrain_student
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
import torch
from pretrain_student import Corpus, Recipe, pretrain, read_texts
from safetensors.torch import load_file

import harness
from harness.encoders.student import Student
from harness.errors import UserError
from harness.planning.missing import list_missing

RECIPE = Recipe(steps=6, batch_size=4, pieces=120, layers=1, width=16)
NAMES, VERBS = ("red", "blue", "green", "dog", "cat", "bird"), ("runs", "sits", "sleeps")


def zipped(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Forty sentences; captions of images of which some are tested by text or by image."""
    sentences = [f"the {NAMES[i % 6]} {VERBS[i % 3]} near number {i}" for i in range(40)]
    zipped(
        tmp_path / "wiki/enwiki_sentences.txt.gz",
        "".join(f"{line}\n" for line in [*sentences, "A tested text."]),
    )
    rows = [
        ("train", "10.jpg", "ten one"),
        ("train", "10.jpg", "a TESTED caption"),
        ("train", "11.jpg", "eleven"),
    ]
    rows += [
        ("test", "12.jpg", "twelve"),
        ("train", "12.jpg", "twelve again"),
        ("train", "13.jpg", "thirteen"),
    ]
    table = "split\timage_id\tcaption\n" + "".join("\t".join(row) + "\n" for row in rows)
    zipped(tmp_path / "captions/flickr30k_captions.tsv.gz", table)
    sts = tmp_path / "sts/STSB-test.tsv"
    sts.parent.mkdir()
    sts.write_text("score\tsentence1\tsentence2\n1\ta tested text.\ta tested caption\n")
    images = tmp_path / "paired/flickr8k/test.parquet"
    images.parent.mkdir(parents=True)
    parquet.write_table(
        arrow.table({"image_id": ["13_ab.jpg"], "captions": [["other words"]]}), images
    )
    return tmp_path


def test_what_tests_read_is_left_out_by_text_and_by_image(root: Path) -> None:
    texts, counts = read_texts(root)
    assert texts[40:] == ["eleven"], "10 and the sentence by text, 12 by its split, 13 by its image"
    assert counts == {
        "wiki/enwiki_sentences.txt.gz": 40,
        "captions/flickr30k_captions.tsv.gz": 1,
        "captions/flickr30k_captions.tsv.gz, left out": 5,
    }
    with pytest.raises(UserError, match="has none of wiki/enwiki_sentences"):
        read_texts(root / "sts")


def test_every_text_is_read_once_an_epoch(root: Path) -> None:
    corpus = Corpus(np.arange(90), 3 * np.arange(31))
    for recipe, steps in ((RECIPE, 7), (Recipe(batch_size=30), 1), (Recipe(batch_size=7), 4)):
        for epoch in range(2):
            read = [
                row
                for step in range(steps)
                for row in corpus.select_rows(steps * epoch + step, recipe)
            ]
            assert len({*read}) == len(read) == steps * recipe.batch_size


def test_a_killed_pretraining_goes_on_to_the_same_model(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    pretrain(whole, root, RECIPE)
    monkeypatch.setattr(pretrain_student, "SAVE_EVERY_S", -1.0)
    step = pretrain_student._take_step

    def killed(*given: Any) -> float:
        if given[-1] == 3:
            raise KeyboardInterrupt
        return step(*given)

    resumed.mkdir()
    copy(whole / "vocab.txt", resumed)
    with monkeypatch.context() as patched:
        patched.setattr(pretrain_student, "_take_step", killed)
        with pytest.raises(KeyboardInterrupt):
            pretrain(resumed, root, RECIPE)
    with pytest.raises(UserError, match="begun with another recipe"):
        pretrain(resumed, root, Recipe(steps=7))
    pretrain(resumed, root, RECIPE)
    first, second = (load_file(folder / "model.safetensors") for folder in (whole, resumed))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert (whole / "README.md").read_text() == (resumed / "README.md").read_text()
    assert json.loads((whole / "config.json").read_text())["architectures"] == ["BertForMaskedLM"]
    assert Student.load(whole, pooling="mean").eval().embed(["the red dog", "a cat"]).shape == (
        2,
        16,
    )


def test_a_student_that_has_read_nothing_is_a_model_too(root: Path, tmp_path: Path) -> None:
    pretrain(tmp_path / "unread", root, replace(RECIPE, steps=0))
    assert Student.load(tmp_path / "unread", pooling="mean").eval().embed(
        ["the red dog"]
    ).shape == (1, 16)


def test_no_teacher_has_read_captions_of_tests_and_papers_have_stand_ins(
    data_root: Path, tmp_path: Path
) -> None:
    student = f"text-bert={data_root / 'students/lm4'}"
    given: dict[str, Any] = {"encoders": student, "data_root": data_root, "results": tmp_path}
    plan = harness.plan(
        "grounding", methods="kdmcse,dalr", settings="wiki+flickr8k", seeds=1, **given
    )
    assert (len(plan.todo), list_missing(plan)) == (3, []), "all-MiniLM is no teacher here"
    for entry, settings in (("mcse:F3", "flickr8k[shot=100]"), ("mcse:F4", "wiki+flickr8k")):
        runs = harness.plan("grounding", figure=entry, **given).runs
        assert settings in {str(run.resolved.spec.setting) for run in runs}


@pytest.mark.long  # its image network reads all pictures
def test_the_profile_in_its_smallest_form(data_root: Path, tmp_path: Path) -> None:
    student = f"text-bert={data_root / 'students/lm4'}"
    given: dict[str, Any] = {
        "encoders": student,
        "data_root": data_root,
        "results": tmp_path,
        "suites": "cxc",
    }
    (found,) = harness.run(
        "grounding", methods="mcse[images=permuted]", seeds=1, set={"steps": 1}, **given
    ).runs
    assert found.hyperparameters["encoder"]["pooling"] == "mean"
    assert 40 < found.evaluations[0].scores["CxC-2017"]["sampled"] < 90
