"""Overlaps of tests and training data; on the shared data, the numbers of an independent count."""

from __future__ import annotations

import csv
import gzip
import shutil
from pathlib import Path

import pytest

from harness.datafiles import read_lines, read_table
from harness.errors import MissingData, UserError
from harness.fetching.recipes.base import write_parquet
from harness.fetching.recipes.captions import match
from harness.planning.inventory import Inventory
from harness.planning.seen import PairOverlap, SettingData, overlaps_of
from harness.profiles import Profile, load_profile
from harness.profiles.schema import Corpus, Setting
from harness.spec import parse_setting

FILE = {"kind": "captions-file", "how": "fetch it"}


SPLIT = "captions/flickr30k_entities_split.tsv"


def with_corpora(profile: Profile, **corpora: dict[str, object]) -> Profile:
    """A profile with further corpora, each a setting of its own."""
    tables = {name: Corpus.model_validate(FILE | table) for name, table in corpora.items()}
    settings = {name: Setting(corpora=(name,)) for name in corpora}
    return profile.model_copy(
        update={"corpora": {**profile.corpora, **tables}, "settings": {**profile.settings, **settings}}
    )


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A data root with a similarity task and two images of two captions each."""
    (tmp_path / "sts").mkdir()
    pairs = [
        ("A dog runs.", "a dog on grass", 4.0),  # one image
        ("a dog runs", "Two cats", 1.0),  # two images
        ("cats sleep", "two cats !", 5.0),  # one image
        ("a dog runs", "stocks fell", 0.0),
        ("stocks fell", "stocks rose", 3.0),
    ]
    lines = "".join(f"{score}\t{first}\t{second}\n" for first, second, score in pairs)
    for name in ("STSB-test", "STSB-dev"):
        (tmp_path / f"sts/{name}.tsv").write_text("score\tsentence1\tsentence2\n" + lines)
    captions = [["a dog runs", "a dog on grass"], ["Two cats.", "Cats sleep"]]
    write_parquet(tmp_path / "two.parquet", {"image_id": ["1", "2"], "captions": captions})
    (tmp_path / "lines.txt").write_text("a dog runs\ncats sleep\n")
    return tmp_path


def of(root: Path, setting: str, suite: str = "geometry", task: str = "STS-B") -> PairOverlap:
    profile = with_corpora(load_profile("small"), two={"file": "two.parquet"}, lines={"file": "lines.txt"})
    (found,) = SettingData(Inventory(profile, root, {}), parse_setting(setting)).pair_overlaps(suite, task)
    return found


def test_pairs_are_counted_by_their_sentences_and_by_the_image_of_both(small: Path) -> None:
    place = ("two[captions=all]", "geometry", "STS-B", "")
    assert of(small, "two[captions=all]") == PairOverlap(*place, 5, 4, 3, 2, 4.5, 1.0)


def test_captions_that_were_not_drawn_tell_of_one_image_too(small: Path) -> None:
    """One caption of each image is a row, in no pair with the other; the label is known all the same."""
    found = of(small, "two")
    assert found.both_seen < 2
    assert (found.one_image, found.gold_one_image, found.gold_other_images) == (2, 4.5, 1.0)


def test_a_file_with_one_caption_an_image_does_not_tell(small: Path) -> None:
    found = of(small, "lines")
    assert (found.pairs, found.seen, found.both_seen) == (5, 4, 0)
    assert (found.one_image, found.gold_one_image, found.gold_other_images) == (None, None, None)


def test_wrong_selections_are_refused_in_one_line(small: Path) -> None:
    inventory = Inventory(load_profile("small"), small, {})
    for setting, suites, words in (
        ("flickr8k[shot=10]", [], "each run of 'flickr8k.shot=10.' draws other rows; audit 'flickr8k'"),
        ("flickr9k", [], "has no setting 'flickr9k'; did you mean flickr8k"),
        ("wiki", ["st"], "has no suite 'st'"),
        ("wiki", ["transfer"], "'transfer' has neither pairs of sentences nor captioned images"),
    ):
        with pytest.raises(UserError, match=words):
            overlaps_of(inventory, [parse_setting(setting)], suites)


def test_a_task_without_data_is_skipped_and_a_corpus_without_data_is_missing(small: Path) -> None:
    profile = with_corpora(load_profile("small"), lines={"file": "lines.txt"})
    found = overlaps_of(Inventory(profile, small, {}), [parse_setting("lines")], ())
    assert {(row.suite, row.task) for row in found.pairs} == {("sts", "STS-B"), ("dev", "STS-B-dev")}
    assert found.skipped[0].startswith("sts: STS12: sts/STS12.tsv: ")
    assert len(found.skipped) == 7
    with pytest.raises(MissingData, match=r"enwiki_sentences\.txt\.gz"):
        overlaps_of(Inventory(profile, small, {}), [parse_setting("wiki")], ())


@pytest.fixture(scope="module")
def flickr(data_root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Profile, Path]:
    """The paper profile on the shared captions: MCSE's file, and all captions of Flickr30k as a corpus."""
    root = tmp_path_factory.mktemp("flickr")
    (root / "flickr").mkdir()
    for name in ("captions", "sts"):
        (root / name).symlink_to(data_root / name)
    (root / "flickr/captions.txt").symlink_to(data_root / "captions/flickr_random_captions.txt")
    images: dict[str, list[str]] = {}
    with gzip.open(root / "captions/flickr30k_captions.tsv.gz", "rt", newline="\n") as stream:
        for row in csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE):
            images.setdefault(row["image_id"], []).append(row["caption"])
    write_parquet(root / "flickr/all.parquet", {"image_id": list(images), "captions": list(images.values())})
    return with_corpora(load_profile("paper"), whole={"file": "flickr/all.parquet", "captions": "all"}), root


