"""Alignment against uniformity: where points stand, and when printed numbers stand beside them."""

from __future__ import annotations

import pytest
from builders import result
from figure_samples import POINTS, figure, rows, texts


def test_points_are_at_their_means() -> None:
    drawn = figure("mcse-F2", POINTS)
    assert drawn.empty == ""
    points, printed = rows("mcse-F2", POINTS)
    found = [(row["x"], row["y"], row["score"]) for row in points]
    assert found == [pytest.approx(wanted) for wanted in ((-2.1, 0.3, 71.0), (-1.1, 0.3, 75.0), (-3.1, 0.9, 74.0))]
    assert points[0]["x2"] - points[0]["x1"] == pytest.approx(2 * 0.02**0.5)
    # KDMCSE Table 2 prints MCSE on wiki+coco, and nothing on flickr only
    assert [row["setting"] for row in printed] == ["wiki+coco, printed"]
    assert "uniformity, STS-B-dev (lower is better)" in texts(drawn)
    assert "SimCSE / flickr / bert-base-uncased (2 seeds)" in drawn.caption
    assert len(drawn.commands) == 4
    assert any("--methods simcse,mcse --settings coco " in command for command in drawn.commands)
    assert all("--suites sts,geometry" in command for command in drawn.commands)


def test_no_printed_number_stands_beside_runs_of_another_profile() -> None:
    scores = {"geometry": {"ToySTS": {"alignment": 0.3, "uniformity": -2.0}}}
    toys = [
        result(variant, 0, scores, setting=setting, encoder="bert-base-uncased")
        for variant in ("simcse", "mcse")
        for setting in ("wiki+coco", "toy")
    ]
    drawn = figure("mcse-F2", toys, profile="tiny")
    assert drawn.key == "mcse-F2-tiny"
    assert drawn.title == "MCSE Figure 2 on toy data", "its own title is that of other data"
    assert drawn.svg
    assert not [text for text in texts(drawn) if "printed" in text]
    assert figure("mcse-F2", toys).empty == "no run of profile paper yet"


def test_only_the_shipped_paper_profile_stands_beside_print() -> None:
    own = [one.model_copy(update={"profile_origin": "file"}) for one in POINTS]
    assert figure("mcse-F2", own).empty == "no run of profile paper yet"


def test_the_same_groups_without_sts_are_drawn_without_colours() -> None:
    bare = [one.model_copy(update={"evaluations": one.evaluations[:1]}) for one in POINTS]
    drawn = figure("mcse-F2", bare)
    assert [row["score"] for row in rows("mcse-F2", bare)[0]] == [None] * 3
    assert not [text for text in texts(drawn) if text.startswith("sts average")]
    assert [text for text in texts(figure("mcse-F2", POINTS)) if text.startswith("sts average")]
