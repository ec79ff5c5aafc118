"""What a run trains on, as loaded, and its model: trained once, loaded again, or untrained.

What a kill leaves is resumed in tests/faults.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.corpora.base import Pairs
from harness.encoders.student import Student
from harness.errors import UserError
from harness.grid import resolve
from harness.planning.events import Event
from harness.planning.ingredients import Experiment, Experiments
from harness.planning.inventory import Inventory
from harness.profiles import Profile, load_profile
from harness.profiles.schema import Corpus, Setting
from harness.runs.train import Bench, RunFeatures, run_features, train, training_data
from harness.spec import CONTROLS, RunSpec
from harness.store import Store
from harness.toy import student_folder
from harness.toy.corpora import ToyPairs
from harness.training.record import TrainingRecord
from harness.training.streams import TrainingData

SHORT = {"steps": 4, "eval_every": 2, "batch_size": 8}


@pytest.fixture
def events() -> list[Event]:
    """What the bench has reported."""
    return []


@pytest.fixture
def bench(tmp_path: Path, events: list[Event]) -> Bench:
    return Bench(Store(tmp_path), "cpu", events.append)


@pytest.fixture
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))


def experiment(key: str, profile: Profile | None = None, **overrides: int) -> Experiment:
    used = profile or load_profile("tiny")
    return Experiments(Inventory(used, None, {}), overrides).of(resolve(used, RunSpec.parse(key), overrides))


def data(key: str, bench: Bench, profile: Profile | None = None) -> TrainingData:
    features = run_features(experiment(key, profile), bench)
    return training_data(features, Student.load(student_folder()).tokenizer)


def test_an_untrained_encoder_has_no_heads_and_an_empty_record(tmp_path: Path, bench: Bench) -> None:
    found = train(experiment("none[pooling=mean]/none/toy-bert/seed-0"), bench)
    assert found.heads is None
    assert found.record == TrainingRecord()
    assert not list(tmp_path.rglob("*.safetensors"))


def test_a_finished_training_is_loaded_and_not_repeated(bench: Bench, events: list[Event]) -> None:
    asked = experiment("simcse/toy/toy-bert/seed-0", **SHORT)
    first = train(asked, bench)
    assert [event.progress.step for event in events if event.progress][-1] == 4
    assert all(event.memory_mb > 100 for event in events if event.progress), "it imports torch"
    assert not list(bench.folder(asked).glob("checkpoint*"))
    events.clear()
    again = train(asked, bench)
    assert not [event for event in events if event.progress]
    assert again.record == first.record
    sentences = ["the red circle", "a blue ring"]
    np.testing.assert_array_equal(again.student.embed(sentences), first.student.embed(sentences))


def test_an_unknown_patch_embedding_is_one_line(bench: Bench) -> None:
    with pytest.raises(UserError, match="has no patch embedding 'other'"):
        train(experiment("visualcse[patches=other]/toy/toy-bert/seed-0", **SHORT), bench)


def test_streams_have_the_rows_of_their_corpora_and_nothing_else(bench: Bench) -> None:
    found = data("simcse/toy/toy-bert/seed-0", bench)
    assert {stream: len(tokens) for stream, tokens in found.tokens.items()} == {"sentences": 8192, "pairs": 4096}
    assert not found.features
    assert not found.media
    media = data("visualcse/toy/toy-bert/seed-0", bench).media
    assert {stream: len(rows) for stream, rows in media.items()} == {"images": 4096}, "of a method that reads them"


def test_two_corpora_of_images_are_refused(bench: Bench) -> None:
    tiny = load_profile("tiny")
    corpora = {**tiny.corpora, "more-images": tiny.corpora["toy-images"]}
    setting = Setting(corpora=("toy-text", "toy-images", "more-images"))
    profile = tiny.model_copy(update={"corpora": corpora, "settings": {**tiny.settings, "two": setting}})
    with pytest.raises(UserError, match="two corpora of the same kind, toy-images, more-images; keep one"):
        data("visualcse/two/toy-bert/seed-0", bench, profile)


@pytest.mark.parametrize(("size", "warned"), [(64, True), (128, False)])
def test_text_that_the_mixing_rule_never_reads_is_a_warning(bench: Bench, size: int, warned: bool) -> None:
    tiny = load_profile("tiny")
    few = {"few-text": Corpus(kind="toy-sentences", size=size), "few-pairs": Corpus(kind="toy-pairs", size=64)}
    settings = {**tiny.settings, "few": Setting(corpora=tuple(few))}
    profile = tiny.model_copy(update={"corpora": {**tiny.corpora, **few}, "settings": settings})
    trained = train(experiment("mcse/few/toy-bert/seed-0", profile, steps=2, eval_every=2), bench)
    warning = "mcse uses pairs in every step of few: the text (few-text) is never read"
    assert trained.warnings == ((warning,) if warned else ())


@pytest.fixture
def other() -> Pairs:
    """Pairs that are not the run's own: retrieval tasks ask for their features."""
    return ToyPairs(size=12, split="test").load(None)


def features(variant: str, bench: Bench) -> RunFeatures:
    return run_features(experiment(f"{variant}/toy-pairs/toy-bert/seed-0"), bench)


@pytest.mark.usefixtures("_empty_cache")
def test_features_of_other_images_are_computed_once_and_a_control_has_the_true_ones(
    bench: Bench, events: list[Event], other: Pairs
) -> None:
    plain = features("mcse", bench).of_images(other, "twelve")
    assert len(plain) == 12
    made = [event.stage for event in events]
    assert [(one.what, one.done, one.total) for one in made if one] == [("features", 0, 12), ("features", 12, 12)]
    events.clear()
    for variant in ("mcse", *(f"mcse[images={images}]" for images in CONTROLS)):
        np.testing.assert_array_equal(features(variant, bench).of_images(other, "twelve"), plain)
    assert not events


@pytest.mark.usefixtures("_empty_cache")
def test_captions_have_features_only_of_a_teacher_of_both(bench: Bench, other: Pairs) -> None:
    both = features("kdmcse", bench)
    captions = both.of_captions(other.texts, "twelve")
    assert captions is not None
    cosines = np.asarray(captions) @ np.asarray(both.of_images(other, "twelve")).T
    assert (cosines.argmax(1) == np.arange(12)).mean() > 0.3, "chance is 1 in 12"
    assert features("mcse", bench).of_captions(other.texts, "twelve") is None


def test_images_without_pixels_or_stored_features_are_one_line(bench: Bench) -> None:
    with pytest.raises(UserError, match="has no images; name a teacher whose features"):
        features("mcse", bench).of_images(Pairs(["a red circle"]), "no pixels")
