"""The papers' figures: where points, curves and bars stand, what stands beside them, and what an
empty one says.
"""

from __future__ import annotations

import csv
import io
import os
import re
import zlib
from pathlib import Path
from xml.etree import ElementTree as Tree

import numpy as np
import pytest
from builders import result, sts, tables
from figure_samples import BERT, PAPERS, SVG, averages, drawn, figure, scored, texts
from two_columns import typeset

from harness.caches import get_cache_folder
from harness.metrics import AVERAGE, ArrayName
from harness.reporting import look
from harness.reporting.contents import Contents
from harness.reporting.figures.scores import NAME_GAP, _set_name_heights
from harness.reporting.look import PNG_SCALE, WIDTHS, LineAcross, draw_lines, draw_picture
from harness.reporting.sections.papers import PapersSection
from harness.reporting.tables.grids import make_summary_grid
from harness.reporting.tables.latex import format_latex_table
from harness.store import Result, Store


def geometry(
    variant: str, setting: str, seed: int, uniformity: float, alignment: float, sts: float
) -> Result:
    tasks = {
        "STS-B-all": {"alignment": alignment, "uniformity": uniformity},
        "STS-B": {"alignment": 9.0},
    }
    return result(
        variant,
        seed,
        {"geometry": tasks, "sts": {AVERAGE: {"spearman": sts}}},
        setting=setting,
        **BERT,
    )


POINTS = [
    geometry("simcse", "flickr", 0, -2.0, 0.2, 70.0),
    geometry("simcse", "flickr", 1, -2.2, 0.4, 72.0),
    geometry("mcse", "flickr", 0, -1.1, 0.3, 75.0),
    geometry("mcse", "wiki+coco", 0, -3.1, 0.9, 74.0),
]


def arrays(task: str = "Flickr30k") -> dict[ArrayName, np.ndarray]:
    """The arrays of the suite `figures`, small."""
    rng = np.random.default_rng(0)
    true, other = np.zeros(200, dtype=int), np.zeros(200, dtype=int)
    true[150:153], other[100:110] = [1, 2, 1], 10
    return {
        ArrayName(task, "worst_rank", "teacher"): np.array([1, 1, 3, 9]),
        ArrayName(task, "similarity_true", "teacher"): true,
        ArrayName(task, "similarity_other", "teacher"): other,
        ArrayName(task, "similarity_edges", "teacher"): np.linspace(-1, 1, 201),
        ArrayName(task, "triples"): np.array(
            [[f"{n} <b>first</b>", "second $x$", "third"] for n in range(5)]
        ),
        ArrayName(task, "views"): rng.standard_normal((5, 3, 6, 2)).astype(np.float32),
        ArrayName("COCO", "tsne"): rng.standard_normal((30, 2)).astype(np.float32),
        ArrayName("COCO", "clusters"): np.arange(30) % 4,
        ArrayName("STS-B", "gold"): np.linspace(0, 5, 11),
        ArrayName("STS-B", "cosine"): np.linspace(-0.5, 1, 11),
    }


def with_arrays(variant: str) -> Result:
    """A run that the suite `figures` has evaluated."""
    tasks = {"STS-B": {"spearman": 77.7, "n": 11.0}, "Flickr30k": {"n_images": 4.0}}
    return scored(variant, 0, "figures", tasks, setting="wiki+flickr")


def test_a_report_has_the_papers_figures_and_those_of_other_profiles() -> None:
    toy = result(
        "simcse", 0, {"geometry": {"ToySTS": {"alignment": 1.0, "uniformity": -2.0}}}, dev=(40, 55)
    )
    made = PapersSection("papers", Contents(Store(Path("nowhere")), [POINTS[-1], toy])).figures
    shown = [picture for picture in made if picture.svg]
    assert next(picture.key for picture in shown) == "mcse-F2"
    assert "mcse-F2-tiny" in [picture.key for picture in shown]
    empty = [picture for picture in made if not picture.svg]
    assert all(
        picture.paper and picture.profile == "paper" and picture.empty and picture.commands
        for picture in empty
    )


