"""Trials of files of texts: sentences, triplets and captions, as lines and as tables."""

from __future__ import annotations

from pathlib import Path

from trial import Trial, check_refused

from harness.corpora.files import CaptionsFile, SentencesFile, TripletsFile


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


TRIALS = [
    Trial("4/D1 token file", write_token_file, check_token_file),
    Trial("4/D1 captions.txt", write_kaggle_captions, check_kaggle_captions),
    Trial("4/D2 a comma in a field", write_split_triplets, check_split_triplets),
    Trial("4/D3 a pointer", write_pointer, check_pointer),
    Trial("4/D4 JSON lines", write_json_lines, check_json_lines),
]