@pytest.mark.parametrize(
    ("task", "subset", "pairs", "of_flickr30k", "of_mcse", "both", "one_image", "means"),
    [
        ("STS15", "images", 750, 720, 280, 617, 251, (3.86, 1.72)),
        ("STS-B-dev", "", 1500, 209, 74, 127, 43, (3.97, 1.75)),
        ("STS-B", "", 1379, 189, 58, 104, 41, (3.78, 2.05)),
        ("SICK-R", "", 4927, 436, 108, 10, 4, None),
        ("STS12", "MSRvid", 750, 71, 10, 7, 0, None),
        ("STS14", "images", 750, 14, 0, 0, 0, None),
    ],
)
def test_pairs_that_hold_captions_of_flickr30k(
    flickr: tuple[Profile, Path],
    task: str,
    subset: str,
    pairs: int,
    of_flickr30k: int,
    of_mcse: int,
    both: int,
    one_image: int,
    means: tuple[float, float] | None,
) -> None:
    """The first table of the independent count (papers/contamination.md of the shared data)."""
    inventory = Inventory(flickr[0], flickr[1], {})

    def found(setting: str) -> PairOverlap:
        rows = SettingData(inventory, parse_setting(setting)).pair_overlaps("sts", task)
        return next(row for row in rows if row.subset == subset)

    whole, mcse = found("whole"), found("flickr")
    assert (whole.pairs, whole.seen, whole.both_seen, whole.one_image) == (pairs, of_flickr30k, both, one_image)
    assert (mcse.pairs, mcse.seen, mcse.one_image) == (pairs, of_mcse, None)
    if means is not None:
        assert (whole.gold_one_image, whole.gold_other_images) == pytest.approx(means, abs=0.005)


def test_images_of_the_test_that_are_training_images_of_mcses_file(
    flickr: tuple[Profile, Path], data_root: Path, tmp_path: Path
) -> None:
    """944 by their ids; by captions alone 942 of these, and one image with the caption of another."""
    profile, shared = flickr
    root = tmp_path / "root"
    shutil.copytree(shared, root, symlinks=True)  # with a file that the other tests must not see
    data = SettingData(Inventory(profile, root, {}), parse_setting("flickr"))
    found = data.image_overlap("retrieval", "Flickr30k")
    assert (found.images, found.seen) == (1000, 943)
    lines = read_lines(root / "flickr/captions.txt")
    train = [row["image_id"] for row in read_table(data_root / SPLIT, "image_id", "split") if row["split"] == "train"]
    captions: dict[str, list[str]] = {image: [] for image in train}
    for row in read_table(root / "captions/flickr30k_captions.tsv.gz", "image_id", "caption"):
        captions.get(row["image_id"], []).append(row["caption"])
    ids = [str(image) for image in match(lines, captions).images]
    known = [captions[image] or ["unknown"] for image in ids]
    write_parquet(tmp_path / "matched.parquet", {"image_id": ids, "captions": known, "caption": lines})
    (root / "flickr/captions.parquet").symlink_to(tmp_path / "matched.parquet")
    named = SettingData(Inventory(profile, root, {}), parse_setting("flickr"))
    assert named.image_overlap("retrieval", "Flickr30k").seen == 944