def test_pictures_are_reproducible_with_text_and_a_title() -> None:
    first, second = figure("mcse-F2", POINTS), figure("mcse-F2", POINTS)
    assert first.svg == second.svg
    assert first.picture == second.picture
    assert first.picture.pdf.startswith(b"%PDF")
    assert b"CreationDate" not in first.picture.pdf
    assert Tree.fromstring(first.svg).find(f"{SVG}title").text == first.title
    assert first.title not in texts(first), "the caption has it"


def test_a_picture_has_the_width_of_a_column_or_a_page_and_embedded_text_of_7_to_9_pt() -> None:
    many = [
        subsets(variant, 0, *range(at, at + 3)) for at, variant in enumerate(("simcse", "mcse"))
    ]
    planes = [with_arrays("kdmcse"), with_arrays("mcse")]
    column, bars = figure("mcse-F2", POINTS), figure("mcse-F4", many)
    for shown, width in (
        (column, "column"),
        (bars, "column"),
        (figure("kdmcse-F9", planes, arrays()), "page"),
    ):
        element = Tree.fromstring(shown.svg)
        assert float(element.get("width", 0)) == pytest.approx(WIDTHS[width], abs=1)
        streams = re.findall(rb"stream\r?\n(.*?)endstream", shown.picture.pdf, re.DOTALL)
        drawing = b"".join(zlib.decompress(each) for each in streams if each[:1] == b"x")
        sizes = {float(size) for size in re.findall(rb"/\S+ ([\d.]+) Tf", drawing)}
        assert sizes
        assert all(7 <= size <= 9 for size in sizes)
        fonts = re.findall(rb"/FontName\s*/(\S+)", shown.picture.pdf)
        assert len(fonts) == len(re.findall(rb"/FontFile", shown.picture.pdf)) > 0
        assert shown.picture.png.startswith(b"\x89PNG")
        assert int.from_bytes(shown.picture.png[16:20]) == pytest.approx(
            WIDTHS[width] * PNG_SCALE, abs=5
        )


def test_three_tables_and_three_figures_stand_in_a_paper_as_they_are(tmp_path: Path) -> None:
    pictures = {
        "points": figure("mcse-F2", POINTS),
        "planes": figure("kdmcse-F9", [with_arrays("kdmcse"), with_arrays("mcse")], arrays()),
        "bars": figure("kdmcse-F6", [with_arrays("kdmcse")], arrays()),
    }
    tasks = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")
    ways = {f"{way}_R@{k}": 10.0 * k for way in ("i2t", "t2i") for k in (1, 5)}
    shape = {
        "geometry": {"STS-B": {"alignment": 0.2, "uniformity": -2.5}},
        "retrieval": {"Flickr30k": ways},
    }
    runs = [
        result(variant, seed, sts(**dict.fromkeys(tasks, 70.0 + 2 * at + seed)) | shape)
        for at, variant in enumerate(("simcse", "mcse", "kdmcse[margin=0.2]"))
        for seed in range(3)
    ]
    floats = [format_latex_table(make_summary_grid(table)) for table in tables(runs)]
    assert len(floats) == 3
    for name, each in pictures.items():
        (tmp_path / f"{name}.pdf").write_bytes(each.picture.pdf)
        kind = "figure*" if name == "planes" else "figure"
        floats.append(
            f"\\begin{{{kind}}}\\centering\\includegraphics{{{name}}}\\caption{{{name}}}\\end{{{kind}}}\n"
        )
    pdf = typeset("Text.\n".join(floats), tmp_path)
    fonts, embedded = re.findall(rb"/FontName\s*/(\S+)", pdf), re.findall(rb"/FontFile", pdf)
    assert len({*fonts}) == len(embedded)
    assert len([font for font in fonts if b"+CM" not in font]) >= len(pictures), (
        "those of the figures are embedded too"
    )


def test_the_data_of_a_picture_are_a_table() -> None:
    rows = list(csv.DictReader(io.StringIO(figure("mcse-F2", POINTS).picture.data)))
    assert [(row["series"], row["setting"], float(row["x"])) for row in rows][:2] == [
        ("SimCSE (n = 2)", "flickr", pytest.approx(-2.1)),
        ("MCSE (n = 1)", "flickr", pytest.approx(-1.1)),
    ]
    panels = csv.DictReader(
        io.StringIO(figure("dalr-F4", [with_arrays("dalr")], arrays()).picture.data)
    )
    assert {row["panel"] for row in panels} == {"DALR, Spearman 77.70"}


