from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from harness.corpora.base import Pairs
from harness.corpora.features import FeatureFile
from harness.corpora.retrieval import (
    COCO,
    FLICKR8K,
    FLICKR30K,
    TOY_RETRIEVAL,
    CaptionedFile,
    CaptionedImages,
    LikeTraining,
    ToyRetrieval,
)
from harness.corpora.toy import clip_folder
from harness.errors import MissingData, UserError
from harness.evaluation.ranking import both_ways
from harness.evaluation.retrieval import RetrievalSuite
from harness.sources import digest

FLICKR8K_FILES = ["test.parquet", "test_squeezenet.parquet", "train_squeezenet.parquet"]


@dataclass
class Shared:
    """A shared space of two functions; notes the names it is asked for."""

    texts: Callable[[Sequence[str]], np.ndarray]
    of_images: Callable[[Pairs], np.ndarray]
    asked: list[str] = field(default_factory=list)

    def images(self, pairs: Pairs, name: str) -> np.ndarray:
        self.asked.append(name)
        return self.of_images(pairs)


class Model:
    """An embedder with a shared space."""

    def __init__(self, shared: Shared | None) -> None:
        self.shared, self.teacher, self.device = shared, None, "cpu"

    def __call__(self, sentences: Sequence[str]) -> np.ndarray:
        raise AssertionError("retrieval does not read the sentence vectors")


class Given:
    """A task of given captions and images."""

    def __init__(self, name: str, texts: list[str], image_of: list[int], images: int) -> None:
        self.name = name
        self.data = CaptionedImages(texts, np.array(image_of), Pairs([str(image) for image in range(images)]))

    def missing(self, root: Path | None) -> list[Any]:
        return []

    def fingerprint(self, root: Path | None) -> str:
        return digest(self.data.texts, self.data.image_of.tolist())

    def load(self, root: Path | None) -> CaptionedImages:
        return self.data


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch) -> Callable[..., RetrievalSuite]:
    def made(*tasks: Any) -> RetrievalSuite:
        known = {task.name: task for task in tasks}
        monkeypatch.setattr(RetrievalSuite, "find", classmethod(lambda cls, name: known[name]))
        return RetrievalSuite(list(known))

    return made


def letters(sentences: Sequence[str]) -> np.ndarray:
    return np.array([[text.count(letter) for letter in "abc012"] for text in sentences], dtype=np.float32)


PLACES = {"0": "a", "1": "b", "2": "c"}


def pictures(pairs: Pairs) -> np.ndarray:
    return letters([PLACES[text] for text in pairs.texts])


def test_a_model_without_an_image_side_has_no_scores(suite: Callable[..., RetrievalSuite]) -> None:
    task = Given("one", ["a"], [0], 1)
    for embed in (letters, Model(None)):
        evaluation = suite(task).evaluate(embed, None)
        assert evaluation.scores == {}
        assert evaluation.warnings == ["retrieval: the model has no image side"]


def test_scores_of_tasks_and_their_average(suite: Callable[..., RetrievalSuite]) -> None:
    right = Given("right", ["a", "bba", "ccc"], [0, 1, 2], 3)
    half = Given("half", ["a", "ccb", "bba", "b", "c", "cca"], [0, 1, 1, 1, 2, 2], 3)
    shared = Shared(letters, pictures)
    evaluation = suite(right, half).evaluate(Model(shared), None)
    assert evaluation.warnings == []
    assert shared.asked == ["right", "half"]
    assert evaluation.scores["right"]["t2i_R@1"] == 100
    assert set(evaluation.parts) == {"half"}, "a mean over the parts of some tasks is no average"
    one, five = (evaluation.parts["half"][part] for part in ("one", "five"))
    assert one["t2i_R@1"] == pytest.approx(200 / 3)
    assert five["t2i_R@1"] == pytest.approx(500 / 6)
    # 'ccb' finds the wrong image, but of the three first captions it alone has a b: image 1 finds it.
    assert one["i2t_R@1"] == 100
    assert evaluation.scores["half"] | {"n_texts": 6, "n_images": 3} == evaluation.scores["half"]
    average = evaluation.scores["Avg"]
    assert average["t2i_R@1"] == pytest.approx((100 + 500 / 6) / 2)
    assert set(average) == {metric.name for metric in RetrievalSuite.metrics}
    again = Given("again", half.data.texts, half.data.image_of.tolist(), 3)
    both = suite(half, again).evaluate(Model(shared), None).parts
    assert both["Avg"] == both["half"]


