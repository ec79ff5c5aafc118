"""Gains by subset as bars."""

from __future__ import annotations

import numpy as np
import pytest
from builders import result
from figure_samples import BERT, figure, group, numbers, texts

from harness.store import Result

SETTING = "wiki+flickr"


def subsets(variant: str, seed: int, *values: float) -> Result:
    scores = {"STS12": {"spearman": 1.0}, "STS15": {"spearman": 1.0}, "STS-B": {"spearman": 99.0}}
    parts = {
        "STS12": {"MSRvid": {"spearman": values[0]}, "MSRpar": {"spearman": values[1]}},
        "STS15": {"images": {"spearman": values[2]}},
    }
    return result(variant, seed, {"sts": scores}, parts={"sts": parts}, setting=SETTING, **BERT)


def test_bars_are_gains_by_subset_over_common_seeds() -> None:
    runs = [subsets("simcse", 0, 70, 60, 50), subsets("simcse", 1, 72, 61, 50)]
    runs += [subsets("mcse", 0, 80, 57, 52), subsets("mcse", 1, 82, 58, 50), subsets("mcse", 2, 0, 0, 0)]
    drawn = figure("mcse-F4", runs)
    bars = [numbers(one) for one in group(drawn, r"bar-\d+")]
    heights = np.array([bar[:, 1].max() - bar[:, 1].min() for bar in bars])
    np.testing.assert_allclose(heights / heights[0], [1.0, 0.3, 0.1], rtol=1e-2)
    # the loss is below the line on which the gains stand
    assert bars[1][:, 1].min() == pytest.approx(bars[0][:, 1].max(), abs=0.01)
    names = ("MSRvid", "MSRpar", "images", "STS-B")
    assert [text for text in texts(drawn) if text in names] == ["MSRvid", "MSRpar", "images"]
    legend = [text for text in texts(drawn) if text in ("STS12", "STS15")]
    assert legend == ["STS12", "STS15"], "each once"


def test_tasks_without_subsets_have_one_bar_each() -> None:
    runs = [
        result(
            variant, 0, {"sts": {"STS12": {"spearman": value}, "STS13": {"spearman": value}}}, setting=SETTING, **BERT
        )
        for variant, value in (("simcse", 60.0), ("mcse", 62.0))
    ]
    assert len(group(figure("mcse-F4", runs), r"bar-\d+")) == 2
    assert figure("mcse-F4", runs[:1]).empty == "no setting in which both simcse and mcse were run yet"
