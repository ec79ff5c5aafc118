"""What runs were trained on, and which tests are among it; on the shared data, the numbers of an
independent count.
"""

from __future__ import annotations

import csv
import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest
from executor_jobs import experiment

from harness.command_line import Selection
from harness.datafiles import read_lines
from harness.datarows import read_rows
from harness.errors import UserError
from harness.evaluation.suites import list_pairs
from harness.fetching.archives import write_parquet
from harness.fetching.published_captions import match
from harness.metrics import is_by_training
from harness.planning.inventory import Inventory
from harness.planning.overlaps import PairOverlap, SettingData, find_overlaps
from harness.planning.plan import make_plan
from harness.planning.request import make_request
from harness.planning.seen import SeenRows, hash_texts
from harness.profiles import Profile, load_profile
from harness.profiles.schema import Corpus, Setting
from harness.registry import get
from harness.remarks import normalise_text
from harness.runs.execution import Seat
from harness.runs.run import run_one
from harness.spec import Stream, parse_setting
from harness.store import Result, Store
from harness.training.batching import Order

#: what reads the setting of `profile`
MINE = "simcse/mine/toy-bert"
FILE = {"kind": "captions-file", "how": "fetch it"}
SPLIT = "captions/flickr30k_entities_split.tsv"


def with_corpora(profile: Profile, **corpora: dict[str, object]) -> Profile:
    """A profile with further corpora, each a setting of its own."""
    tables = {name: Corpus.model_validate(FILE | table) for name, table in corpora.items()}
    settings = {name: Setting(corpora=(name,)) for name in corpora}
    changes = {
        "corpora": {**profile.corpora, **tables},
        "settings": {**profile.settings, **settings},
    }
    return profile.model_copy(update=changes)


def profile(**corpora: dict[str, object]) -> Profile:
    """The toy profile with one setting, of its text and of further corpora."""
    made = with_corpora(load_profile("tiny"), **corpora)
    return made.model_copy(update={"settings": {"mine": Setting(corpora=("toy-text", *corpora))}})


def training(
    root: Path | None, used: Profile, cell: str, rows: dict[Stream, np.ndarray]
) -> SeenRows:
    return SeenRows(
        [corpus.read for corpus in experiment(f"{cell}/seed-0", used, root).corpora], rows
    )


IDS = ["11.jpg", "12_0123456789.jpg", "13.jpg"]
CAPTIONS = [["One.", "one more", "and one"], ["Two!"], ["three", "THREE again"]]


def test_rows_of_two_corpora_are_numbered_on_and_their_images_have_their_names(
    tmp_path: Path,
) -> None:
    write_parquet(tmp_path / "a.parquet", {"image_id": IDS, "captions": CAPTIONS})
    (tmp_path / "b.txt").write_text("four\nfive\nsix\n")
    used = profile(a={"file": "a.parquet", "captions": "all"}, b={"file": "b.txt"})
    # rows: the captions of a, then of b
    read = training(tmp_path, used, MINE, {"sentences": np.arange(2), "pairs": np.array([7, 3, 0])})
    texts = ["one", "one more", "two", "three", "four", "five", "six"]
    assert read.sentences(texts).tolist() == [True, False, True, False, False, True, False]
    ids = ["11", "12.jpg", "13.jpg", "14.jpg", "15.jpg"]
    captions, image_of = ["x", "x", "two", "five", "six"], np.arange(5)
    # the image 13 has the id of no row read; 'two' is the caption of an image with another id
    assert read.images(captions, image_of, ids).tolist() == [True, True, False, True, False]
    assert read.images(captions, image_of, None).tolist() == [False, False, True, True, False]