def test_repeated_captions_are_projected_once(suite: Callable[..., RetrievalSuite]) -> None:
    calls: list[Sequence[str]] = []

    def texts(sentences: Sequence[str]) -> np.ndarray:
        calls.append(sentences)
        return letters(sentences)

    scores = suite(Given("x", ["a", "b", "a"], [0, 1, 2], 3)).evaluate(Model(Shared(texts, pictures)), None).scores
    assert calls == [["a", "b"]]
    assert scores["x"]["t2i_R@1"] == pytest.approx(200 / 3)


def test_vectors_that_are_not_finite_are_told(suite: Callable[..., RetrievalSuite]) -> None:
    def broken(pairs: Pairs) -> np.ndarray:
        return np.where(np.arange(len(pairs))[:, None] == 1, np.nan, pictures(pairs))

    evaluation = suite(Given("x", ["a", "b", "c"], [0, 1, 2], 3)).evaluate(Model(Shared(letters, broken)), None)
    assert evaluation.warnings == ["retrieval: x: 1 vectors are not finite; NaN counted as 0"]
    assert evaluation.scores["x"]["t2i_R@1"] == pytest.approx(200 / 3)


@pytest.mark.parametrize("image_of", [[0, 0], [0, 2]])
def test_an_image_without_a_caption_is_an_error_of_the_data(
    suite: Callable[..., RetrievalSuite], image_of: list[int]
) -> None:
    with pytest.raises(UserError, match="'x' has an image without a caption"):
        suite(Given("x", ["a", "b"], image_of, 2)).evaluate(Model(Shared(letters, pictures)), None)


def test_a_space_of_the_wrong_shape_is_a_bug(suite: Callable[..., RetrievalSuite]) -> None:
    shared = Shared(letters, lambda pairs: pictures(pairs)[:1])
    with pytest.raises(ValueError, match=r"shape \(1, 6\) for 2 images"):
        suite(Given("x", ["a", "b"], [0, 1], 2)).evaluate(Model(shared), None)


def test_the_fingerprint_follows_the_data(suite: Callable[..., RetrievalSuite]) -> None:
    first = suite(Given("x", ["a", "b"], [0, 1], 2)).fingerprint(None)
    assert suite(Given("x", ["a", "b"], [0, 1], 2)).fingerprint(None) == first
    assert suite(Given("x", ["a", "c"], [0, 1], 2)).fingerprint(None) != first


def test_the_toy_clip_finds_the_pictures_of_the_toy_world(suite: Callable[..., RetrievalSuite]) -> None:
    """Its two towers are a real shared space; chance is 0.5 among 200 pictures."""
    from harness.encoders.teachers_clip import ClipTeacher

    teacher = ClipTeacher(clip_folder())
    shared = Shared(teacher.captions, lambda pairs: teacher.images(pairs.images))
    task = ToyRetrieval("toy", 200)
    scores = suite(task).evaluate(Model(shared), None).scores["toy"]
    assert scores["t2i_R@1"] > 25
    assert scores["i2t_R@1"] > 25
    assert scores["t2i_R@1"] < scores["t2i_R@5"] <= scores["t2i_R@10"]
    assert (scores["n_texts"], scores["n_images"]) == (200, 200)


def test_the_toy_task_has_one_caption_a_picture() -> None:
    data = TOY_RETRIEVAL.load(None)
    assert TOY_RETRIEVAL.missing(None) == []
    assert data.image_of.tolist() == list(range(1000))
    assert data.texts == list(data.images.texts)
    assert data.images.images is not None
    assert data.images.images.shape == (1000, 32, 32, 3)
    assert ToyRetrieval("toy", 20).fingerprint(None) != ToyRetrieval("toy", 21).fingerprint(None)


