"""Every table and figure of the four papers, planned on a machine that fetched what `harness fetch`
lists.
"""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest
from hub import publish_tasks
from world import ROOT, World

import harness
from harness import fetching
from harness.cli.data import fetch
from harness.evaluation.mteb_suite import MissingTask
from harness.papers.published import read_papers
from harness.planning.missing import list_missing, make_fetch_list
from harness.profiles import load_profile

BY_HAND = ("flickr-images", "imagenet60", "cc12m-1", "cc12m-2")
TABLES = [f"{paper.name}:{name}" for paper in read_papers() for name in paper.run_tables]
FIGURES = [f"{paper.name}:{name}" for paper in read_papers() for name in paper.figures]
#: DALR Table 5 is on 52 data sets of mteb, which `make rehearsal` fetches too
OF_MTEB = "dalr:T5"
#: what a reading cannot train: DALR's public code reads features of tokens, which CLIP does not
#: give
UNFIT = {
    "dalr[text=clip]@official/wiki+flickr",
    "dalr[image=resnet,text=clip]@official/wiki+flickr",
}


@pytest.fixture(scope="module")
def filled(machine: World) -> World:
    """The machine with everything that the tables and figures need."""
    restricted = ",".join(name for name, entry in fetching.entries().items() if entry.restricted)
    chosen = f"--table {','.join(name for name in TABLES if name != OF_MTEB)} --figure {','.join(FIGURES)}"
    machine.well(f"harness fetch {chosen} --readings paper,official --accept-licences {restricted}")
    for name in BY_HAND:
        machine.well(f"harness data import {name} {machine.publishers.by_hand(name)}")
    return machine


def _printed_fetches() -> list[str]:
    """The commands of the documents that agree to licences."""
    texts = [
        (ROOT / name).read_text(encoding="utf-8")
        for name in ("README.md", "docs/data.md", "docs/reproduce.md")
    ]
    joined = "\n".join(texts).replace("\\\n", " ")
    return re.findall(r"^(harness fetch .*--accept-licences [\w,-]+)", joined, flags=re.M)


@pytest.mark.parametrize("command", _printed_fetches())
def test_the_printed_licences_are_those_that_are_asked_for(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path))
    given = fetch.make_context("fetch", command.split()[2:]).params
    accepted = given.pop("accept_licences")
    assert given.pop("dry_run") is False
    plan = harness.plan(**given)
    asked = [
        item.name
        for item in make_fetch_list(list_missing(plan), tmp_path, ask=False).items
        if item.terms
    ]
    assert sorted(accepted) == sorted(asked)


@pytest.mark.long
@pytest.mark.parametrize("paper", [paper.name for paper in read_papers()])
def test_no_table_and_no_figure_lacks_anything(
    filled: World, paper: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In both readings; no run is left out, and each is evaluated on something."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(filled.folder / "hf" / "hub"))
    monkeypatch.setenv("HARNESS_CACHE", str(filled.folder / "cache"))
    plan = harness.plan(
        paper=paper, readings="paper,official", seeds=1, data_root=filled.data, results="none"
    )
    names = {name for name in (*TABLES, *FIGURES) if name.startswith(f"{paper}:")}
    assert {name for name, runs in plan.request.entries.items() if runs} == names
    assert plan.missing == []
    assert {skip.what for skip in plan.skipped} == (UNFIT if paper == "dalr" else set())
    of_mteb = plan.request.entries.get(OF_MTEB, ())
    assert pickle.loads(pickle.dumps((plan.runs, plan.inventory))), (
        "executors send them to other processes"
    )
    idle = [run.key for run in plan.runs if not run.todo and run.resolved.spec not in of_mteb]
    assert idle == [], "these are only teachers, or have no suite"
    lacking = dict(plan.without_data)
    data_sets = lacking.pop("mteb", ())
    assert lacking == {}
    assert len(data_sets) == (52 if paper == "dalr" else 0)
    assert all(
        isinstance(item, MissingTask) and item.hub and item.revision for item in data_sets
    ), "by a program"


@pytest.mark.long
def test_the_data_of_mteb_come_too_and_are_read_offline(filled: World) -> None:
    """Pairs and a retrieval data set, whose licence asks for consent."""
    (filled.folder / "mteb.toml").write_text(
        'extends = "paper"\n[suites.mteb]\ntasks = ["STSBenchmark", "SciFact"]\n'
    )
    publish_tasks(filled.standin, load_profile(str(filled.folder / "mteb.toml")))
    chosen = "--profile ./mteb.toml --methods none --encoders bert-base-uncased --suites mteb"
    with pytest.raises(AssertionError, match=r"\(SciFact: cc-by-nc-4\.0\)"):
        filled.well(f"harness fetch {chosen}")
    filled.well(f"harness fetch {chosen} --accept-licences SciFact")
    printed = filled.well(f"harness run {chosen} --seeds 1 --executor serial", HF_HUB_OFFLINE="1")
    assert "missing" not in printed
    (result,) = harness.results(filled.folder / "results").runs
    assert {"STSBenchmark", "SciFact"} < set(result.evaluations[0].scores)
