"""Trials of what a plan says of its inputs before anything is trained."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
from trial import Trial, check_refused
from trials_pictures import write_pictures

import harness
from harness.errors import UserError
from harness.planning.plan import Plan

TEXTS = """
extends = "tiny"
description = "a trial"
[corpora.texts]
kind = "sentences-file"
file = "./texts.txt"
[settings.s]
corpora = ["texts"]
"""


def plan_of(method: str, **asked: object) -> Plan:
    options = {"settings": "s", "encoders": "toy-bert", "seeds": 1, "suites": "sts", **asked}
    return harness.plan("own.toml", methods=method, **options)


def write_german(folder: Path) -> None:
    words = ("Haus", "Garten", "Strasse", "Wetter")
    lines = [f"Das {words[number % 4]} ist {words[number % 3]}." for number in range(120)]
    (folder / "texts.txt").write_text("\n".join(lines) + "\n")
    (folder / "own.toml").write_text(TEXTS)


def check_german(folder: Path) -> None:
    plan = plan_of("simcse")
    (census,) = [census for census in plan.inputs if census.what == "corpus texts"]
    # 12 different sentences, in which no word but the full stop is known
    assert (census.rows, census.equal_rows) == (120, 108)
    assert census.unknown_tokens["toy-bert"] > 0.7
    assert "equal to an earlier row" in census.line
    assert any("unknown to the encoder toy-bert" in line for line in plan.warnings)


PAIRED = (
    TEXTS
    + """
[corpora.pairs]
kind = "captions-file"
file = "./captions.csv"
[corpora.pairs.features.net]
file = "./features.csv.npy"
[settings.both]
corpora = ["texts", "pairs"]
"""
)


def write_more_pairs(folder: Path) -> None:
    write_german(folder)
    rows = [f"{number}.jpg,a circle number {number}" for number in range(100)]
    (folder / "captions.csv").write_text("\n".join(["image,caption", *rows]) + "\n")
    np.save(folder / "features.csv.npy", np.random.default_rng(0).normal(size=(100, 8)))
    (folder / "own.toml").write_text(PAIRED)


def check_more_pairs(folder: Path) -> None:
    plan = plan_of("mcse[images=net]", settings="both")
    line = "uses pairs in every step of both: the text (texts) is never read"
    assert any(line in warning for warning in plan.warnings)


NO_PLACE = """
extends = "tiny"
description = "a trial"
[tasks.mine]
kind = "similarity"
file = "pairs.tsv"
[suites.sts]
tasks = ["mine"]
"""


def write_without_place(folder: Path) -> None:
    (folder / "own.toml").write_text(NO_PLACE)
    rows = [f"a circle {n}\ta square {n}\t{n % 6}" for n in range(12)]
    (folder / "pairs.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *rows]) + "\n")


def complaint_of(make: Callable[[], Plan]) -> str:
    """What a command says of the files of a plan, and ends with exit code 2."""
    try:
        return "; ".join(make().errors)
    except UserError as error:
        return str(error)


def check_without_place(folder: Path) -> None:
    lines = [
        complaint_of(lambda: plan_of("simcse", settings="toy-text")),
        complaint_of(
            lambda: harness.plan_model("toy-bert", profile="own.toml", suites="sts", pooling="cls")
        ),
    ]
    for line in lines:
        for words in ("pairs.tsv", "no data root is set", "'./pairs.tsv'"):
            assert words in line, line
    (folder / "own.toml").write_text(NO_PLACE.replace('"pairs.tsv"', '"./pairs.tsv"'))
    assert plan_of("simcse", settings="toy-text").errors == []


READERS = """
extends = "tiny"
description = "a training that reads test pictures, and one that does not"
[corpora.others]
kind = "captions-file"
file = "./others.csv"
images = "./others"
[corpora.copies]
kind = "captions-file"
file = "./copies.csv"
images = "./copies"
[settings.others]
corpora = ["toy-text", "others"]
[settings.copies]
corpora = ["toy-text", "copies"]
[tasks.mine]
kind = "retrieval"
captions = "./test.csv"
images = "./test"
[suites.retrieval]
tasks = ["mine"]
"""


def write_readers(folder: Path) -> None:
    """120 test pictures, of which one of two trainings has 15 under other names."""
    tests = [f"t{number}.png" for number in range(120)]
    copies = [f"c{number}.png" for number in range(15)]
    others = [f"o{number}.png" for number in range(15)]
    for seed, (name, files) in enumerate((("test", tests), ("copies", copies), ("others", others))):
        write_pictures(folder / name, files, seed=seed)
        rows = [f"{file},a picture called {file}" for file in files]
        (folder / f"{name}.csv").write_text("\n".join(["image,caption", *rows]) + "\n")
    for copy, test in zip(copies, tests, strict=False):
        shutil.copyfile(folder / "test" / test, folder / "copies" / copy)
    (folder / "own.toml").write_text(READERS)


def check_one_gallery(folder: Path) -> None:
    protocols = set()
    for setting in ("others", "copies"):
        plan = plan_of("mcse", settings=setting, suites="retrieval")
        assert plan.inventory.find_left_out_images("mine").rows == tuple(range(15))
        assert any("105 are ranked" in line for line in plan.warnings)
        protocols.add(plan.inventory.find_protocol("retrieval").key)
    assert len(protocols) == 1


WRONG = (
    TEXTS
    + """
[corpora.other]
kind = "captions-file"
file = "./other.tsv"
[settings.wrong]
corpora = ["other"]
"""
)


def write_wrong_captions(folder: Path) -> None:
    write_german(folder)
    (folder / "other.tsv").write_text("1.jpg\ta caption\n2.jpg\t\n3.jpg\ta caption\n")
    (folder / "own.toml").write_text(WRONG)


def check_wrong_captions(folder: Path) -> None:
    """A wrong file is an error of its setting, and ends a plan of this setting alone."""
    plan = plan_of("simcse", settings="s,wrong")
    assert (len(plan.runs), plan.skipped) == (1, ())
    assert any("other.tsv, line 2: no caption" in line for line in plan.errors), plan.errors
    check_refused(lambda: plan_of("simcse", settings="wrong"), "other.tsv, line 2")


def check_lacking_features(folder: Path) -> None:
    """A teacher whose features of captions are missing is never suggested for itself."""
    line = check_refused(
        lambda: plan_of("kdmcse[images=net]", settings="both"), "features of captions"
    )
    assert "did you mean net" not in line


TRIALS = [
    Trial("4/D11", write_wrong_captions, check_wrong_captions),
    Trial("4/W3", write_more_pairs, check_lacking_features),
    Trial("5/I10", write_readers, check_one_gallery),
    Trial("5/I12", write_german, check_german),
    Trial("5/I13", write_more_pairs, check_more_pairs),
    Trial("5/I20", write_without_place, check_without_place),
]
