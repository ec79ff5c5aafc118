"""Features of pairs that are not the run's own: retrieval tasks ask for these."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.corpora.base import Pairs
from harness.errors import UserError
from harness.grid import resolve
from harness.planning.events import Event
from harness.planning.ingredients import Experiments
from harness.planning.inventory import Inventory
from harness.profiles import load_profile
from harness.runs.train import Bench, RunFeatures, run_features
from harness.spec import CONTROLS, RunSpec
from harness.store import Store
from harness.toy.corpora import ToyPairs


def features(variant: str, tmp_path: Path, events: list[Event]) -> RunFeatures:
    tiny = load_profile("tiny")
    run = resolve(tiny, RunSpec.parse(f"{variant}/toy-pairs/toy-bert/seed-0"), {})
    experiment = Experiments(Inventory(tiny, None, {}), {}).of(run)
    return run_features(experiment, Bench(Store(tmp_path), "cpu", events.append))


@pytest.fixture
def other() -> Pairs:
    return ToyPairs(size=12, split="test").load(None)


@pytest.mark.parametrize("images", CONTROLS)
def test_a_control_has_the_true_features_of_other_images(
    images: str, tmp_path: Path, other: Pairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    plain = features("mcse", tmp_path, []).of_images(other, "twelve")
    control = features(f"mcse[images={images}]", tmp_path, []).of_images(other, "twelve")
    assert len(plain) == 12
    np.testing.assert_array_equal(plain, control)


def test_they_are_computed_once_and_reported_as_counts(
    tmp_path: Path, other: Pairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    events: list[Event] = []
    first = features("mcse", tmp_path, events).of_images(other, "twelve")
    made = [event.stage for event in events]
    assert [(one.what, one.done, one.total) for one in made if one] == [("features", 0, 12), ("features", 12, 12)]
    again: list[Event] = []
    np.testing.assert_array_equal(features("mcse", tmp_path, again).of_images(other, "twelve"), first)
    assert not again


def test_captions_have_features_only_of_a_teacher_of_both(
    tmp_path: Path, other: Pairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    both = features("kdmcse", tmp_path, [])
    captions = both.of_captions(other.texts, "twelve")
    assert captions is not None
    images = both.of_images(other, "twelve")
    cosines = np.asarray(captions) @ np.asarray(images).T
    assert (cosines.argmax(1) == np.arange(12)).mean() > 0.3, "chance is 1 in 12"
    assert features("mcse", tmp_path, []).of_captions(other.texts, "twelve") is None


def test_images_without_pixels_or_stored_features_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no images; name a teacher whose features"):
        features("mcse", tmp_path, []).of_images(Pairs(["a red circle"]), "no pixels")
