"""Gains by subset as bars."""

from __future__ import annotations

from builders import result
from figure_samples import BERT, figure, rows, texts

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
    bars = rows("mcse-F4", runs)[0]
    assert [(row["series"], row["y"]) for row in bars] == [("STS12", 10.0), ("STS12", -3.0), ("STS15", 1.0)]
    drawn = figure("mcse-F4", runs)
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
    assert [row["y"] for row in rows("mcse-F4", runs)[0]] == [2.0, 2.0]
    assert figure("mcse-F4", runs[:1]).empty == "no setting in which both simcse and mcse were run yet"
