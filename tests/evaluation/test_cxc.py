"""Crisscrossed Captions: the paper's sampling of its ratings, of captions and of images."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy import stats

import harness
from harness.corpora.retrieval import CXC_SIS, CXC_SITS
from harness.errors import UserError
from harness.evaluation.cxc import (
    CXC_2017,
    CXC_2017_DEV,
    CxCImagesSuite,
    CxCSuite,
    compute_sampled_correlations,
)
from harness.evaluation.retrieval import RetrievalSuite
from harness.evaluation.suites import Embedded, Embedder

pytestmark = pytest.mark.usefixtures("small_toy_tests")

#: each of two captions is rated with two others: six captions
PAIRS = [("0", "10", 4.0), ("0", "50", 2.5), ("80", "30", 2.0), ("80", "90", 5.0)]


def test_the_score_is_the_mean_over_samples_of_half_of_the_captions() -> None:
    """Against the mean over all samples, each as likely as it is drawn."""
    cosines = np.cos(np.radians([10.0, 50.0, 50.0, 10.0]))
    gold = np.array([pair[2] for pair in PAIRS])
    of = {
        name: [i for i, pair in enumerate(PAIRS) if name in pair[:2]]
        for name in ("0", "10", "50", "80", "30", "90")
    }
    expected = []
    for names in product(of, repeat=3):
        if len(set(names)) == 3:
            for rows in product(
                *([i for i in of[name] for _ in range(2 // len(of[name]))] for name in names)
            ):
                value = (
                    stats.spearmanr(cosines[list(rows)], gold[list(rows)]).statistic
                    if len(set(rows)) > 1
                    else None
                )
                expected += [] if value is None or np.isnan(value) else [value]
    found = compute_sampled_correlations(PAIRS, cosines, gold, samples=4000)
    assert found.mean() == pytest.approx(
        np.mean(expected), abs=4 * np.std(expected) / np.sqrt(len(found))
    )


def test_scores_are_repeatable_and_undefined_ones_are_left_out() -> None:
    def planar(sentences: list[str]) -> np.ndarray:
        angles = np.radians([float(sentence) for sentence in sentences])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)

    vectors = Embedded(planar, {text for pair in PAIRS for text in pair[:2]})  # type: ignore[arg-type]
    suite = CxCSuite(["CxC"])
    first, second = (suite.score({"": PAIRS}, vectors).scores for _ in range(2))
    assert first == second
    assert set(first) == {
        "sampled",
        "sampled_std",
        "spearman",
        "pearson",
        "spearman_mean",
        "spearman_wmean",
        "n",
    }
    equal = suite.score({"": [(a, b, 1.0) for a, b, _ in PAIRS]}, vectors)
    assert set(equal.scores) == {"n"}
    assert equal.warnings


def test_the_pairs_of_2017_are_read_by_split(data_root: object) -> None:
    counts = [len(task.load(data_root)[""]) for task in (CXC_2017_DEV, CXC_2017)]  # type: ignore[arg-type]
    assert counts == [3309, 3222]


IMAGES = [f"COCO_val2014_{number:012d}.jpg" for number in range(5)]
ANGLES = np.radians([0.0, 23.0, 75.0, 131.0, 157.0])
CAPTIONS = {
    648388: ("a  bird", 10.0),
    7: ("two cats", 60.0),
    12: ("no train", 143.0),
    99: ("unread", 0.0),
}
SITS = [
    (648388, 0, 4.9),
    (648388, 1, 4.0),
    (7, 1, 2.5),
    (7, 2, 4.2),
    (12, 3, 4.5),
    (12, 4, 1.0),
    (12, 0, 0.5),
]
SIS = [(0, 1, 4.0), (1, 2, 2.5), (2, 3, 1.0), (3, 4, 4.5), (0, 4, 0.0)]


@pytest.fixture
def rated(tmp_path: Path) -> Path:
    """The files that Crisscrossed Captions and COCO publish, with five images."""
    for folder in ("cxc", "coco/val2014"):
        (tmp_path / folder).mkdir(parents=True)
    for shade, name in enumerate(IMAGES):
        Image.new("RGB", (8, 8), (50 * shade, 250 - 60 * shade, 90)).save(
            tmp_path / "coco/val2014" / name
        )
    lines = [
        f"COCO_val2014:sentid:{caption},{IMAGES[image]},{score},c2i_intrasim"
        for caption, image, score in SITS
    ]
    (tmp_path / "cxc/sits_test.csv").write_text(
        "\n".join(["caption,image,agg_score,sampling_method", *lines])
    )
    lines = [f"{IMAGES[first]},{IMAGES[second]},{score},i2i_csim" for first, second, score in SIS]
    (tmp_path / "cxc/sis_test.csv").write_text(
        "\n".join(["image1,image2,agg_score,sampling_method", *lines])
    )
    known = [
        {"id": number, "image_id": 1, "caption": text} for number, (text, _) in CAPTIONS.items()
    ]
    (tmp_path / "coco/captions_val2014.json").write_text(
        json.dumps({"images": [], "annotations": known})
    )
    return tmp_path


class Planar:
    """A space of captions and images in the plane."""

    def texts(self, sentences: list[str]) -> np.ndarray:
        angle = {" ".join(text.split()): np.radians(degrees) for text, degrees in CAPTIONS.values()}
        return np.array(
            [[np.cos(angle[text]), np.sin(angle[text])] for text in sentences], dtype=np.float32
        )

    def images(self, images: Any, task: str) -> np.ndarray:
        angles = [ANGLES[IMAGES.index(name)] for name in images.texts]
        return np.array([[np.cos(angle), np.sin(angle)] for angle in angles], dtype=np.float32)


def test_ratings_of_images_are_scored_in_the_space_of_the_method(rated: Path) -> None:
    """Against loops over the tables: the cosine of two angles, and samples of the same draws."""
    embed = Embedder(Planar().texts, shared=Planar())  # type: ignore[arg-type]
    found = CxCImagesSuite(["CxC-SITS", "CxC-SIS"]).evaluate(embed, rated).scores
    angle_of = {str(number): np.radians(degrees) for number, (_, degrees) in CAPTIONS.items()}
    for task, rows in (
        ("CxC-SITS", [(str(one), two, score) for one, two, score in SITS]),
        ("CxC-SIS", SIS),
    ):
        first = [angle_of[one] if isinstance(one, str) else ANGLES[one] for one, _, _ in rows]
        cosines = np.array(
            [np.cos(a - ANGLES[b]) for a, (_, b, _) in zip(first, rows, strict=True)]
        )
        gold = np.array([score for *_, score in rows])
        pairs = [
            (str(one), f"image {two}" if isinstance(one, str) else str(two), score)
            for one, two, score in rows
        ]
        assert found[task]["spearman"] == pytest.approx(
            100 * stats.spearmanr(cosines, gold).statistic
        )
        samples = 100 * compute_sampled_correlations(pairs, cosines, gold, samples=1000)
        assert (found[task]["sampled"], found[task]["n"]) == (
            pytest.approx(samples.mean()),
            len(rows),
        )
    assert found["Avg"]["sampled"] == pytest.approx(
        np.mean([found[task]["sampled"] for task in ("CxC-SITS", "CxC-SIS")])
    )


def test_images_are_those_of_the_ratings_and_what_is_missing_is_said(rated: Path) -> None:
    data = CXC_SIS.load(rated)
    assert (list(data.ids), data.images.images[3].shape) == (IMAGES, (8, 8, 3))  # type: ignore[index]
    assert CXC_SITS.load(rated).pairs[0] == ("a bird", IMAGES[0], 4.9)
    assert not CXC_SITS.missing(rated)
    assert {item.what for item in CXC_SITS.missing(rated / "cxc")} >= {
        "coco/captions_val2014.json",
        "coco/val2014",
    }
    ratings = rated / "cxc/sits_test.csv"
    for wrong, said in (("648388", "has no caption 5"), ("4.9", "the score '5' is not a number")):
        text = ratings.read_text()
        ratings.write_text(text.replace(wrong, "5" if wrong == "648388" else "nan", 1))
        with pytest.raises(UserError, match=said.replace("'5'", "'nan'")):
            CXC_SITS.load(rated)
        ratings.write_text(text)


def test_without_an_image_side_there_are_no_scores_and_ratings_have_no_recalls(rated: Path) -> None:
    suite, plain = CxCImagesSuite(["CxC-SIS"]), Embedder(Planar().texts)  # type: ignore[arg-type]
    assert suite.evaluate(plain, rated).warnings == ["cxc-images: the model has no image side"]
    with pytest.raises(UserError, match="an image without a caption"):
        RetrievalSuite(["CxC-SIS"]).evaluate(Embedder(Planar().texts, shared=Planar()), rated)  # type: ignore[arg-type]


def test_a_run_scores_the_ratings_by_features_of_its_teacher(rated: Path, tmp_path: Path) -> None:
    profile = tmp_path / "rated.toml"
    suite = '[suites.cxc-images]\ntasks = ["CxC-SITS", "CxC-SIS"]\n'
    profile.write_text(f'extends = "tiny"\ndescription = "with ratings of images"\n{suite}')
    given: dict[str, Any] = {
        "seeds": 1,
        "set": {"steps": 1},
        "suites": "cxc-images",
        "data_root": rated,
    }
    (found,) = harness.run(
        str(profile), methods="mcse", settings="toy", results=tmp_path / "results", **given
    ).runs
    assert set(found.evaluations[0].scores) == {"CxC-SITS", "CxC-SIS", "Avg"}
    assert -100 <= found.evaluations[0].scores["CxC-SIS"]["sampled"] <= 100
