"""Averages against an option of the setting or of the method, and gains by subset as bars."""

from __future__ import annotations

import pytest
from builders import result
from figure_samples import BERT, averages, figure, rows, texts

from harness.store import Result


def test_curves_over_the_size_of_a_setting() -> None:
    sizes = ["flickr[shot=100]", "flickr[shot=1000]", "flickr"]
    runs = [one for place, size in enumerate(sizes) for one in averages("mcse", size, [60.0 + 5 * place])]
    runs += averages("simcse", "flickr[shot=1000]", [50.0, 54.0]) + averages("simcse", "flickr", [58.0])
    (points,) = rows("mcse-F3", runs)
    found = {(row["series"], row["x"]): (row["lo"], row["y"], row["hi"]) for row in points}
    assert {key: y for key, (_, y, _) in found.items()} == {
        **{("mcse (n = 1)", place): 60.0 + 5 * place for place in range(3)},
        **{("simcse (n = 1 to 2)", 1.0): 52.0, ("simcse (n = 1 to 2)", 2.0): 58.0},
    }
    low, _, high = found["simcse (n = 1 to 2)", 1.0]
    assert (low + high, high - low) == pytest.approx((104.0, 2 * 8**0.5))
    drawn = figure("mcse-F3", runs)
    assert [text for text in texts(drawn) if text in ("100", "1000", "all")] == ["100", "1000", "all"]
    assert {"training pairs", "average of sts, points of Spearman"} <= set(texts(drawn))
    assert len(drawn.commands) == 12


def test_a_variant_without_the_option_is_a_line() -> None:
    runs = [
        *averages("simcse-sup", "nli[deletion=0.3]", [70.0]),
        *averages("simcse-sup", "nli[deletion=0.4]", [69.0]),
        *averages("simcse-sup", "nli[swap=2]", [72.0]),
        *averages("simcse-sup", "nli", [80.0]),
        *averages("visualcse", "wiki+imagenet", [76.0]),
    ]
    layers = rows("nonling-F3", runs)
    assert [row["y"] for points in layers for row in points if "y" in row] == [80.0, 70.0, 69.0, 80.0, 72.0]
    lines = [(row["line"], row["at"]) for points in layers for row in points if "line" in row]
    constant = ("visualcse / wiki+imagenet (n = 1)", 76.0)
    assert lines == [constant, ("printed: below the line from, 0.4", 2.0), constant]
    found = texts(figure("nonling-F3", runs))
    assert [text for text in found if text in ("none", "0.3", "0.4", "2", "deletion", "swap")] == [
        *("none", "0.3", "0.4", "deletion"),
        *("none", "2", "swap"),
    ]
    assert "part or a noisy copy" in figure("nonling-F3", averages("simcse-sup", "nli", [80.0])).empty


def test_a_sweep_places_the_plain_variant_at_its_default_and_shows_the_printed_optimum() -> None:
    runs = [
        run.model_copy(update={"hyperparameters": {"method": {"margin": margin}}})
        for variant, margin, value in (("kdmcse[margin=0.05]", 0.05, 70.0), ("kdmcse", 0.125, 76.0))
        for run in averages(variant, "wiki+flickr", [value])
    ]
    printed, points = rows("kdmcse-F7", [*runs, *averages("kdmcse[margin=0.2]", "wiki+flickr", [71.0])])
    assert [(row["x"], row["y"]) for row in points] == [(0.05, 70.0), (0.125, 76.0), (0.2, 71.0)]
    assert printed == [{"line": "printed: best margin, 0.125", "at": 0.125}]
    assert "fewer than two values" in figure("kdmcse-F7", runs[:1]).empty, "one point is no sweep"


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
