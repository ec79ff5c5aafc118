"""Trials of what is typed, and of folders that hold what nobody wrote there."""

from __future__ import annotations

import struct
from pathlib import Path

import torch
from builders import result, sts
from encoders_page import save_small_model
from model_folders import edit
from safetensors.torch import load_file, save_file
from trial import Trial, check_refused

import harness
from harness.corpora.files import SentencesFile
from harness.corpora.labelled_audio import read_samples
from harness.encoders.student import Student
from harness.profiles import load_profile
from harness.store import Store

RUN = {"methods": "simcse", "settings": "toy-text", "encoders": "toy-bert", "seeds": 1}


def leave_empty(folder: Path) -> None:
    """Nothing is given but words."""


def check_values_in_one_text(folder: Path) -> None:
    plan = harness.plan("tiny", suites="sts", set="steps=300,eval_every=20", **RUN)
    training = plan.runs[0].resolved.training
    assert (training.steps, training.eval_every) == (300, 20)


def check_unknown_argument(folder: Path) -> None:
    check_refused(lambda: harness.plan("tiny", seed=3), "no argument 'seed'", "seeds")


def write_damaged_results(folder: Path) -> None:
    place = folder / "results" / "tiny" / "simcse" / "toy" / "toy-bert"
    place.mkdir(parents=True)
    (place / "seed-0-0123456789abcdef.json").write_text('{"spec":')


def check_damaged_results(folder: Path) -> None:
    name = "seed-0-0123456789abcdef.json"
    check_refused(lambda: harness.report("results"), name, "restore it, or move it away")


def save_with_adapter(folder: Path) -> None:
    save_small_model("bert", folder / "model")
    (folder / "model" / "adapter_config.json").write_text("{}")
    edit(folder / "model" / "adapter_config.json", peft_type="LORA")


def check_adapter(folder: Path) -> None:
    check_refused(lambda: Student.load(folder / "model", "cls"), "adapter_config.json", "merge")


def save_integers(folder: Path) -> None:
    save_small_model("bert", folder / "model")
    file = folder / "model" / "model.safetensors"
    weights = load_file(file)
    name = "encoder.layer.0.attention.self.query.weight"
    weights[name] = (weights[name] * 100).to(torch.int8)
    save_file(weights, file, metadata={"format": "pt"})


def check_integers(folder: Path) -> None:
    check_refused(lambda: Student.load(folder / "model", "cls"), "query.weight as I8", "float32")


def write_scores(folder: Path) -> None:
    store = Store(folder / "results")
    for variant in ("simcse", "mcse"):
        for seed in range(2):
            store.save(result(variant, seed, sts(ToySTS=70.0 + seed)))


def check_wrong_words(folder: Path) -> None:
    """Each line says what there is instead."""
    results = harness.results("results")
    check_refused(lambda: results.compare("mcse", "simcse", "Avg"), "sts.Avg")
    (folder / "own.toml").write_text('extends = "tiny"\ndescripton = "a trial"\n')
    check_refused(lambda: load_profile("own.toml"), "did you mean description?")


def write_odd_formats(folder: Path) -> None:
    (folder / "pairs.csv").write_text("text;label\na red circle;1\n")
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 16_000, 48_000, 3, 24)
    data = bytes(3 * 8_000)
    head = b"RIFF" + struct.pack("<I", len(data) + 36) + b"WAVE"
    (folder / "deep.wav").write_bytes(head + form + b"data" + struct.pack("<I", len(data)) + data)


def check_odd_formats(folder: Path) -> None:
    semicolons = SentencesFile("pairs.csv", column="text")
    check_refused(lambda: semicolons.load(folder), "separated by ';'", "tabs or commas")
    check_refused(lambda: read_samples(folder / "deep.wav", "deep.wav"), "convert it to 16-bit PCM")


TRIALS = [
    Trial("4/W6", write_scores, check_wrong_words),
    Trial("4/W7", write_odd_formats, check_odd_formats),
    Trial("4/C9", write_damaged_results, check_damaged_results),
    Trial("4/M8", save_with_adapter, check_adapter),
    Trial("4/M9", save_integers, check_integers),
    Trial("4/W1", leave_empty, check_values_in_one_text),
    Trial("4/W2", leave_empty, check_unknown_argument),
]
