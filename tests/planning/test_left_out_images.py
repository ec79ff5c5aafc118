"""One gallery for all models of a profile, whichever runs a command asks for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.command_line import Selection
from harness.planning.plan import make_plan
from harness.planning.request import make_inventory, make_request
from harness.runs.execution import Seat
from harness.runs.run import run_one
from harness.store import Store

#: the pictures of the toy world's test split are those of its retrieval task
PROFILE = """
extends = "tiny"
description = "trainings that read test pictures"

[corpora.few]
kind = "toy-pairs"
split = "test"
size = 34

[corpora.most]
kind = "toy-pairs"
split = "test"
size = 950

[settings.few]
corpora = ["toy-text", "few"]

[settings.most]
corpora = ["toy-text", "most"]
"""
FEW = "ToyRetrieval: 34 of 1,000 images are training images of few and are left out for every model; 966 are ranked"
MOST = (
    "ToyRetrieval: 950 of 1,000 images are training images of most; fewer than 100 are left, so models trained in "
    "it have no recalls"
)


@pytest.fixture
def selection(tmp_path: Path) -> Selection:
    (tmp_path / "mine.toml").write_text(PROFILE)
    return Selection(
        str(tmp_path / "mine.toml"),
        methods="mcse",
        settings="toy",
        seeds=1,
        suites="retrieval",
        set=("steps=2", "eval_every=2", "batch_size=8"),
    )


def test_a_model_that_read_none_of_them_leaves_out_what_others_read(
    selection: Selection, tmp_path: Path
) -> None:
    plan = make_plan(make_request(selection), Store(tmp_path / "results"))
    assert plan.warnings == [FEW, MOST]
    result = run_one(plan.runs[0], plan.inventory, Store(tmp_path / "results"), Seat("cpu"))
    scores = result.latest("retrieval").scores["ToyRetrieval"]
    assert (scores["n_seen"], scores["n_images"]) == (34, 966)
    assert scores["t2i_R@1"] >= 0


def test_the_gallery_does_not_depend_on_the_runs_of_a_command(
    selection: Selection, tmp_path: Path
) -> None:
    """And it is the whole task where no training reads of it, under the protocol of all its images."""
    protocols = {
        make_inventory(replace(selection, settings=settings)).find_protocol("retrieval").key
        for settings in ("toy", "few", "most")
    }
    whole = make_inventory(replace(selection, profile="tiny"))
    assert len(protocols) == 1
    assert whole.find_left_out_images("ToyRetrieval").rows == ()
    assert whole.find_protocol("retrieval").key not in protocols
    (tmp_path / "mine.toml").write_text(PROFILE + '[suites.retrieval]\nseen_images = "keep"\n')
    assert make_inventory(selection).list_gallery_remarks("retrieval") == []
