"""Figures from arrays: histograms, scatter plots and planes of t-SNE."""

from __future__ import annotations

import numpy as np
from figure_samples import arrays, figure, rows, scored, texts, with_arrays

from harness.metrics import ArrayName


def test_encodings_of_the_captions_of_the_figures_own_example() -> None:
    drawn = figure("kdmcse-F9", [with_arrays("kdmcse"), with_arrays("mcse")], arrays())
    layers = rows("kdmcse-F9", [with_arrays("kdmcse"), with_arrays("mcse")], arrays())
    clouds = [[(row["x"], row["y"]) for row in layer] for layer in layers if "x" in layer[0]]
    wanted = arrays()[ArrayName("Flickr30k", "views")][1]
    np.testing.assert_allclose(np.array(clouds), [*wanted, *wanted], rtol=1e-4)
    assert {"1 <b>first</b>", "second $x$", "third", "kdmcse", "mcse"} <= set(texts(drawn))
    assert "<b>" not in drawn.svg


def test_clusters_of_captions() -> None:
    drawn = figure("dalr-F3", [with_arrays("dalr"), with_arrays("dalr[without=cma+cons]")], arrays())
    layers = rows("dalr-F3", [with_arrays("dalr"), with_arrays("dalr[without=cma+cons]")], arrays())
    assert list(map(len, layers)) == [8, 8, 7, 7] * 2
    assert "t-SNE of 30 captions of COCO" in drawn.caption


def test_cosines_against_gold_scores() -> None:
    drawn = figure("dalr-F4", [with_arrays("dalr")], arrays())
    (points,) = rows("dalr-F4", [with_arrays("dalr")], arrays())
    gold, cosines = (arrays()[ArrayName("STS-B", what)] for what in ("gold", "cosine"))
    np.testing.assert_allclose([(row["x"], row["y"]) for row in points], np.stack([gold, cosines], 1), rtol=1e-4)
    assert "dalr, Spearman 77.70" in texts(drawn)


def test_histograms_of_similarities_and_of_ranks() -> None:
    drawn = figure("kdmcse-F6", [with_arrays("kdmcse")], arrays())
    assert {"other pairs, n = 100", "true pairs, n = 4", "printed: few pairs above, 0.8"} <= set(texts(drawn))
    assert "the frozen teacher's space" in drawn.caption
    drawn = figure("kdmcse-F5", [with_arrays("kdmcse")], arrays())
    assert "rank of the last true caption among 4 captions" in texts(drawn)
    (bars, printed) = rows("kdmcse-F5", [with_arrays("kdmcse")], arrays())
    assert [row["height"] for row in bars if row["height"]] == [2, 1, 1]
    assert [row["low"] for row in bars if row["height"]] == [0.5, 2.5, 8.5]
    assert [row["at"] for row in printed] == [100, 200]


def test_a_run_in_its_own_space_only_is_drawn_there() -> None:
    own = {name._replace(space="own") if name.space else name: values for name, values in arrays().items()}
    assert "the method's own shared space" in figure("kdmcse-F6", [with_arrays("kdmcse")], own).caption


def test_runs_without_the_arrays_of_the_papers_task_are_named() -> None:
    assert figure("dalr-F4", [with_arrays("dalr")]).empty == "no run has been evaluated on figures yet"
    other = figure("kdmcse-F5", [with_arrays("kdmcse")], arrays("ToyRetrieval"))
    assert other.empty
    assert other.svg == ""
    assert all("--suites figures" in command for command in other.commands)


def test_commands_name_the_runs_that_the_suite_has_not_evaluated() -> None:
    runs = [with_arrays("simcse"), with_arrays("mcse")]
    runs += [scored("kdmcse", seed, "sts", {"Avg": {"spearman": 70.0}}, setting="wiki+flickr") for seed in range(5)]
    assert figure("dalr-F4", runs, arrays()).commands == (
        "harness run --methods kdmcse,dalr --settings wiki+flickr --encoders bert-base-uncased --seeds 1 "
        "--suites figures --results nowhere",
    )
    assert figure("dalr-F4", [*runs, with_arrays("dalr"), with_arrays("kdmcse")], arrays()).commands == ()
