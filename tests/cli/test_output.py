"""What is printed in terminals of any width and encoding."""

from __future__ import annotations

import io
import sys

import pytest

from harness.cli import output
from harness.cli.output import print_keyed_table, print_whatever_the_encoding

KEY = "rankcse[teachers=run:simcse/toy/toy-bert/seed-0]/toy/toy-bert#0123abcd"


@pytest.mark.parametrize("width", [80, 100, 200])
def test_keys_are_never_broken(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "WIDTH", width)
    rows = [(KEY, "steps=20", "tiny", "0,1,2", "2026-01-02 03:04", "present")]
    print_keyed_table(("runs", "--set", "profile", "seeds", "finished", "state"), rows)
    out = capsys.readouterr().out
    assert KEY in out, "in one piece"
    assert "2026-01-02 03:04" in out
    assert "present" in out


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_an_encoding_that_lacks_a_character_gets_another_one(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    print_whatever_the_encoding()
    sys.stdout.write("77.20 ± 0.24, † λ ≈ 文")
    sys.stdout.flush()
    written = sys.stdout.buffer.getvalue().decode(encoding)
    assert written.replace("±", "+/-") == "77.20 +/- 0.24, + lambda ~ ?"
