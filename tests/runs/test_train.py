"""What a run trains on, as loaded, runs as its teachers among it, and its model: trained once,
loaded again, untrained.

What a kill leaves is resumed in tests/faults.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from executor_jobs import SMALLER, STUDENT, TAUGHT, experiment, plan, small_world, with_lit

from harness.encoders.student import Student
from harness.errors import UserError
from harness.events import Event, listen_in
from harness.planning.experiments import Experiment
from harness.planning.plan import Plan
from harness.profiles import Profile, load_profile
from harness.profiles.schema import Corpus, Setting
from harness.runs.execution import Execution, Seat
from harness.runs.inputs import Inputs, find_teacher_folders, load_inputs, load_training_inputs
from harness.runs.log import describe_stage
from harness.runs.train import Trained, train
from harness.spec import CONTROLS, UNTRAINED_IMAGES, FeatureKind
from harness.store import Result, Store
from harness.toy.corpora import ToyPairs
from harness.training.record import TrainingRecord
from harness.training.streams import TrainingData
from harness.work.base import execute
from harness.work.jobs import list_jobs

pytestmark = pytest.mark.usefixtures("small_toy_tests")

SHORT = {"steps": 4, "eval_every": 2, "batch_size": 8}
#: controls that are drawn from the features themselves; the others need features of their own
DRAWN = [name for name in CONTROLS if name != UNTRAINED_IMAGES]


@pytest.fixture
def events() -> list[Event]:
    """What is reported while the store is in use."""
    return []


@pytest.fixture
def store(tmp_path: Path, events: list[Event]) -> Iterator[Store]:
    with listen_in("", events.append):
        yield Store(tmp_path)


@pytest.fixture
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))


def inputs_of(asked: Experiment, store: Store) -> Inputs:
    return load_training_inputs(asked, "cpu", find_teacher_folders(asked, store))


def data(
    variant: str, store: Store, setting: str = "toy", profile: Profile | None = None
) -> TrainingData:
    found = inputs_of(experiment(f"{variant}/{setting}/toy-bert/seed-0", profile), store).data
    assert found is not None
    return found


def trained(asked: Experiment, store: Store) -> Trained:
    return train(asked, inputs_of(asked, store), store.work(asked.fingerprint))


def carried_out(made: Plan) -> list[str]:
    """What the runs of a plan said while they prepared themselves."""
    events: list[Event] = []
    ends = execute(made, events.append, Execution(device="cpu"))
    assert all(isinstance(end, Result) for end in ends), ends
    return [
        describe_stage(event.stage) for event in events if event.stage and event.kind == "prepare"
    ]


def test_an_untrained_encoder_has_no_heads_and_an_empty_record(
    tmp_path: Path, store: Store
) -> None:
    made = trained(experiment("none[pooling=mean]/none/toy-bert/seed-0"), store)
    assert made.heads is None
    assert made.record == TrainingRecord()
    assert not list(tmp_path.rglob("*.safetensors"))


def test_a_finished_training_is_loaded_and_not_repeated(store: Store, events: list[Event]) -> None:
    asked = experiment(STUDENT, **SHORT)
    first = trained(asked, store)
    assert [event.progress.step for event in events if event.progress][-1] == 4
    assert all(event.memory_mb > 100 for event in events if event.progress), "it imports torch"
    assert not list(store.work(asked.fingerprint).glob("checkpoint*"))
    events.clear()
    again = trained(asked, store)
    assert not [event for event in events if event.progress]
    assert again.record == first.record
    sentences = ["the red circle", "a blue ring"]
    np.testing.assert_array_equal(again.student.embed(sentences), first.student.embed(sentences))


@pytest.mark.parametrize(
    ("variant", "text", "other"),
    [
        pytest.param("simcse", 32, 0, marks=pytest.mark.long),
        pytest.param("mcse", 32, 16, marks=pytest.mark.long),
        ("visualcse[image_batch_size=5]", 32, 20),
    ],
)
def test_a_budget_counts_rows_of_text_and_of_the_other_modality(
    variant: str, text: int, other: int, store: Store
) -> None:
    """Captions, which half of the steps have here, count for the other modality if their images are
    read.
    """
    budget = trained(experiment(f"{variant}/toy/toy-bert/seed-0", **SHORT), store).budget
    assert budget is not None
    assert (budget.steps, budget.text_rows, budget.other_rows) == (4, text, other)
    assert budget.flops


def test_streams_have_the_rows_of_their_corpora_and_nothing_else(store: Store) -> None:
    loaded = data("simcse", store)
    assert {stream: len(tokens) for stream, tokens in loaded.tokens.items()} == {
        "sentences": 8192 // SMALLER,
        "pairs": 4096 // SMALLER,
    }
    assert not loaded.features
    assert not loaded.media
    media = data("visualcse", store).media
    assert {stream: len(rows) for stream, rows in media.items()} == {"images": 4096 // SMALLER}, (
        "of a method that reads them"
    )


def test_two_corpora_of_images_are_refused(store: Store) -> None:
    tiny = load_profile("tiny")
    corpora = {**tiny.corpora, "more-images": tiny.corpora["toy-images"]}
    setting = Setting(corpora=("toy-text", "toy-images", "more-images"))
    profile = tiny.model_copy(
        update={"corpora": corpora, "settings": {**tiny.settings, "two": setting}}
    )
    with pytest.raises(
        UserError, match="two corpora of the same kind, toy-images, more-images; keep one"
    ):
        data("visualcse", store, "two", profile)


@pytest.mark.parametrize(("size", "warned"), [(64, True), (128, False)])
def test_text_that_the_mixing_rule_never_reads_is_a_warning(
    store: Store, size: int, warned: bool
) -> None:
    tiny = load_profile("tiny")
    few = {
        "few-text": Corpus(kind="toy-sentences", size=size),
        "few-pairs": Corpus(kind="toy-pairs", size=64),
    }
    settings = {**tiny.settings, "few": Setting(corpora=tuple(few))}
    profile = tiny.model_copy(update={"corpora": {**tiny.corpora, **few}, "settings": settings})
    made = trained(experiment("mcse/few/toy-bert/seed-0", profile, steps=2, eval_every=2), store)
    warning = "mcse uses pairs in every step of few: the text (few-text) is never read"
    assert made.warnings == ((warning,) if warned else ())


def test_another_run_as_teacher_is_another_experiment() -> None:
    texts = [STUDENT, "simcse/toy/toy-bert/seed-1", "simcse[temperature=0.1]/toy/toy-bert/seed-0"]
    assert (
        len(
            {experiment(f"dalr[text=run:{text}]/toy/toy-bert/seed-0").fingerprint for text in texts}
        )
        == 3
    )


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ("dalr[text=run:simcse/nowhere/toy-bert/seed-0]", "no setting 'nowhere'"),
        (
            "dalr[text=run:mcse/toy-text/toy-bert/seed-0]",
            "cannot be trained: mcse needs image-caption pairs",
        ),
        ("dalr[text=run:simcse/toy/no-bert/seed-0]", "no encoder 'no-bert'"),
        ("visualcse[patches=other]", "has no patch embedding 'other'"),
    ],
)
def test_a_teacher_or_patch_embedding_that_cannot_be_is_refused(
    tmp_path: Path, variant: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        plan(tmp_path, variant)


@pytest.mark.usefixtures("_empty_cache")
def test_a_run_trains_its_teacher_first_and_reads_its_sentences(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = plan(tmp_path, TAUGHT)
    assert any(STUDENT in text for text in carried_out(made))
    (dalr, teacher), problems = store.load()
    assert not problems
    assert (dalr.spec.variant.name, teacher.spec.variant.name) == ("dalr", "simcse")
    use = dalr.teachers["teacher1"]
    assert (use.teacher, use.of, use.source) == (f"run:{STUDENT}", "caption", "computed")
    assert not plan(tmp_path, TAUGHT).todo
    # what the run learnt from is what the finished teacher says of the captions
    inputs = inputs_of(made.runs[-1].experiment, store)
    assert inputs.data is not None
    learnt = inputs.data.features["teacher1"][np.arange(5)]
    captions = ToyPairs(**small_world().corpora["toy-pairs"].options).load(None).texts
    best = store.work(made.runs[0].fingerprint) / "best"
    np.testing.assert_allclose(learnt, Student.load(best).embed(captions[:5]), atol=1e-5)
    # a teacher whose weights were removed is trained again
    shutil.rmtree(tmp_path / ".work")
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "another"))
    again = plan(tmp_path, TAUGHT, seeds=(1,))
    assert [run.resolved.spec.seed for run in again.todo] == [1]
    weights, *_, student = list_jobs(again)
    assert (weights.key, weights.id) == (f"weights of {STUDENT}", teacher.fingerprint), (
        "under the lock of its run"
    )
    assert weights.id in student.needs
    with pytest.raises(
        UserError, match=r"is a teacher, and its weights are not in .*best; .* without --no-shared"
    ):
        inputs_of(again.todo[0].experiment, store)
    carried_out(again)
    assert best.is_dir()


@pytest.mark.usefixtures("_empty_cache")
def test_features_are_computed_once_for_all_runs(store: Store, events: list[Event]) -> None:
    data("kdmcse", store)
    assert any(
        "toy-clip: features of captions" in describe_stage(event.stage)
        for event in events
        if event.stage
    )
    events.clear()
    data("kdmcse[margin=0.2]", store)
    assert not events


@pytest.mark.long
@pytest.mark.usefixtures("_empty_cache")
def test_a_lit_teacher_gives_pictures_and_captions_one_space(store: Store) -> None:
    loaded, rows = (
        data("kdmcse[images=lit]", store, profile=with_lit(load_profile("tiny"))),
        np.arange(400),
    )
    images, captions = (loaded.features[role][rows] for role in ("image", "caption"))
    assert images.shape == captions.shape
    cosines = captions @ images.T
    rank = (cosines > np.diag(cosines)[:, None]).sum(1)
    assert np.median(rank) < 60, "chance is 200"


def assert_same_partners(one: np.ndarray, other: np.ndarray) -> None:
    """Rows with equal features in one have equal features in the other; few keep their own."""
    first, second = (np.unique(values, axis=0, return_inverse=True)[1] for values in (one, other))
    assert len(set(zip(first.tolist(), second.tolist(), strict=True))) == len(set(first.tolist()))
    assert (one == other).all(axis=1).mean() < 0.1


def test_controls_are_drawn_from_the_real_features_or_noise(store: Store) -> None:
    kinds = [
        data(text, store, profile=load_profile("tiny")).features["image"]
        for text in ("mcse", *(f"mcse[images={name}]" for name in DRAWN))
    ]
    rows = np.arange(len(kinds[0]))
    plain, shuffled, random, noise, permuted = (values[rows] for values in kinds)
    assert not np.array_equal(plain, shuffled)
    np.testing.assert_array_equal(np.sort(plain, axis=0), np.sort(shuffled, axis=0))
    real, drawn = ({image.tobytes() for image in images} for images in (plain, random))
    assert drawn < real, "n draws with replacement miss some images"
    assert (plain == random).all(axis=1).mean() < 0.1, "a caption has the features of any image"
    assert {image.tobytes() for image in permuted} == real, "the same images"
    assert_same_partners(plain, permuted)
    assert noise.shape == plain.shape
    assert abs(noise.mean()) < 0.01
    assert abs(noise.std() - 1) < 0.01


@pytest.mark.usefixtures("_empty_cache")
def test_features_of_tests_are_computed_once_and_a_control_has_the_true_ones(
    tmp_path: Path, store: Store, events: list[Event]
) -> None:
    def tests(
        variant: str, suite: str = "retrieval"
    ) -> Mapping[tuple[str, FeatureKind], np.ndarray]:
        made = plan(tmp_path, variant, setting="toy-pairs", suites=[suite])
        return load_inputs(made.runs[0], made.inventory, Seat("cpu"), {}).tests

    plain = tests("mcse")
    assert {name: len(rows) for name, rows in plain.items()} == {("ToyRetrieval", "image"): 100}, (
        "as the suite asks"
    )
    events.clear()
    for variant in ("mcse", *(f"mcse[images={images}]" for images in DRAWN)):
        np.testing.assert_array_equal(
            tests(variant)["ToyRetrieval", "image"], plain["ToyRetrieval", "image"]
        )
    assert not events
    assert set(tests("mcse", "figures")) == set(plain), "its teacher reads no captions"
    assert not tests("simcse")
    assert set(tests("kdmcse", "figures")) == {
        ("ToyRetrieval", "image"),
        ("ToyRetrieval", "caption"),
    }
