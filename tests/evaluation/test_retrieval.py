"""Retrieval: ranks and recalls, and the suite."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.corpora.base import Pairs
from harness.corpora.retrieval import CaptionedImages
from harness.errors import UserError
from harness.evaluation.declared import describe_suite
from harness.evaluation.retrieval import (
    TIE,
    RetrievalSuite,
    compute_ranks,
    compute_recalls,
    score_both_ways,
)
from harness.evaluation.suites import RETRIEVAL, Embedder, SuiteScores
from harness.metrics import MetricWords
from harness.planning.seen import name_image
from harness.sources import Generated, digest


def slow_ranks(
    queries: np.ndarray, gallery: np.ndarray, query_of: np.ndarray, gallery_of: np.ndarray
) -> list[int]:
    """Loops in float64: 1 plus the untrue rows that the best true one does not beat."""
    expected = []
    for query, owner in zip(queries.astype(np.float64), query_of, strict=True):
        cosines = []
        for row in gallery.astype(np.float64):
            norms = np.sqrt((query**2).sum() * (row**2).sum())
            cosines.append((query * row).sum() / norms if norms else 0.0)
        best = max(c for c, own in zip(cosines, gallery_of, strict=True) if own == owner)
        expected.append(
            1
            + sum(
                c >= best - TIE for c, own in zip(cosines, gallery_of, strict=True) if own != owner
            )
        )
    return expected


@settings(deadline=None, max_examples=40)
@given(
    images=st.integers(1, 9),
    captions=st.integers(1, 4),
    width=st.integers(1, 6),
    cells=st.integers(1, 60),
    seed=st.integers(0, 999),
)
def test_ranks_in_blocks_are_brute_force(
    images: int, captions: int, width: int, cells: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    owners = rng.permutation(np.repeat(np.arange(images), rng.integers(1, captions + 1, images)))
    # Small whole numbers: many exact ties and zero rows.
    texts = rng.integers(-2, 3, (len(owners), width)).astype(np.float32)
    pictures = rng.integers(-2, 3, (images, width)).astype(np.float32)
    every = np.arange(images)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.evaluation.suites.CELLS", cells)
        assert compute_ranks(texts, pictures, owners, every).tolist() == slow_ranks(
            texts, pictures, owners, every
        )
        assert compute_ranks(pictures, texts, every, owners).tolist() == slow_ranks(
            pictures, texts, every, owners
        )


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_constant_model_is_last_everywhere(value: float) -> None:
    texts, images = (
        np.full((1500, 37), value, dtype=np.float32),
        np.full((300, 37), value, dtype=np.float32),
    )
    scores, parts = score_both_ways(texts, images, np.repeat(np.arange(300), 5))
    assert {name: x for name, x in scores.items() if "R@" in name and x != 0} == {}
    assert scores["t2i_median_rank"] == 300
    assert parts["one"]["i2t_median_rank"] == 300
    assert parts["five"]["i2t_median_rank"] == 1 + 299 * 5


def test_one_takes_the_first_caption_of_an_image_and_five_the_first_five_of_several() -> None:
    # Image 0 lies along the first axis, image 1 along the second; a seventh caption is no part of
    # any protocol.
    right, wrong = [1.0, 0.0], [0.0, 1.0]
    texts = np.array([wrong, wrong, right, right, wrong, [0.1, 1], right], dtype=np.float32)
    images, image_of = np.array([right, wrong], dtype=np.float32), np.array([0, 1, 0, 0, 0, 0, 0])
    scores, parts = score_both_ways(texts, images, image_of)
    # Captions of image 0 in order: wrong, right, right, wrong, nearly wrong, and right as the
    # sixth, left out.
    assert [parts["one"][name] for name in ("t2i_R@1", "i2t_R@1")] == [50, 0]
    assert [parts["five"][name] for name in ("t2i_R@1", "i2t_R@1")] == pytest.approx(
        [100 * 3 / 6, 50]
    )
    assert scores == parts["five"] | {"n_texts": 6, "n_images": 2}
    eye = np.eye(3, dtype=np.float32)
    scores, parts = score_both_ways(eye, eye, np.array([0, 2, 1]))
    assert parts == {}
    assert (scores["t2i_R@1"], scores["t2i_median_rank"]) == (pytest.approx(100 / 3), 3)
    with pytest.raises(ValueError, match="no true row"):
        compute_ranks(eye, eye, np.array([0, 3, 1]), np.arange(3))
    values = compute_recalls(np.array([1, 1, 5, 6, 10, 11, 40, 2]))
    assert values == {"R@1": 25.0, "R@5": 50.0, "R@10": 75.0, "median_rank": 5.5}


def letters(sentences: Sequence[str]) -> np.ndarray:
    return np.array(
        [[text.count(letter) for letter in "abc012"] for text in sentences], dtype=np.float32
    )


def pictures(pairs: Pairs) -> np.ndarray:
    """Those of the images 0, 1 and 2 are the vectors of a, b and c."""
    return letters(["abc"[int(text)] for text in pairs.texts])


def model(
    images: Callable[[Pairs], np.ndarray] = pictures,
    texts: Callable[[Sequence[str]], np.ndarray] = letters,
    seen: Iterable[str] = (),
) -> Embedder:
    """An embedder with a shared space of two functions, whose sentence vectors are not asked for."""
    shared = SimpleNamespace(texts=texts, images=lambda pairs, name: images(pairs))

    def images_read(
        texts: Sequence[str],
        image_of: np.ndarray,
        ids: Sequence[str] | None,
        hashes: Sequence[str] | None = None,
    ) -> np.ndarray:
        return np.isin([name_image(name) for name in ids or [""] * (max(image_of) + 1)], [*seen])

    read: Any = SimpleNamespace(images=images_read)
    return Embedder(
        lambda sentences: pytest.fail("retrieval does not read them"),
        shared=shared,
        trained_on=read,
    )


class Given(Generated):
    """A task of given captions and images."""

    kind = RETRIEVAL

    def __init__(self, name: str, texts: list[str], image_of: list[int], images: int) -> None:
        self.name = name
        self.data = CaptionedImages(
            texts, np.array(image_of), Pairs([str(image) for image in range(images)])
        )

    def fingerprint(self, root: Path | None) -> str:
        return digest(self.data.texts, self.data.image_of.tolist())

    def load(self, root: Path | None) -> CaptionedImages:
        return self.data


def test_a_model_without_an_image_side_has_no_scores() -> None:
    evaluation = RetrievalSuite([Given("one", ["a"], [0], 1)]).evaluate(Embedder(letters), None)
    assert evaluation == SuiteScores({}, warnings=["retrieval: the model has no image side"])


def test_scores_of_tasks_and_their_average() -> None:
    right = Given("right", ["a", "bba", "ccc"], [0, 1, 2], 3)
    half = Given("half", ["a", "ccb", "bba", "b", "c", "cca"], [0, 1, 1, 1, 2, 2], 3)
    evaluation = RetrievalSuite([right, half]).evaluate(model(), None)
    assert evaluation.warnings == []
    assert evaluation.scores["right"]["t2i_R@1"] == 100
    assert set(evaluation.parts) == {"half"}, "a mean over the parts of some tasks is no average"
    single, five = (evaluation.parts["half"][part] for part in ("one", "five"))
    assert single["t2i_R@1"] == pytest.approx(200 / 3)
    assert five["t2i_R@1"] == pytest.approx(500 / 6)
    # 'ccb' finds the wrong image, but of the three first captions it alone has a b: image 1 finds
    # it.
    assert single["i2t_R@1"] == 100
    assert evaluation.scores["half"].items() >= {"n_texts": 6, "n_images": 3}.items()
    average = evaluation.scores["Avg"]
    assert average["t2i_R@1"] == pytest.approx((100 + 500 / 6) / 2)
    assert set(average) == {metric.name for metric in RetrievalSuite.metrics}
    again = Given("again", half.data.texts, half.data.image_of.tolist(), 3)
    both = RetrievalSuite([half, again]).evaluate(model(), None).parts
    assert both["Avg"] == both["half"]


def test_leading_dimensions_of_the_shared_space_have_recalls_of_their_own() -> None:
    half = Given("half", ["a", "ccb", "bba", "b", "c", "cca"], [0, 1, 1, 1, 2, 2], 3)
    suite = RetrievalSuite([half], dims=[2, 6])
    evaluation = suite.evaluate(model(), None)
    whole = model().shared
    assert whole is not None
    texts = whole.texts(half.data.texts)[:, :2]
    images = whole.images(half.data.images, "half")[:, :2]
    expected, parts = score_both_ways(texts, images, half.data.image_of)
    for metric in RetrievalSuite.nested:
        scores = evaluation.scores["half"]
        assert scores[f"{metric}@2"] == evaluation.scores["Avg"][f"{metric}@2"] == expected[metric]
        assert scores[f"{metric}@6"] == scores[metric]
        assert evaluation.parts["half"]["one"][f"{metric}@2"] == parts["one"][metric]
    assert any(scores[f"{metric}@2"] != scores[metric] for metric in RetrievalSuite.nested)
    shown = [metric.name for metric in suite.list_metrics() if metric.shown]
    assert len(shown) == 3 * len(RetrievalSuite.nested)
    assert suite.fingerprint(None) != RetrievalSuite([half]).fingerprint(None)
    assert RetrievalSuite([half], dims=[]).fingerprint(None) == RetrievalSuite([half]).fingerprint(
        None
    )
    with pytest.raises(UserError, match="have 6 dimensions, of which no 7 can be scored"):
        RetrievalSuite([half], dims=[7]).evaluate(model(), None)


def circle(places: Sequence[str]) -> np.ndarray:
    angles = 2 * np.pi * np.array([float(point) for point in places]) / 120
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def trained(*ids: int) -> tuple[Given, Embedder]:
    """120 images around a circle, each with two captions: at its place, and at that of its right
    neighbour.
    """
    texts = [str(point) for image in range(120) for point in (image, (image + 1) % 120)]
    task = Given("ring", texts, np.repeat(np.arange(120), 2).tolist(), 120)
    task.data = replace(task.data, ids=[f"{image}.jpg" for image in range(120)])
    return task, model(
        lambda pairs: circle(pairs.texts), circle, [name_image(f"{image}.jpg") for image in ids]
    )


def test_images_of_training_are_left_out_of_both_sides() -> None:
    """Or kept: the protocol says which."""
    task, seeing = trained(3, 7)
    suite, kept = RetrievalSuite([task]), RetrievalSuite([task], seen_images="keep")
    evaluation = suite.evaluate(seeing, None)
    assert evaluation.warnings == [
        "retrieval: ring: 2 of 120 images are training images and are left out; by chance, text "
        "to image, the other 118 give R@1 0.85, R@5 4.24, R@10 8.47"
    ]
    scores = evaluation.scores["ring"]
    assert (scores["n_images"], scores["n_texts"], scores["n_seen"]) == (118, 236, 2)
    # a second caption lies where its neighbour is or was, so that its own image comes second
    assert scores["t2i_R@1"] == pytest.approx(100 * 118 / 236)
    assert scores["t2i_R@5"] == 100
    same, other = (suite.evaluate(trained(*ids)[1], None) for ids in ((7, 3), (3, 8)))
    assert same.scores["ring"]["gallery"] == scores["gallery"] == int(scores["gallery"])
    assert other.scores["ring"]["n_images"] == 118
    assert other.scores["ring"]["gallery"] != scores["gallery"]
    full = kept.evaluate(seeing, None).scores["ring"]
    assert full["n_images"] == 120
    assert "gallery" not in full
    assert kept.fingerprint(None) != suite.fingerprint(None)
    with pytest.raises(UserError, match="write 'refuse' or 'keep'"):
        RetrievalSuite([task], seen_images="drop")


def test_images_that_a_compared_training_read_are_left_out_for_every_model() -> None:
    """Trained on others of them, or on none; which ones is part of the protocol."""
    task, seeing = trained(3)
    suite = RetrievalSuite([task])
    plain = suite.fingerprint(None)
    suite.left_out = lambda name: {"ring": (3, 7)}[name]
    assert suite.fingerprint(None) != plain
    of_seeing, of_untrained = (
        suite.evaluate(embedder, None).scores["ring"]
        for embedder in (seeing, replace(seeing, trained_on=None))
    )
    assert of_seeing == of_untrained
    assert (of_seeing["n_images"], of_seeing["n_seen"]) == (118, 2)
    suite.left_out = lambda name: ()
    assert suite.fingerprint(None) == plain


def test_too_few_images_are_not_scored() -> None:
    task, seeing = trained(*range(21))
    evaluation = RetrievalSuite([task]).evaluate(seeing, None)
    ring = evaluation.scores["ring"]
    assert (ring["n_seen"], ring["n_images"]) == (21, 99)
    assert not any("R@" in metric for metric in ring)
    assert evaluation.scores["Avg"] == {}
    assert evaluation.warnings[0].startswith("retrieval: ring: no score: 21 of 120 images")
    assert evaluation.warnings[1].startswith("retrieval: Avg: ")


def test_vectors_of_images_that_are_not_finite_or_of_another_number() -> None:
    """And an image without a caption is an error of the data."""
    suite = RetrievalSuite([Given("x", ["a", "b", "c"], [0, 1, 2], 3)])
    broken = model(
        lambda pairs: np.where(np.arange(len(pairs))[:, None] == 1, np.nan, pictures(pairs))
    )
    evaluation = suite.evaluate(broken, None)
    assert evaluation.warnings[0] == "retrieval: x: no score: 1 of 3 vectors are not finite"
    assert evaluation.scores["x"] == {}
    with pytest.raises(ValueError, match=r"shape \(1, 6\) for 3 images"):
        suite.evaluate(model(lambda pairs: pictures(pairs)[:1]), None)
    for image_of in ([0, 0], [0, 2]):
        with pytest.raises(UserError, match="'x' has an image without a caption"):
            RetrievalSuite([Given("x", ["a", "b"], image_of, 2)]).evaluate(model(), None)


def test_recalls_of_leading_dimensions_stand_under_their_direction() -> None:
    suite = describe_suite("retrieval")
    assert suite.metric_words("i2t_R@1@64") == MetricWords(group="image to text", heading="R@1@64")
    assert suite.metric_words("gallery") == MetricWords()
