"""What a plan lacks: which command brings it, which licences ask for consent, and whether it fits
on the disk.
"""

from __future__ import annotations

import shlex
import threading
from pathlib import Path

import pytest

import harness
from harness.encoders.locate import MissingModel
from harness.errors import UserError
from harness.fetching.downloads import Fetchable, FetchList
from harness.planning.missing import (
    describe_disk_need,
    explain_how_to_get,
    find_costly_suites,
    is_restrictive,
    list_missing_encoders,
    list_paper_needs,
    make_fetch_command,
    make_fetch_list,
)
from harness.profiles import load_profile
from harness.sources import Missing


@pytest.fixture(autouse=True)
def _no_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HARNESS_DATA", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))


def thing(
    name: str, bring=lambda say, watch: None, folder: Path | None = Path("/"), **values
) -> Fetchable:
    return Fetchable(
        name,
        name,
        **{"size": 10, "spare": 0, "place": folder, "terms": "", "bring": bring} | values,
    )


FREE = (
    None,
    "not specified",
    "unknown",
    "mit",
    "apache-2.0",
    "cc-by-4.0",
    "cc-by-sa-3.0",
    "cc0-1.0",
    "bsd-3-clause",
)
RESTRICTED = (
    "cc-by-nc-4.0",
    "msr-la-nc",
    "other",
    "openrail",
    "cc-by-nd-4.0",
    "https://a.org/terms",
)


def test_licences_that_restrict_use_ask_for_consent() -> None:
    assert [licence for licence in (*FREE, *RESTRICTED) if is_restrictive(licence)] == [*RESTRICTED]


def test_the_command_has_the_selection_of_the_plan(tmp_path: Path) -> None:
    plan = harness.plan(
        methods="dalr,kdmcse", seeds=5, set={"epochs": 2}, results=tmp_path / "other results"
    )
    assert make_fetch_command(plan) == (
        f"harness fetch --methods dalr,kdmcse --seeds 5 --set epochs=2 --results '{tmp_path}/other results'"
    )
    table = harness.plan(
        table="mcse:T1", readings=["paper", "official"], seeds=1, data_root=tmp_path
    )
    assert make_fetch_command(table) == (
        f"harness fetch --table mcse:T1 --readings paper,official --seeds 1 --data-root {tmp_path}"
    )
    assert make_fetch_command(harness.plan()) == "harness fetch"
    assert (
        make_fetch_command(harness.plan("tiny", tasks="ToySTS"))
        == "harness fetch --profile tiny --tasks ToySTS"
    )
    assert (
        make_fetch_command(harness.plan(table="mcse:T1", released=True))
        == "harness fetch --released --table mcse:T1"
    )


def test_each_kind_of_missing_thing_finds_its_source(tmp_path: Path) -> None:
    missing = [
        Missing("wiki/wiki1m_for_simcse.txt", "fetch it"),
        Missing("flickr/images", "get it"),
        Missing("sts/STS12.tsv", "fetch it"),
        Missing("sts/STS13.tsv", "fetch it"),
        Missing("secret/features.hdf5", "extract them"),
        MissingModel("weights", "download", "owner/model", "c" * 40, about=7_000_000),
        MissingModel("weights", "download", "owner/model", "c" * 40, "timm", about=7_000_000),
    ]
    listed = make_fetch_list(missing, tmp_path, ask=False)
    assert [(item.name, item.size, item.place) for item in listed.items] == [
        ("wiki1m", 120_000_000, tmp_path),
        ("senteval", 90_000_000, tmp_path),
        ("owner/model", 7_000_000, tmp_path / "hub"),
    ]
    assert [item.what for item in listed.by_hand] == ["flickr-images", "secret/features.hdf5"]
    assert "shannon.cs.illinois.edu" in listed.by_hand[0].how
    assert "harness data import flickr-images FOLDER" in listed.by_hand[0].how
    assert listed.size_text == "217 MB"
    assert describe_disk_need(missing) == "217 MB and 2 of unknown size"


