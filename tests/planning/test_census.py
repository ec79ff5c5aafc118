"""Whatever lies in an input and is not read is in its census, for every kind of input."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from made_files import RATE, image_bytes, riff, write_tar

from harness.census import NAMED, Account, InputCensus, TextSurvey, account_for
from harness.corpora.caption_layouts import CaptionsLayout
from harness.corpora.files import CaptionsFile, SentencesFile, TripletsFile
from harness.corpora.images import FeatureFile
from harness.corpora.labelled_audio import LabelledAudio
from harness.corpora.labelled_images import LabelledImages
from harness.corpora.retrieval import CaptionedFile
from harness.corpora.shards import ShardPairs
from harness.encoders.locate import FolderModel
from harness.errors import UserError
from harness.evaluation.sts import OwnPairs
from harness.evaluation.transfer import OwnClasses
from harness.fetching.archives import write_parquet
from harness.planning.census import census_of_model, merge_censuses
from harness.planning.ingredients import Ingredient

PICTURE = image_bytes(np.zeros((8, 8, 3), np.uint8))
SOUND = riff((np.sin(np.arange(RATE) / 10) * 8000).astype("<i2").tobytes())


def write_table(path: Path, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A tab-separated table with a column `spare` that nothing reads."""
    lines = ["\t".join([*columns, "spare"])]
    lines += ["\t".join([*row, f"spare {number}"]) for number, row in enumerate(rows)]
    path.write_text("\n".join(lines) + "\n")


def make_sentences(folder: Path) -> Sequence[Account]:
    write_table(folder / "t.tsv", ["text"], [["a"], ["b"]])
    return SentencesFile("t.tsv", column="text").examined(folder).accounts


def make_empty_lines(folder: Path) -> Sequence[Account]:
    (folder / "t.txt").write_text("a\n\nb\n")
    return SentencesFile("t.txt").examined(folder).accounts


def make_objects(folder: Path) -> Sequence[Account]:
    (folder / "t.jsonl").write_text(json.dumps({"text": "a", "spare": [1]}) + "\n")
    return SentencesFile("t.jsonl", column="text").examined(folder).accounts


def make_triplets(folder: Path) -> Sequence[Account]:
    write_table(folder / "t.tsv", ["sent0", "sent1", "hard_neg"], [["a", "b", "c"]])
    return TripletsFile("t.tsv").examined(folder).accounts


def make_captions(folder: Path) -> Sequence[Account]:
    write_table(folder / "t.tsv", ["image", "caption"], [["1.png", "a"]])
    return CaptionsFile("t.tsv").examined(folder).accounts


def make_lists_of_captions(folder: Path) -> Sequence[Account]:
    write_parquet(
        folder / "t.parquet", {"image_id": ["1"], "captions": [["a", "b"]], "spare": ["c"]}
    )
    return CaptionsFile("t.parquet").examined(folder).accounts


def make_other_splits(folder: Path) -> Sequence[Account]:
    images = [
        {"filename": f"{split}.jpg", "split": split, "sentences": [{"raw": "a"}]}
        for split in ("train", "test")
    ]
    (folder / "t.json").write_text(json.dumps({"images": images}))
    return CaptionsFile("t.json", split="train").examined(folder).accounts


def make_pictures_of_captions(folder: Path) -> Sequence[Account]:
    write_table(folder / "t.tsv", ["image", "caption"], [["1.png", "a"]])
    (folder / "pictures").mkdir()
    for name in ("1.png", "spare.png"):
        (folder / "pictures" / name).write_bytes(PICTURE)
    return CaptionsFile("t.tsv", images="pictures").pixels.examined(folder).accounts


def make_similarity(folder: Path) -> Sequence[Account]:
    write_table(folder / "t.tsv", ["a", "b", "s"], [["x", "y", "1"], ["z", "y", "2"]])
    return OwnPairs("mine", "t.tsv", ("a", "b", "s"), (0, 5), None).examined(folder).accounts


def make_classification(folder: Path) -> Sequence[Account]:
    write_table(folder / "t.tsv", ["text", "label"], [["x", "1"], ["y", "0"]])
    return OwnClasses("mine", {"all": "t.tsv"}, ("text",), "label").examined(folder).accounts