def test_names_of_points_beside_each_other_stand_apart() -> None:
    points = [
        {"x": 0.0, "y": 0.3},
        {"x": 0.1, "y": 0.31},
        {"x": 0.2, "y": 0.3001},
        {"x": 9.0, "y": 0.3},
    ]
    _set_name_heights(points)
    gap = NAME_GAP * 0.01
    assert [point["name_y"] for point in points] == [0.3, 0.31, 0.3 + gap, 0.3]


def test_hostile_names_are_escaped() -> None:
    evil = "simcse[x=<script>alert(1)</script>]"
    spec = PAPERS["mcse"].figures["F2"].model_copy(update={"variants": (evil,), "title": evil})
    run = result(
        evil,
        0,
        {"geometry": {"ToySTS": {"alignment": 0.3, "uniformity": -2.0}}},
        setting='toy[x="><script>]',
    )
    shown = figure("mcse-F2", [run], profile="tiny", F2=spec)
    assert "<script" not in shown.svg
    assert "SimCSE, x = <script>alert(1)</script> (n = 1)" in texts(shown)


def test_points_of_alignment_and_uniformity_are_at_their_means() -> None:
    shown, (points,) = drawn("mcse-F2", POINTS)
    placed = [(row["x"], row["y"], row["score"]) for row in points]
    assert placed == [
        pytest.approx(wanted)
        for wanted in ((-2.1, 0.3, 71.0), (-1.1, 0.3, 75.0), (-3.1, 0.9, 74.0))
    ]
    assert points[0]["x2"] - points[0]["x1"] == pytest.approx(2 * 0.02**0.5)
    assert "uniformity, STS-B-all (lower is better)" in texts(shown)
    assert any(text.startswith("STS average") for text in texts(shown))
    assert "SimCSE / flickr / bert-base-uncased (2 seeds)" in shown.caption
    assert shown.commands == ("harness run --figure mcse:F2 --results nowhere",)
    bare, layers = drawn(
        "mcse-F2", [run.model_copy(update={"evaluations": run.evaluations[:1]}) for run in POINTS]
    )
    assert [row["score"] for row in layers[0]] == [None] * 3
    assert not any(text.startswith("STS average") for text in texts(bare)), "no colours without STS"


def test_a_profile_s_figure_has_its_own_runs_alone() -> None:
    scores = {"geometry": {"ToySTS": {"alignment": 0.3, "uniformity": -2.0}}}
    toys = [
        result(variant, 0, scores, setting=setting, encoder="bert-base-uncased")
        for variant in ("simcse", "mcse")
        for setting in ("wiki+coco", "toy")
    ]
    shown = figure("mcse-F2", toys, profile="tiny")
    assert (shown.key, shown.title) == ("mcse-F2-tiny", "MCSE Figure 2 on toy data")
    assert shown.svg
    own = [run.model_copy(update={"profile_origin": "file"}) for run in POINTS]
    for runs in (toys, own):
        assert figure("mcse-F2", runs).empty == "no run of profile paper yet"


def test_curves_over_the_size_of_a_setting() -> None:
    sizes = ["flickr[shot=100]", "flickr[shot=1000]", "flickr"]
    runs = [run for at, size in enumerate(sizes) for run in averages("mcse", size, [60.0 + 5 * at])]
    runs += averages("simcse", "flickr[shot=1000]", [50.0, 54.0]) + averages(
        "simcse", "flickr", [58.0]
    )
    shown, (points,) = drawn("mcse-F3", runs)
    curves = {(row["series"], row["x"]): (row["lo"], row["y"], row["hi"]) for row in points}
    assert {key: y for key, (_, y, _) in curves.items()} == {
        **{("MCSE (n = 1)", at): 60.0 + 5 * at for at in range(3)},
        **{("SimCSE (n = 1 to 2)", 1.0): 52.0, ("SimCSE (n = 1 to 2)", 2.0): 58.0},
    }
    low, _, high = curves["SimCSE (n = 1 to 2)", 1.0]
    assert (low + high, high - low) == pytest.approx((104.0, 2 * 8**0.5))
    assert [text for text in texts(shown) if text in ("100", "1000", "all")] == [
        "100",
        "1000",
        "all",
    ]
    assert {"training pairs", "STS average, points of Spearman"} <= set(texts(shown))
    assert len(shown.commands) == 1


