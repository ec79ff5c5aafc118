"""Whatever lies in an input and is not read is in its census, for every kind of input."""

from __future__ import annotations

import json
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from datasets import Dataset
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
from harness.planning.census import make_model_census, merge_censuses
from harness.planning.ingredients import Ingredient

PICTURE = image_bytes(np.zeros((8, 8, 3), np.uint8))
SOUND = riff((np.sin(np.arange(RATE) / 10) * 8000).astype("<i2").tobytes())


def put(path: Path, content: bytes) -> None:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


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
    return CaptionsFile("t.parquet", captions="all").examined(folder).accounts


def make_captions_that_are_not_drawn(folder: Path) -> Sequence[Account]:
    write_parquet(folder / "t.parquet", {"image_id": ["1"], "captions": [["a", "b"]]})
    return CaptionsFile("t.parquet").examined(folder).accounts


def make_captions_without_header(folder: Path) -> Sequence[Account]:
    (folder / "t.tsv").write_text("a dog\t1.jpg\tspare\nb\t2.jpg\tspare\n")
    return CaptionsFile("t.tsv", image=2, caption=1).examined(folder).accounts


def make_captions_between_bars(folder: Path) -> Sequence[Account]:
    rows = ["image_name| comment_number| comment", "1.jpg| 0| a dog", "2.jpg| 0| a cat"]
    (folder / "t.csv").write_text("\n".join(rows) + "\n")
    return CaptionsFile("t.csv").examined(folder).accounts


def make_keys_of_coco(folder: Path) -> Sequence[Account]:
    coco = {
        "images": [{"id": 1, "file_name": "1.jpg"}],
        "annotations": [{"image_id": 1, "caption": "a", "spare": "b"}],
    }
    (folder / "t.json").write_text(json.dumps(coco))
    return CaptionsFile("t.json").examined(folder).accounts


def make_keys_of_karpathy(folder: Path) -> Sequence[Account]:
    sentences = [{"raw": "a", "spare": ["a"]}]
    images = [{"filename": "1.jpg", "split": "train", "sentences": sentences}]
    (folder / "t.json").write_text(json.dumps({"images": images}))
    return CaptionsFile("t.json").examined(folder).accounts


def make_a_key_of_one_object(folder: Path) -> Sequence[Account]:
    rows = [{"text": f"text {number}"} for number in range(300)]
    rows[-1]["spare"] = "x"
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return SentencesFile("t.jsonl", column="text").examined(folder).accounts


def make_a_column_of_one_part(folder: Path) -> Sequence[Account]:
    write_parquet(folder / "part-0.parquet", {"text": ["a"]})
    write_parquet(folder / "part-1.parquet", {"text": ["b"], "spare": ["c"]})
    return SentencesFile("part-*.parquet", column="text").examined(folder).accounts


def make_a_file_in_a_saved_folder(folder: Path) -> Sequence[Account]:
    Dataset.from_dict({"text": ["a", "b"]}).save_to_disk(str(folder / "saved"))
    (folder / "saved" / "spare.arrow").write_bytes(b"x")
    return SentencesFile("saved", column="text").examined(folder).accounts


def make_lines_after_the_limit(folder: Path) -> Sequence[Account]:
    (folder / "t.txt").write_text("a\nb\nspare\n")
    return SentencesFile("t.txt", limit=2).examined(folder).accounts


def make_triplets_after_the_limit(folder: Path) -> Sequence[Account]:
    (folder / "t.csv").write_text("sent0,sent1,hard_neg\na,b,c\nd,e,f\n")
    return TripletsFile("t.csv", limit=1).examined(folder).accounts


def make_sentences_of_other_parts(folder: Path) -> Sequence[Account]:
    (folder / "t.tsv").write_text("text\tsplit\na\ttrain\nb\ttrain\nc\ttest\n")
    return SentencesFile("t.tsv", column="text", split="train").examined(folder).accounts


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


def make_similarity_of_other_parts(folder: Path) -> Sequence[Account]:
    rows = ["a\tb\ts\tsplit", "x\ty\t1\ttest", "z\ty\t2\ttest", "z\tx\t2\tdev"]
    (folder / "t.tsv").write_text("\n".join(rows) + "\n")
    task = OwnPairs("mine", "t.tsv", ("a", "b", "s"), (0, 5), None, split="test")
    return task.examined(folder).accounts