def make_retrieval(folder: Path) -> Sequence[Account]:
    write_table(folder / "t.tsv", ["image", "caption"], [["1.png", "a"]])
    task = CaptionedFile("mine", "t.tsv", "", {}, layout=CaptionsLayout())
    return task.examined(folder).accounts


def make_class_folders(folder: Path) -> Sequence[Account]:
    for name in ("cat", "dog"):
        (folder / "classes" / name).mkdir(parents=True)
        (folder / "classes" / name / "1.png").write_bytes(PICTURE)
    (folder / "classes" / "dog" / "spare.txt").write_text("a note")
    return LabelledImages("classes").examined(folder).accounts


def make_class_table(folder: Path) -> Sequence[Account]:
    rows = {"jpeg": [PICTURE, PICTURE], "label": [0, 1], "spare": ["a", "b"]}
    write_parquet(folder / "t.parquet", rows)
    return LabelledImages("t.parquet").examined(folder).accounts


def write_recordings(folder: Path) -> None:
    (folder / "sounds").mkdir()
    for name in ("1.wav", "2.wav", "spare.wav"):
        (folder / "sounds" / name).write_bytes(SOUND)
    write_table(folder / "index.tsv", ["file", "speaker_id"], [["1.wav", "a"], ["2.wav", "b"]])


def make_recordings(folder: Path) -> Sequence[Account]:
    write_recordings(folder)
    accounts = LabelledAudio("sounds", index="index.tsv").examined(folder).accounts
    return [account for account in accounts if account.sort == "files"]


def make_index_of_recordings(folder: Path) -> Sequence[Account]:
    write_recordings(folder)
    accounts = LabelledAudio("sounds", index="index.tsv").examined(folder).accounts
    return [account for account in accounts if account.sort == "columns"]


def make_archive_of_recordings(folder: Path) -> Sequence[Account]:
    write_recordings(folder)
    with tarfile.open(folder / "sounds.tar", "w") as archive:
        archive.add(folder / "sounds", "sounds")
    accounts = LabelledAudio("sounds.tar", index="index.tsv").examined(folder).accounts
    return [account for account in accounts if account.sort == "members"]


def make_shards(folder: Path) -> Sequence[Account]:
    (folder / "shards").mkdir()
    with tarfile.open(folder / "shards" / "0.tar", "w") as archive:
        for name, content in (("1.txt", b"a"), ("1.png", PICTURE), ("1.spare", b"x")):
            (folder / name).write_bytes(content)
            archive.add(folder / name, name)
    return ShardPairs("shards").examined(folder).accounts


def make_features(folder: Path) -> Sequence[Account]:
    np.savez(folder / "f.npz", features=np.eye(3), image_id=list("abc"), spare=np.zeros(7))
    return FeatureFile("f.npz").examined(folder).accounts


def make_table_of_features(folder: Path) -> Sequence[Account]:
    rows = {"image_id": ["a", "b"], "feature": [[0.0, 1.0], [1.0, 0.0]], "spare": ["x", "y"]}
    write_parquet(folder / "f.parquet", rows)
    return FeatureFile("f.parquet").examined(folder).accounts


def make_model(folder: Path) -> Sequence[Account]:
    (folder / "model" / "onnx").mkdir(parents=True)
    (folder / "model" / "config.json").write_text("{}")
    (folder / "model" / "model.safetensors").write_bytes(bytes(100))
    (folder / "model" / "onnx" / "spare.onnx").write_bytes(bytes(100))
    return census_of_model("encoder mine", Ingredient(FolderModel(folder / "model"), None)).accounts


def make_webp_in_shards(folder: Path, ignore: Sequence[str] = ()) -> Sequence[Account]:
    contents = {"1.txt": b"a", "1.png": PICTURE, "2.webp": b"x"}
    write_tar(folder / "shards" / "0.tar", contents)
    return ShardPairs("shards", ignore=ignore).examined(folder).accounts


def make_archive_beside_shards(folder: Path, ignore: Sequence[str] = ()) -> Sequence[Account]:
    write_tar(folder / "shards" / "0.tar", {"1.txt": b"a", "1.png": PICTURE})
    (folder / "shards" / "1.tar.gz").write_bytes(b"x")
    return ShardPairs("shards", ignore=ignore).examined(folder).accounts