def test_captions_that_a_corpus_does_not_draw_are_compared_by_their_image(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", {"image_id": IDS, "captions": CAPTIONS})
    used = profile(a={"file": "a.parquet", "captions": "one"})
    compared = SettingData(Inventory(used, tmp_path, {}), parse_setting("mine")).captions
    assert compared is not None
    hashes, image_of = compared
    assert image_of.tolist() == [0, 0, 0, 1, 2, 2]
    assert hashes.tolist() == hash_texts([text for texts in CAPTIONS for text in texts]).tolist()


def test_images_of_a_text_file_are_known_by_the_file_that_it_is_matched_to(tmp_path: Path) -> None:
    lines, images = ["four", "five", "six"], ["21.jpg", "23.jpg", "24.jpg"]
    (tmp_path / "b.txt").write_text("\n".join(lines))
    rows = {
        "image_id": images,
        "caption": lines,
        "captions": [[text, f"{text} more"] for text in lines],
    }
    write_parquet(tmp_path / "b.parquet", rows)
    used = profile(b={"file": "b.txt", "matched": {"file": "b.parquet", "how": "match it"}})
    captions, ids = ["x", "four", "x"], ["21", "22", "23"]
    whole = training(tmp_path, used, MINE, {"pairs": np.arange(3)})
    assert whole.images(captions, np.arange(3), ids).tolist() == [True, False, True]
    some = training(tmp_path, used, MINE, {"pairs": np.arange(1)})
    assert some.images(captions, np.arange(3), ids).tolist() == [True, False, False]
    (tmp_path / "b.parquet").unlink()
    by_text = training(tmp_path, used, MINE, {"pairs": np.arange(3)})
    assert by_text.images(captions, np.arange(3), ids).tolist() == [False, True, False]


def test_all_three_texts_of_a_triplet_are_read() -> None:
    tiny = load_profile("tiny")
    triplets = list(
        get("corpus", "toy-triplets")(**tiny.corpora["toy-triplets"].options).texts(None)
    )
    read = training(None, tiny, "simcse-sup/toy/toy-bert", {"triplets": np.array([5])})
    known = {normalise_text(text) for text in triplets[15:18]}
    wanted = [normalise_text(text) in known for text in triplets[:60]]
    assert read.sentences(triplets[:60]).tolist() == wanted
    assert 3 <= sum(wanted) < 60


def finished(selection: Selection, folder: Path) -> Result:
    plan = make_plan(make_request(selection), Store(folder))
    return run_one(plan.runs[0], plan.inventory, Store(folder), Seat("cpu"))


def test_a_run_scores_pairs_by_the_sentences_that_its_few_steps_read(tmp_path: Path) -> None:
    """Trained on sentences of its own test: 4 steps of 16 rows, the first and the last of pairs of
    the toy world.
    """
    pairs = list_pairs(get("similarity task", "ToySTS").load(None))
    sentences = list(dict.fromkeys(text for first, second, _ in pairs for text in (first, second)))
    (tmp_path / "own.txt").write_text("\n".join(text.upper() for text in sentences))
    (tmp_path / "mine.toml").write_text(
        'extends = "tiny"\ndescription = "its own test"\n'
        '[corpora.own]\nkind = "sentences-file"\nfile = "own.txt"\nhow = ""\n'
        '[corpora.few]\nkind = "toy-pairs"\nsize = 500\n[settings.own]\ncorpora = ["own", "few"]\n'
    )
    few = {
        "seeds": 1,
        "suites": "sts,retrieval",
        "set": ("steps=4", "eval_every=4", "batch_size=16"),
    }
    selection = Selection(
        str(tmp_path / "mine.toml"), methods="mcse", settings="own", data_root=tmp_path, **few
    )
    result = finished(selection, tmp_path)
    sts, retrieval = result.latest("sts"), result.latest("retrieval")
    order = Order(len(sentences), 16, seed=0, setting="own", stream="sentences")
    read = {sentences[row] for number in range(2) for row in order.batch(number)}
    seen = sum(first in read or second in read for first, second, _ in pairs)
    assert 20 < seen < 80
    parts = sts.parts["ToySTS"]
    assert (parts["[seen]"]["n"], parts["[unseen]"]["n"]) == (seen, len(pairs) - seen)
    assert "spearman" in parts["[seen]"]
    assert retrieval.scores["ToyRetrieval"]["n_seen"] == 0, (
        "pictures of another split, whatever their captions"
    )


def test_a_model_that_was_not_trained_has_no_such_parts(tmp_path: Path) -> None:
    selection = Selection("tiny", methods="none[pooling=mean]", seeds=1, suites="sts")
    (evaluation,) = finished(selection, tmp_path).evaluations
    assert set(evaluation.parts) == {"ToySTS"}
    assert not any(map(is_by_training, evaluation.parts["ToySTS"]))


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


@pytest.mark.parametrize(
    ("setting", "seen", "both", "one_image", "means"),
    [
        ("two[captions=all]", 4, 3, 2, (4.5, 1.0)),
        # one caption of each image is a row, in no pair with the other; the label is known all the
        # same
        ("two", 3, 0, 2, (4.5, 1.0)),
        ("lines", 4, 0, None, (None, None)),
    ],
)
def test_pairs_are_counted_by_their_sentences_and_by_the_image_of_both(
    small: Path,
    setting: str,
    seen: int,
    both: int,
    one_image: int | None,
    means: tuple[float | None, float | None],
) -> None:
    used = with_corpora(
        load_profile("small"), two={"file": "two.parquet"}, lines={"file": "lines.txt"}
    )
    data = SettingData(Inventory(used, small, {}), parse_setting(setting))
    (overlap,) = data.compare_pairs("geometry", "STS-B")
    assert overlap == PairOverlap(
        setting, "geometry", "STS-B", "", 5, seen, both, one_image, *means
    )


def test_a_task_without_data_is_skipped_and_a_wrong_selection_or_a_missing_corpus_refused(
    small: Path,
) -> None:
    profile = with_corpora(load_profile("small"), lines={"file": "lines.txt"})
    overlaps = find_overlaps(Inventory(profile, small, {}), [parse_setting("lines")], ())
    assert {(row.suite, row.task) for row in overlaps.pairs} == {
        ("sts", "STS-B"),
        ("dev", "STS-B-dev"),
    }
    assert overlaps.skipped[0].startswith("sts: STS12: cannot find sts/STS12.tsv; ")
    assert len(overlaps.skipped) == 7
    for setting, suites, words in (
        (
            "flickr8k[shot=10]",
            [],
            "each run of 'flickr8k.shot=10.' draws other rows; audit 'flickr8k'",
        ),
        ("wiki", ["transfer"], "'transfer' has neither pairs of sentences nor captioned images"),
        ("wiki", [], r"enwiki_sentences\.txt\.gz"),
    ):
        with pytest.raises(UserError, match=words):
            find_overlaps(Inventory(profile, small, {}), [parse_setting(setting)], suites)


@pytest.fixture(scope="module")
def flickr(data_root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Profile, Path]:
    """The paper profile on the shared captions: MCSE's file, and all captions of Flickr30k as a
    corpus.
    """
    root = tmp_path_factory.mktemp("flickr")
    (root / "flickr").mkdir()
    for name in ("captions", "sts"):
        (root / name).symlink_to(data_root / name)
    (root / "flickr/captions.txt").symlink_to(data_root / "captions/flickr_random_captions.txt")
    images: dict[str, list[str]] = {}
    with gzip.open(root / "captions/flickr30k_captions.tsv.gz", "rt", newline="\n") as stream:
        for row in csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE):
            images.setdefault(row["image_id"], []).append(row["caption"])
    write_parquet(
        root / "flickr/all.parquet", {"image_id": list(images), "captions": list(images.values())}
    )
    return with_corpora(
        load_profile("paper"), whole={"file": "flickr/all.parquet", "captions": "all"}
    ), root