def make_classification_of_other_parts(folder: Path) -> Sequence[Account]:
    rows = ["text\tlabel\tsplit", "x\t1\ttest", "y\t0\ttest", "z\t0\tdev"]
    (folder / "t.tsv").write_text("\n".join(rows) + "\n")
    task = OwnClasses("mine", {"all": "t.tsv"}, ("text",), "label", {"all": "test"})
    return task.examined(folder).accounts


def make_rows_without_label(folder: Path) -> Sequence[Account]:
    (folder / "t.tsv").write_text("text\tlabel\nx\t1\ny\t0\nz\t-1\n")
    task = OwnClasses("mine", {"all": "t.tsv"}, ("text",), "label", no_label="-1")
    return task.examined(folder).accounts


def make_classification(folder: Path) -> Sequence[Account]:
    write_table(folder / "t.tsv", ["text", "label"], [["x", "1"], ["y", "0"]])
    return OwnClasses("mine", {"all": "t.tsv"}, ("text",), "label").examined(folder).accounts


def make_retrieval(folder: Path) -> Sequence[Account]:
    write_table(folder / "t.tsv", ["image", "caption"], [["1.png", "a"]])
    task = CaptionedFile("mine", "t.tsv", "", {}, layout=CaptionsLayout())
    return task.examined(folder).accounts


def make_pictures_of_a_test(folder: Path) -> Sequence[Account]:
    (folder / "t.tsv").write_text("image\tcaption\n1.png\ta\n")
    for name in ("1.png", "spare.png"):
        put(folder / "pictures" / name, PICTURE)
    task = CaptionedFile("mine", "t.tsv", "", {}, images="pictures")
    return task.examined(folder).accounts


def make_features_of_a_test(folder: Path) -> Sequence[Account]:
    (folder / "t.tsv").write_text("image\tcaption\na\ta dog\nb\ta cat\n")
    np.savez(folder / "f.npz", features=np.eye(3), image_id=list("abc"))
    task = CaptionedFile("mine", "t.tsv", "", {"net": FeatureFile("f.npz")})
    return task.examined(folder).accounts


def write_classes(folder: Path) -> None:
    for name in ("cat", "dog"):
        for number in range(2):
            put(folder / "classes" / name / f"{number}.png", PICTURE)


def make_a_link_in_a_class(folder: Path) -> Sequence[Account]:
    write_classes(folder)
    put(folder / "elsewhere" / "spare.png", PICTURE)
    (folder / "classes" / "dog" / "more").symlink_to(folder / "elsewhere")
    return LabelledImages("classes").examined(folder).accounts


def make_pictures_that_are_not_drawn(folder: Path) -> Sequence[Account]:
    write_classes(folder)
    put(folder / "classes" / "dog" / "spare.png", PICTURE)
    return LabelledImages("classes", per_class=2).examined(folder).accounts


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


def make_a_link_in_an_archive_of_recordings(folder: Path) -> Sequence[Account]:
    write_recordings(folder)
    (folder / "sounds" / "spare.wav").unlink()
    (folder / "sounds" / "spare.wav").symlink_to("1.wav")
    with tarfile.open(folder / "sounds.tar", "w") as archive:
        archive.add(folder / "sounds", "sounds")
    accounts = LabelledAudio("sounds.tar", index="index.tsv").examined(folder).accounts
    return [account for account in accounts if account.sort == "members"]


def make_recordings_of_rarer_classes(folder: Path) -> Sequence[Account]:
    for name in ("1.wav", "2.wav", "3.wav", "4.wav", "5.wav"):
        put(folder / "sounds" / name, SOUND)
    rows = [f"{number}.wav\t{'aabbc'[number - 1]}" for number in range(1, 6)]
    (folder / "index.tsv").write_text("\n".join(["file\tspeaker_id", *rows]) + "\n")
    return LabelledAudio("sounds", index="index.tsv", top=2).examined(folder).accounts


def make_a_link_in_a_shard(folder: Path) -> Sequence[Account]:
    (folder / "shards").mkdir()
    link = tarfile.TarInfo("2.png")
    link.type = tarfile.SYMTYPE
    link.linkname = "1.png"
    with tarfile.open(folder / "shards" / "0.tar", "w") as archive:
        for name, content in (("1.txt", b"a"), ("1.png", PICTURE)):
            (folder / name).write_bytes(content)
            archive.add(folder / name, name)
        archive.addfile(link)
    return ShardPairs("shards").examined(folder).accounts


