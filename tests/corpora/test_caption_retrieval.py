"""Captioned test images, of the toy world and in files."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness import fetching
from harness.corpora.images import FeatureFile
from harness.corpora.retrieval import COCO, FLICKR8K, FLICKR30K, CaptionedFile, LikeTraining
from harness.errors import MissingData, UserError
from harness.fetching.archives import write_parquet
from harness.toy.tasks import TOY_RETRIEVAL, ToyRetrieval


def test_the_toy_task_has_one_caption_a_picture() -> None:
    data = TOY_RETRIEVAL.load(None)
    assert TOY_RETRIEVAL.missing(None) == []
    assert data.image_of.tolist() == list(range(1000))
    assert data.texts == list(data.images.texts)
    assert data.images.images[:].shape == (1000, 32, 32, 3)
    assert ToyRetrieval("toy", 20).fingerprint(None) != ToyRetrieval("toy", 21).fingerprint(None)


def test_features_follow_the_images_and_the_moments_of_training(tmp_path: Path) -> None:
    def training(*rows: list[float]) -> None:
        write_parquet(tmp_path / "train.parquet", {"image_id": list("ab"), "feature": list(rows)})

    write_parquet(
        tmp_path / "captions.parquet",
        {"image_id": ["x", "y"], "captions": [["one", "two"], ["three"]]},
    )
    write_parquet(
        tmp_path / "test.parquet", {"image_id": ["y", "x"], "feature": [[4.0, 1.0], [-9.0, 1.0]]}
    )
    training([1.0, 2.0], [25.0, 2.0])
    features = LikeTraining("test.parquet", "train.parquet", "fetch it")
    task = CaptionedFile("small", "captions.parquet", "fetch it", {"net": features})
    data = task.load(tmp_path)
    assert (data.texts, data.image_of.tolist()) == (["one", "two", "three"], [0, 0, 1])
    assert data.images.texts == ["one", "three"]
    # Roots of training: 1 and 5, so mean 3 and deviation 2; the second dimension does not vary.
    expected = [[(-3 - 3) / 2, 1 - np.sqrt(2)], [(2 - 3) / 2, 1 - np.sqrt(2)]]
    assert data.images.features["net"] == pytest.approx(np.array(expected), abs=1e-6)
    before = task.fingerprint(tmp_path)
    training([1.0, 2.0], [36.0, 2.0])
    assert task.fingerprint(tmp_path) != before
    training([1.0], [2.0])
    with pytest.raises(UserError, match="from different teachers"):
        features.read(tmp_path)


TABLE = "split\timage_id\tcaption_no\tcaption\ntest\tx\t1\tone\ntrain\tz\t1\tno\ntest\ty\t1\tthree\ntest\tx\t2\ttwo\n"


def table_task(root: Path, content: str = TABLE) -> CaptionedFile:
    """Two test images with the features of one teacher, none of another."""
    (root / "captions.tsv.gz").write_bytes(gzip.compress(content.encode()))
    np.save(root / "net.npy", np.array([[1.0], [2.0]], dtype=np.float32))
    features = {name: FeatureFile(f"{name}.npy", "fetch it") for name in ("net", "other")}
    return CaptionedFile("small", "captions.tsv.gz", "fetch it", features, split="test")


def test_images_in_a_folder_stand_for_stored_features(tmp_path: Path) -> None:
    content = TABLE.replace("x\t", "x.png\t").replace("y\t", "y.png\t")
    (tmp_path / "captions.tsv").write_text(content)
    features = {"net": FeatureFile("net.npy", "fetch it")}
    task = CaptionedFile(
        "small", "captions.tsv", "fetch it", features, split="test", images="pictures"
    )
    assert [absent.what for absent in task.missing(tmp_path)] == ["pictures"]
    (tmp_path / "pictures").mkdir()
    for name, grey in (("x", 10), ("y", 200), ("z", 90)):
        Image.new("RGB", (4, 3), (grey, grey, grey)).save(tmp_path / "pictures" / f"{name}.png")
    assert task.missing(tmp_path) == []
    pairs = (
        pickle.loads(pickle.dumps(task)).load(tmp_path).images
    )  # as runs in processes of their own read it
    assert "net" not in pairs.features, "a teacher without a file computes its features"
    images = pairs.images
    assert [image.shape for image in images] == [(3, 4, 3)] * 2
    assert [int(image[0, 0, 0]) for image in images] == [10, 200]
    np.save(tmp_path / "net.npy", np.array([[1.0], [2.0]], dtype=np.float32))
    assert task.load(tmp_path).images.features["net"].tolist() == [[1], [2]]
    before = task.fingerprint(tmp_path)
    Image.new("RGB", (40, 30)).save(tmp_path / "pictures" / "y.png")
    assert task.fingerprint(tmp_path) != before


def test_the_features_of_one_teacher_are_enough(tmp_path: Path) -> None:
    task = table_task(tmp_path)
    assert task.missing(tmp_path) == []
    before = task.fingerprint(tmp_path)
    with pytest.raises(MissingData, match=r"other\.npy"):
        task.load(tmp_path).images.features["other"]
    (tmp_path / "net.npy").rename(tmp_path / "elsewhere.npy")
    assert [absent.what for absent in task.missing(tmp_path)] == ["net.npy", "other.npy"]
    for name in ("net", "other"):
        (tmp_path / f"{name}.npy").write_bytes((tmp_path / "elsewhere.npy").read_bytes())
    assert task.fingerprint(tmp_path) != before


def test_a_table_is_read_by_split_its_images_in_the_order_of_their_first_caption(
    tmp_path: Path,
) -> None:
    """Positions are no ids: COCO's table of the bundle counts its images, and another data set has
    other images.
    """
    for column, known in (("image_id", ["x", "y"]), ("image_no", None)):
        data = table_task(tmp_path, TABLE.replace("image_id", column)).load(tmp_path)
        assert (data.texts, data.ids) == (["one", "two", "three"], known)
        assert data.image_of.tolist() == [0, 0, 1]
        assert data.images.features["net"].tolist() == [[1], [2]]
    for content, message in (
        (
            "split\timage_id\ntest\tx\n",
            "nor an image's file name and its caption, but split, image_id",
        ),
        ("split\tcaption\ntest\tx\n", "but split, caption; name the columns"),
        ("split\timage_no\tcaption\ntrain\tx\ty\n", "has no rows of the split 'test'"),
    ):
        with pytest.raises(UserError, match=message) as said:
            table_task(tmp_path, content).load(tmp_path)
        assert "fetch" not in str(said.value)


@pytest.mark.long
@pytest.mark.parametrize(
    ("task", "images"), [(FLICKR30K, 1000), (COCO, 5000)], ids=["Flickr30k", "COCO"]
)
def test_the_captions_of_the_papers_test_images(
    data_root: Path, tmp_path: Path, task: CaptionedFile, images: int
) -> None:
    """Nobody publishes the features; here they are numbers, in the place where extracted ones
    belong.
    """
    import h5py

    captions, features = tmp_path / task.files[0], tmp_path / task.features["clip"].files[0]
    for path in (captions, features):
        path.parent.mkdir(parents=True, exist_ok=True)
    captions.symlink_to(data_root / task.files[0])
    with h5py.File(features, "w") as file:
        file["features"] = np.arange(images, dtype=np.float32)[:, None]
    assert [absent.what for absent in task.missing(data_root)] == [task.pixels.images]
    assert fetching.find_providers(task.pixels.images)
    data = task.load(tmp_path)
    assert np.bincount(data.image_of).tolist() == [5] * images
    assert data.images.features["clip"][:, 0].tolist() == list(range(images))
    assert len(set(data.texts)) > 4.9 * images


@pytest.mark.long
def test_training_images_put_through_as_test_images_are_those_of_training(data_root: Path) -> None:
    """The two ways to standardise must be one: else heads would see other features than they learnt
    from.
    """
    file = "paired/flickr8k/train_squeezenet.parquet"
    ids, values = LikeTraining(file, file, "fetch it").read(data_root)
    known_ids, known = FeatureFile(file, "fetch it", "sqrt-standardise").read(data_root)
    assert ids == known_ids
    assert np.array_equal(values, known)
    data = FLICKR8K.load(data_root)
    assert np.bincount(data.image_of).tolist() == [5] * 1000
    features = data.images.features["squeezenet"]
    assert features.shape == (1000, 512)
    assert 0.8 < features.std() < 1.2
