from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from harness.datafiles import lines_of, read_lines, read_table
from harness.errors import UserError


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_lines_end_at_line_feeds_only_and_a_byte_order_mark_is_dropped(tmp_path: Path, name: str) -> None:
    raw = "\ufeffone\u2028still one\r\ntwo\n\nlast".encode()
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    assert read_lines(tmp_path / name) == ["one\u2028still one\r", "two", "", "last"]


def test_lines_are_read_lazily(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"fine\n\xff\n")
    lines = lines_of(tmp_path / "a.txt")
    assert next(lines) == "fine"
    with pytest.raises(UserError, match=r"a\.txt, line 2, cannot be read as UTF-8"):
        next(lines)


def test_a_table_is_read_by_column_names_without_quoting(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text('text\tlabel\n"a\t1\nb"\t0\n')
    assert read_table(tmp_path / "t.tsv", "label") == [{"text": '"a', "label": "1"}, {"text": 'b"', "label": "0"}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("label\ttext\n", "has a header and no rows"),
        ("label\n1\n", "line 1: no column 'text' among"),
        ("label\ttext\r\n1\ta\r\n", "line 1: no column 'text'.*line feed only"),
        ("label\ttext\n1\ta\n1\n", "line 3: 1 tab-separated fields, the header has 2"),
    ],
)
def test_a_broken_table_is_refused_in_one_line_with_its_place(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "t.tsv"
    path.write_bytes(content.encode())
    with pytest.raises(UserError, match=message) as caught:
        read_table(path, "label", "text")
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
