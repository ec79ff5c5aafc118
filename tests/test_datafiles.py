"""Lines and tables in files of users: how they are read, and one line with its place for each
mistake.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st

from harness import datafiles
from harness.columnar import check_columns, read_columns
from harness.datafiles import read_lines
from harness.datarows import read_rows
from harness.errors import MissingData, UserError
from harness.sources import FileSource


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_lines_end_at_line_feeds_only_and_a_byte_order_mark_is_dropped(
    tmp_path: Path, name: str
) -> None:
    raw = "\ufeffone\u2028still one\r\ntwo\n\nlast".encode()
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    assert list(read_lines(tmp_path / name)) == ["one\u2028still one\r", "two", "", "last"]


@pytest.mark.parametrize("name", ["x.txt", "x.txt.gz"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"fine\n\xff\n", ", line 2, cannot be read as UTF-8"),
        (b"fine\n" + b"\0" * 2000, "line 2 has more than"),
        (b"fine\rtwo\r", " has carriage returns and no line feed"),
    ],
)
def test_lines_are_read_one_by_one_and_what_is_none_is_refused(
    tmp_path: Path, name: str, content: bytes, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datafiles, "LONGEST_LINE", 1000)
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    lines = read_lines(tmp_path / name)
    assert b"\n" not in content or next(lines) == "fine"
    with pytest.raises(UserError, match=f"{name}.*{message}"):
        next(lines)


def test_a_table_is_read_by_column_names_without_quoting(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text('text\tlabel\n"a\t1\nb"\t0\n')
    rows = read_rows(tmp_path / "t.tsv", "label", "text")
    assert [row.values for row in rows] == [("1", '"a'), ("0", 'b"')]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("label\ttext\n", "has no rows"),
        ("label\n1\n", "line 1: no column 'text' among"),
        ("label\ttext\n1\ta\n1\n", "line 3: 1 fields, the header has 2"),
        ("label\ttext\n1\ta\rb\n", "line 2: a carriage return inside the line"),
    ],
)
def test_a_broken_table_is_refused_in_one_line_with_its_place(
    tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "t.tsv"
    path.write_bytes(content.encode())
    with pytest.raises(UserError, match=f"^{path}.*{message}"):
        list(read_rows(path, "label", "text"))


def test_a_line_of_json_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    for line in ("{", '{"a": NaN}', '{"a": "x", "a": "y"}', '{"a": "\\ud800"}', '{"a": Infinity}'):
        path.write_text('{"a": "fine"}\n' + line)
        with pytest.raises(UserError, match=r"x\.jsonl, line 2:"):
            list(read_rows(path, "a"))


TEXT = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufeff"), max_size=8
)


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=5))
def test_a_csv_and_a_jsonl_of_the_same_rows_are_read_alike(rows: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        quoted = io.StringIO()
        csv.writer(quoted, quoting=csv.QUOTE_ALL).writerows([("x", "y"), *rows])
        (Path(folder) / "t.csv").write_bytes(quoted.getvalue().encode())
        lines = [json.dumps({"y": y, "x": x}, ensure_ascii=False) for x, y in rows]
        (Path(folder) / "t.jsonl").write_bytes("\n\n".join(lines).encode())
        quoted_rows, other = (
            [row.values for row in read_rows(Path(folder) / f"t.{form}", "x", "y")]
            for form in ("csv", "jsonl")
        )
    assert quoted_rows == other == rows


def _saved(folder: Path, rows: int = 5) -> Path:
    Dataset.from_dict({"text": [f"row {row}" for row in range(rows)]}).save_to_disk(
        folder, num_shards=2
    )
    return folder


def test_a_table_in_several_files_is_read_in_the_order_of_its_rows(tmp_path: Path) -> None:
    wanted = [(f"row {row}",) for row in range(5)]
    for each in (_saved(tmp_path / "saved"), tmp_path / "saved" / "*.arrow"):
        source = FileSource([str(each)])
        assert [row.values for row in read_rows(*source.paths(None), "text")] == wanted
        assert read_columns(each, "text").column("text").to_pylist() == [text for (text,) in wanted]
        assert check_columns(each, "text") == 5
    for name, texts in (("b.jsonl", wanted[3:]), ("a.jsonl", wanted[:3])):
        (tmp_path / name).write_text(
            "".join(json.dumps({"text": text}) + "\n" for (text,) in texts)
        )
    assert [row.values for row in read_rows(tmp_path / "*.jsonl", "text")] == wanted
    before = FileSource(["*.jsonl"]).fingerprint(tmp_path)
    (tmp_path / "b.jsonl").write_text('{"text": "another row"}\n')
    assert FileSource(["*.jsonl"]).fingerprint(tmp_path) != before


def _cut(folder: Path) -> None:
    file = folder / "data-00001-of-00002.arrow"
    file.write_bytes(file.read_bytes()[:-8])


@pytest.mark.parametrize(
    ("harm", "name", "said"),
    [
        (_cut, "saved", "saved/data-00001-of-00002.arrow is not a whole Arrow file: the stream has no end"),
        (lambda at: (at / "data-00001-of-00002.arrow").unlink(), "saved", "cannot find saved; .*not .* all its"),
        (lambda at: (at / "data-00000-of-00002.arrow").unlink(), "saved/*.arrow", "1 of 2 files of .* are there"),
        (lambda at: (at / "state.json").unlink(), "saved", "saved is a folder; name its files, such as"),
        (lambda at: (at / "state.json").write_text("[]"), "saved", "not a folder that `datasets` saved whole"),
        (lambda at: (at / "dataset_dict.json").write_text('{"splits": ["a", "b"]}'), "saved", "a, b; name .*saved/a"),
        (lambda at: None, "none-*.arrow", "cannot find none-.*below the data root .*'./none-"),
    ],
    ids=["cut", "lost", "shard", "no state", "other state", "splits", "nothing"],
)  # fmt: skip
def test_a_saved_folder_that_is_not_whole_is_refused(
    tmp_path: Path, harm: Callable[[Path], object], name: str, said: str
) -> None:
    harm(_saved(tmp_path / "saved"))
    with pytest.raises((UserError, MissingData), match=said):
        list(read_rows(*FileSource([name]).paths(tmp_path), "text"))


@pytest.mark.parametrize(
    "name", ["a/b@main/x.csv", "a/b/x.csv", f"a/b@{'c' * 40}/*.csv", f"a/b@{'c' * 40}/../x.csv"]
)
def test_a_file_of_the_hub_needs_a_commit_and_a_number_of_files(name: str) -> None:
    with pytest.raises(
        UserError, match=r"names no file at a commit; write hf://datasets/OWNER/NAME@"
    ):
        FileSource([f"hf://datasets/{name}"])