def test_files_that_are_missing_are_listed(tmp_path: Path) -> None:
    assert [absent.what for absent in FLICKR8K.missing(tmp_path)] == [f"paired/flickr8k/{n}" for n in FLICKR8K_FILES]
    with pytest.raises(MissingData, match=r"test\.parquet"):
        FLICKR8K.load(tmp_path)


def write(root: Path, name: str, columns: dict[str, list[Any]]) -> None:
    import pyarrow
    import pyarrow.parquet as parquet

    parquet.write_table(pyarrow.table(columns), root / name)


def test_features_follow_the_images_and_the_moments_of_training(tmp_path: Path) -> None:
    write(tmp_path, "captions.parquet", {"image_id": ["x", "y"], "captions": [["one", "two"], ["three"]]})
    write(tmp_path, "test.parquet", {"image_id": ["y", "x"], "feature": [[4.0, 1.0], [-9.0, 1.0]]})
    write(tmp_path, "train.parquet", {"image_id": ["a", "b"], "feature": [[1.0, 2.0], [25.0, 2.0]]})
    features = LikeTraining("test.parquet", "train.parquet", "fetch it")
    task = CaptionedFile("small", "captions.parquet", "fetch it", {"net": features})
    data = task.load(tmp_path)
    assert data.texts == ["one", "two", "three"]
    assert data.image_of.tolist() == [0, 0, 1]
    assert data.images.texts == ["one", "three"]
    # Roots of training: 1 and 5, so mean 3 and deviation 2; the second dimension does not vary.
    expected = [[(-3 - 3) / 2, 1 - np.sqrt(2)], [(2 - 3) / 2, 1 - np.sqrt(2)]]
    assert data.images.features["net"] == pytest.approx(np.array(expected), abs=1e-6)
    before = task.fingerprint(tmp_path)
    write(tmp_path, "train.parquet", {"image_id": ["a", "b"], "feature": [[1.0, 2.0], [36.0, 2.0]]})
    assert task.fingerprint(tmp_path) != before


TABLE = "split\timage_id\tcaption_no\tcaption\ntest\tx\t1\tone\ntrain\tz\t1\tno\ntest\ty\t1\tthree\ntest\tx\t2\ttwo\n"


def table_task(root: Path, content: str = TABLE) -> CaptionedFile:
    (root / "captions.tsv.gz").write_bytes(gzip.compress(content.encode()))
    features = {name: FeatureFile(f"{name}.npy", "fetch it") for name in ("net", "other")}
    return CaptionedFile("small", "captions.tsv.gz", "fetch it", features, split="test")


def test_images_in_a_folder_stand_for_stored_features(tmp_path: Path) -> None:
    content = TABLE.replace("x\t", "x.png\t").replace("y\t", "y.png\t")
    (tmp_path / "captions.tsv").write_text(content)
    features = {"net": FeatureFile("net.npy", "fetch it")}
    task = CaptionedFile("small", "captions.tsv", "fetch it", features, split="test", images="pictures")
    assert [absent.what for absent in task.missing(tmp_path)] == ["net.npy"]
    (tmp_path / "pictures").mkdir()
    for name, grey in (("x", 10), ("y", 200), ("z", 90)):
        Image.new("RGB", (4, 3), (grey, grey, grey)).save(tmp_path / "pictures" / f"{name}.png")
    assert task.missing(tmp_path) == []
    images = task.load(tmp_path).images.images
    assert images is not None
    assert [image.shape for image in images] == [(3, 4, 3)] * 2
    assert [int(image[0, 0, 0]) for image in images] == [10, 200]
    before = task.fingerprint(tmp_path)
    Image.new("RGB", (40, 30)).save(tmp_path / "pictures" / "y.png")
    assert task.fingerprint(tmp_path) != before


def test_a_table_is_read_by_split_and_its_images_are_in_the_order_of_their_first_caption(tmp_path: Path) -> None:
    task = table_task(tmp_path)
    np.save(tmp_path / "net.npy", np.array([[1.0], [2.0]], dtype=np.float32))
    data = task.load(tmp_path)
    assert data.texts == ["one", "two", "three"]
    assert data.image_of.tolist() == [0, 0, 1]
    assert data.images.features["net"].tolist() == [[1], [2]]


