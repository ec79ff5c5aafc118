"""Pages of runs: the command, the scores, warnings and the log."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import over_seeds, result
from site_samples import rendered, shown_run

from harness.commands import DEFAULT_COMMANDS
from harness.evaluation.suites import list_pairs
from harness.metrics import ArrayName, Metric
from harness.reporting.build import render
from harness.reporting.contents import Contents
from harness.reporting.sections import runs
from harness.reporting.sections.leaderboard import LeaderboardSection
from harness.reporting.sections.runs import (
    make_run_lines,
    make_score_tables,
    select_averages,
    sort_runs,
)
from harness.spec import split
from harness.store import Evaluation, Protocol, Result, Store, frames_of
from harness.toy.tasks import TOY_RETRIEVAL, TOY_STS


def test_the_command_of_a_run_names_that_run() -> None:
    run = result(
        "mcse[images=shuffled,lambda=1]", 3, overrides={"learning_rate": 0.001, "compile": True}
    )
    words = shlex.split(DEFAULT_COMMANDS.repeat(run))
    assert words[:4] == ["harness", "run", "--profile", "tiny"]
    assert split(words[words.index("--methods") + 1]) == ["mcse[images=shuffled,lambda=1]"]
    assert words[words.index("--seeds") + 1] == "3,"
    sets = [words[at + 1] for at, word in enumerate(words) if word == "--set"]
    assert sets == ["compile=true", "learning_rate=0.001"]
    assert "--settings" not in DEFAULT_COMMANDS.repeat(result("none[pooling=cls]", setting="none"))


def test_parts_have_a_table_of_their_own_and_digits_come_from_the_metric() -> None:
    scores = {"sts": {"STS12": {"spearman": 72.5918, "n": 3108.0}, "Avg": {"spearman": 8.0}}}
    parts = {"sts": {"STS12": {"MSRpar": {"spearman": 55.02, "n": 750.0}}}}
    whole, details = make_score_tables(result(scores=scores, parts=parts))
    assert whole["columns"] == ["spearman", "n"]
    assert whole["rows"] == [(("STS12",), ["72.59", "3108"]), (("Avg",), ["8.00", "–"])]
    assert details["rows"] == [(("STS12", "MSRpar"), ["55.02", "750"])]
    assert details["folded"]


def evaluated(metrics: tuple[Metric, ...], scores: dict[str, dict[str, float]]) -> Result:
    protocol = Protocol(version=3, data="d", metrics=metrics)
    evaluation = Evaluation(
        suite="plugged", protocol=protocol, scores=scores, finished="2026-01-02T03:04:05+00:00"
    )
    return result().model_copy(update={"evaluations": [evaluation]})


def test_many_further_metrics_are_folded_behind_the_main_one() -> None:
    main = Metric("loss", larger_is_better=False, digits=1)
    others = {f"m{index}": 0.5 for index in range(20)}
    run = evaluated((main,), {"T": {**others, "loss": 0.25}})
    first, rest = make_score_tables(run)
    assert (first["title"], first["rows"]) == ("plugged, protocol 3", [(("T",), ["0.2"])])
    assert (first["columns"], len(rest["columns"]), rest["folded"]) == (["loss"], 20, True)
    assert list(make_score_tables(evaluated((), {"Avg": {}}))) == [], "no score, no table"


def test_the_index_shows_the_main_average_of_every_suite() -> None:
    metrics = (Metric("hidden", shown=False), Metric("good", digits=0))
    results = [evaluated(metrics, {"Avg": {"hidden": 1.0, "good": 12.34}}), result()]
    frames = frames_of(results)
    lines, columns = make_run_lines(sort_runs(frames), select_averages(frames))
    assert [(suite, metric.name) for suite, metric in columns.items()] == [
        ("plugged", "good"),
        ("sts", "spearman"),
    ]
    assert [averages for _, averages in lines] == [{"plugged": "12"}, {"sts": "70.00"}]


def test_warnings_overrides_and_teachers_are_shown(tmp_path: Path) -> None:
    teachers = {
        "images": {"teacher": "a <clip>", "of": "image"},
        "net": {"teacher": "resnet", "of": "image", "source": "flickr/resnet50.hdf5"},
        "text": {"teacher": "simcse", "of": "caption", "source": "computed"},
        "guide": {"teacher": "bert", "of": "model", "source": "org/bert@abc"},
    }
    saved = result(
        overrides={"learning_rate": 0.001}, warnings=["the <dev> task has ties"], teachers=teachers
    )
    rendered(tmp_path / "out", [saved])
    run = shown_run(tmp_path / "out", saved)
    assert run["facts"]["changed with --set"] == "learning_rate=0.001"
    assert run["warnings"] == ["the <dev> task has ties"]
    assert run["values"]["teachers"] == {
        "images": "a <clip> (reads the image)",
        "net": "resnet (reads the image; from flickr/resnet50.hdf5)",
        "guide": "bert (beside the student; from org/bert@abc)",
        "text": "simcse (reads the caption; features computed)",
    }


@pytest.mark.long
def test_the_cosines_of_pairs_are_a_runs_and_their_texts_shared_where_the_tests_data_are_at_hand(
    pairs_site: Path,
) -> None:
    folder, pairs = pairs_site / "runs", list_pairs(TOY_STS.load(None))

    def read(path: Path) -> Any:
        return json.loads(path.read_text("utf-8").partition("(")[2].removesuffix(");\n"))

    every = [read(path)["judged"] for path in sorted(folder.glob("*-seed-*.js"))]
    assert [[one["task"] for one in of] for of in every] == [["ToySTS", "ToyRetrieval"]] * 9
    assert (
        len({one["file"] for of in every for one in of}) == len([*folder.glob("judged-*.js")]) == 4
    )
    shown = [of[:1] for of in every]
    other, simcse = (read(folder / f"{shown[at][0]['file']}.js") for at in (0, -1))
    assert simcse["texts"] == [[first, second] for first, second, _ in pairs]
    assert simcse["gold"] == pytest.approx([score for *_, score in pairs], abs=1e-4)
    assert other == {"gold": simcse["gold"], "texts": []}, "of other data, no texts"
    cosines = shown[-1][0]["cosines"]
    assert [
        at
        for at, (cosine, gold) in enumerate(zip(cosines, simcse["gold"], strict=True))
        if cosine < gold / 6
    ] == [simcse["gold"].index(max(simcse["gold"]))]
    captions = read(folder / f"{every[-1][1]['file']}.js")
    assert captions == {"gold": [], "texts": [[text] for text in TOY_RETRIEVAL.load(None).texts]}
    assert every[-1][1]["ranks"] == [20.0, *[1.0] * (len(captions["texts"]) - 1)], (
        "in the method's own space"
    )


#: arrays that are no scores of pairs, each in a run of its own
NO_SCORES: list[dict[str, Any]] = [
    {"cosine": [0.5, 0.1]},
    {"cosine": [0.5, 0.1], "gold": [5.0]},
    {"cosine": [0.5, float("nan")], "gold": [5.0, 1.0]},
    {"cosine": ["<b>", "c"], "gold": [5.0, 1.0]},
    {"rank": ["<b>", "c"]},
    {"cosine": 0.5, "gold": 5.0},
]


@pytest.mark.long
def test_arrays_that_are_no_scores_of_pairs_are_left_out(tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    saved = []
    for seed, arrays in enumerate(NO_SCORES):
        run = result("mcse", seed)
        named = {
            ArrayName("ToySTS", what, "own" * (what == "rank")): np.array(values)
            for what, values in arrays.items()
        }
        store.save_arrays(run, run.evaluations[0], named)
        saved.append(store.save(run))
    contents = Contents(store, saved)
    render(contents, tmp_path / "out")
    judged = [shown_run(tmp_path / "out", run)["judged"] for run in saved]
    assert judged == [[]] * len(NO_SCORES)
    assert contents.found == []


def test_a_log_is_shown_as_text_and_the_middle_of_a_long_one_is_omitted(tmp_path: Path) -> None:
    store, out = Store(tmp_path / "results"), tmp_path / "out"
    long, short, none = (store.save(result("mcse", seed)) for seed in range(3))
    store.save_log(long, "".join(f"line {index}\n" for index in range(1000)))
    store.save_log(
        short, "2026-01-01T00:00:00Z  \x1b[2J\u202egnp\n2026-01-01T00:00:01Z  done & gone\n"
    )
    render(Contents(store, [long, short, none]), out)
    logs = [shown_run(out, run)["log"] for run in (long, short, none)]
    ends = [*range(150)], [*range(850, 1000)]
    lines = [
        *(f"line {n}" for n in ends[0]),
        "(700 lines omitted)",
        *(f"line {n}" for n in ends[1]),
    ]
    assert logs[0].splitlines() == lines
    assert logs[1] == "2026-01-01T00:00:00Z  \\x1b[2J\\u202egnp\n2026-01-01T00:00:01Z  done & gone"
    assert logs[2] == ""


@pytest.mark.long
def test_a_long_index_is_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MOST_LINES", 4)
    results = [
        *over_seeds("mcse", [1.0, 2.0, 3.0]),
        *over_seeds("simcse", [1.0, 2.0, 3.0]),
        result(setting="wiki"),
    ]
    folder = rendered(tmp_path / "out", results).parent / "runs"
    index = (folder / "index.html").read_text()
    assert 'href="index-tiny-toy-toy-bert-1-of-2.html"' in index
    assert 'href="index-tiny-wiki-toy-bert.html"' in index
    assert "7 runs" in index
    assert 'title="mcse simcse">4<' in index, "a filter finds variants"
    for part, count in ((1, 4), (2, 2)):
        page = (folder / f"index-tiny-toy-toy-bert-{part}-of-2.html").read_text()
        assert page.count('<tr><th scope="row">') == count
        assert f"{count} runs" in page


def test_of_many_runs_those_of_methods_have_pages_and_others_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "MOST_PAGES", 4)
    changed = over_seeds("mcse[lambda=1]", [1.0, 2.0, 3.0])
    own = over_seeds("simcse", [1.0, 2.0, 3.0])
    folder = rendered(tmp_path / "out", [*changed, *own]).parent / "runs"
    with_page = {path.name.partition("-toy")[0] for path in folder.glob("*-seed-*.js")}
    assert with_page == {"simcse", "mcse-lambda-1"}
    index = (folder / "index.html").read_text()
    assert index.count('<tr><th scope="row">') == 6
    assert index.count('href="run.html?') == 4
    assert "2 runs have no page here" in index
    boards = LeaderboardSection("leaderboard", Contents(Store(tmp_path), [*changed, *own])).boards
    pages = {row["code"]: len(row["pages"]) for row in boards[0].data["rows"]}
    assert pages == {"simcse": 3, "mcse[lambda=1]": 0}, "a mean has all seeds"
