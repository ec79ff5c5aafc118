"""From nothing to a filled table: the commands that docs/data.md prints, typed against the
stand-ins.
"""

from __future__ import annotations

import csv
import json

import pytest
from counts import FULL
from world import World, printed_commands

from harness import fetching

#: the loss terms of each method
TERMS = {
    "dalr": {"text", "info", "cons", "cma", "rank", "ima"},
    "kdmcse": {"text", "visual", "textual"},
}


def test_full_counts_are_those_of_the_catalogue() -> None:
    """The stand-in publishes full counts where the project's catalogue has them, so its checks are
    kept.
    """
    counted = {
        output.path: output.rows or output.files
        for entry in fetching.entries().values()
        for output in entry.outputs
        if output.rows or output.files
    }
    assert dict(FULL.expected()) == counted


@pytest.mark.long
def test_the_printed_commands_fill_the_tables(machine: World) -> None:
    """Nothing is set but the number of seeds: of so little data, all epochs are 20 steps of DALR
    and 24 of KDMCSE.
    """
    asks, fetches, imports, runs, reports = printed_commands(
        "docs/data.md", "From nothing to a table"
    )
    lacking = machine.well(asks)
    assert f"fetch     `{fetches.partition(' --accept')[0]}` downloads 11 items" in lacking
    assert "by hand   flickr-images" in lacking
    assert "fetched   11 items" in machine.well(fetches)
    machine.well(imports.replace("FOLDER", str(machine.publishers.by_hand("flickr-images"))))
    # in one process, which is quicker here
    shown = machine.well(
        f"{runs.replace('--seeds 5', '--seeds 1')} --executor serial", HF_HUB_OFFLINE="1"
    )
    assert "missing" not in shown
    assert "skipping" not in shown
    results = [
        json.loads(path.read_text())
        for path in sorted((machine.folder / "results").rglob("seed-*.json"))
    ]
    assert [result["spec"]["method"] for result in results] == ["dalr", "kdmcse"]
    for result in results:
        assert {scored["suite"] for scored in result["evaluations"]} == {
            "sts",
            "geometry",
            "transfer",
            "retrieval",
        }
        assert set(result["losses"]["terms"]) == TERMS[result["spec"]["method"]], (
            "a loss term was never computed"
        )
    machine.well(reports)
    # accuracies on the tests and, beside them, those on the development sets: both could be what
    # DALR prints
    for table, method, cells in (
        ("dalr T1", "dalr", 8),
        ("dalr T2", "dalr", 16),
        ("kdmcse T1", "kdmcse", 8),
    ):
        assert len(_measured(machine, table, method)) == cells, f"{table} is not filled"


def _measured(machine: World, table: str, method: str) -> list[dict[str, str]]:
    """The cells of a method's row on Wikipedia and Flickr30k with a measured and a printed number."""
    with (machine.folder / "reports" / "build" / "tables.csv").open(newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["table"] == table]
    own = [row for row in rows if (row["variant"], row["setting"]) == (method, "wiki+flickr")]
    return [
        row
        for row in own
        if row["mean"] and row["published"] and row["encoder"] == "bert-base-uncased"
    ]