def make_a_folder_beside_shards(folder: Path) -> Sequence[Account]:
    write_tar(folder / "shards" / "0.tar", {"1.txt": b"a", "1.png": PICTURE})
    put(folder / "shards" / "spare" / "notes.txt", b"a note")
    return ShardPairs("shards").examined(folder).accounts


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


def make_features_in_another_file(folder: Path) -> Sequence[Account]:
    with h5py.File(folder / "f.h5", "w") as file:
        file["features"] = np.eye(3)
        file["spare"] = h5py.ExternalLink("other.h5", "/features")
    return FeatureFile("f.h5").examined(folder).accounts


def make_tensors(folder: Path) -> Sequence[Account]:
    content = {"features": torch.eye(3), "spare": {"model": "x"}}
    torch.save(content, folder / "f.pt")
    return FeatureFile("f.pt").examined(folder).accounts


def make_a_member_beside_arrays(folder: Path) -> Sequence[Account]:
    np.savez(folder / "f.npz", features=np.eye(3))
    with zipfile.ZipFile(folder / "f.npz", "a") as archive:
        archive.writestr("spare.txt", "a note")
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
    return make_model_census(
        "encoder mine", Ingredient(FolderModel(folder / "model"), None)
    ).accounts


def make_webp_in_shards(folder: Path, ignore: Sequence[str] = ()) -> Sequence[Account]:
    contents = {"1.txt": b"a", "1.png": PICTURE, "2.webp": b"x"}
    write_tar(folder / "shards" / "0.tar", contents)
    return ShardPairs("shards", ignore=ignore).examined(folder).accounts


def make_archive_beside_shards(folder: Path, ignore: Sequence[str] = ()) -> Sequence[Account]:
    write_tar(folder / "shards" / "0.tar", {"1.txt": b"a", "1.png": PICTURE})
    (folder / "shards" / "1.tar.gz").write_bytes(b"x")
    return ShardPairs("shards", ignore=ignore).examined(folder).accounts


def make_shards_in_a_folder(folder: Path, ignore: Sequence[str] = ()) -> Sequence[Account]:
    for name in ("0.tar", "more/1.tar"):
        write_tar(folder / "shards" / name, {"1.txt": b"a", "1.png": PICTURE})
    return ShardPairs("shards", ignore=ignore).examined(folder).accounts


def make_picture_of_another_kind(folder: Path, ignore: Sequence[str] = ()) -> Sequence[Account]:
    for name in ("cat", "dog"):
        (folder / "classes" / name).mkdir(parents=True)
        (folder / "classes" / name / "1.png").write_bytes(PICTURE)
    (folder / "classes" / "dog" / "2.heic").write_bytes(b"x")
    return LabelledImages("classes", ignore=ignore).examined(folder).accounts


MAKERS: list[Callable[[Path], Sequence[Account]]] = [
    make_captions_that_are_not_drawn,
    make_captions_without_header,
    make_captions_between_bars,
    make_keys_of_coco,
    make_keys_of_karpathy,
    make_a_key_of_one_object,
    make_a_column_of_one_part,
    make_a_file_in_a_saved_folder,
    make_lines_after_the_limit,
    make_triplets_after_the_limit,
    make_sentences_of_other_parts,
    make_similarity_of_other_parts,
    make_classification_of_other_parts,
    make_rows_without_label,
    make_pictures_of_a_test,
    make_features_of_a_test,
    make_a_link_in_a_class,
    make_pictures_that_are_not_drawn,
    make_a_link_in_an_archive_of_recordings,
    make_recordings_of_rarer_classes,
    make_a_link_in_a_shard,
    make_a_folder_beside_shards,
    make_features_in_another_file,
    make_tensors,
    make_a_member_beside_arrays,
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
    (make_shards_in_a_folder, "*.tar"),
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
    whole = TextSurvey.from_texts(texts)
    passed = TextSurvey()
    assert list(passed.count_passing([*texts, ""])) == [*texts, ""]
    assert (whole.count, whole.equal) == (passed.count, passed.equal) == (10_000, 1_000)
    assert whole.sample == passed.sample
    places = [texts.index(text) for text in whole.sample]
    assert len({*np.diff(places[: len(places) // 2])}) == 1
