"""`harness run` of papers' tables, of public weights and of tunings."""

from __future__ import annotations

import re
import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from builders import result, sts
from cli_words import Typed

import harness
from harness.cli.output import show_paper_tables
from harness.command_line import Selection
from harness.planning.plan import make_plan
from harness.planning.request import make_request
from harness.reporting.contents import Contents
from harness.reporting.results import Results
from harness.store import Store
from harness.store.tunings import read_tunings
from harness.toy import student_folder

pytestmark = pytest.mark.usefixtures("small_toy_tests")


def test_tables_and_papers_are_planned_and_told(typed: Typed) -> None:
    printed = typed("run", "--table", "dalr:T3", "--profile", "tiny", "--seeds", "5", "--dry-run")[
        1
    ]
    assert "47 runs (2 teachers among them), 0 done" in printed, "nine variants and five seeds"
    assert re.search(r"dalr:T3 +45 runs, 0 done", printed)
    assert "suites    sts\n" in printed
    words = (
        "--table",
        "mcse:T2",
        "--profile",
        "tiny",
        "--seeds",
        "2",
        "--readings",
        "paper,official",
    )
    printed = typed("run", *words, "--dry-run")[1]
    assert re.search(r"mcse:T2 +12 runs, 0 done", printed)
    assert (
        "methods   simcse, simcse@official, mcse, mcse@official, mcse[images=shuffled]" in printed
    )
    printed = typed("run", "--paper", "mcse", "--dry-run")[1]
    assert re.search(r"mcse:T7 +60 runs, 0 done", printed)
    assert re.search(r"mcse:F2 +40 runs, 0 done", printed)
    assert re.search(
        r"about [\d,.]+ h on one H200, .*by arithmetic.*not measured",
        printed,
    )


def test_the_tables_that_were_asked_for_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    cell: dict[str, Any] = {"profile": "paper", "setting": "flickr", "encoder": "bert-base-uncased"}
    variants = {"mcse": 74.0, "mcse@official": 73.0}
    finished = [
        result(name, seed, sts(Any=value), **cell)
        for name, value in variants.items()
        for seed in range(2)
    ]
    show_paper_tables(
        ["mcse:T2", "mcse:F3", "kdmcse:T1"], Results(Store(Path()), finished, profile="paper")
    )
    printed = capsys.readouterr().out
    assert re.search(r"printed, 5 seeds .*\n(.*\n)*.* measured, paper, 2 seeds +74\.0", printed)
    assert re.search(r"measured, official, 2 seeds +73\.0", printed)
    assert "KDMCSE" not in printed, "no run fills it"


def test_tables_and_figures_add_up(tmp_path: Path) -> None:
    request = make_request(Selection("tiny", table="dalr:T3,nonling:T4", figure="kdmcse:F7"))
    assert list(request.entries) == ["dalr:T3", "nonling:T4", "kdmcse:F7"]
    assert len(request.suites_by_run) == 45 + 2 + 45
    runs = make_plan(request, Store(tmp_path)).runs
    seeds = [run.resolved.spec.seed for run in runs if run.resolved.spec in request.suites_by_run]
    assert seeds == sorted(seeds), "every row has its first seed early"
    assert {run.key for run in runs} >= {str(spec) for spec in request.suites_by_run}
    some = make_plan(
        make_request(Selection("tiny", table="dalr:T4,kdmcse:T2")), Store(tmp_path)
    ).runs
    due = {run.key: run.todo for run in some}
    assert due["dalr/toy/toy-bert/seed-0"] == ("retrieval",), "only the suites of its tables"
    assert due["kdmcse/toy/toy-bert/seed-0"] == ("retrieval", "geometry")


def test_a_run_outside_the_profile_is_skipped_with_a_reason(typed: Typed) -> None:
    text = (files("harness.profiles") / "paper.toml").read_text("utf-8")
    Path("own.toml").write_text(text.replace('[settings."wiki+coco"]', '[settings."wiki+other"]'))
    printed = typed("run", "--table", "kdmcse:T1", "--profile", "./own.toml", "--dry-run")[1]
    assert "20 runs, 0 done" in printed
    assert "skipping  kdmcse/wiki+coco: the profile 'own' has no setting 'wiki+coco'" in printed


WEIGHTS = "UdS-LSV/mcse-flickr-bert-base-uncased"
COMMIT = "b17f672f6143a6b6ff2d60250a7c2fa7574ac6eb"


@pytest.fixture
def profile(tmp_path: Path) -> str:
    """The tiny profile with public weights in a folder of the data root."""
    shutil.copytree(student_folder(), tmp_path / "data" / "weights")
    tiny = (files("harness.profiles") / "tiny.toml").read_text("utf-8")
    weights = [
        *(
            "[released.weights]",
            'folder = "weights"',
            'pooling = "mean"',
            'encoder = "bert-base-uncased"',
        ),
        *(
            'rows = [{ tables = ["mcse:T1"], published = "mcse", setting = "wiki+flickr" }]',
            'source = "here"',
        ),
    ]
    (tmp_path / "mine.toml").write_text("\n".join([tiny, *weights]), "utf-8")
    return "./mine.toml"


