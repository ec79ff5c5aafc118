"""Trials of files of texts: sentences, triplets and captions, as lines and as tables."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from trial import Trial, check_refused

from harness.corpora.files import CaptionsFile, SentencesFile, TripletsFile
from harness.evaluation.sts import OwnPairs
from harness.evaluation.transfer import OwnClasses
from harness.profiles import load_profile

COLOURS = ("red", "blue", "green", "yellow")


def write_captions_of(count: int) -> list[str]:
    return [f"a {COLOURS[number % 4]} circle number {number}" for number in range(count)]


def write_token_file(folder: Path) -> None:
    lines = ["1000.jpg#0\ta red circle", "1000.jpg#1\tone circle", "2000.JPG#0\ta blue square"]
    (folder / "results.token").write_text("\n".join(lines) + "\n")


def check_token_file(folder: Path) -> None:
    corpus = CaptionsFile("results.token", captions="all")
    assert list(corpus.texts(folder)) == ["a red circle", "one circle", "a blue square"]
    assert corpus.image_ids(folder) == ["1000.jpg", "2000.JPG"]


def write_kaggle_captions(folder: Path) -> None:
    (folder / "captions.txt").write_text('image,caption\n1.jpg,"a red, small circle"\n')


def check_kaggle_captions(folder: Path) -> None:
    assert list(CaptionsFile("captions.txt").texts(folder)) == ["a red, small circle"]


def write_split_triplets(folder: Path) -> None:
    rows = "sent0,sent1,hard_neg\na red, small circle,a circle,a square\n"
    (folder / "nli.csv").write_text(rows)


def check_split_triplets(folder: Path) -> None:
    corpus = TripletsFile("nli.csv")
    check_refused(lambda: corpus.load(folder), "nli.csv, line 2", "4 fields")


def write_pointer(folder: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n"
    (folder / "texts.txt").write_text(pointer)


def check_pointer(folder: Path) -> None:
    corpus = SentencesFile("texts.txt")
    check_refused(lambda: corpus.load(folder), "a pointer of Git LFS", "git lfs pull")


def write_json_lines(folder: Path) -> None:
    (folder / "texts.jsonl").write_text('{"text": "a red circle", "id": 1}\n')


def check_json_lines(folder: Path) -> None:
    line = check_refused(lambda: SentencesFile("texts.jsonl").load(folder), "text, id")
    assert "column = '...'" in line
    assert SentencesFile("texts.jsonl", column="text").load(folder).texts == ["a red circle"]


def write_parts(folder: Path) -> None:
    lines = ["split\tscore\tsentence1\tsentence2\tlabel"]
    for split in ("train", "dev", "test"):
        lines += [f"{split}\t{n}\ta {split} {n}\tcircle {n}\t{n % 2}" for n in range(4)]
    (folder / "pairs.tsv").write_text("\n".join(lines) + "\n")
    texts = write_captions_of(30)
    names = [f"{number}.jpg" for number in range(30)]
    splits = ["train"] * 20 + ["test"] * 10
    pq.write_table(
        pa.table({"filename": names, "caption": texts, "split": splits}), folder / "rows.parquet"
    )
    lists = {"filename": names, "caption": [[text] for text in texts], "split": splits}
    pq.write_table(pa.table(lists), folder / "lists.parquet")


def check_parts_of_pairs(folder: Path) -> None:
    columns = ("sentence1", "sentence2", "score")
    whole = OwnPairs("mine", "pairs.tsv", columns, (0, 5), None)
    line = check_refused(lambda: whole.examined(folder), "train (4), dev (4), test (4)")
    assert "split = 'train'" in line

    part = OwnPairs("mine", "pairs.tsv", columns, (0, 5), None, split="test")
    assert part.examined(folder).rows == 4
    assert [first for first, _, _ in part.load(folder)[""]] == [f"a test {n}" for n in range(4)]
    all_rows = OwnPairs("mine", "pairs.tsv", columns, (0, 5), None, ignore=["split"])
    assert all_rows.examined(folder).rows == 12


def check_parts_of_texts(folder: Path) -> None:
    sentences = SentencesFile("pairs.tsv", column="sentence1")
    check_refused(lambda: sentences.examined(folder), "'split' parts its rows")
    assert SentencesFile("pairs.tsv", column="sentence1", split="dev").examined(folder).rows == 4
    columns = ["sentence1", "sentence2", "label"]
    triplets = TripletsFile("pairs.tsv", columns=columns)
    check_refused(lambda: triplets.examined(folder), "'split' parts its rows")
    two = TripletsFile("pairs.tsv", columns=columns, split="train+dev")
    assert two.examined(folder).rows == 8


def check_parts_of_classes(folder: Path) -> None:
    files = {"all": "pairs.tsv"}
    whole = OwnClasses("mine", files, ("sentence1",), "label")
    check_refused(lambda: whole.examined(folder), "'split' parts its rows")
    files = {"train": "pairs.tsv", "test": "pairs.tsv"}
    parts = OwnClasses("mine", files, ("sentence1",), "label", {"train": "train", "test": "test"})
    assert parts.examined(folder).rows == 8
    assert parts.load(folder)["test"].sides[0] == [f"a test {n}" for n in (0, 2, 1, 3)]


def check_parts_of_captions(folder: Path) -> None:
    for file in ("rows.parquet", "lists.parquet"):
        columns = {"image": "filename", "caption": "caption"}
        whole = CaptionsFile(file, **columns)
        check_refused(lambda corpus=whole: corpus.examined(folder), "train (20), test (10)")
        part = CaptionsFile(file, split="train", **columns)
        assert part.examined(folder).rows == 20
        assert part.image_ids(folder) == [f"{number}.jpg" for number in range(20)]
        wrong = CaptionsFile(file, split="tset", **columns)
        check_refused(lambda corpus=wrong: corpus.load(folder), "no rows of the split 'tset'")


def write_files_of_parts(folder: Path) -> None:
    for part in ("train", "test"):
        (folder / f"{part}.tsv").write_text(f"text\tlabel\na {part} text\t1\n")


def check_files_of_parts(folder: Path) -> None:
    both = SentencesFile("*.tsv", column="text")
    check_refused(lambda: both.examined(folder), "several parts", "ignore = ['*.tsv']")
    assert SentencesFile("train*.tsv", column="text").examined(folder).rows == 1
    assert SentencesFile("*.tsv", column="text", ignore=["*.tsv"]).examined(folder).rows == 2


def write_folds(folder: Path) -> None:
    rows = [f"text {number}\t{number % 3}" for number in range(9)]
    (folder / "folds.tsv").write_text("\n".join(["text\tfold", *rows]) + "\n")


def check_folds(folder: Path) -> None:
    whole = SentencesFile("folds.tsv", column="text")
    check_refused(lambda: whole.examined(folder), "split = 'fold=0'", "'fold=0+1'")
    two = SentencesFile("folds.tsv", column="text", split="fold=0+2")
    assert two.load(folder).texts == [f"text {number}" for number in (0, 2, 3, 5, 6, 8)]


def write_one_quoted_column(folder: Path) -> None:
    texts = write_captions_of(80)
    (folder / "lone.csv").write_text("premise\n" + "".join(f'"{text}"\n' for text in texts))


def check_one_quoted_column(folder: Path) -> None:
    check_refused(lambda: SentencesFile("lone.csv").load(folder), "premise", "column = '...'")
    corpus = SentencesFile("lone.csv", column="premise")
    assert corpus.load(folder).texts == write_captions_of(80)


def write_null_caption(folder: Path) -> None:
    images = [{"id": 1, "file_name": "1.jpg"}, {"id": 2, "file_name": "2.jpg"}]
    annotations = [
        {"image_id": 1, "id": 7, "caption": "a dog"},
        {"image_id": 2, "id": 8, "caption": None},
    ]
    coco = {"images": images, "annotations": annotations}
    (folder / "coco.json").write_text(json.dumps(coco))


def check_null_caption(folder: Path) -> None:
    corpus = CaptionsFile("coco.json")
    check_refused(lambda: corpus.load(folder), "annotation 8 is null", "remove the annotation")
    coco = json.loads((folder / "coco.json").read_text())
    coco["annotations"].pop()
    (folder / "coco.json").write_text(json.dumps(coco))
    assert list(corpus.texts(folder)) == ["a dog"]


def write_lists_in_lines(folder: Path) -> None:
    rows = [
        {"image": "1.jpg", "captions": ["a dog", "one dog"]},
        {"image": "2.jpg", "captions": ["a cat"]},
    ]
    (folder / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lists = [{"image": row["image"], "caption": row["captions"]} for row in rows]
    (folder / "lists.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lists))
    flat = [{"image": row["image"], "caption": text} for row in rows for text in row["captions"]]
    (folder / "flat.json").write_text(json.dumps(flat, indent=1))


def check_lists_in_lines(folder: Path) -> None:
    for file in ("captions.jsonl", "lists.jsonl", "flat.json"):
        corpus = CaptionsFile(file, captions="all")
        assert list(corpus.texts(folder)) == ["a dog", "one dog", "a cat"]
        assert corpus.image_ids(folder) == ["1.jpg", "2.jpg"]


def write_workbook(folder: Path) -> None:
    with zipfile.ZipFile(folder / "texts.xlsx", "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")


def check_workbook(folder: Path) -> None:
    line = check_refused(lambda: SentencesFile("texts.xlsx").load(folder), "an Excel workbook")
    assert "save its sheet as CSV in UTF-8" in line
    (folder / "texts.csv").write_text("text\na dog\n")
    assert SentencesFile("texts.csv", column="text").load(folder).texts == ["a dog"]


def write_parallel_lists(folder: Path) -> None:
    texts = write_captions_of(30)
    (folder / "train.en").write_text("\n".join(texts) + "\n")
    (folder / "images.txt").write_text("".join(f"{number}.jpg\n" for number in range(30)))
    (folder / "short.txt").write_text("".join(f"{number}.jpg\n" for number in range(29)))
    for part in (1, 2):
        (folder / f"train.{part}.en").write_text("\n".join(texts) + "\n")


def check_parallel_lists(folder: Path) -> None:
    corpus = CaptionsFile("train.en", image_list="images.txt")
    assert corpus.image_ids(folder) == [f"{number}.jpg" for number in range(30)]
    assert list(corpus.texts(folder)) == write_captions_of(30)
    short = CaptionsFile("train.en", image_list="short.txt")
    check_refused(lambda: short.load(folder), "29 lines for the 30")
    several = CaptionsFile("train.*.en", captions="all", image_list="images.txt")
    assert len(several.load(folder)) == 60


def write_without_header(folder: Path) -> None:
    texts = write_captions_of(30)
    rows = [f"{text}\thttp://example.org/{number}.jpg" for number, text in enumerate(texts)]
    (folder / "cc3m.tsv").write_text("\n".join(rows) + "\n")
    (folder / "pictures").mkdir()
    for number in range(28):
        (folder / "pictures" / f"{number}.jpg").write_bytes(b"a picture")


def check_without_header(folder: Path) -> None:
    check_refused(lambda: CaptionsFile("cc3m.tsv").load(folder), "image = 2", "caption = 1")
    options = {"image": 2, "caption": 1, "images": "pictures"}
    strict = CaptionsFile("cc3m.tsv", **options)
    check_refused(lambda: strict.pixels.fingerprint(folder), "missing_images = 'skip'")
    corpus = CaptionsFile("cc3m.tsv", missing_images="skip", **options)
    findings = corpus.examined(folder)
    assert findings.rows == 28
    left_out = [account for account in findings.accounts if account.sort == "images"]
    assert [(account.use, account.count) for account in left_out] == [("left out", 2)]
    assert list(corpus.texts(folder)) == write_captions_of(30)[:28]
    assert corpus.pixels.fingerprint(folder)


def write_byte_order_mark(folder: Path) -> None:
    text = 'extends = "tiny"\ndescription = "a trial"\n'
    (folder / "own.toml").write_bytes(b"\xef\xbb\xbf" + text.encode())


def check_byte_order_mark(folder: Path) -> None:
    assert load_profile("own.toml").description == "a trial"


def write_odd_parquet(folder: Path) -> None:
    tables = {
        "null": {"image_id": ["a", None], "captions": [["x"], ["y"]]},
        "float": {"image_id": [1.0, 2.0], "captions": [["x"], ["y"]]},
        "empty": {"image_id": ["a", "b"], "captions": [["x"], []]},
    }
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")


def check_odd_parquet(folder: Path) -> None:
    for name, words in (
        ("null", "row 2: no image_id"),
        ("float", "image_id is of the type double"),
        ("empty", "image b has no list of captions"),
    ):
        corpus = CaptionsFile(f"{name}.parquet")
        check_refused(lambda read=corpus: read.load(folder), words)


def write_spellings_of_labels(folder: Path) -> None:
    rows = [f"{('pos', 'Pos', 'neg')[number % 3]}\ttext {number}" for number in range(9)]
    (folder / "labels.tsv").write_text("\n".join(["label\ttext", *rows]) + "\n")


def check_spellings_of_labels(folder: Path) -> None:
    task = OwnClasses("mine", {"all": "labels.tsv"}, ("text",), "label")
    (line,) = task.examined(folder).remarks
    assert line == "the labels 'pos' and 'Pos' count as 2 classes; are they one?"


TRIALS = [
    Trial("4/D8", write_odd_parquet, check_odd_parquet),
    Trial("4/D10", write_spellings_of_labels, check_spellings_of_labels),
    Trial("4/D1 token file", write_token_file, check_token_file),
    Trial("4/D1 captions.txt", write_kaggle_captions, check_kaggle_captions),
    Trial("4/D2 a comma in a field", write_split_triplets, check_split_triplets),
    Trial("4/D3 a pointer", write_pointer, check_pointer),
    Trial("4/D4 JSON lines", write_json_lines, check_json_lines),
    Trial("5/I2 scored pairs", write_parts, check_parts_of_pairs),
    Trial("5/I2 sentences and triplets", write_parts, check_parts_of_texts),
    Trial("5/I2 classes", write_parts, check_parts_of_classes),
    Trial("5/I2 captions", write_parts, check_parts_of_captions),
    Trial("5/I2 files of parts", write_files_of_parts, check_files_of_parts),
    Trial("5/I2 folds", write_folds, check_folds),
    Trial("5/I8", write_one_quoted_column, check_one_quoted_column),
    Trial("5/I17", write_byte_order_mark, check_byte_order_mark),
    Trial("5/I19 a null caption", write_null_caption, check_null_caption),
    Trial("5/I19 lists in JSON lines", write_lists_in_lines, check_lists_in_lines),
    Trial("5/I19 a workbook", write_workbook, check_workbook),
    Trial("5/I21 parallel lists", write_parallel_lists, check_parallel_lists),
    Trial("5/I21 without a header", write_without_header, check_without_header),
]