def test_what_is_needed_first_is_named() -> None:
    """A data root, in which the commit of a model at `main` is recorded, and every licence in one
    option.
    """
    with pytest.raises(UserError, match="no data root is set"):
        make_fetch_list(
            [MissingModel("weights", "download", "owner/model", "main")], None, ask=False
        ).check(())
    listed = FetchList(
        (thing("a", terms="for research"), thing("b"), thing("c", terms="ask first")), ()
    )
    with pytest.raises(UserError, match=r"\(c: ask first\).*--accept-licences a,c$"):
        listed.check(["a"])
    listed.check(["a", "c"])


def test_things_on_one_disk_are_added_up_with_the_room_for_what_is_unpacked_at_a_time(
    tmp_path: Path,
) -> None:
    there, absent = tmp_path / "one", tmp_path / "two" / "not" / "there"
    there.mkdir()
    first, second = (
        thing("a", folder=there, size=100, spare=100),
        thing("b", folder=absent, size=30, spare=40),
    )
    items = (first, second, thing("c", folder=there))
    ((_, needed, free),) = FetchList(items, ()).measure_room()
    assert needed == 100 + 30 + 10 + (100 + 40)
    many = [
        thing(str(spare), folder=there, size=1, spare=spare, copied=5)
        for spare in (1, 2, 30, 40, 50, 60)
    ]
    ((_, needed, _),) = FetchList(tuple(many), ()).measure_room()
    assert needed == 6 * (1 + 5) + 30 + 40 + 50 + 60, "four at a time, and the copies stay"
    with pytest.raises(UserError, match=r"are needed on the disk of .* are free; free some space"):
        FetchList((*items, thing("d", folder=there, size=free)), ()).check(())


def test_things_are_brought_side_by_side_and_failures_are_told_apart() -> None:
    both = threading.Barrier(2, timeout=120)

    def fail(say, watch) -> None:
        raise UserError("it is gone")

    together = [thing(name, lambda say, watch: both.wait()) for name in "ab"]
    items = (*together, thing("c", fail), thing("d", lambda say, watch: {}["key"]))
    said: list[str] = []
    failed = FetchList(items, ()).carry_out(said.append, lambda name: lambda done, total: None)
    assert failed == {"c": "it is gone", "d": "KeyError: 'key'"}
    assert sorted(said) == ["c: failed", "d: failed"]


def test_every_table_and_figure_has_a_line_of_what_it_lacks() -> None:
    needs = {
        name: (option, listed)
        for option, name, listed in list_paper_needs(load_profile("paper"), None)
    }
    option, lacked = needs["mcse:T1"]
    assert option == "table"
    assert {"wiki1m", "senteval", "flickr-captions", "google-bert/bert-base-uncased"} <= {
        i.name for i in lacked.items
    }
    assert needs["mcse:F3"][0] == "figure"
    assert {name.partition(":")[0] for name in needs} == {"mcse", "kdmcse", "dalr", "nonling"}
    tiny = list(list_paper_needs(load_profile("tiny"), None))
    assert all(not listed.items and not listed.by_hand for _, _, listed in tiny)
    profile = load_profile("paper")
    tables = {**profile.encoders, **profile.teachers, **profile.patches, **profile.released}
    assert [name for name, table in tables.items() if table.hub and table.about is None] == [], (
        "sizes of models"
    )


def test_suites_that_cause_much_of_a_download_and_encoders_to_give_are_named(
    tmp_path: Path,
) -> None:
    planned = harness.plan(methods="dalr", seeds=1, results=tmp_path)
    (line,) = find_costly_suites(planned)
    assert line.startswith("retrieval causes 6.7 GB of ")
    option = shlex.split(line.partition("`")[2].partition("`")[0])
    assert (
        list(
            find_costly_suites(
                harness.plan(methods="dalr", seeds=1, results=tmp_path, suites=option[1])
            )
        )
        == []
    )
    assert list_missing_encoders(planned) == ["bert-base-uncased"]
    only = harness.plan("small", methods="none[pooling=cls]", suites="sts", results=tmp_path)
    assert explain_how_to_get(only).endswith("or give --encoders all-minilm-l6-v2=FOLDER")
