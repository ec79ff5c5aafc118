"""Texts, SentEval's archive, CIFAR, LibriSpeech, ImageNet and CC12M as their publishers lay them
out.
"""

from __future__ import annotations

import csv
import io
import tarfile
import tempfile
from pathlib import Path

import numpy as np
from counts import Counts
from senteval_layout import senteval_layout
from words import Writer, pictures

from harness import fetching
from harness.fetching.archives import write_parquet, write_table
from harness.fetching.data_sets import STS

SHARDS, SPEAKERS = 4, 251


def wiki1m(path: Path, counts: Counts) -> None:
    """SimCSE's sentences, one a line."""
    with path.open("w") as stream:
        stream.writelines(f"{text}\n" for text in Writer(10).in_turn(counts.wiki, 22))


def nli(path: Path, counts: Counts) -> None:
    """SimCSE's triplets."""
    with path.open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["sent0", "sent1", "hard_neg"])
        table.writerows(Writer(11).groups(counts.nli, 3, 10))


def articles(folder: Path, counts: Counts, language: str) -> None:
    """Shards of a Wikipedia's articles, of which the recipe reads three:
    FOLDER/train-0000N-of-0000M.parquet.

    An article has a sentence a line; those of Chinese end with a full stop of its own and have no
    blanks.
    """
    each = (
        -(-counts.other_wiki // 30) + 1
    )  # an article gives 12 sentences at most, and three shards must do
    for number in range(SHARDS):
        groups = Writer(12, number, ord(language[0])).groups(each, 14, 12)
        if language == "zh":
            groups = [
                [text.replace(" ", "").removesuffix(".")[:60] + "。" for text in texts]
                for texts in groups
            ]
        titles = [f"{language} {number} {article}" for article in range(each)]
        file = folder / f"train-{number:05}-of-{SHARDS:05}.parquet"
        write_parquet(file, {"title": titles, "text": ["\n".join(texts) for texts in groups]})


def multilingual(path: Path, counts: Counts, language: str, split: str) -> None:
    """A split of the machine-translated STS Benchmark; its three splits have the rows of one table
    together.
    """
    total = counts.rows_of("stsb-multi", f"sts/multilingual/stsb-{language}.tsv.gz")
    parts = {"train": total - 2 * (total // 4), "dev": total // 4, "test": total // 4}
    writer = Writer(13, ord(language[0]), parts[split])
    first, second = (writer.sentences(parts[split], 10) for _ in range(2))
    scores = np.array(writer.scores(parts[split]), np.float32)
    write_parquet(path, {"sentence1": first, "sentence2": second, "similarity_score": scores})


def senteval_tar(path: Path, counts: Counts) -> None:
    """SentEval's archive."""
    with tempfile.TemporaryDirectory() as folder:
        tables = Path(folder, "tables")
        for output in fetching.find_entry("senteval").outputs:
            _table(tables / output.path, counts.rows_of("senteval", output.path))
        senteval_layout(tables, Path(folder, "layout"))
        with tarfile.open(path, "w") as archive:
            for item in sorted(Path(folder, "layout").iterdir()):
                archive.add(item, item.name)


#: columns of SentEval's tables, of which each data set reads its own
_COLUMNS = (
    *("subset", "genre", "file", "year", "index", "pair_id", "score", "relatedness", "entailment"),
    *("label", "fine_label", "id1", "id2", "sentence1", "sentence2", "text", "s1", "s2"),
)


def _table(path: Path, rows: int) -> None:
    """A table with gold scores at random, and the classes by turns."""
    name = path.name.partition(".")[0]
    writer = Writer(14, *name.encode())
    write_table(
        path,
        _COLUMNS,
        zip(*(_column(column, name, rows, writer) for column in _COLUMNS), strict=True),
    )


def _column(column: str, name: str, rows: int, writer: Writer) -> list[str]:
    if column in ("score", "relatedness"):
        return writer.scores(rows)
    if column in ("subset", "label"):
        classes = (
            ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM") if name.startswith("TREC") else ("0", "1")
        )
        groups = classes if column == "label" else STS.get(name.removeprefix("STS"), ("",))
        return [groups[row % len(groups)] for row in range(rows)]
    if column in ("sentence1", "sentence2", "text", "s1", "s2"):
        return writer.sentences(rows, 10)
    return [f"{column}{row}" for row in range(rows)]


def add(packed: tarfile.TarFile, name: str, content: bytes) -> None:
    """Put a file into an archive."""
    member = tarfile.TarInfo(name)
    member.size = len(content)
    packed.addfile(member, io.BytesIO(content))


def cifar(path: Path, counts: Counts, name: str) -> None:
    """The archive of binary files of CIFAR-10 or CIFAR-100."""
    options = fetching.find_entry(name).options
    rng = np.random.default_rng(20)
    with tarfile.open(path, "w:gz", compresslevel=1) as packed:
        names = "".join(f"class{number}\n" for number in range(10))
        add(packed, f"{options['folder']}/{options['names']}", names.encode())
        for files, total in zip(options["splits"].values(), counts.cifar, strict=True):
            for file in files:
                rows = rng.integers(
                    0, 256, (total // len(files), options["labels"] + 3 * 32 * 32), np.uint8
                )
                rows[:, : options["labels"]] %= 10
                add(packed, f"{options['folder']}/{file}", rows.tobytes())


def librispeech(path: Path, counts: Counts) -> None:
    """The archive of utterances SPEAKER/CHAPTER/SPEAKER-CHAPTER-NUMBER.flac; their content is no
    sound.
    """
    with tarfile.open(path, "w:gz", compresslevel=1) as packed:
        for number in range(counts.recordings):
            speaker = 19 + number % SPEAKERS
            file = f"{speaker}/198/{speaker}-198-{number // SPEAKERS:04}.flac"
            add(packed, f"LibriSpeech/train-clean-100/{file}", b"fLaC" + number.to_bytes(4, "big"))


def _imagenet(counts: Counts) -> list[str]:
    classes = [f"n{1_440_764 + 997 * number:08}" for number in range(counts.classes)]
    return [f"{name}/{name}_{number}.JPEG" for name in classes for number in range(counts.a_class)]


def imagenet_list(path: Path, counts: Counts) -> None:
    """NonLing's list of images."""
    path.write_text("".join(f"/data/ImageNet/train/{name}\n" for name in _imagenet(counts)))


def imagenet_folder(folder: Path, counts: Counts) -> None:
    """ImageNet's training folder, with an image that is not in the list."""
    for name, content in zip(
        [*_imagenet(counts), "n09999999/n09999999_0.JPEG"], pictures(), strict=False
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def shards(folder: Path, seed: int, pairs: int) -> None:
    """A folder of img2dataset's shards, KEY.jpg beside KEY.txt."""
    folder.mkdir(parents=True)
    with tarfile.open(folder / "00000.tar", "w") as packed:
        texts = Writer(21, seed).sentences(pairs, 12)
        for number, (text, content) in enumerate(zip(texts, pictures(), strict=False)):
            add(packed, f"{number:09}.jpg", content)
            add(packed, f"{number:09}.txt", text.encode())