#: task and subset -> pairs, those of Flickr30k and of MCSE's file, both seen, of one image, mean
#: gold scores
COUNTED = {
    ("STS15", "images"): (750, 720, 280, 617, 251, (3.86, 1.72)),
    ("STS-B-dev", ""): (1500, 209, 74, 127, 43, (3.97, 1.75)),
    ("STS-B", ""): (1379, 189, 58, 104, 41, (3.78, 2.05)),
    ("SICK-R", ""): (4927, 436, 108, 10, 4, None),
    ("STS12", "MSRvid"): (750, 71, 10, 7, 0, None),
    ("STS14", "images"): (750, 14, 0, 0, 0, None),
}


@pytest.mark.parametrize(("task", "subset"), COUNTED)
def test_pairs_that_hold_captions_of_flickr30k(
    flickr: tuple[Profile, Path], task: str, subset: str
) -> None:
    """The first table of the independent count (papers/contamination.md of the shared data)."""
    pairs, of_flickr30k, of_mcse, both, one_image, means = COUNTED[task, subset]

    def overlap_of(setting: str) -> PairOverlap:
        rows = SettingData(Inventory(*flickr, {}), parse_setting(setting)).compare_pairs(
            "sts", task
        )
        return next(row for row in rows if row.subset == subset)

    whole, mcse = overlap_of("whole"), overlap_of("flickr")
    assert (whole.pairs, whole.seen, whole.both_seen, whole.one_image) == (
        pairs,
        of_flickr30k,
        both,
        one_image,
    )
    assert (mcse.pairs, mcse.seen, mcse.one_image) == (pairs, of_mcse, None)
    if means is not None:
        assert (whole.gold_one_image, whole.gold_other_images) == pytest.approx(means, abs=0.005)


@pytest.mark.long
def test_images_of_the_test_that_are_training_images_of_mcses_file(
    flickr: tuple[Profile, Path], data_root: Path, tmp_path: Path
) -> None:
    """944 by their ids; by captions alone 942 of these, and one image with the caption of another."""
    profile, shared = flickr
    root = tmp_path / "root"
    shutil.copytree(shared, root, symlinks=True)  # with a file that the other tests must not see
    data = SettingData(Inventory(profile, root, {}), parse_setting("flickr"))
    overlap = data.compare_images("retrieval", "Flickr30k")
    assert (overlap.images, overlap.seen) == (1000, 943)
    lines = list(read_lines(root / "flickr/captions.txt"))
    splits = (row.values for row in read_rows(data_root / SPLIT, "image_id", "split"))
    train = [image for image, split in splits if split == "train"]
    captions: dict[str, list[str]] = {image: [] for image in train}
    for _, (image, caption) in read_rows(
        root / "captions/flickr30k_captions.tsv.gz", "image_id", "caption"
    ):
        captions.get(image, []).append(caption)
    ids = [str(image) for image in match(lines, captions).images]
    known = [captions[image] or ["unknown"] for image in ids]
    write_parquet(
        tmp_path / "matched.parquet", {"image_id": ids, "captions": known, "caption": lines}
    )
    (root / "flickr/captions.parquet").symlink_to(tmp_path / "matched.parquet")
    named = SettingData(Inventory(profile, root, {}), parse_setting("flickr"))
    assert named.compare_images("retrieval", "Flickr30k").seen == 944