def test_weights_are_evaluated_once_whichever_command_asks(
    typed: Typed, tmp_path: Path, profile: str
) -> None:
    where = ("--profile", profile, "--data-root", "data", "--device", "cpu")
    code, out, err = typed("run", "--released", "--table", "mcse:T1", *where)
    assert code == 0, err
    assert "mcse:T1      1 run, 0 done" in out
    (stored,) = Store(tmp_path / "results").load()[0]
    assert stored.spec.key == "none[pooling=mean]/none/weights/seed-0"
    assert [evaluation.suite for evaluation in stored.evaluations] == ["sts"]
    code, out, err = typed("eval", "data/weights", "--pooling", "mean", "--suites", "sts", *where)
    assert code == 0, err
    assert "nothing to do" in out
    code, out, err = typed("run", "--released", "--suites", "sts", *where)
    assert "1 run, 1 done, 0 to do" in out


def test_missing_weights_are_named_with_their_commit_until_all_of_it_is_in_the_cache(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    listed = next(
        line.split() for line in typed("list", "released")[1].splitlines() if WEIGHTS in line
    )
    assert listed == [WEIGHTS, COMMIT, "cls", "mcse:T1,", "mcse:T6,", "kdmcse:T1,", "dalr:T1"]

    def missing() -> list[str]:
        code, out, err = typed("run", "--released", "--table", "mcse:T1", "--dry-run")
        assert code == 0, err
        return [
            line.split("weights of ")[1]
            for line in out.splitlines()
            if "missing   the weights of" in line
        ]

    snapshot = tmp_path / "hub" / f"models--{WEIGHTS.replace('/', '--')}" / "snapshots" / COMMIT
    shutil.copytree(student_folder(), snapshot)
    assert len(missing()) == 6, "a snapshot without mcse.pt is not complete"
    assert f"{WEIGHTS} at {COMMIT}" in missing()
    (snapshot / "mcse.pt").touch()
    assert len(missing()) == 5
    assert f"{WEIGHTS} at {COMMIT}" not in missing()


WORDS = ("run", "--profile", "tiny", "--seeds", "1", "--suites", "sts", "--set", "steps=2")
TUNE = (
    "--tune",
    "simcse:temperature=0.05|0.1|0.5",
    "--tune",
    "mcse:lambda=0.01|1",
    "--trials",
    "2",
)


def test_tuned_methods_are_ordinary_runs_that_the_report_compares(
    typed: Typed, tmp_path: Path
) -> None:
    code, out, err = typed(*WORDS, *TUNE, "--dry-run")
    assert (code, err) == (0, "")
    assert "4 runs, 0 done, 4 to do" in out
    assert (
        "tune      2 configurations each of simcse:temperature=0.05|0.1|0.5 and of mcse:lambda=0.01|1\n"
        in out
    )
    assert not (tmp_path / "results").exists()
    code, out, _ = typed(*WORDS, *TUNE)
    assert code == 0
    for title in ("Expected best dev score", "simcse[tuned=2]", "Picked trial of each seed"):
        assert title in out
    (report,) = Contents.of(Store(tmp_path / "results")).tuned
    assert [len(line.picks) for line in report.lines] == [1, 1]
    assert {variant for line in report.lines for variant in line.picks.values()} <= set(
        report.tuning.variants
    )
    again = harness.plan(
        "tiny", methods=report.tuning.variants, seeds=1, suites="sts", set={"steps": 2}
    )
    assert {run.state for run in again.runs} == {"done"}
    assert "nothing to do" in typed(*WORDS, *TUNE)[1]


@pytest.mark.long
def test_a_search_chooses_trials_round_by_round_and_goes_on(typed: Typed, tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="optuna is not installed; searches were not tested")
    words = (*WORDS, "--tune", "simcse:temperature=0.02..0.5", "--trials", "7", "--sampler", "tpe")
    assert "5 runs, 0 done, 5 to do" in typed(*words, "--dry-run")[1]
    code, out, _ = typed(*words)
    assert (code, "Expected best dev score" in out, "7 trials" in out) == (0, True, True)
    store = Store(tmp_path / "results")
    ((search,), _), (path,) = read_tunings(store), (store.root / "tunings").iterdir()
    assert (len(search.variants), search.place, path.stem) == (7, "toy/toy-bert", search.key)
    # as if stopped in the last trial, then as if its file was lost: the same trial is chosen again
    lost = next(
        result for result in store.load()[0] if str(result.spec.variant) == search.variants[-1]
    )
    store.path(lost).unlink()
    for _ in range(2):
        plan = harness.plan(
            "tiny", seeds=1, suites="sts", set={"steps": 2}, tune=words[-5], trials=7, sampler="tpe"
        )
        assert (plan.request.tuning, [run.key for run in plan.todo]) == (search, [str(lost.spec)])
        path.unlink(missing_ok=True)
    results = harness.execute(plan)
    assert len(results) == 7
    assert read_tunings(store)[0] == [search]
    more = harness.plan(
        "tiny", seeds=2, suites="sts", set={"steps": 2}, tune=words[-5], trials=7, sampler="tpe"
    )
    assert (more.request.tuning, len(more.done), len(more.todo)) == (search, 7, 7), (
        "a later seed has the same trials"
    )


def test_a_grid_without_the_baseline_says_that_no_gain_is_tested(typed: Typed) -> None:
    grid = ("run", "--profile", "tiny", "--seeds", "1", "--dry-run", "--methods")
    assert "add simcse" in typed(*grid, "mcse")[1]
    assert "add simcse" not in typed(*grid, "mcse,simcse")[1]
    Store(Path("results")).save(result("simcse"))
    assert "add simcse" not in typed(*grid, "mcse")[1]
