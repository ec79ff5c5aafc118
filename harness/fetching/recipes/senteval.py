"""SentEval's archive and the multilingual STS Benchmark as tables for the suites.

SentEval's layout and counts are those of the archive that SimCSE's download_dataset.sh fetches. Rows without a gold
score are skipped, as in SentEval's sts.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from harness.errors import UserError
from harness.fetching.entries import Entry
from harness.fetching.recipes.base import Got, Take, content_of, only, raw_lines, write_table
from harness.parquet import read_columns

SPLITS = ("train", "dev", "test")

#: year -> subsets in the order of SentEval's sts.py
STS = {
    "12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "13": ("FNWN", "headlines", "OnWN"),
    "14": ("deft-forum", "deft-news", "headlines", "OnWN", "images", "tweet-news"),
    "15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
#: task -> its files of label 1 and of label 0
BINARY = {
    "MR": ("MR/rt-polarity.pos", "MR/rt-polarity.neg"),
    "CR": ("CR/custrev.pos", "CR/custrev.neg"),
    "SUBJ": ("SUBJ/subj.objective", "SUBJ/subj.subjective"),
    "MPQA": ("MPQA/mpqa.pos", "MPQA/mpqa.neg"),
}
SICK = {"train": "SICK_train.txt", "trial": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}


def senteval(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Write sts/ and transfer/ from senteval.tar, or from the folder that it unpacks to. Raises UserError."""
    with content_of(only(entry, got, "senteval.tar"), out) as found:
        base = next((item.parent for item in sorted(found.rglob("STS")) if (item.parent / "SICK").is_dir()), None)
        if base is None:
            raise UserError(
                f"{entry.name}: {found} does not contain the folders STS and SICK; give SentEval's data/downstream"
            )
        _similarity(base, out / "sts")
        _transfer(base, out / "transfer")


def stsb_multi(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Write stsb-LANGUAGE.tsv.gz from the Parquet files LANGUAGE/SPLIT-*.parquet. Raises UserError."""
    header = ("split", "score", "sentence1", "sentence2")
    for output in entry.outputs:
        language = Path(output.path).name.removeprefix("stsb-").removesuffix(".tsv.gz")
        files = {split: only(entry, got, f"{language}/{split}-00000-of-00001.parquet") for split in SPLITS}
        rows = (row for split, file in files.items() for row in _sentence_pairs(split, file))
        write_table(out / output.path, header, rows)


def _sentence_pairs(split: str, path: Path) -> Iterator[list[str]]:
    columns = ("similarity_score", "sentence1", "sentence2")
    table = read_columns(path, *columns).to_pydict()
    for score, first, second in zip(*(table[name] for name in columns), strict=True):
        # scores are 32-bit floats, written with the fewest digits that identify them
        yield [split, str(np.float32(score)), first, second]


def _similarity(base: Path, out: Path) -> None:
    for year, subsets in STS.items():
        rows = (row for subset in subsets for row in _year(base / "STS" / f"STS{year}-en-test", subset))
        write_table(out / f"STS{year}.tsv", ("subset", "score", "sentence1", "sentence2"), rows)
    benchmark = ("genre", "file", "year", "index", "score", "sentence1", "sentence2")
    for split in SPLITS:
        lines = raw_lines(base / "STS" / "STSBenchmark" / f"sts-{split}.csv")
        write_table(out / f"STSB-{split}.tsv", benchmark, (_fields(line, 7)[:7] for line in lines))
    sick = ("pair_id", "relatedness", "entailment", "sentence1", "sentence2")
    for split, name in SICK.items():
        lines = raw_lines(base / "SICK" / name)[1:]
        rows = ([f[0], f[3], f[4], f[1], f[2]] for f in (_fields(line, 5) for line in lines))
        write_table(out / f"SICK-{split}.tsv", sick, rows)


def _year(folder: Path, subset: str) -> Iterator[list[str]]:
    pairs = raw_lines(folder / f"STS.input.{subset}.txt")
    scores = raw_lines(folder / f"STS.gs.{subset}.txt")
    if len(pairs) != len(scores):
        raise UserError(f"{folder}, {subset}: {len(pairs)} pairs and {len(scores)} scores; download the archive again")
    for pair, score in zip(pairs, scores, strict=True):
        if score.strip():
            yield [subset, score.strip(), *_fields(pair, 2)[:2]]


def _transfer(base: Path, out: Path) -> None:
    for task, (positive, negative) in BINARY.items():
        texts = [("1", line) for line in raw_lines(base / positive)]
        write_table(out / f"{task}.tsv", ("label", "text"), texts + [("0", t) for t in raw_lines(base / negative)])
    for split in SPLITS:
        fields = (_fields(line, 2) for line in raw_lines(base / "SST" / "binary" / f"sentiment-{split}"))
        name = f"SST2-{split}.tsv" + (".gz" if split == "train" else "")
        write_table(out / name, ("label", "text"), ([label, text] for text, label, *_ in fields))
    for split, name in (("train", "train_5500.label"), ("test", "TREC_10.label")):
        questions = map(_question, raw_lines(base / "TREC" / name))
        write_table(out / f"TREC-{split}.tsv", ("label", "fine_label", "text"), questions)
    for split in ("train", "test"):
        rows = (_fields(line, 5)[:5] for line in raw_lines(base / "MRPC" / f"msr_paraphrase_{split}.txt")[1:])
        write_table(out / f"MRPC-{split}.tsv", ("label", "id1", "id2", "s1", "s2"), rows)


def _question(line: str) -> list[str]:
    """coarse:fine question."""
    label, _, text = line.partition(" ")
    coarse, colon, fine = label.partition(":")
    if not colon or not text.strip():
        raise UserError(f"{line!r} is not a line of TREC; download the archive again")
    return [coarse, fine, text]


def _fields(line: str, least: int) -> list[str]:
    fields = line.rstrip("\r").split("\t")
    if len(fields) < least:
        raise UserError(
            f"{line[:60]!r} has {len(fields)} tab-separated fields, not {least}; download the archive again"
        )
    return fields
