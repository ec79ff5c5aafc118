"""A column that no key names: one that may be meant stops the plan, all others are said."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_files import image_bytes

from harness.census import Account
from harness.corpora.caption_layouts import CaptionsLayout
from harness.corpora.files import CaptionsFile, SentencesFile, TripletsFile
from harness.corpora.labelled_images import LabelledImages
from harness.corpora.retrieval import CaptionedFile
from harness.errors import UserError
from harness.evaluation.sts import OwnPairs
from harness.evaluation.transfer import OwnClasses
from harness.fetching.archives import write_parquet

Read = Callable[[Path, Sequence[str]], Sequence[Account]]
ROWS = 4
PICTURES = [image_bytes(np.full((8, 8, 3), 40 * row, np.uint8)) for row in range(ROWS)]
#: what columns of these tests hold, by kind
VALUES: dict[str, list[Any]] = {
    "text": [f"a text {row}" for row in range(ROWS)],
    "word": [f"text{row}" for row in range(ROWS)],
    "number": [0.5 * row for row in range(ROWS)],
    "label": [row % 2 for row in range(ROWS)],
    "file": [f"{row}.png" for row in range(ROWS)],
    "list": [[f"a text {row}", "another text"] for row in range(ROWS)],
    "picture": PICTURES,
}


def examine_captions(folder: Path, ignore: Sequence[str]) -> Sequence[Account]:
    return CaptionsFile("t", ignore=ignore).examined(folder).accounts


def examine_pictures(folder: Path, ignore: Sequence[str]) -> Sequence[Account]:
    corpus = CaptionsFile("t", images="jpeg", ignore=ignore)
    return corpus.examined(folder).accounts


def examine_retrieval(folder: Path, ignore: Sequence[str]) -> Sequence[Account]:
    layout = CaptionsLayout(ignore=tuple(ignore))
    return CaptionedFile("mine", "t", "", {}, layout=layout).examined(folder).accounts


def examine_triplets(folder: Path, ignore: Sequence[str]) -> Sequence[Account]:
    return TripletsFile("t", ignore=ignore).examined(folder).accounts


def examine_sentences(folder: Path, ignore: Sequence[str]) -> Sequence[Account]:
    return SentencesFile("t", column="sentence1", ignore=ignore).examined(folder).accounts


def examine_pairs(folder: Path, ignore: Sequence[str]) -> Sequence[Account]:
    columns = ("sentence1", "sentence2", "score")
    return OwnPairs("mine", "t", columns, (0, 5), None, ignore=ignore).examined(folder).accounts


def examine_gold(folder: Path, ignore: Sequence[str]) -> Sequence[Account]:
    columns = ("sentence1", "sentence2", "gold")
    return OwnPairs("mine", "t", columns, (0, 5), None, ignore=ignore).examined(folder).accounts


def examine_classes(folder: Path, ignore: Sequence[str]) -> Sequence[Account]:
    task = OwnClasses("mine", {"all": "t"}, ("text",), "label", ignore=ignore)
    return task.examined(folder).accounts


def examine_images(folder: Path, ignore: Sequence[str]) -> Sequence[Account]:
    return LabelledImages("t", ignore=ignore).examined(folder).accounts


CAPTIONS = {"image": "file", "caption": "text"}
LISTS = {"image_id": "word", "captions": "list"}
PAIRS = {"sentence1": "text", "sentence2": "text", "score": "number"}
TRIPLETS = {"sent0": "text", "sent1": "text", "hard_neg": "text"}
CLASSES = {"text": "text", "label": "label"}
LABELLED = {"jpeg": "picture", "label": "label"}
#: columns that are read, the one that may be meant, and the key that would name it
MEANT: list[tuple[Read, dict[str, str], str, str, str]] = [
    (examine_captions, CAPTIONS, "caption_2", "text", "caption = 'caption_2'"),
    (examine_captions, CAPTIONS, "captionB", "text", "caption = 'captionB'"),
    (examine_captions, CAPTIONS, "raw_caption", "text", "caption = 'raw_caption'"),
    (examine_captions, CAPTIONS, "caption_de", "text", "caption = 'caption_de'"),
    (examine_captions, CAPTIONS, "image_2", "file", "image = 'image_2'"),
    (examine_captions, LISTS, "captions_2", "list", "caption = 'captions_2'"),
    (examine_pictures, LISTS | {"jpeg": "picture"}, "second", "picture", ""),
    (examine_retrieval, CAPTIONS, "caption_2", "text", "caption = 'caption_2'"),
    (examine_triplets, TRIPLETS, "sent2", "text", ""),
    (examine_triplets, TRIPLETS, "hard_neg_2", "text", ""),
    (examine_pairs, PAIRS, "sentence3", "text", "sentence1 = 'sentence3'"),
    (examine_pairs, PAIRS, "score2", "number", "score = 'score2'"),
    (examine_pairs, PAIRS, "similarity", "number", "score = 'similarity'"),
    (examine_classes, CLASSES, "text_b", "text", "text2 = 'text_b'"),
    (examine_classes, CLASSES, "label2", "label", "label = 'label2'"),
    (examine_images, {"image": "picture", "label": "label"}, "jpeg", "picture", ""),
    (examine_images, LABELLED, "mask", "picture", ""),
]
#: columns that are read, and one that is of no effect or that the keys have decided on
SAID: list[tuple[Read, dict[str, str], str, str]] = [
    (examine_captions, CAPTIONS, "caption_id", "number"),
    (examine_captions, CAPTIONS, "caption_url", "word"),
    (examine_captions, CAPTIONS, "image_id", "number"),
    (examine_captions, CAPTIONS, "image_url", "word"),
    (examine_captions, CAPTIONS, "licence", "text"),
    (examine_captions, LISTS, "caption", "text"),
    (examine_captions, LISTS, "jpeg", "picture"),
    (examine_triplets, TRIPLETS, "genre", "text"),
    (examine_sentences, {"sentence1": "text"}, "sentence2", "text"),
    (examine_pairs, PAIRS, "label", "label"),
    (examine_pairs, PAIRS, "sentence1_id", "number"),
    (examine_pairs, PAIRS, "filename", "file"),
    (examine_gold, {"sentence1": "text", "sentence2": "text", "gold": "number"}, "score", "number"),
    (examine_classes, CLASSES, "label_text", "text"),
    (examine_classes, CLASSES, "title", "text"),
    (examine_images, LABELLED, "label_name", "word"),
    (examine_images, LABELLED, "width", "number"),
]


def write_columns(folder: Path, columns: dict[str, str]) -> list[Path]:
    """Folders with the columns as the file `t`: as Parquet, and as JSON lines if these can hold them."""
    values = {name: VALUES[kind] for name, kind in columns.items()}
    parquet = folder / "parquet"
    write_parquet(parquet / "t", values)
    if "picture" in columns.values():
        return [parquet]

    json_lines = folder / "json"
    json_lines.mkdir()
    rows = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
    (json_lines / "t").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [parquet, json_lines]


def columns_left_out(accounts: Sequence[Account]) -> list[str]:
    """The names of the columns that are not read."""
    names = list[str]()
    for account in accounts:
        if account.sort == "columns" and account.use == "left out":
            names += account.names
    return names


@pytest.mark.parametrize(
    ("examine", "columns", "name", "kind", "key"),
    MEANT,
    ids=[f"{examine.__name__}-{name}" for examine, _, name, *_ in MEANT],
)
def test_a_column_that_may_be_meant_stops_the_plan_and_the_advice_leaves_it_out(
    examine: Read,
    columns: dict[str, str],
    name: str,
    kind: str,
    key: str,
    tmp_path: Path,
) -> None:
    for folder in write_columns(tmp_path, columns | {name: kind}):
        with pytest.raises(UserError, match=f"the column '{name}' may be meant") as refusal:
            examine(folder, [])

        assert key in str(refusal.value)
        assert str(refusal.value).endswith(f"ignore = ['{name}']")
        assert columns_left_out(examine(folder, [name])) == [name]


@pytest.mark.parametrize(
    ("examine", "columns", "name", "kind"),
    SAID,
    ids=[f"{examine.__name__}-{name}" for examine, _, name, _ in SAID],
)
def test_another_column_is_said(
    examine: Read,
    columns: dict[str, str],
    name: str,
    kind: str,
    tmp_path: Path,
) -> None:
    for folder in write_columns(tmp_path, columns | {name: kind}):
        assert columns_left_out(examine(folder, [])) == [name]


def test_the_key_that_names_a_column_decides(tmp_path: Path) -> None:
    """A table of five captions an image, as Flickr8k lies on the hub."""
    columns = {"image": "file"} | {f"caption_{number}": "text" for number in range(5)}
    folder, _ = write_columns(tmp_path, columns)
    findings = CaptionsFile("t", caption="caption_0").examined(folder)
    assert columns_left_out(findings.accounts) == [f"caption_{number}" for number in range(1, 5)]


def test_rows_of_other_parts_are_counted(tmp_path: Path) -> None:
    folder, _ = write_columns(tmp_path, {"sentence1": "text", "fold": "label"})
    corpus = SentencesFile("t", column="sentence1", split="fold=1")
    assert [account.line for account in corpus.examined(folder).accounts] == [
        "2 columns read: sentence1, fold",
        "2 rows left out (of other parts: 0 (2))",
    ]
