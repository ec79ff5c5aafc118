"""Recipes, which make an entry's outputs from its downloads: files as they are, archives unpacked,
data sets converted.

SentEval's layout and counts are those of the archive that SimCSE's download_dataset.sh fetches.
Rows without a gold score are skipped, as in SentEval's sts.py.

NonLing trains on a million sentences of each of four Wikipedias and does not describe how they were
chosen; this recipe is the project's own. Articles of the drawn shards are read in order. Lines that
end like a sentence, unlike headings and list items, are split into sentences, those within the
length bounds are candidates, and at most `per_article` of them are drawn by title. Duplicates are
removed, and the first `count` sentences are shuffled by seed.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from harness.columnar import read_columns
from harness.errors import UserError
from harness.fetching.archives import (
    Got,
    Recipe,
    Take,
    clean,
    get_single,
    open_content,
    read_published_lines,
    write_parquet,
    write_table,
)
from harness.fetching.entries import Entry
from harness.fetching.published_captions import (
    match_coco,
    match_table,
    write_crisscrossed,
    write_entities,
    write_karpathy,
)
from harness.seeds import make_generator


def place(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Put each origin at the path of its output."""
    for output in entry.outputs:
        for file in got.get(str(output.origin), ()):
            take(file, out / output.path)


def unpack_outputs(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Unpack the archive of each output; `options.inside` names the folder in it that is the
    output.

    In an import, a folder is accepted instead of an archive. Raises UserError.
    """
    for output in entry.outputs:
        target = out / output.path
        for archive in got.get(str(output.origin), ()):
            if archive.is_dir():
                take(archive, target)
                continue

            with open_content(archive, out) as content:
                folder = content / entry.options["inside"][output.origin]
                if not folder.is_dir():
                    raise UserError(
                        f"{entry.name}: {archive} contains no folder {folder.name}; download it again from its "
                        "publisher"
                    )
                target.parent.mkdir(parents=True, exist_ok=True)
                folder.replace(target)


def place_listed_images(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Take the listed images, CLASS/NAME.JPEG at each line's end, from ImageNet's training folder.
    Raises UserError.
    """
    listing, images = (get_single(entry, got, origin.file) for origin in entry.origins)
    names = list[str]()
    for line in read_published_lines(listing):
        if line.strip():
            names.append("/".join(line.strip().split("/")[-2:]))

    is_odd = any(name.count("/") != 1 or ".." in name for name in names)
    if is_odd or len(set(names)) != len(names):
        raise UserError(
            f"{listing} is not a list of distinct CLASS/NAME.JPEG, one per line; download it again"
        )

    absent = [name for name in names if not (images / name).is_file()]
    if absent:
        raise UserError(
            f"{len(absent)} of {len(names)} listed images are missing in {images}, first {absent[0]}; give ImageNet's "
            "training folder, with one folder per class"
        )

    for name in names:
        take(images / name, out / entry.outputs[0].path / name)


PIXELS = 3 * 32 * 32


def write_cifar(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Write image_id, label, label_name and jpeg (lossless PNG bytes) of each split. Raises
    UserError.

    `options` name the folder, the number of label bytes (the last one is the class), the file of
    the names and the splits' files. Layout: https://www.cs.toronto.edu/~kriz/cifar.html.
    """
    options = entry.options
    with open_content(get_single(entry, got, entry.origins[0].file), out) as content:
        base = content / options["folder"]
        names = [
            line.strip() for line in read_published_lines(base / options["names"]) if line.strip()
        ]
        for path, files in options["splits"].items():
            rows = zip(*_read_cifar_images(base, files, options["labels"], names), strict=True)
            columns = ("image_id", "label", "label_name", "jpeg")
            write_parquet(out / path, dict(zip(columns, rows, strict=True)))


def _read_cifar_images(
    base: Path, files: list[str], label_bytes: int, names: list[str]
) -> Iterator[tuple[str, int, str, bytes]]:
    """Yield the name, the class, the class's name and the PNG of each image."""
    record_bytes = label_bytes + PIXELS
    for file in files:
        try:
            raw = np.fromfile(base / file, dtype=np.uint8)
        except FileNotFoundError as error:
            raise UserError(
                f"the archive does not contain {file}; download it again from its publisher"
            ) from error

        if raw.size == 0 or raw.size % record_bytes:
            raise UserError(
                f"{file} does not consist of images of {record_bytes} bytes; download it again from its publisher"
            )

        for row, record in enumerate(raw.reshape(-1, record_bytes)):
            label = int(record[label_bytes - 1])
            if label >= len(names):
                raise UserError(
                    f"{file}, image {row + 1}: the class {label} has no name; download it again from its publisher"
                )
            pixels = record[label_bytes:].reshape(3, 32, 32).transpose(1, 2, 0)
            stream = io.BytesIO()
            Image.fromarray(pixels).save(stream, "PNG")
            yield f"{Path(file).stem}-{row}", label, names[label], stream.getvalue()


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


def write_senteval(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Write sts/ and transfer/ from senteval.tar, or from the folder that it unpacks to. Raises
    UserError.
    """
    with open_content(get_single(entry, got, "senteval.tar"), out) as folder:
        bases = [path.parent for path in sorted(folder.rglob("STS"))]
        bases = [base for base in bases if (base / "SICK").is_dir()]
        if not bases:
            raise UserError(
                f"{entry.name}: {folder} does not contain the folders STS and SICK; give SentEval's data/downstream"
            )
        _write_similarity(bases[0], out / "sts")
        _write_transfer(bases[0], out / "transfer")


def write_stsb_multi(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Write stsb-LANGUAGE.tsv.gz from the Parquet files LANGUAGE/SPLIT-*.parquet. Raises UserError."""
    header = ("split", "score", "sentence1", "sentence2")
    for output in entry.outputs:
        language = Path(output.path).name.removeprefix("stsb-").removesuffix(".tsv.gz")
        rows = list[list[str]]()
        for split in SPLITS:
            file = get_single(entry, got, f"{language}/{split}-00000-of-00001.parquet")
            rows += _read_sentence_pairs(split, file)
        write_table(out / output.path, header, rows)


def _read_sentence_pairs(split: str, path: Path) -> Iterator[list[str]]:
    columns = ("similarity_score", "sentence1", "sentence2")
    values = read_columns(path, *columns).to_pydict()
    for score, first, second in zip(*(values[name] for name in columns), strict=True):
        # scores are 32-bit floats, written with the fewest digits that reproduce them
        yield [split, str(np.float32(score)), first, second]


def _write_similarity(base: Path, out: Path) -> None:
    for year, subsets in STS.items():
        folder = base / "STS" / f"STS{year}-en-test"
        rows = list[list[str]]()
        for subset in subsets:
            rows += _read_sts_subset(folder, subset)
        write_table(out / f"STS{year}.tsv", ("subset", "score", "sentence1", "sentence2"), rows)

    header: tuple[str, ...] = ("genre", "file", "year", "index", "score", "sentence1", "sentence2")
    for split in SPLITS:
        lines = read_published_lines(base / "STS" / "STSBenchmark" / f"sts-{split}.csv")
        rows = [_split_fields(line, 7)[:7] for line in lines]
        write_table(out / f"STSB-{split}.tsv", header, rows)

    header = ("pair_id", "relatedness", "entailment", "sentence1", "sentence2")
    for split, name in SICK.items():
        rows = []
        for line in read_published_lines(base / "SICK" / name)[1:]:
            pair_id, first, second, relatedness, entailment, *_ = _split_fields(line, 5)
            rows.append([pair_id, relatedness, entailment, first, second])
        write_table(out / f"SICK-{split}.tsv", header, rows)


def _read_sts_subset(folder: Path, subset: str) -> Iterator[list[str]]:
    pairs = read_published_lines(folder / f"STS.input.{subset}.txt")
    scores = read_published_lines(folder / f"STS.gs.{subset}.txt")
    if len(pairs) != len(scores):
        raise UserError(
            f"{folder}, {subset}: {len(pairs)} pairs and {len(scores)} scores; download the archive again"
        )

    for pair, score in zip(pairs, scores, strict=True):
        if score.strip():
            yield [subset, score.strip(), *_split_fields(pair, 2)[:2]]


def _write_transfer(base: Path, out: Path) -> None:
    for task, (positive, negative) in BINARY.items():
        rows = [["1", line] for line in read_published_lines(base / positive)]
        rows += [["0", line] for line in read_published_lines(base / negative)]
        write_table(out / f"{task}.tsv", ("label", "text"), rows)

    for split in SPLITS:
        rows = []
        for line in read_published_lines(base / "SST" / "binary" / f"sentiment-{split}"):
            text, label, *_ = _split_fields(line, 2)
            rows.append([label, text])
        suffix = ".tsv.gz" if split == "train" else ".tsv"
        write_table(out / f"SST2-{split}{suffix}", ("label", "text"), rows)

    for split, name in (("train", "train_5500.label"), ("test", "TREC_10.label")):
        rows = [_split_question(line) for line in read_published_lines(base / "TREC" / name)]
        write_table(out / f"TREC-{split}.tsv", ("label", "fine_label", "text"), rows)

    for split in ("train", "test"):
        lines = read_published_lines(base / "MRPC" / f"msr_paraphrase_{split}.txt")[1:]
        rows = [_split_fields(line, 5)[:5] for line in lines]
        write_table(out / f"MRPC-{split}.tsv", ("label", "id1", "id2", "s1", "s2"), rows)


def _split_question(line: str) -> list[str]:
    """coarse:fine question."""
    label, _, text = line.partition(" ")
    coarse, colon, fine = label.partition(":")
    if not colon or not text.strip():
        raise UserError(f"{line!r} is not a line of TREC; download the archive again")
    return [coarse, fine, text]


def _split_fields(line: str, least: int) -> list[str]:
    fields = line.rstrip("\r").split("\t")
    if len(fields) < least:
        raise UserError(
            f"{line[:60]!r} has {len(fields)} tab-separated fields, not {least}; download the archive again"
        )
    return fields


#: ends of sentences followed by a capital, a digit or a quotation mark, in scripts with spaces
#: between words
_SPACED = re.compile(r"(?<=[.!?])\s+(?=[«„\"“(]?[A-ZÀ-ÖØ-ÞА-ЯЁ0-9])")
_UNSPACED = re.compile(r"(?<=[。！？])")


def write_wikipedia(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Write one sentence per line. Raises UserError if the shards have too few."""
    options = entry.options
    count = options["count"]
    distinct: dict[str, None] = {}
    for title, text in _read_articles(got[entry.origins[0].file]):
        candidates = split_sentences(
            text, options["spaced"], options["shortest"], options["longest"]
        )
        if len(candidates) > options["per_article"]:
            numbers = make_generator(axis="article's sentences", seed=options["seed"], title=title)
            order = numbers.permutation(len(candidates))[: options["per_article"]]
            candidates = [candidates[row] for row in sorted(order)]

        distinct.update(dict.fromkeys(candidates))
        if len(distinct) >= count:
            break

    if len(distinct) < count:
        raise UserError(
            f"{entry.name}: the shards have {len(distinct)} sentences, {count} are needed; give more shards"
        )

    texts = list(distinct)[:count]
    order = make_generator(axis="sentences' order", seed=options["seed"]).permutation(len(texts))
    target = out / entry.outputs[0].path
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("w", encoding="utf-8", newline="\n") as stream:
        stream.writelines(f"{texts[row]}\n" for row in order)


def split_sentences(text: str, spaced: bool, shortest: int, longest: int) -> list[str]:
    """Sentences of an article; length is in words, or in characters for scripts without spaces."""
    ends = (".", "!", "?") if spaced else ("。", "！", "？")
    boundary = _SPACED if spaced else _UNSPACED
    sentences = []
    for line in text.split("\n"):
        if not line.rstrip().endswith(ends):
            continue
        for part in boundary.split(line):
            sentence = clean(part)
            length = len(sentence.split()) if spaced else len(sentence)
            if shortest <= length <= longest and sentence.endswith(ends):
                sentences.append(sentence)

    return sentences


def _read_articles(paths: Sequence[Path]) -> Iterator[tuple[str, str]]:
    import pyarrow.parquet as parquet
    from pyarrow import ArrowException

    columns = ["title", "text"]
    for path in paths:
        try:
            for batch in parquet.ParquetFile(path).iter_batches(batch_size=1000, columns=columns):
                yield from zip(batch["title"].to_pylist(), batch["text"].to_pylist(), strict=True)
        except (ArrowException, OSError, KeyError) as error:
            raise UserError(
                f"{path} is not a table of articles: {' '.join(str(error).split())}; download it again"
            ) from error


#: recipes by name
RECIPES: dict[str, Recipe] = {
    "place": place,
    "unpack": unpack_outputs,
    "cifar": write_cifar,
    "flickr30k-entities": write_entities,
    "imagenet-list": place_listed_images,
    "karpathy": write_karpathy,
    "cxc": write_crisscrossed,
    "matched-coco": match_coco,
    "matched-table": match_table,
    "senteval": write_senteval,
    "stsb-multi": write_stsb_multi,
    "wikipedia": write_wikipedia,
}
