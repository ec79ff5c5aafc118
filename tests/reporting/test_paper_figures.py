"""Figures of the papers from made results: what is drawn, where, and that it is drawn alike every time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Tree

import numpy as np
import pytest
from report_fakes import frame, result

from harness.errors import UserError
from harness.metrics import ArrayName
from harness.papers.published import read_paper, read_papers, read_published
from harness.papers.schema import FigureSpec
from harness.reporting.figures.papers import PaperFigure, paper_figures, report_figures, training_figures
from harness.store import Result

SVG = "{http://www.w3.org/2000/svg}"
BERT = {"encoder": "bert-base-uncased", "profile": "paper"}
SPECS = {paper.name: paper.figures for paper in read_papers()}


def figures(
    name: str,
    results: Sequence[Result],
    arrays: Mapping[ArrayName, np.ndarray] | None = None,
    profile: str = "paper",
    specs: Mapping[str, Mapping[str, FigureSpec]] = SPECS,
) -> PaperFigure:
    paper, figure = name.split("-")
    wanted = {one: spec for one, spec in specs[paper].items() if one == figure or (spec.metric, one) == ("views", "F8")}
    made = paper_figures({paper: wanted}, read_published(), results, frame(results), lambda one: arrays or {}, profile)
    (found,) = (one for one in made if one.name == figure)
    return found


def scored(variant: str, seed: int, suite: str, scores: dict[str, dict[str, float]], **more: Any) -> Result:
    return result(variant, seed, {suite: scores}, **{**BERT, **more})


def averages(variant: str, setting: str, values: Sequence[float]) -> list[Result]:
    return [
        scored(variant, seed, "sts", {"Avg": {"spearman": value}}, setting=setting) for seed, value in enumerate(values)
    ]


def group(figure: PaperFigure, end: str) -> list[Tree.Element]:
    """The groups of an SVG whose id ends so."""
    return [one for one in Tree.fromstring(figure.svg).iter(f"{SVG}g") if re.search(f"{end}$", one.get("id", ""))]


def texts(figure: PaperFigure) -> list[str]:
    return ["".join(one.itertext()) for one in Tree.fromstring(figure.svg).iter(f"{SVG}text")]


def numbers(path: str) -> np.ndarray:
    return np.array([float(part) for part in re.findall(r"-?\d+(?:\.\d+)?", path)]).reshape(-1, 2)


def marks(element: Tree.Element) -> np.ndarray:
    """Where the marks of a group are, (n, 2)."""
    return np.array([[float(one.get("x", "0")), float(one.get("y", "0"))] for one in element.iter(f"{SVG}use")])


def geometry(variant: str, setting: str, seed: int, uniformity: float, alignment: float, sts: float) -> Result:
    scores = {"STS-B-dev": {"alignment": alignment, "uniformity": uniformity}, "STS-B": {"alignment": 9.0}}
    return result(
        variant, seed, {"geometry": scores, "sts": {"Avg": {"spearman": sts}}}, setting=setting, **BERT
    )  # fmt: skip


POINTS = [
    ("simcse", "flickr", 0, -2.0, 0.2, 70.0),
    ("simcse", "flickr", 1, -2.2, 0.4, 72.0),
    ("mcse", "flickr", 0, -1.1, 0.3, 75.0),
    ("mcse", "wiki+coco", 0, -3.1, 0.9, 74.0),
]


def test_points_of_alignment_and_uniformity_stand_at_their_means() -> None:
    figure = figures("mcse-F2", [geometry(*point) for point in POINTS])
    assert figure.empty == ""
    places = np.concatenate([marks(one) for one in group(figure, r"point-\d+")])
    assert len(places) == 3
    wanted = np.array([[-2.1, 0.3], [-1.1, 0.3], [-3.1, 0.9]])
    # pixels are a line of values, with y upside down
    for axis, sign in ((0, 1), (1, -1)):
        slope, start = np.polyfit(wanted[:, axis], places[:, axis], 1)
        assert slope * sign > 0
        np.testing.assert_allclose(slope * wanted[:, axis] + start, places[:, axis], atol=0.01)
    assert "uniformity, STS-B-dev (lower is better)" in texts(figure)
    # KDMCSE Table 2 prints MCSE on wiki+coco, and nothing on flickr alone
    assert [text for text in texts(figure) if "printed" in text] == ["wiki+coco, printed"]
    assert "simcse / flickr / bert-base-uncased (2 seeds)" in figure.caption
    assert len(figure.commands) == 4
    assert any("--methods simcse,mcse --settings coco " in command for command in figure.commands)


def test_no_printed_number_stands_beside_toy_runs() -> None:
    scores = {"geometry": {"ToySTS": {"alignment": 0.3, "uniformity": -2.0}}}
    toys = [
        result(variant, 0, scores, setting=setting, encoder="bert-base-uncased")
        for variant in ("simcse", "mcse")
        for setting in ("wiki+coco", "toy")
    ]
    figure = figures("mcse-F2", toys, profile="tiny")
    assert figure.key == "mcse-F2-tiny"
    assert "(profile tiny)" in figure.title
    assert "profile tiny" in " ".join(texts(figure))
    assert len(group(figure, r"point-\d+")) == 4
    assert not [text for text in texts(figure) if "printed" in text]
    assert figures("mcse-F2", toys).empty == "no run of profile paper yet"


SIZES = ["flickr[shot=100]", "flickr[shot=1000]", "flickr"]


def test_curves_over_the_size_of_a_setting() -> None:
    runs = [one for place, size in enumerate(SIZES) for one in averages("mcse", size, [60.0 + 5 * place])]
    runs += averages("simcse", "flickr[shot=1000]", [50.0, 54.0]) + averages("simcse", "flickr", [58.0])
    figure = figures("mcse-F3", runs)
    curves = [marks(one) for one in group(figure, r"curve-\d+")]
    assert sorted(len(one) for one in curves) == [2, 3]
    longer = max(curves, key=len)
    np.testing.assert_allclose(np.diff(longer[:, 0]), np.diff(longer[:, 0])[0], rtol=1e-3)
    np.testing.assert_allclose(np.diff(longer[:, 1]), np.diff(longer[:, 1])[0], rtol=1e-3)
    found = texts(figure)
    assert [text for text in found if text in ("100", "1000", "all")] == ["100", "1000", "all"]
    assert "training pairs" in found
    assert len(figure.commands) == 12


def test_a_variant_without_the_option_is_a_line() -> None:
    runs = [
        *averages("simcse-sup", "nli[deletion=0.3]", [70.0]),
        *averages("simcse-sup", "nli[deletion=0.4]", [69.0]),
        *averages("simcse-sup", "nli[swap=2]", [72.0]),
        *averages("simcse-sup", "nli", [80.0]),
        *averages("visualcse", "wiki+imagenet", [76.0]),
    ]
    figure = figures("nonling-F3", runs)
    assert [len(marks(one)) for one in group(figure, r"curve-\d+")] == [3, 2]
    assert texts(figure).count("visualcse / wiki+imagenet (n = 1)") == 1
    assert [text for text in texts(figure) if text in ("none", "0.3", "0.4", "2", "deletion", "swap")] == [
        *("none", "0.3", "0.4", "deletion"),
        *("none", "2", "swap"),
    ]
    assert texts(figure).count("printed: below the line from, 0.4") == 1
    assert "part or a noisy copy" in figures("nonling-F3", averages("simcse-sup", "nli", [80.0])).empty


def test_a_sweep_places_the_plain_variant_at_its_default_and_shows_the_printed_optimum() -> None:
    runs = []
    for variant, margin, value in (("kdmcse[margin=0.05]", 0.05, 70.0), ("kdmcse", 0.125, 76.0)):
        (run,) = averages(variant, "wiki+flickr", [value])
        runs.append(run.model_copy(update={"hyperparameters": {"method": {"margin": margin}}}))
    (run,) = averages("kdmcse[margin=0.2]", "wiki+flickr", [71.0])
    figure = figures("kdmcse-F7", [*runs, run])
    (curve,) = (marks(one) for one in group(figure, r"curve-\d+"))
    steps = np.diff(curve[:, 0])
    assert steps[0] == pytest.approx(steps[1], rel=1e-3)
    assert "printed: best margin, 0.125" in texts(figure)


def test_bars_are_gains_by_subset() -> None:
    def subsets(variant: str, seed: int, *values: float) -> Result:
        tasks = {"STS12": {"spearman": 1.0}, "STS15": {"spearman": 2.0}, "STS-B": {"spearman": 99.0}}
        parts = {
            "STS12": {"MSRvid": {"spearman": values[0]}, "MSRpar": {"spearman": values[1]}},
            "STS15": {"images": {"spearman": values[2]}},
        }
        return scored(variant, seed, "sts", tasks, setting="wiki+flickr", parts={"sts": parts})

    runs = [subsets("simcse", 0, 70, 60, 50), subsets("simcse", 1, 72, 61, 50)]
    runs += [subsets("mcse", 0, 80, 57, 52), subsets("mcse", 1, 82, 58, 50), subsets("mcse", 2, 0, 0, 0)]
    figure = figures("mcse-F4", runs)
    bars = [numbers(one.find(f"{SVG}path").get("d")) for one in group(figure, r"bar-\d+")]  # type: ignore[union-attr]
    heights = np.array([bar[:, 1].max() - bar[:, 1].min() for bar in bars])
    np.testing.assert_allclose(heights / heights[0], [1.0, 0.3, 0.1], rtol=1e-2)
    # the loss hangs below the line on which the gains stand
    assert bars[1][:, 1].min() == pytest.approx(bars[0][:, 1].max(), abs=0.01)
    assert [text for text in texts(figure) if text in ("MSRvid", "MSRpar", "images", "STS-B")] == [
        *("MSRvid", "MSRpar", "images"),
    ]


def arrays(task: str = "Flickr30k") -> dict[ArrayName, np.ndarray]:
    rng = np.random.default_rng(0)
    edges = np.linspace(-1, 1, 201)
    true, other = np.zeros(200, dtype=int), np.zeros(200, dtype=int)
    true[150:153], other[100:110] = [1, 2, 1], 10
    spaces = {"worst_rank": np.array([1, 1, 3, 9]), "similarity_true": true, "similarity_other": other}
    spaces["similarity_edges"] = edges
    found = {ArrayName(task, what, "teacher"): values for what, values in spaces.items()}
    found[ArrayName(task, "triples")] = np.array([[f"{n} <b>first</b>", "second $x$", "third"] for n in range(5)])
    found[ArrayName(task, "views")] = rng.standard_normal((5, 3, 6, 2)).astype(np.float32)
    found[ArrayName("COCO", "tsne")] = rng.standard_normal((30, 2)).astype(np.float32)
    found[ArrayName("COCO", "clusters")] = np.arange(30) % 4
    found[ArrayName("STS-B", "gold")] = np.linspace(0, 5, 11)
    found[ArrayName("STS-B", "cosine")] = np.linspace(-0.5, 1, 11)
    return found


def drawn(variant: str) -> Result:
    scores = {"STS-B": {"spearman": 77.7, "n": 11}, "Flickr30k": {"n_images": 4}}
    return scored(variant, 0, "figures", scores, setting="wiki+flickr")


def test_encodings_of_three_captions() -> None:
    figure = figures("kdmcse-F9", [drawn("kdmcse"), drawn("mcse")], arrays())
    views = [marks(one) for one in group(figure, r"caption-\d")]
    assert [len(one) for one in views] == [6] * 6
    wanted = arrays()[ArrayName("Flickr30k", "views")][1]
    for axis in (0, 1):
        places = np.concatenate([one[:, axis] for one in views[:3]])
        correlation = np.corrcoef(places, wanted[:, :, axis].ravel())[0, 1]
        assert correlation == pytest.approx(1 if axis == 0 else -1, abs=1e-4)
    assert {"1 <b>first</b>", "second $x$", "third", "kdmcse", "mcse"} <= set(texts(figure))
    assert "<b>" not in figure.svg


def test_clusters_scatter_and_histograms() -> None:
    found = figures("dalr-F3", [drawn("dalr"), drawn("dalr[without=cma+cons]")], arrays())
    assert [len(marks(one)) for one in group(found, r"cluster-\d+")] == [8, 8, 7, 7] * 2
    assert "t-SNE of 30 captions of COCO" in found.caption
    found = figures("dalr-F4", [drawn("dalr")], arrays())
    (points,) = (marks(one) for one in group(found, r"points-\d+"))
    np.testing.assert_allclose(np.diff(points[:, 0]), np.diff(points[:, 0])[0], rtol=1e-3)
    assert "dalr, Spearman 77.70" in texts(found)
    found = figures("kdmcse-F6", [drawn("kdmcse")], arrays())
    assert {"other pairs, n = 100", "true pairs, n = 4", "printed: few pairs above, 0.8"} <= set(texts(found))
    assert "the frozen teacher's space" in found.caption
    found = figures("kdmcse-F5", [drawn("kdmcse")], arrays())
    assert "rank of the last true caption among 4 captions" in texts(found)
    (steps, *_) = group(found, "histogram-0")
    heights = numbers(steps.find(f"{SVG}path").get("d"))[:, 1]  # type: ignore[union-attr]
    assert len({round(height, 3) for height in heights}) == 3, "heights 0, 1 and 2"


def test_runs_without_arrays_and_other_tasks_are_told() -> None:
    assert "suite figures yet" in figures("dalr-F4", [drawn("dalr")]).empty
    other = figures("kdmcse-F5", [drawn("kdmcse")], arrays("ToyRetrieval"))
    assert "suite figures yet" in other.empty
    assert other.svg == ""
    assert all("--suites figures" in command for command in other.commands)


def test_hostile_names_are_escaped() -> None:
    evil = "<script>alert(1)</script>"
    spec = SPECS["mcse"]["F2"].model_copy(update={"variants": (evil,), "title": evil})
    run = result(evil, 0, {"geometry": {"ToySTS": {"alignment": 0.3, "uniformity": -2.0}}}, setting='"><script>')
    figure = figures("mcse-F2", [run], profile="tiny", specs={"mcse": {"F2": spec}})
    root = Tree.fromstring(figure.svg)
    assert not list(root.iter(f"{SVG}script"))
    assert "<script" not in figure.svg
    assert f"{evil} (n = 1)" in texts(figure)


def test_the_same_bytes_every_time_and_ids_of_its_own() -> None:
    runs = [geometry(*point) for point in POINTS]
    first, second = figures("mcse-F2", runs), figures("mcse-F2", runs)
    assert first == second
    assert first.pdf.startswith(b"%PDF")
    assert first.pdf.rstrip().endswith(b"%%EOF")
    assert b"CreationDate" not in first.pdf
    assert "<text" in first.svg
    root = Tree.fromstring(first.svg)
    ids = [one.get("id") for one in root.iter() if one.get("id")]
    assert len(set(ids)) == len(ids)
    assert all(str(name).startswith("mcse-F2-") for name in ids)
    for target in re.findall(r'(?:href="#|url\(#)([^")]*)', first.svg):
        assert target in ids


def test_curves_of_training() -> None:
    runs = [result(variant, seed, dev=(40, 55)) for variant in ("simcse", "mcse") for seed in (0, 1)]
    dev, loss = training_figures(runs, frame(runs), "tiny")
    assert (dev.key, loss.key) == ("tiny-dev-1", "tiny-loss-1")
    assert [len(marks(one)) for one in group(dev, r"curve-(-1|\d+)")] == [2, 2]
    assert {"optimizer steps", "simcse (n = 2)", "mcse (n = 2)"} <= set(texts(dev))
    assert training_figures(runs, frame(runs), "paper") == []


def test_a_report_has_the_papers_figures_those_of_other_profiles_and_curves() -> None:
    runs = [geometry(*point) for point in POINTS]
    runs += [result("simcse", 0, {"geometry": {"ToySTS": {"alignment": 1.0, "uniformity": -2.0}}}, dev=(40, 55))]
    made = report_figures(runs, frame(runs), lambda one: {})
    drawn = [figure.key for figure in made if figure.svg]
    assert drawn[0] == "mcse-F2"
    assert "mcse-F2-tiny" in drawn
    assert drawn[-2:] == ["tiny-dev-1", "tiny-loss-1"]
    assert [figure.name for figure in made[-2:]] == ["tiny", "tiny"]
    assert all(figure.svg or (figure.paper and not figure.key.endswith("tiny")) for figure in made)


def test_all_figures_of_the_papers_are_specified_and_empty_without_runs() -> None:
    assert {paper: list(figures) for paper, figures in SPECS.items()} == {
        "mcse": ["F2", "F3", "F4"],
        "kdmcse": [f"F{number}" for number in range(5, 13)],
        "dalr": ["F3", "F4"],
        "nonling": ["F2", "F3", "F4"],
    }
    made = paper_figures(SPECS, read_published(), [], frame([]), lambda one: {})
    assert {figure.empty for figure in made} == {"no run of profile paper yet"}
    assert all(figure.commands for figure in made)
    printed = {(*key[:2], key.task) for key in read_published()}
    for paper, specs in SPECS.items():
        for name, spec in specs.items():
            assert {(paper, name, task) for task in spec.printed} <= printed


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kind = "subset-gain"', 'kind = "pie"', r"figures\.F4.*'kind'"),
        ('variants = ["simcse", "mcse"]', 'variants = ["mcse[b=1,a=2]"]', r"written 'mcse\[a=2,b=1\]'"),
        ('"simcse-sup/nli[size=10000]"', '"mcse/nli"', "'mcse/nli' in 'pairs'"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    import reports

    for source in sorted((Path(reports.__file__).parent / "papers").glob("*.toml")):
        text = source.read_text()
        if old in text:
            path = tmp_path / source.name
            path.write_text(text.replace(old, new))
            with pytest.raises(UserError, match=message):
                read_paper(path)
            return
    raise AssertionError(f"no paper file has {old}")


def test_commands_name_what_a_suite_lacks() -> None:
    runs = [drawn("simcse"), drawn("mcse")]
    runs += [scored("kdmcse", seed, "sts", {"Avg": {"spearman": 70.0}}, setting="wiki+flickr") for seed in range(5)]
    commands = figures("dalr-F4", runs, arrays()).commands
    assert commands == (
        "harness run --profile paper --methods kdmcse,dalr --settings wiki+flickr --encoders bert-base-uncased "
        "--seeds 1 --suites figures",
    )
    assert figures("dalr-F4", [*runs, drawn("dalr"), drawn("kdmcse")], arrays()).commands == ()
    one = geometry("mcse", "flickr", 0, -2.0, 0.2, 70.0)
    more = [scored("mcse", seed, "sts", {"Avg": {"spearman": 70.0}}, setting="flickr") for seed in range(1, 5)]
    figure = figures("mcse-F2", [one, *more])
    assert "mcse / flickr / bert-base-uncased (1 seed)" in figure.caption
    assert any("--methods simcse,mcse --settings flickr " in command for command in figure.commands)
