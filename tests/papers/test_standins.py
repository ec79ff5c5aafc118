"""Stand-ins for the papers' settings, encoders, teachers and tasks."""

from __future__ import annotations

import subprocess
import sys

import pytest

from harness.papers.needed import StandIns
from harness.papers.schema import PaperColumn, PaperRow
from harness.profiles.schema import StandsFor

STANDS = StandsFor(
    settings={"flickr": "toy-pairs", "nli[size=5]": "toy"},
    encoders={"b": "toy-bert"},
    teachers={"clip": "toy-clip"},
    tasks={"sts": {"Avg": "ToySTS"}},
)


def test_without_stand_ins_names_are_their_own() -> None:
    assert StandIns().place("mcse[images=clip]", "nli", "b") == ("mcse[images=clip]", "nli", "b")
    assert StandIns().has_suite("transfer")


def test_options_of_a_setting_go_with_its_stand_in() -> None:
    names = StandIns(STANDS)
    assert names.place("mcse", "flickr[shot=100]", "b") == ("mcse", "toy-pairs[shot=100]", "toy-bert")
    assert names.place("mcse", "nli[size=5]", "b") == ("mcse", "toy", "toy-bert")
    assert names.place("mcse", "nli", "b") is None
    assert names.place("mcse", "flickr", "other") is None
    assert (names.has_suite("sts"), names.has_suite("transfer")) == (True, False)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("eyes=clip,other=clip", "eyes=toy-clip,other=clip"),
        ("eyes=clip+clip", "eyes=toy-clip+toy-clip"),
        ("eyes=shuffled", "eyes=shuffled"),
        ("eyes=unknown", None),
    ],
)
def test_only_options_that_name_teachers_are_replaced(options: str, expected: str | None) -> None:
    place = StandIns(STANDS, {"mine": ["eyes"]}.__getitem__).place(f"mine[{options}]", "flickr", "b")
    assert (place and place.variant) == (expected and f"mine[{expected}]")


def test_a_method_is_asked_for_its_options() -> None:
    names = StandIns(STANDS)
    assert names.place("mcse[images=clip]", "flickr", "b") == ("mcse[images=toy-clip]", "toy-pairs", "toy-bert")
    assert names.place("visualcse[contrast=simclr]", "flickr", "b") is not None


def test_a_table_reads_the_split_that_fits_where_a_model_was_trained() -> None:
    """MCSE's captions are of training images of Flickr30k Entities; other settings keep the table's own task."""
    row = PaperRow(variant="mcse", setting="flickr", task="Flickr30k", published="mcse")
    words = {"name": "R@1", "benchmark": "retrieval", "printed": "R@1", "decimals": 1}
    column = PaperColumn.model_validate(words | {"suite": "retrieval", "task": "Avg", "metric": "i2t_R@1"})
    names = StandIns(tests={"flickr": {"Flickr30k": "Flickr30k-Entities"}})
    for setting, task in (
        ("flickr", "Flickr30k-Entities"),
        ("flickr[shot=9]", "Flickr30k-Entities"),
        ("flickr-karpathy", "Flickr30k"),
        ("none", "Flickr30k"),
    ):
        assert names.score(row, column, setting) == ("retrieval", task, "i2t_R@1")


def test_the_room_needs_no_torch() -> None:
    code = "import sys, harness.papers.needed, harness.papers.audit as a; a.audit; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
