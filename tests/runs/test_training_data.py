"""What a run trains on, as loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.encoders.student import Student
from harness.errors import UserError
from harness.grid import resolve
from harness.planning.events import Event
from harness.planning.ingredients import Experiments
from harness.planning.inventory import Inventory
from harness.profiles import Profile, load_profile
from harness.profiles.schema import Corpus, Setting
from harness.runs.train import Bench, run_features, train, training_data
from harness.spec import RunSpec
from harness.store import Store
from harness.toy import student_folder
from harness.training.streams import TrainingData


def data(key: str, tmp_path: Path, profile: Profile | None = None, events: list[Event] | None = None) -> TrainingData:
    used = profile or load_profile("tiny")
    experiment = Experiments(Inventory(used, None, {}), {}).of(resolve(used, RunSpec.parse(key), {}))
    features = run_features(experiment, Bench(Store(tmp_path), "cpu", ([] if events is None else events).append))
    return training_data(features, Student.load(student_folder()).tokenizer)


def test_streams_have_the_rows_of_their_corpora_and_nothing_else(tmp_path: Path) -> None:
    found = data("simcse/toy/toy-bert/seed-0", tmp_path)
    assert {stream: len(tokens) for stream, tokens in found.tokens.items()} == {"sentences": 8192, "pairs": 4096}
    assert not found.features
    assert not found.media


def test_media_are_loaded_for_the_methods_that_read_them(tmp_path: Path) -> None:
    found = data("visualcse/toy/toy-bert/seed-0", tmp_path)
    assert list(found.media) == ["images"]
    assert len(found.media["images"]) == 4096


def test_two_corpora_of_images_are_refused(tmp_path: Path) -> None:
    tiny = load_profile("tiny")
    corpora = {**tiny.corpora, "more-images": tiny.corpora["toy-images"]}
    setting = Setting(corpora=("toy-text", "toy-images", "more-images"))
    profile = tiny.model_copy(update={"corpora": corpora, "settings": {**tiny.settings, "two": setting}})
    with pytest.raises(UserError, match="two corpora of the same kind, toy-images, more-images; keep one"):
        data("visualcse/two/toy-bert/seed-0", tmp_path, profile)


@pytest.mark.parametrize(("size", "warned"), [(64, True), (128, False)])
def test_text_that_the_mixing_rule_never_reads_is_a_warning(tmp_path: Path, size: int, warned: bool) -> None:
    tiny = load_profile("tiny")
    corpora = {
        **tiny.corpora,
        "few-text": Corpus(kind="toy-sentences", size=size),
        "few-pairs": Corpus(kind="toy-pairs", size=64),
    }
    settings = {**tiny.settings, "few": Setting(corpora=("few-text", "few-pairs"))}
    profile = tiny.model_copy(update={"corpora": corpora, "settings": settings})
    warning = "mcse uses pairs in every step of few: the text (few-text) is never read"
    overrides = {"steps": 2, "eval_every": 2}
    run = resolve(profile, RunSpec.parse("mcse/few/toy-bert/seed-0"), overrides)
    experiment = Experiments(Inventory(profile, None, {}), overrides).of(run)
    trained = train(experiment, Bench(Store(tmp_path), "cpu", lambda event: None))
    assert trained.warnings == ((warning,) if warned else ())


def test_tokens_are_reported_by_corpus_while_they_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    events: list[Event] = []
    data("simcse/toy-text/toy-bert/seed-0", tmp_path, events=events)
    made = [event.stage for event in events if event.stage]
    assert (made[-1].what, made[-1].subject, made[-1].done) == ("tokens", "toy-text", 8192)
