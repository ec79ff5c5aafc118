"""Tables on a terminal of 100 columns: in parts where they are wider, with whole numbers."""

from __future__ import annotations

import pytest
from builders import result

from harness.cli import output
from harness.cli.output import plain_table, show_summaries

WIDTH = 100
LONG = "dalr[text=run:simcse/toy/toy-bert/seed-0+run:simcse/toy/toy-bert/seed-2]"


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "WIDTH", WIDTH)


def scores(value: float) -> dict[str, dict[str, dict[str, float]]]:
    """Scores in suites with few and many columns."""
    ways = {f"{way}_R@{k}": value + k for way in ("i2t", "t2i") for k in (1, 5, 10)}
    tasks = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R", "Avg")
    return {
        "sts": {task: {"spearman": value} for task in tasks},
        "retrieval": {"Flickr30k": ways, "COCO": ways, "Avg": ways},
    }


@pytest.mark.parametrize("names", [("simcse", "mcse"), ("simcse", LONG)])
@pytest.mark.parametrize("places", [("toy",), ("wiki", "nli+a-long-setting[shot=100]")])
def test_wide_tables_are_split_and_numbers_stay_whole(
    names: tuple[str, ...], places: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [
        result(name, seed, scores(61.234 + seed + 7 * at), setting=place, encoder="bert-base-uncased")
        for place in places
        for at, name in enumerate(names)
        for seed in range(3)
    ]
    show_summaries(runs)
    printed = capsys.readouterr().out
    lines = [line for line in printed.splitlines() if not line.startswith("  ") or "─" in line]
    assert all(len(line.rstrip()) <= WIDTH for line in lines)
    assert "…" not in printed
    # seven tasks (their equal average is not repeated), each with its mean and deviation in one piece
    for number in ("62.23 ± 1.00", "69.23 ± 1.00*"):
        assert printed.count(f" {number}") == 8 * len(places), (number, "seven tasks and their average")
    assert {line for line in printed.splitlines() if "Flickr30k, text to image" in line}, "the group is in the title"


def test_short_columns_of_a_plain_table_are_not_folded(capsys: pytest.CaptureFixture[str]) -> None:
    plain_table(("name", "value", "what"), [("a" * 90, "12345.678", "word " * 40)])
    printed = capsys.readouterr().out
    assert "12345.678" in printed
    assert all(len(line) <= WIDTH for line in printed.splitlines())
