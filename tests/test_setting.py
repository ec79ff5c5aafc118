"""A setting's options, from the command line's text to the rows that a run sees."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from harness.encoders.student import Student
from harness.errors import UserError
from harness.fetching.archives import write_parquet
from harness.grid import make_grid
from harness.method import by_batches
from harness.planning.plan import Plan, make_plan
from harness.planning.request import Request
from harness.profiles import Profile, load_profile
from harness.profiles.schema import Corpus, Setting, TeacherTable
from harness.runs.inputs import find_teacher_folders, load_training_data
from harness.setting import Noisy, find_kept_rows, read_setting_options, read_with
from harness.spec import Variant, parse_setting, split
from harness.store import Store
from harness.toy.corpora import ToyTriplets
from harness.training.streams import Batches, TrainingData

pytestmark = pytest.mark.usefixtures("small_toy_tests")

EPOCHS = {"epochs": 2, "batch_size": 64}


def plan(
    tmp_path: Path, settings: str, methods: str, seed: int = 0, profile: Profile | None = None
) -> Plan:
    profile = profile or load_profile("tiny")
    # without fixed steps, so that the rows decide
    profile = profile.model_copy(
        update={"training": profile.training.model_copy(update={"steps": None})}
    )
    asked = [parse_setting(text) for text in split(settings)]
    variants = [Variant.parse(text) for text in split(methods)]
    wanted = dict.fromkeys(make_grid(profile, variants, asked, ["toy-bert"], (seed,)), ("sts",))
    return make_plan(Request(profile, wanted, EPOCHS, data=tmp_path), Store(tmp_path))


def data_and_batches(
    tmp_path: Path, setting: str, method: str, seed: int = 0
) -> tuple[TrainingData, Batches]:
    made = plan(tmp_path, setting, method, seed)
    (run,) = made.runs
    student = Student.load(made.inventory.find_encoder("toy-bert").source.path())
    data = load_training_data(
        run.experiment, student.tokenizer, "cpu", find_teacher_folders(run.experiment, made.store)
    )
    return data, Batches(
        student, data, run.resolved.training, {}, seed=seed, setting=setting, rule=by_batches
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("toy-pairs[shots=100]", "no option 'shots'; did you mean shot?"),
        (
            "toy-pairs[shot=0]",
            "shot=0 in the setting 'toy-pairs[shot=0]' must be a whole number of at least 1",
        ),
        ("toy-pairs[shot=1.5]", "must be a whole number"),
        ("toy[deletion=40]", "must be a number between 0 and 1"),
        ("toy[deletion=much]", "must be a number between"),
        ("toy-pairs[captions=five]", "must be 'one' or 'all'"),
        ("toy-text[shot=10]", "has no pairs, to which 'shot' applies; remove the option"),
        ("toy-pairs[swap=2]", "has no triplets"),
        ("toy-pairs[shot=5000]", "has only 4096 pairs; ask for fewer"),
    ],
)
def test_what_makes_no_sense_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        data_and_batches(tmp_path, text, "simcse")


def test_options_are_read() -> None:
    setting = parse_setting("nli[swap=2,deletion=0.30,insertion=1,size=30000]")
    assert str(setting) == "nli[deletion=0.3,insertion=1,size=30000,swap=2]"
    options = read_setting_options(setting, ["triplets", "pairs"])
    assert find_kept_rows(options, "triplets") == (30000, False)
    assert find_kept_rows(options, "pairs") is None
    read = read_with(options, ToyTriplets())
    assert isinstance(read, Noisy)
    assert (read.deletion, read.insertion, read.swap) == (0.3, 1, 2)
    assert not isinstance(read.clean, Noisy), "noise of several options is one source"
    assert read_setting_options(parse_setting("nli"), ["triplets"]) == ()


def test_shots_have_the_steps_of_all_pairs_and_other_sizes_their_own(tmp_path: Path) -> None:
    data, batches = data_and_batches(tmp_path, "toy-pairs[shot=100]", "mcse")
    assert batches.steps == 2 * 4096 // 64
    part = set(data.subsets["pairs"].rows.tolist())
    assert len(part) == 100
    seen = [batches.orders["pairs"].batch(step) for step in range(4)]
    assert sorted(np.concatenate(seen[:2]).tolist()) == list(range(100)), "a pass is over the 100"
    rows = data.subsets["pairs"].rows[seen[0]]
    batch = next(iter(batches.take(0)))[1]
    assert np.array_equal(batch.tokens["input_ids"], data.tokens["pairs"].batch(rows)["input_ids"])
    assert np.array_equal(batch.features["image"].numpy(), data.features["image"][rows])
    _, batches = data_and_batches(tmp_path, "toy[size=640]", "simcse-sup")
    assert batches.steps == 2 * 640 // 64


def test_smaller_draws_lie_in_larger_ones_and_seeds_draw_apart(tmp_path: Path) -> None:
    few, many, other = (
        {
            *data_and_batches(tmp_path, f"toy-pairs[shot={shot}]", "simcse", seed)[0]
            .subsets["pairs"]
            .rows.tolist()
        }
        for shot, seed in ((50, 0), (500, 0), (50, 1))
    )
    assert few < many
    assert few != other


def test_noise_reaches_the_triplets_alone(tmp_path: Path) -> None:
    plain, _ = data_and_batches(tmp_path, "toy", "simcse-sup")
    noisy, _ = data_and_batches(tmp_path, "toy[deletion=0.4]", "simcse-sup")
    assert len(plain.tokens["triplets"]) == len(noisy.tokens["triplets"])
    assert noisy.tokens["triplets"].count < 0.8 * plain.tokens["triplets"].count
    made = plan(tmp_path, "toy[deletion=0.4]", "simcse")
    (corpus,) = (corpus for corpus in made.runs[0].experiment.corpora if corpus.name == "toy-text")
    assert corpus.read is corpus.plain


def test_options_and_a_task_of_its_own_to_pick_checkpoints_by_are_another_experiment(
    tmp_path: Path,
) -> None:
    tiny = load_profile("tiny")
    text = tiny.settings["toy-text"].model_copy(update={"dev": "ToySTS"})
    own = tiny.model_copy(update={"settings": {**tiny.settings, "toy-text": text}})
    before, after = (
        [
            run.fingerprint
            for run in plan(
                tmp_path, "toy-text,toy-pairs[shot=9],toy-pairs", "simcse", profile=each
            ).runs
        ]
        for each in (tiny, own)
    )
    assert len({*before, *after}) == 4
    assert after[1:] == before[1:]


def with_few(tmp_path: Path, captions: list[list[str]], features: np.ndarray) -> Profile:
    """The toy profile with a setting of a few images, their captions, and stored features of the
    teacher `made`.
    """
    write_parquet(
        tmp_path / "captions.parquet",
        {"image_id": [f"{image}.jpg" for image in range(len(captions))], "captions": captions},
    )
    np.save(tmp_path / "made.npy", features)
    stored = {"made": {"file": "made.npy", "how": ""}}
    few = Corpus(kind="captions-file", file="captions.parquet", how="", features=stored)
    tiny = load_profile("tiny")
    tables = {
        "corpora": {**tiny.corpora, "few": few},
        "settings": {**tiny.settings, "few": Setting(corpora=("few",))},
    }
    return tiny.model_copy(update=tables)


def data_of_few(tmp_path: Path, profile: Profile, which: str, variant: str) -> TrainingData:
    made = plan(tmp_path, f"few[captions={which}]", variant, profile=profile)
    run = next(planned for planned in made.runs if str(planned.resolved.spec.variant) == variant)
    tokenizer = Student.load(made.inventory.find_encoder("toy-bert").source.path()).tokenizer
    return load_training_data(
        run.experiment, tokenizer, "cpu", find_teacher_folders(run.experiment, made.store)
    )


def test_images_of_several_captions_have_their_features_once(tmp_path: Path) -> None:
    """Four images with 3, 1, 2 and 1 captions: seven rows, of which each has its own image's
    features.
    """
    counts = [3, 1, 2, 1]
    listed = [
        [f"caption {number} of {image}" for number in range(count)]
        for image, count in enumerate(counts)
    ]
    features = np.arange(4, dtype=np.float32)[:, None] + np.zeros(3, np.float32)
    profile = with_few(tmp_path, listed, features).model_copy(update={"images": "made"})
    data = {which: data_of_few(tmp_path, profile, which, "mcse") for which in ("one", "all")}
    rows = np.arange(7)
    assert data["all"].features["image"][rows][:, 0].tolist() == [0, 0, 0, 1, 2, 2, 3]
    assert data["one"].features["image"][rows[:4]][:, 0].tolist() == [0, 1, 2, 3]
    assert [len(data[which].tokens["pairs"]) for which in ("one", "all")] == [4, 7]


@pytest.mark.long
def test_a_dual_encoder_fitted_on_other_captions_is_another(tmp_path: Path) -> None:
    """Its image side too, though the images are the same."""
    listed = [
        [f"{word} {image}" for word in ("circle", "the red square at noon")] for image in range(40)
    ]
    features = np.random.default_rng(0).standard_normal((40, 6), dtype=np.float32)
    profile = with_few(tmp_path, listed, features)
    reader = "run:none[pooling=mean]/none/toy-bert/seed-0"
    lit = TeacherTable(kind="lit", images="made", captions=reader, corpus="few")
    profile = profile.model_copy(update={"teachers": {**profile.teachers, "lit": lit}})
    first, other = (
        data_of_few(tmp_path, profile, which, "mcse[images=lit]").features["image"][np.array([0])]
        for which in ("one", "all")
    )
    assert not np.allclose(first, other)
