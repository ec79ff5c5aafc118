"""Features of regions: computed by a teacher of images on crops, and the controls that exchange them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from executor_jobs import experiment
from plugin_packages import Install

from harness.corpora.regions import shuffle_within_images, take_from_other_images
from harness.encoders.teachers import open_teacher
from harness.errors import UnavailableError
from harness.planning.experiments import Experiment
from harness.planning.ingredients import Ingredient
from harness.planning.teachers import load_pairs
from harness.profiles import load_profile
from harness.toy import clip_folder
from harness.toy.corpora import ToyPairs, ToyPhrases

FIELD = Path(__file__).resolve().parents[2] / "examples" / "field" / "src"
#: the images of 9 regions; the third image has one, and the second none
IMAGES = np.array([0, 0, 0, 2, 3, 3, 4, 4, 4])


@pytest.mark.parametrize("seed", range(5))
def test_shuffled_regions_stay_within_their_image_and_none_of_several_keeps_its_features(
    seed: int,
) -> None:
    order = shuffle_within_images(IMAGES, seed)
    assert sorted(order.tolist()) == [*range(9)]
    assert (IMAGES[order] == IMAGES).all()
    assert [place for place in range(9) if order[place] == place] == [3]


@pytest.mark.parametrize("seed", range(5))
def test_permuted_regions_are_those_of_one_other_image_in_their_order(seed: int) -> None:
    order = take_from_other_images(IMAGES, seed)
    assert (IMAGES[order] != IMAGES).all()
    counts = Counter(IMAGES.tolist())
    for image in counts:
        given = order[image == IMAGES]
        assert len({*IMAGES[given].tolist()}) == 1
        other = IMAGES[given[0]]
        first = int(np.flatnonzero(other == IMAGES)[0])
        expected = [first + number % counts[other] for number in range(len(given))]
        assert given.tolist() == expected
    assert len({tuple(take_from_other_images(IMAGES, other)) for other in range(5)}) > 1


def planned(objects: str, size: int = 8, corpus: str = "toy-pairs") -> Experiment:
    """A run of MCSEO on a few pairs of the toy world."""
    tiny = load_profile("tiny")
    table = tiny.corpora["toy-pairs"].model_copy(update={"size": size})
    profile = tiny.model_copy(update={"corpora": {**tiny.corpora, "toy-pairs": table}})
    return experiment(f"mcseo[objects={objects}]/{corpus}/toy-bert/seed-0", profile)


@pytest.fixture(autouse=True)
def _installed(install: Install) -> None:
    install("mcseo", (FIELD / "mcseo.py").read_text(), {"methods": {"mcseo": "MCSEO"}})


def features(run: Experiment) -> np.ndarray:
    pairs = [load_pairs(corpus) for corpus in run.corpora]
    of_regions = run.features["object"].load(pairs, 0, "cpu", {})
    return np.asarray(of_regions[np.arange(len(of_regions))])


def test_a_teacher_of_images_sees_the_regions_and_controls_exchange_what_it_sees() -> None:
    run = planned("default")
    (corpus,) = run.corpora
    pairs, phrases = load_pairs(corpus), corpus.loaded_phrases
    crops = []
    for image, (left, top, right, bottom) in zip(phrases.images, phrases.boxes, strict=True):
        crops.append(pairs.images[image][top:bottom, left:right])
    expected = open_teacher("open-clip", clip_folder()).images(crops)
    np.testing.assert_allclose(features(run), expected, atol=1e-5)

    swapped = expected.reshape(8, 2, -1)[:, ::-1].reshape(expected.shape)
    np.testing.assert_allclose(features(planned("shuffled")), swapped, atol=1e-5)
    others = take_from_other_images(phrases.images, 0)
    np.testing.assert_allclose(features(planned("permuted")), expected[others], atol=1e-5)


def test_regions_are_part_of_the_identity_of_a_run_and_of_the_key_of_its_features() -> None:
    run = planned("default")
    use = run.features["object"]
    named = [type(need.source).__name__ for need in use.needs]
    assert named == ["FrozenModel", "ToyPhrases"]
    described = use.identity
    assert described == ["toy-clip", [need.fingerprint for need in use.needs], "region"]
    assert planned("shuffled").fingerprint != run.fingerprint != planned("permuted").fingerprint

    (corpus,) = run.corpora
    assert use.teacher.make_key(corpus) != run.features["image"].teacher.make_key(corpus)
    moved = replace(corpus, phrases=Ingredient(OtherBoxes(), None))
    assert use.teacher.make_key(moved) != use.teacher.make_key(corpus)


class OtherBoxes(ToyPhrases):
    def __init__(self) -> None:
        super().__init__(ToyPairs(size=8))

    def fingerprint(self, root: Path | None) -> str:
        return "other"


def test_a_corpus_without_phrases_is_refused_by_name() -> None:
    (corpus,) = planned("default").corpora
    with pytest.raises(
        UnavailableError, match="the corpus 'toy-pairs' has no phrases with regions"
    ):
        replace(corpus, phrases=None).check_features("toy-clip", "region")
