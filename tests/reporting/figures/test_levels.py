"""Averages against an option of the setting or of the method."""

from __future__ import annotations

import numpy as np
import pytest
from figure_samples import averages, figure, group, marks, texts


def test_curves_over_the_size_of_a_setting() -> None:
    sizes = ["flickr[shot=100]", "flickr[shot=1000]", "flickr"]
    runs = [one for place, size in enumerate(sizes) for one in averages("mcse", size, [60.0 + 5 * place])]
    runs += averages("simcse", "flickr[shot=1000]", [50.0, 54.0]) + averages("simcse", "flickr", [58.0])
    drawn = figure("mcse-F3", runs)
    curves = [marks(one) for one in group(drawn, r"curve-\d+")]
    assert sorted(len(one) for one in curves) == [2, 3]
    longer = max(curves, key=len)
    np.testing.assert_allclose(np.diff(longer[:, 0]), np.diff(longer[:, 0])[0], rtol=1e-3)
    np.testing.assert_allclose(np.diff(longer[:, 1]), np.diff(longer[:, 1])[0], rtol=1e-3)
    found = texts(drawn)
    assert [text for text in found if text in ("100", "1000", "all")] == ["100", "1000", "all"]
    assert {"training pairs", "average of sts, points of Spearman"} <= set(found)
    assert len(drawn.commands) == 12


def test_a_variant_without_the_option_is_a_line() -> None:
    runs = [
        *averages("simcse-sup", "nli[deletion=0.3]", [70.0]),
        *averages("simcse-sup", "nli[deletion=0.4]", [69.0]),
        *averages("simcse-sup", "nli[swap=2]", [72.0]),
        *averages("simcse-sup", "nli", [80.0]),
        *averages("visualcse", "wiki+imagenet", [76.0]),
    ]
    drawn = figure("nonling-F3", runs)
    assert [len(marks(one)) for one in group(drawn, r"curve-\d+")] == [3, 2]
    found = texts(drawn)
    assert found.count("visualcse / wiki+imagenet (n = 1)") == 1
    assert [text for text in found if text in ("none", "0.3", "0.4", "2", "deletion", "swap")] == [
        *("none", "0.3", "0.4", "deletion"),
        *("none", "2", "swap"),
    ]
    assert found.count("printed: below the line from, 0.4") == 1
    assert "part or a noisy copy" in figure("nonling-F3", averages("simcse-sup", "nli", [80.0])).empty


def test_a_sweep_places_the_plain_variant_at_its_default_and_shows_the_printed_optimum() -> None:
    runs = [
        run.model_copy(update={"hyperparameters": {"method": {"margin": margin}}})
        for variant, margin, value in (("kdmcse[margin=0.05]", 0.05, 70.0), ("kdmcse", 0.125, 76.0))
        for run in averages(variant, "wiki+flickr", [value])
    ]
    drawn = figure("kdmcse-F7", [*runs, *averages("kdmcse[margin=0.2]", "wiki+flickr", [71.0])])
    (curve,) = (marks(one) for one in group(drawn, r"curve-\d+"))
    steps = np.diff(curve[:, 0])
    assert steps[0] == pytest.approx(steps[1], rel=1e-3)
    assert "printed: best margin, 0.125" in texts(drawn)
    assert "fewer than two values" in figure("kdmcse-F7", runs[:1]).empty, "one point is no sweep"
