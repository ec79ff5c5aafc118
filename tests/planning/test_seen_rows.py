"""What a run was trained on, from its corpora and the rows that its steps read."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from harness.datafiles import normalised_text
from harness.evaluation.suites import pairs_of
from harness.fetching.recipes.base import write_parquet
from harness.grid import resolve
from harness.inputs import Stream
from harness.metrics import is_by_training
from harness.planning.ingredients import Experiments
from harness.planning.inventory import Inventory
from harness.planning.plan import make_plan
from harness.planning.request import make_request
from harness.planning.seen import RunTraining, image_name
from harness.planning.selection import Selection
from harness.profiles import Profile, load_profile
from harness.profiles.schema import Corpus, Setting
from harness.registry import get
from harness.runs.environment import Machine
from harness.runs.run import run_one
from harness.spec import RunSpec
from harness.store import Store
from harness.training.batching import Order

FILE = {"kind": "captions-file", "how": "fetch it"}


def profile(**corpora: dict[str, object]) -> Profile:
    tiny = load_profile("tiny")
    tables = {name: Corpus.model_validate(table) for name, table in corpora.items()}
    setting = Setting(corpora=("toy-text", *corpora))
    return tiny.model_copy(update={"corpora": {**tiny.corpora, **tables}, "settings": {"mine": setting}})


def training(root: Path, used: Profile, setting: str, rows: dict[Stream, np.ndarray]) -> RunTraining:
    run = resolve(used, RunSpec.parse(f"simcse/{setting}/toy-bert/seed-0"), {})
    return RunTraining(Experiments(Inventory(used, root, {}), {}).of(run).ingredients.corpora, rows)


IDS = ["11.jpg", "12_0123456789.jpg", "13.jpg"]
CAPTIONS = [["One.", "one more", "and one"], ["Two!"], ["three", "THREE again"]]


def test_rows_of_two_corpora_are_numbered_on_and_their_images_have_their_names(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", {"image_id": IDS, "captions": CAPTIONS})
    (tmp_path / "b.txt").write_text("four\nfive\nsix\n")
    used = profile(a={**FILE, "file": "a.parquet", "captions": "all"}, b={**FILE, "file": "b.txt"})
    # rows: the captions of a, then of b
    read = training(tmp_path, used, "mine", {"sentences": np.arange(2), "pairs": np.array([7, 3, 0])})
    texts = ["one", "one more", "two", "three", "four", "five", "six"]
    assert read.sentences(texts).tolist() == [True, False, True, False, False, True, False]
    ids = ["11", "12.jpg", "13.jpg", "14.jpg", "15.jpg"]
    captions, image_of = ["x", "x", "two", "five", "six"], np.arange(5)
    # the image 13 has the id of no row read; 'two' is the caption of an image with another id
    assert read.images(captions, image_of, ids).tolist() == [True, True, False, True, False]
    assert read.images(captions, image_of, None).tolist() == [False, False, True, True, False]


def test_images_of_a_text_file_are_known_by_the_file_that_it_is_matched_to(tmp_path: Path) -> None:
    lines, images = ["four", "five", "six"], ["21.jpg", "23.jpg", "24.jpg"]
    (tmp_path / "b.txt").write_text("\n".join(lines))
    rows = {"image_id": images, "caption": lines, "captions": [[text, f"{text} more"] for text in lines]}
    write_parquet(tmp_path / "b.parquet", rows)
    used = profile(b={**FILE, "file": "b.txt", "matched": {"file": "b.parquet", "how": "match it"}})
    captions, ids = ["x", "four", "x"], ["21", "22", "23"]
    whole = training(tmp_path, used, "mine", {"pairs": np.arange(3)})
    assert whole.images(captions, np.arange(3), ids).tolist() == [True, False, True]
    some = training(tmp_path, used, "mine", {"pairs": np.arange(1)})
    assert some.images(captions, np.arange(3), ids).tolist() == [True, False, False]
    (tmp_path / "b.parquet").unlink()
    by_text = training(tmp_path, used, "mine", {"pairs": np.arange(3)})
    assert by_text.images(captions, np.arange(3), ids).tolist() == [False, True, False]


def test_all_three_texts_of_a_triplet_are_read(tmp_path: Path) -> None:
    tiny = load_profile("tiny")
    triplets = list(get("corpus", "toy-triplets")(**tiny.corpora["toy-triplets"].options).texts(None))
    run = resolve(tiny, RunSpec.parse("simcse-sup/toy/toy-bert/seed-0"), {})
    corpora = Experiments(Inventory(tiny, None, {}), {}).of(run).ingredients.corpora
    read = RunTraining(corpora, {"triplets": np.array([5])})
    known = {normalised_text(text) for text in triplets[15:18]}
    wanted = [normalised_text(text) in known for text in triplets[:60]]
    assert read.sentences(triplets[:60]).tolist() == wanted
    assert 3 <= sum(wanted) < 60


def test_a_run_scores_pairs_by_the_sentences_that_its_few_steps_read(tmp_path: Path) -> None:
    """Trained on sentences of its own test: 4 steps of 16 rows, the first and the last of pairs of the toy world."""
    pairs = pairs_of(get("similarity task", "ToySTS").load(None))
    sentences = list(dict.fromkeys(text for first, second, _ in pairs for text in (first, second)))
    (tmp_path / "own.txt").write_text("\n".join(text.upper() for text in sentences))
    own = [
        '[corpora.own]\nkind = "sentences-file"\nfile = "own.txt"\nhow = ""',
        '[corpora.few]\nkind = "toy-pairs"\nsize = 500',
        '[settings.own]\ncorpora = ["own", "few"]',
    ]
    shipped = (Path(str(files("harness.profiles"))) / "tiny.toml").read_text()
    (tmp_path / "mine.toml").write_text("\n".join([shipped, *own]))
    selection = Selection(
        str(tmp_path / "mine.toml"),
        methods="mcse",
        settings="own",
        seeds=1,
        suites="sts,retrieval",
        set=("steps=4", "eval_every=4", "batch_size=16"),
        data_root=tmp_path,
    )
    (run,) = (plan := make_plan(make_request(selection), Store(tmp_path))).runs
    result = run_one(run, plan.inventory, Store(tmp_path), Machine("cpu", 1), lambda event: None)
    sts, retrieval = result.latest("sts"), result.latest("retrieval")
    order = Order(len(sentences), 16, seed=0, setting="own", stream="sentences")
    read = {sentences[row] for number in range(2) for row in order.batch(number)}
    seen = sum(first in read or second in read for first, second, _ in pairs)
    assert 20 < seen < 80
    parts = sts.parts["ToySTS"]
    assert (parts["[seen]"]["n"], parts["[unseen]"]["n"]) == (seen, len(pairs) - seen)
    assert "spearman" in parts["[seen]"]
    assert retrieval.scores["ToyRetrieval"]["n_seen"] == 0, "pictures of another split, whatever their captions"


def test_a_model_that_was_not_trained_has_no_such_parts(tmp_path: Path) -> None:
    request = make_request(Selection("tiny", methods="none[pooling=mean]", seeds=1, suites="sts"))
    (run,) = (plan := make_plan(request, Store(tmp_path))).runs
    result = run_one(run, plan.inventory, Store(tmp_path), Machine("cpu", 1), lambda event: None)
    (evaluation,) = result.evaluations
    assert set(evaluation.parts) == {"ToySTS"}
    assert not any(map(is_by_training, evaluation.parts["ToySTS"]))


@pytest.mark.parametrize("split", ["train", "test"])
def test_training_and_test_images_of_flickr8k_are_other_images(data_root: Path, split: str) -> None:
    from harness.corpora.files import read_captions

    ids, captions = read_captions(data_root / f"paired/flickr8k/{split}.parquet")
    used = load_profile("small")
    run = resolve(used, RunSpec.parse("simcse/wiki+flickr8k/all-minilm-l6-v2/seed-0"), {})
    corpora = Experiments(Inventory(used, data_root, {}), {}).of(run).ingredients.corpora
    read = RunTraining(corpora, {"pairs": np.arange(6000)})
    assert ids is not None
    texts = [text for each in captions for text in each]
    image_of = np.repeat(np.arange(len(captions)), [len(each) for each in captions])
    assert read.images(texts, image_of, ids).all() == (split == "train")
    assert read.images(texts, image_of, ids).any() == (split == "train")
    assert len({image_name(one) for one in ids}) == len(ids)
