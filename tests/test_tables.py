"""Lines and tables in files of users: how they are read, and one line with its place for each mistake."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from harness import tables
from harness.errors import UserError
from harness.tables import lines_of, read_rows


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_lines_end_at_line_feeds_only_and_a_byte_order_mark_is_dropped(tmp_path: Path, name: str) -> None:
    raw = "\ufeffone\u2028still one\r\ntwo\n\nlast".encode()
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    assert list(lines_of(tmp_path / name)) == ["one\u2028still one\r", "two", "", "last"]


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
    monkeypatch.setattr(tables, "LONGEST_LINE", 1000)
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    lines = lines_of(tmp_path / name)
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
def test_a_broken_table_is_refused_in_one_line_with_its_place(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "t.tsv"
    path.write_bytes(content.encode())
    with pytest.raises(UserError, match=f"^{path}.*{message}"):
        list(read_rows(path, "label", "text"))


def test_a_line_of_json_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    for line in ("{", '{"a": NaN}', '{"a": "\\ud800"}', '{"a": Infinity}'):
        path.write_text('{"a": "fine"}\n' + line)
        with pytest.raises(UserError, match=r"x\.jsonl, line 2:"):
            list(read_rows(path, "a"))
