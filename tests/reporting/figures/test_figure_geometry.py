"""Alignment against uniformity: where points stand, and when printed numbers stand beside them."""

from __future__ import annotations

import numpy as np
from builders import result
from figure_samples import POINTS, figure, group, marks, texts


def test_points_are_at_their_means() -> None:
    drawn = figure("mcse-F2", POINTS)
    assert drawn.empty == ""
    places = np.concatenate([marks(one) for one in group(drawn, r"point-\d+")])
    assert len(places) == 3
    wanted = np.array([[-2.1, 0.3], [-1.1, 0.3], [-3.1, 0.9]])
    # pixels are a linear function of values, with y upside down
    for axis, sign in ((0, 1), (1, -1)):
        slope, start = np.polyfit(wanted[:, axis], places[:, axis], 1)
        assert slope * sign > 0
        np.testing.assert_allclose(slope * wanted[:, axis] + start, places[:, axis], atol=0.01)
    assert "uniformity, STS-B-dev (lower is better)" in texts(drawn)
    # KDMCSE Table 2 prints MCSE on wiki+coco, and nothing on flickr only
    assert [text for text in texts(drawn) if "printed" in text] == ["wiki+coco, printed"]
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
    assert len(group(drawn, r"point-\d+")) == 4
    assert not [text for text in texts(drawn) if "printed" in text]
    assert figure("mcse-F2", toys).empty == "no run of profile paper yet"


def test_only_the_shipped_paper_profile_stands_beside_print() -> None:
    own = [one.model_copy(update={"profile_origin": "file"}) for one in POINTS]
    assert figure("mcse-F2", own).empty == "no run of profile paper yet"


def test_the_same_groups_without_sts_are_drawn_without_colours() -> None:
    bare = [one.model_copy(update={"evaluations": one.evaluations[:1]}) for one in POINTS]
    drawn = figure("mcse-F2", bare)
    assert len(group(drawn, r"point-\d+")) == 3
    assert not [text for text in texts(drawn) if text.startswith("sts average")]
    assert [text for text in texts(figure("mcse-F2", POINTS)) if text.startswith("sts average")]
