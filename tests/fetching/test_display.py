"""Downloads as plain lines, where there is no terminal."""

from __future__ import annotations

import pytest

from harness.fetching.downloads import LINE_EVERY_S, shown


def test_plain_lines_come_now_and_then_with_amount_and_rate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 100.0
    monkeypatch.setattr("harness.fetching.downloads.monotonic", lambda: now)
    with shown() as (say, watch):
        say("data: fetching [it] from /somewhere")
        progress = watch("data.bin")
        progress(1_000_000, 50_000_000)
        now += LINE_EVERY_S - 1
        progress(9_000_000, 50_000_000)
        now += 1
        progress(21_000_000, 50_000_000)
        progress(22_000_000, None)
    assert capsys.readouterr().err.splitlines() == [
        "data: fetching [it] from /somewhere",
        "data.bin: 21 MB of 50 MB, 2 MB/s",
    ]
