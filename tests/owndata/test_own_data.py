"""A user's own files, named in a profile: every kind through the command line, and each mistake in
one line.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.io import wavfile

import harness
from harness.cli.main import cli
from harness.errors import UserError
from harness.planning.inventory import Inventory
from harness.profiles import load_profile
from harness.store import Store

pytestmark = pytest.mark.usefixtures("small_toy_tests")


def test_own_tasks_corpora_and_model_are_used_from_one_profile(world: Path, tmp_path: Path) -> None:
    source = Inventory(load_profile("tiny"), None, {}).find_encoder("toy-bert").source
    shutil.copytree(source.folder, world.parent / "model")
    words = ["run", "--profile", str(world), "--methods", "mcse", "--settings", "mine"]
    words += ["--encoders", "mine", "--seeds", "1", "--suites", "sts,transfer,retrieval"]
    words += ["--tasks", "my-pairs,my-classes,my-pictures"]
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    (result,) = Store(tmp_path / "results").frames()
    scores = {evaluation.suite: evaluation.scores for evaluation in result.evaluations}
    assert set(scores["sts"]) == {"my-pairs"}
    assert scores["transfer"]["my-classes"]["n_train"] == 22
    assert scores["transfer"]["my-classes"]["n_test"] == 4
    assert scores["retrieval"]["my-pictures"]["n_seen"] == 8, (
        "two steps of four rows read the same pictures"
    )
    assert result.dev.task == "my-pairs"
    assert result.profile_origin == "file"
    triplets = (
        Inventory(load_profile(str(world)), None, {}).corpora["my-triplets"].read.source.load(None)
    )
    assert triplets.premises[0] == 'a "small red" circle'
    assert triplets.entailed[0] == "a small red ring, round"
    assert "nothing to do" in CliRunner().invoke(cli, words).output


def test_contents_columns_and_scale_are_identities_but_no_paths_or_formats(
    world: Path, tmp_path: Path
) -> None:
    def prints(path: Path) -> dict[str, str]:
        inventory = Inventory(load_profile(str(path)), None, {})
        tasks = {name: task.fingerprint(None) for name, task in inventory.tasks.items()}
        corpora = (name for name in inventory.corpora if name.startswith("my"))
        return tasks | {name: inventory.corpora[name].read.fingerprint for name in corpora}

    first = prints(world)
    moved = Path(shutil.copytree(world.parent, tmp_path / "elsewhere")) / "mine.toml"
    assert prints(moved) == first
    csv = moved.with_name("pairs.csv")
    csv.write_bytes(csv.read_bytes().replace(b"\r\n", b"\n"))
    assert prints(moved)["my-pairs"] == first["my-pairs"], "the same pairs in a file of other bytes"
    csv.write_text(csv.read_text().replace("round", "oval", 1))
    captions = moved.with_name("captions.tsv")
    captions.write_text(captions.read_text().replace("one small", "a small", 1))
    changed = {name for name, fingerprint in prints(moved).items() if fingerprint != first[name]}
    assert changed == {"my-pairs", "my-text", "my-triplets", "my-pictures", "my-captions"}
    moved.write_text(
        moved.read_text()
        .replace('column = "first"', 'column = "second"')
        .replace("[0, 1]", "[0, 2]")
    )
    again = prints(moved)
    assert again["my-text"] != first["my-text"]
    assert again["my-pairs"] != first["my-pairs"]


def test_pictures_and_recordings_lie_beside_the_profile_too(world: Path) -> None:
    folder = world.parent
    (folder / "classes").mkdir()
    for name in ("one", "two"):
        shutil.copytree(folder / "pictures", folder / "classes" / name)
    (folder / "recordings").mkdir()
    for number in range(4):
        wavfile.write(
            folder / "recordings" / f"{number}.wav", 8000, np.zeros(4000, np.int16) + number
        )
    (folder / "recordings.tsv").write_text(
        "file\twho\n" + "".join(f"{n}.wav\t{n % 2}\n" for n in range(4))
    )
    text = '[corpora.i]\nkind = "labelled-images"\npath = "./classes"\nsize = 32\n'
    text += '[corpora.a]\nkind = "labelled-audio"\n'
    text += (
        'path = "./recordings"\nindex = "./recordings.tsv"\nlabel = "who"\nbins = 8\nframes = 16\n'
    )
    world.write_text(world.read_text() + text)
    corpora = Inventory(load_profile(str(world)), None, {}).corpora
    images, recordings = (corpora[name].read.source.load(None) for name in ("i", "a"))
    assert (len(images), len(set(images.labels))) == (24, 2)
    assert recordings.labels.tolist() == [0, 1, 0, 1]


#: file or profile, what is replaced, by what, and what the line says
MISTAKES = {
    "score": (
        "pairs.csv",
        "0.091,",
        "high,",
        ["pairs.csv, line 3: the score 'high' is not a number"],
    ),
    "scale": (
        "pairs.csv",
        "0.091,",
        "3,",
        ["line 3: the score 3 is not between 0 and 1", "scale = [lowest, highest]"],
    ),
    "empty": (
        "pairs.csv",
        ',"a small red ring, round"',
        ",",
        ["pairs.csv, line 2: an empty sentence"],
    ),
    "fields": (
        "pairs.csv",
        "0.091,",
        "0.091,more,",
        ["pairs.csv, line 3: 5 fields, the header has 4"],
    ),
    "quote": ("pairs.csv", '0,"a ""small', '0,"a "small', ["pairs.csv, line 2"]),
    "column": (
        "mine.toml",
        '"gold"',
        '"golden"',
        ["pairs.csv, line 1: no column 'golden' among gold, first, second"],
    ),
    "label": (
        "test.tsv",
        "yes\t",
        "maybe\t",
        ["test.tsv, line 3: no training sample has the label 'maybe'"],
    ),
    "value": (
        "train.jsonl",
        '"label": "no"',
        '"label": null',
        ["train.jsonl, line 1: 'label' has the value null, neither a text nor"],
    ),
    "caption": (
        "captions.tsv",
        "0.png\ta picture of a small red circle",
        "0.png\t",
        ["line 1: no caption"],
    ),
    "picture": ("captions.tsv", "3.png", "x.png", ["pictures has no image x.png"]),
    "file": (
        "mine.toml",
        "./pairs.csv",
        "./peers.csv",
        ["peers.csv", "correct its path in the profile"],
    ),
    "table": (
        "mine.toml",
        "./test.tsv",
        "./mine.toml",
        ["mine.toml, line 2: no column 'label' among extends"],
    ),
    "kind": (
        "mine.toml",
        'tasks = ["my-classes"]',
        'tasks = ["my-pairs"]',
        ["does not evaluate a similarity task"],
    ),
    "name": (
        "mine.toml",
        "[tasks.my-classes]",
        "[tasks.MR]",
        ["[tasks.MR] is a name that the harness reserves"],
    ),
    "splits": ("mine.toml", 'test = "./test.tsv"', "", ["set 'file' alone, or 'train' and 'test'"]),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_with_file_and_row_and_nothing_is_written(
    name: str, world: Path, tmp_path: Path
) -> None:
    file, old, new, parts = MISTAKES[name]
    path = world.with_name(file)
    text = path.read_bytes().decode()
    assert old in text
    path.write_bytes(text.replace(old, new, 1 if file != "mine.toml" else -1).encode())
    words = [
        "run",
        "--profile",
        str(world),
        "--methods",
        "mcse",
        "--settings",
        "mine",
        "--encoders",
        "toy-bert",
    ]
    with pytest.raises(UserError, match=".*".join(map(re.escape, parts))):
        CliRunner().invoke(cli, [*words, "--seeds", "1"], catch_exceptions=False)
    assert not list(tmp_path.glob("results/*.json"))


def test_what_is_odd_in_the_files_is_told_when_planned_and_kept_in_the_result(
    world: Path, tmp_path: Path
) -> None:
    """Two spellings of a label, an empty cell, and fewer rows than a batch."""
    samples = [
        json.dumps({"text": f"{word} {n}", "label": word})
        for word in ("no", "No", "yes")
        for n in range(10)
    ]
    world.with_name("train.jsonl").write_text("\n".join(samples))
    pairs = world.with_name("more.csv")
    pairs.write_text('text,n\n"one, two",1\n"",2\nthree,3\nfour,4\n')
    text = world.read_text().replace(
        'file = "./pairs.csv"\ncolumn = "first"', 'file = "./more.csv"\ncolumn = "text"'
    )
    world.write_text(
        text.replace('test = "./test.tsv"', 'test = "./train.jsonl"').replace(
            '["my-text", ', '["my-text"]#'
        )
    )
    words = [
        "run",
        "--profile",
        str(world),
        "--methods",
        "simcse",
        "--settings",
        "mine",
        "--encoders",
        "toy-bert",
    ]
    words += ["--seeds", "1", "--suites", "transfer"]
    of_text = [
        "my-text: 1 empty rows are left out",
        "my-text: 3 rows, fewer than the batch of 4; every batch has 3",
    ]
    of_labels = ["my-classes: the labels 'no' and 'No' count as 2 classes; are they one?"]
    planned = CliRunner().invoke(cli, [*words, "--dry-run"], catch_exceptions=False)
    assert all(f"warning   {line}" in planned.output for line in of_text + of_labels), (
        planned.output
    )
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    (result,) = Store(tmp_path / "results").frames()
    unknown = [line for line in result.warnings if "are unknown to the encoder toy-bert" in line]
    assert [line for line in result.warnings if line not in unknown] == of_text
    (census,) = [census for census in result.inputs if census.what == "corpus my-text"]
    assert (census.rows, census.equal_rows) == (3, 0)
    assert [account.line for account in census.accounts] == [
        "1 column read: text",
        "1 column left out (no key names them): n",
        "1 empty row left out (no text)",
    ]
    assert result.evaluations[0].warnings[:1] == of_labels


def test_more_pairs_than_text_are_refused_when_planned_and_other_settings_go_on(
    world: Path,
) -> None:
    planned = harness.plan(
        str(world), methods="mcse", settings="mine,mine[captions=all]", encoders="toy-bert", seeds=1
    )
    assert [str(run.resolved.spec.setting) for run in planned.todo] == ["mine"]
    (line,) = planned.errors
    assert line.startswith("the setting has 6 paired and 3 text batches")
    assert line.endswith("(needed by mcse/mine[captions=all]/toy-bert)")