def test_the_features_of_one_teacher_are_enough(tmp_path: Path) -> None:
    task = table_task(tmp_path)
    assert [absent.what for absent in task.missing(tmp_path)] == ["net.npy", "other.npy"]
    np.save(tmp_path / "net.npy", np.zeros((2, 1), dtype=np.float32))
    assert task.missing(tmp_path) == []
    before = task.fingerprint(tmp_path)
    with pytest.raises(MissingData, match=r"other\.npy"):
        task.load(tmp_path).images.features["other"]
    np.save(tmp_path / "other.npy", np.zeros((2, 1), dtype=np.float32))
    assert task.fingerprint(tmp_path) != before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("split\timage_id\ntest\tx\n", "no column 'caption'"),
        ("split\tcaption\ntest\tx\n", "no column 'image_id'"),
        ("split\timage_no\tcaption\ntest\tx\n", "line 2: 2 tab-separated fields, the header has 3"),
        ("split\timage_no\tcaption\ntrain\tx\ty\n", "no captions of the split 'test'"),
    ],
)
def test_bad_tables_are_told(tmp_path: Path, content: str, message: str) -> None:
    task = table_task(tmp_path, content)
    np.save(tmp_path / "net.npy", np.zeros((2, 1), dtype=np.float32))
    with pytest.raises(UserError, match=message):
        task.load(tmp_path)


@pytest.mark.parametrize(("task", "images"), [(FLICKR30K, 1000), (COCO, 5000)], ids=["Flickr30k", "COCO"])
def test_the_captions_of_the_papers_test_images(
    data_root: Path, tmp_path: Path, task: CaptionedFile, images: int
) -> None:
    """Nobody publishes the features; here they are numbers, in the place where extracted ones belong."""
    import h5py

    captions, features = tmp_path / task.files[0], tmp_path / task.features["clip"].files[0]
    for path in (captions, features):
        path.parent.mkdir(parents=True, exist_ok=True)
    captions.symlink_to(data_root / task.files[0])
    with h5py.File(features, "w") as file:
        file["features"] = np.arange(images, dtype=np.float32)[:, None]
    assert [absent.what for absent in task.missing(data_root)] == [file.files[0] for file in task.features.values()]
    data = task.load(tmp_path)
    assert np.bincount(data.image_of).tolist() == [5] * images
    assert data.images.features["clip"][:, 0].tolist() == list(range(images))
    assert len(set(data.texts)) > 4.9 * images


def test_features_of_two_teachers_do_not_go_together(tmp_path: Path) -> None:
    write(tmp_path, "test.parquet", {"image_id": ["y"], "feature": [[4.0, 1.0]]})
    write(tmp_path, "train.parquet", {"image_id": ["a"], "feature": [[1.0]]})
    with pytest.raises(UserError, match="from different teachers"):
        LikeTraining("test.parquet", "train.parquet", "fetch it").read(tmp_path)


def test_training_images_put_through_as_test_images_are_those_of_training(data_root: Path) -> None:
    """The two ways to standardise must be one: else heads would see other features than they learnt from."""
    file = "paired/flickr8k/train_squeezenet.parquet"
    ids, values = LikeTraining(file, file, "fetch it").read(data_root)
    known_ids, known = FeatureFile(file, "fetch it", "sqrt-standardise").read(data_root)
    assert ids == known_ids
    assert np.array_equal(values, known)


def test_the_real_test_split_has_five_captions_an_image(data_root: Path) -> None:
    data = FLICKR8K.load(data_root)
    assert np.bincount(data.image_of).tolist() == [5] * 1000
    features = data.images.features["squeezenet"]
    assert features.shape == (1000, 512)
    assert 0.8 < features.std() < 1.2
    # Every caption projected to its own image: perfect, whatever the direction and the number of captions.
    scores, _ = both_ways(features[data.image_of], features, data.image_of)
    assert {x for name, x in scores.items() if "R@" in name} == {100.0}
    assert (scores["n_texts"], scores["n_images"]) == (5000, 1000)
    # Captions that know nothing of their image: chance is 0.1.
    noise = np.random.default_rng(0).normal(size=(5000, 512)).astype(np.float32)
    assert both_ways(noise, features, data.image_of)[0]["t2i_R@1"] < 0.5
