"""Tables of users: formats that say the same, and captions with file names of images as they are published."""

from __future__ import annotations

import csv
import gzip
import io
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.corpora.files import CaptionsFile
from harness.errors import UserError
from harness.tables import read_rows

TWO = {"a.jpg": ["one dog", "a dog, runs"], "b c.png": ["two cats"]}
ROWS = [(name, text) for name, texts in TWO.items() for text in texts]
MIXED = [ROWS[0], ROWS[2], ROWS[1]]


def tsv(rows: list[tuple[str, ...]]) -> str:
    return "".join("\t".join(row) + "\n" for row in rows)


#: name -> file, text, columns in the profile
FORMS = {
    "plain": ("c.tsv", tsv(ROWS), {}),
    "mixed": ("c.tsv", tsv(MIXED), {}),
    "header": ("c.tsv", tsv([("image", "caption"), *ROWS]), {}),
    "other order": ("c.tsv", tsv([("caption", "n", "image"), *((text, "1", name) for name, text in ROWS)]), {}),
    "named": ("c.tsv", tsv([("file", "comment"), *ROWS]), {"image": "file", "caption": "comment"}),
    "numbered": ("c.tsv", tsv([(f"{name}#{number}", text) for number, (name, text) in enumerate(ROWS)]), {}),
    "windows": ("c.tsv", "\ufeff" + tsv(ROWS).replace("\n", "\r\n") + "\r\n", {}),
    "csv": ("c.csv", 'image,caption\na.jpg,one dog\na.jpg,"a dog, runs"\nb c.png,two\u0020cats\n', {}),
    "csv without": ("c.csv", 'a.jpg,one dog\na.jpg,"a dog, runs"\nb c.png,two cats\n', {}),
    "jsonl": ("c.jsonl", "".join(json.dumps({"image": i, "caption": c}) + "\n" for i, c in ROWS), {}),
    "zipped": ("c.tsv.gz", tsv(ROWS), {}),
}


@pytest.mark.parametrize("form", FORMS)
def test_captions_with_file_names_of_images_work_as_they_are(form: str, tmp_path: Path) -> None:
    name, text, columns = FORMS[form]
    (tmp_path / name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    every = CaptionsFile(str(tmp_path / name), captions="all", **columns)
    every.examined(None)
    corpus = every.load(None)
    assert every.image_ids(None) == list(TWO)
    assert list(corpus.texts) == [text for texts in TWO.values() for text in texts]
    assert corpus.image_of.tolist() == [0, 0, 1]
    drawn = every.with_captions("one").load(None)
    assert [text in texts for text, texts in zip(drawn.texts, TWO.values(), strict=True)] == [True, True]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("name\ttext\na.jpg\tone\n", "line 1: neither a header with the columns 'image' and 'caption'"),
        ("a.jpg\tone\tmore\n", "line 1: neither a header"),
        ("a.jpg\tone\nb.jpg\n", "line 2: 1 fields, the lines above have 2"),
        ("a.jpg\tone\n\tone\n", "line 2: no file name of an image"),
        ("image\tcaption\n", "has no rows"),
        ("image\timage\tcaption\na.jpg\ta.jpg\tone\n", "line 1: two columns 'image'"),
    ],
)
def test_captions_that_cannot_be_read_are_refused_with_their_line(text: str, part: str, tmp_path: Path) -> None:
    (tmp_path / "c.tsv").write_text(text)
    with pytest.raises(UserError, match=part):
        CaptionsFile(str(tmp_path / "c.tsv")).examined(None)


TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufeff"), max_size=8)


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=5))
def test_a_csv_and_a_jsonl_of_the_same_rows_are_read_alike(rows: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        quoted = io.StringIO()
        csv.writer(quoted, quoting=csv.QUOTE_ALL).writerows([("x", "y"), *rows])
        (Path(folder) / "t.csv").write_bytes(quoted.getvalue().encode())
        lines = [json.dumps({"y": y, "x": x}, ensure_ascii=False) for x, y in rows]
        (Path(folder) / "t.jsonl").write_bytes("\n\n".join(lines).encode())
        quoted_rows, other = (
            [row.values for row in read_rows(Path(folder) / f"t.{form}", "x", "y")] for form in ("csv", "jsonl")
        )
    assert quoted_rows == other == rows
