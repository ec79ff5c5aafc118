"""Code that does the same has one hash, whatever was written around it."""

from __future__ import annotations

import pytest

from harness.syntax import hash_of_syntax

WRITTEN = b'''\
"""A module."""
import math


class Loss:
    """A loss."""

    scale: float = 0.5  # of both views
    "the scale"

    def of(self, values, *, power=2):
        """The sum."""
        total = {'a': values[0], **{}}
        del (total)
        return math.fsum(value ** power for value in values) * -self.scale, f"{power}, {'x'}"


def nothing():
    """Does nothing."""
    pass
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"# of both views", b"# of all"),
        (b'"""A loss."""\n', b'"""Another docstring,\n\n    which is longer.\n    """\n'),
        (b'        """The sum."""\n', b""),
        (b"    pass\n", b""),
        (
            b"{'a': values[0], **{}}",
            b'{\n            "a": values[0],\n            **{},\n        }',
        ),
        (b"del (total)", b"del total"),
        (b"value ** power", b"(value**power)"),
        (b"\n\n\n", b"\n"),
        (b"'x'", b"u'x'"),
    ],
)
def test_what_changes_no_operation_changes_no_hash(old: bytes, new: bytes) -> None:
    assert old in WRITTEN
    assert hash_of_syntax(WRITTEN.replace(old, new)) == hash_of_syntax(WRITTEN) is not None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"0.5", b"0.25"),
        (b"power=2", b"power=2.0"),
        (b"power=2", b"power=None"),
        (b"*, power", b"power"),
        (b"'a'", b"b'a'"),
        (b"**{}", b"None: {}"),
        (b"-self", b"+self"),
        (b"{power}", b"{power!r}"),
        (b"fsum", b"prod"),
        (b"float", b"int"),
        (b"math\n", b"math, os\n"),
    ],
)
def test_another_operation_or_constant_is_another_hash(old: bytes, new: bytes) -> None:
    assert old in WRITTEN
    assert hash_of_syntax(WRITTEN.replace(old, new)) != hash_of_syntax(WRITTEN)


def test_docstrings_count_where_code_reads_them_and_deep_or_broken_files_have_an_answer() -> None:
    reading = b'"""One."""\nprint(__doc__)\n'
    assert hash_of_syntax(reading) != hash_of_syntax(reading.replace(b"One", b"Two"))
    assert hash_of_syntax(b"def broken(:") is None
    assert hash_of_syntax(b"x = " + b"-" * 80 + b"1") is not None


def test_the_hash_of_a_file_is_that_of_every_version_of_python() -> None:
    assert hash_of_syntax(WRITTEN) == (
        "9a824e35972c0def39aacff295205fedc92c20e547ca05e76596832d3a43ec41"
    )