def make_picture_of_another_kind(folder: Path, ignore: Sequence[str] = ()) -> Sequence[Account]:
    for name in ("cat", "dog"):
        (folder / "classes" / name).mkdir(parents=True)
        (folder / "classes" / name / "1.png").write_bytes(PICTURE)
    (folder / "classes" / "dog" / "2.heic").write_bytes(b"x")
    return LabelledImages("classes", ignore=ignore).examined(folder).accounts


MAKERS: list[Callable[[Path], Sequence[Account]]] = [
    make_sentences,
    make_empty_lines,
    make_objects,
    make_triplets,
    make_captions,
    make_lists_of_captions,
    make_other_splits,
    make_pictures_of_captions,
    make_similarity,
    make_classification,
    make_retrieval,
    make_class_folders,
    make_class_table,
    make_recordings,
    make_index_of_recordings,
    make_archive_of_recordings,
    make_shards,
    make_features,
    make_table_of_features,
    make_model,
]


@pytest.mark.parametrize("make", MAKERS, ids=[make.__name__ for make in MAKERS])
def test_what_is_not_read_is_in_the_census(
    make: Callable[[Path], Sequence[Account]], tmp_path: Path
) -> None:
    left_out = [account for account in make(tmp_path) if account.use == "left out"]
    assert [account.count for account in left_out] == [1]
    assert left_out[0].line.startswith("1 ")


#: makers of files that may hold data of a kind that is not read, and the advice on them
DOUBTFUL: list[tuple[Callable[[Path, Sequence[str]], Sequence[Account]], str]] = [
    (make_webp_in_shards, "*.webp"),
    (make_archive_beside_shards, "*.gz"),
    (make_picture_of_another_kind, "*.heic"),
]


@pytest.mark.parametrize(("make", "pattern"), DOUBTFUL, ids=[make.__name__ for make, _ in DOUBTFUL])
def test_files_that_may_hold_data_are_refused_and_the_advice_leaves_them_out(
    make: Callable[[Path, Sequence[str]], Sequence[Account]], pattern: str, tmp_path: Path
) -> None:
    for name in ("refused", "advised"):
        (tmp_path / name).mkdir()
    with pytest.raises(UserError, match="would not be read, and may matter") as refusal:
        make(tmp_path / "refused", [])

    assert str(refusal.value).endswith(f"ignore = ['{pattern}']")
    accounts = make(tmp_path / "advised", [pattern])
    left_out = [account for account in accounts if account.use == "left out"]
    assert [account.count for account in left_out] == [1]


def test_a_line_names_the_first_and_counts_the_rest() -> None:
    names = [f"c{number}" for number in range(NAMED + 5)]
    (account,) = account_for("columns", names, "left out", "no key names them")
    assert account.line.startswith("15 columns left out (no key names them): c0, c1, ")
    assert account.line.endswith("c9 and 5 more")


def test_shares_of_unknown_tokens_of_all_encoders_stand_beside_an_input_once() -> None:
    censuses = [
        InputCensus(what="corpus c", rows=8, unknown_tokens={"small": 0.25}),
        InputCensus(what="corpus c", rows=8, unknown_tokens={"large": 0.5}),
        InputCensus(what="corpus c", rows=8, unknown_tokens={"small": 0.25}),
    ]
    (census,) = merge_censuses(censuses)
    assert census.line == (
        "corpus c: 8 rows; 25.0 % unknown tokens (small); 50.0 % unknown tokens (large)"
    )


def test_a_sample_is_spread_evenly_and_equal_texts_are_counted_however_many_come_at_a_time() -> (
    None
):
    texts = [f"text {number % 9_000}" for number in range(10_000)]
    whole = TextSurvey.of(texts)
    passed = TextSurvey()
    assert list(passed.passing([*texts, ""])) == [*texts, ""]
    assert (whole.count, whole.equal) == (passed.count, passed.equal) == (10_000, 1_000)
    assert whole.sample == passed.sample
    places = [texts.index(text) for text in whole.sample]
    assert len({*np.diff(places[: len(places) // 2])}) == 1