def test_a_variant_without_the_option_is_a_line() -> None:
    scores = {
        "nli[deletion=0.3,insertion=2,swap=2]": 70.0,
        "nli[deletion=0.4,insertion=2,swap=2]": 69.0,
        "nli": 80.0,
    }
    runs = [
        run for setting, score in scores.items() for run in averages("simcse-sup", setting, [score])
    ]
    runs += averages("visualcse", "wiki+imagenet", [76.0])
    shown, layers = drawn("nonling-F3", runs)
    assert [row["y"] for points in layers for row in points if "y" in row] == [
        80.0,
        70.0,
        69.0,
    ]
    lines = [(row["line"], row["at"]) for points in layers for row in points if "line" in row]
    constant = ("VisualCSE / wiki+imagenet (n = 1)", 76.0)
    assert lines == [constant, ("printed: below the line from, 0.4", 2.0)]
    words = ("unchanged", "0.3", "0.4", "deletion")
    assert [text for text in texts(shown) if text in words] == [*words]
    assert (
        "part or a noisy copy" in figure("nonling-F3", averages("simcse-sup", "nli", [80.0])).empty
    )


def test_a_line_has_the_colour_of_its_name_in_the_legend() -> None:
    (line,) = draw_lines("x", [LineAcross("printed", 0.1)], "#123456")
    assert (
        line["mark"]["color"],
        line["encoding"]["strokeDash"]["legend"]["symbolStrokeColor"],
    ) == ("#123456",) * 2


def test_a_sweep_places_the_plain_variant_at_its_default_and_shows_the_printed_optimum() -> None:
    runs = [
        run.model_copy(update={"hyperparameters": {"method": {"margin": margin}}})
        for variant, margin, value in (("kdmcse[margin=0.05]", 0.05, 70.0), ("kdmcse", 0.125, 76.0))
        for run in averages(variant, "wiki+flickr", [value])
    ]
    _, (printed, points) = drawn(
        "kdmcse-F7", [*runs, *averages("kdmcse[margin=0.2]", "wiki+flickr", [71.0])]
    )
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
    runs += [
        subsets("mcse", 0, 80, 57, 52),
        subsets("mcse", 1, 82, 58, 50),
        subsets("mcse", 2, 0, 0, 0),
    ]
    shown, (bars, *_) = drawn("mcse-F4", runs)
    assert [(row["series"], row["y"]) for row in bars] == [
        ("STS12", 10.0),
        ("STS12", -3.0),
        ("STS15", 1.0),
    ]
    labels = [
        text
        for text in texts(shown)
        if text in ("MSRvid", "MSRpar", "images", "STS-B", "STS12", "STS15")
    ]
    assert sorted(labels) == ["MSRpar", "MSRvid", "STS12", "STS15", "images"], "each once"


def test_tasks_without_subsets_have_one_bar_each() -> None:
    runs = [
        result(variant, 0, sts(STS12=value, STS13=value), setting=SETTING, **BERT)
        for variant, value in (("simcse", 60.0), ("mcse", 62.0))
    ]
    assert [row["y"] for row in drawn("mcse-F4", runs)[1][0]] == [2.0, 2.0]
    assert (
        figure("mcse-F4", runs[:1]).empty == "no setting in which both simcse and mcse were run yet"
    )


def test_encodings_of_the_captions_of_the_figures_own_example() -> None:
    shown, layers = drawn("kdmcse-F9", [with_arrays("kdmcse"), with_arrays("mcse")], arrays())
    clouds = [[(row["x"], row["y"]) for row in layer] for layer in layers if "x" in layer[0]]
    wanted = arrays()[ArrayName("Flickr30k", "views")][1]
    np.testing.assert_allclose(np.array(clouds), [*wanted, *wanted], rtol=1e-4)
    assert {"1 <b>first</b>", "second $x$", "third", "KDMCSE", "MCSE"} <= set(texts(shown))
    assert "<b>" not in shown.svg


