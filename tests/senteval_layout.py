"""SentEval's data/downstream, made from the tables of the data bundle; and reading tables."""

from __future__ import annotations

import gzip
from pathlib import Path

from harness.fetching.data_sets import BINARY, SICK, STS


def table(path: Path) -> tuple[list[str], list[list[str]]]:
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    header, *rows = raw.decode().removesuffix("\n").split("\n")
    return header.split("\t"), [row.split("\t") for row in rows]


def columns(path: Path, names: tuple[str, ...]) -> list[tuple[str, ...]]:
    header, rows = table(path)
    return [tuple(row[header.index(name)] for name in names) for row in rows]


def senteval_layout(data: Path, base: Path) -> None:
    """Write SentEval's data/downstream from the tables of the data bundle: the way back, written
    anew.
    """

    def write(name: str, lines: list[str], encoding: str = "utf-8") -> None:
        path = base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes("".join(f"{line}\n" for line in lines).encode(encoding))

    for year, subsets in STS.items():
        rows = columns(
            data / "sts" / f"STS{year}.tsv", ("subset", "score", "sentence1", "sentence2")
        )
        for subset in subsets:
            mine = [row for row in rows if row[0] == subset]
            # pairs without a gold score, as 2015 and 2016 have them
            folder = f"STS/STS{year}-en-test"
            write(
                f"{folder}/STS.input.{subset}.txt", ["a\tb", *("\t".join(row[2:]) for row in mine)]
            )
            write(f"{folder}/STS.gs.{subset}.txt", ["", *(row[1] for row in mine)])
    for split in ("train", "dev", "test"):
        names = ("genre", "file", "year", "index", "score", "sentence1", "sentence2")
        rows = columns(data / "sts" / f"STSB-{split}.tsv", names)
        write(f"STS/STSBenchmark/sts-{split}.csv", ["\t".join((*row, "a note")) for row in rows])
    for split, name in SICK.items():
        names = ("pair_id", "sentence1", "sentence2", "relatedness", "entailment")
        rows = columns(data / "sts" / f"SICK-{split}.tsv", names)
        header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
        write(f"SICK/{name}", [header, *("\t".join(row) for row in rows)])
    transfer = data / "transfer"
    for task, files in BINARY.items():
        rows = columns(transfer / f"{task}.tsv", ("label", "text"))
        for label, name in zip("10", files, strict=True):
            write(name, [text for own, text in rows if own == label])
    for split in ("train", "dev", "test"):
        rows = columns(
            transfer / f"SST2-{split}.tsv{'.gz' * (split == 'train')}", ("text", "label")
        )
        write(f"SST/binary/sentiment-{split}", ["\t".join(row) for row in rows])
    for split, name in (("train", "train_5500.label"), ("test", "TREC_10.label")):
        rows = columns(transfer / f"TREC-{split}.tsv", ("label", "fine_label", "text"))
        write(f"TREC/{name}", [f"{coarse}:{fine} {text}" for coarse, fine, text in rows], "latin-1")
    for split in ("train", "test"):
        rows = columns(transfer / f"MRPC-{split}.tsv", ("label", "id1", "id2", "s1", "s2"))
        write(
            f"MRPC/msr_paraphrase_{split}.txt",
            ["Quality\t#1 ID\t#2 ID\t#1\t#2", *("\t".join(row) for row in rows)],
        )