def test_clusters_of_captions_and_cosines_against_gold_scores() -> None:
    shown, layers = drawn(
        "dalr-F3", [with_arrays("dalr"), with_arrays("dalr[without=cma+cons]")], arrays()
    )
    assert list(map(len, layers)) == [8, 8, 7, 7] * 2
    assert "t-SNE of 30 captions of COCO" in shown.caption
    shown, (points,) = drawn("dalr-F4", [with_arrays("dalr")], arrays())
    gold, cosines = (arrays()[ArrayName("STS-B", what)] for what in ("gold", "cosine"))
    np.testing.assert_allclose(
        [(row["x"], row["y"]) for row in points], np.stack([gold, cosines], 1), rtol=1e-4
    )
    assert "DALR, Spearman 77.70" in texts(shown)


def test_histograms_of_similarities_and_of_ranks() -> None:
    shown = figure("kdmcse-F6", [with_arrays("kdmcse")], arrays())
    assert {"other pairs, n = 100", "true pairs, n = 4", "printed: few pairs above, 0.8"} <= set(
        texts(shown)
    )
    assert "the frozen teacher's space" in shown.caption
    shown, (bars, printed) = drawn("kdmcse-F5", [with_arrays("kdmcse")], arrays())
    assert "rank of the last true caption among 4 captions" in texts(shown)
    assert [row["height"] for row in bars if row["height"]] == [2, 1, 1]
    assert [row["low"] for row in bars if row["height"]] == [0.5, 2.5, 8.5]
    assert [row["at"] for row in printed] == [100, 200]
    many = arrays() | {
        ArrayName("Flickr30k", "worst_rank", "teacher"): np.repeat([1, 3, 9], [5000, 40, 1])
    }
    assert {"1,000", "100", "10", "1", "0"} <= set(
        texts(figure("kdmcse-F5", [with_arrays("kdmcse")], many))
    )
    own = {
        name._replace(space="own") if name.space else name: values
        for name, values in arrays().items()
    }
    assert (
        "the method's own shared space" in figure("kdmcse-F6", [with_arrays("kdmcse")], own).caption
    )


def test_runs_without_the_arrays_of_the_papers_task_are_named_and_asked_for() -> None:
    assert (
        figure("dalr-F4", [with_arrays("dalr")]).empty == "no run has been evaluated on figures yet"
    )
    other = figure("kdmcse-F5", [with_arrays("kdmcse")], arrays("ToyRetrieval"))
    assert other.empty
    assert other.svg == ""
    runs = [with_arrays("simcse"), with_arrays("mcse")]
    runs += [
        scored("kdmcse", seed, "sts", {"Avg": {"spearman": 70.0}}, setting="wiki+flickr")
        for seed in range(5)
    ]
    assert figure("dalr-F4", runs, arrays()).commands == (
        "harness run --figure dalr:F4 --results nowhere",
    )
    assert (
        figure("dalr-F4", [*runs, with_arrays("dalr"), with_arrays("kdmcse")], arrays()).commands
        == ()
    )


def test_a_figure_is_rendered_once_a_week_whatever_its_title(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    spec = {"data": {"values": [{"x": 1}]}, **look.make_layer("point", {"x": {"field": "x"}})}
    rendered: list[object] = []
    render = look._render
    monkeypatch.setattr(look, "_render", lambda spec: rendered.append(spec) or render(spec))
    first = draw_picture("first", spec)
    second = draw_picture("<second>", spec)
    assert len(rendered) == 1
    assert second == first._replace(svg=first.svg.replace("first", "&lt;second&gt;"))

    (kept,) = (get_cache_folder() / "figures").iterdir()
    os.utime(kept, (0, 0))
    other = draw_picture("first", {**spec, "data": {"values": [{"x": 2}]}})
    assert (len(rendered), other.data) == (2, "panel,x\n,2\n")
    assert not kept.exists(), "drawn too long ago"
