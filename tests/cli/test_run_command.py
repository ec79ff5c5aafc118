"""`harness run` of papers' tables, of public weights and of tunings."""

from __future__ import annotations

import json
import re
import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from builders import result, sts
from cli_words import Typed
from click.testing import CliRunner, Result

import harness
from harness.cli.main import cli
from harness.cli.output import show_paper_tables
from harness.command_line import Selection
from harness.commands import DEFAULT_COMMANDS
from harness.errors import UserError
from harness.planning.plan import make_plan
from harness.planning.request import make_request
from harness.reporting.contents import Contents
from harness.reporting.sections.tuning import TuningSection
from harness.store import Store
from harness.toy import student_folder


def run(*words: str, results: Path) -> Result:
    return CliRunner().invoke(cli, ["run", *words, "--results", str(results), "--dry-run"])


def test_a_table_is_planned_and_told(tmp_path: Path) -> None:
    printed = run("--table", "dalr:T3", "--profile", "tiny", "--seeds", "5", results=tmp_path).output
    assert "47 runs (2 teachers among them), 0 done" in printed, "nine variants and five seeds"
    assert re.search(r"dalr:T3 +45 runs, 0 done", printed)
    assert "suites    sts\n" in printed


def test_a_table_is_planned_in_two_readings(tmp_path: Path) -> None:
    words = ("--table", "mcse:T2", "--profile", "tiny", "--seeds", "2", "--readings", "paper,official")
    printed = run(*words, results=tmp_path).output
    assert re.search(r"mcse:T2 +12 runs, 0 done", printed)
    assert "methods   simcse, simcse@official, mcse, mcse@official, mcse[images=shuffled]" in printed


def test_the_tables_that_were_asked_for_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    place: dict[str, Any] = {"profile": "paper", "setting": "flickr", "encoder": "bert-base-uncased"}
    variants = {"mcse": 74.0, "mcse@official": 73.0}
    finished = [result(name, seed, sts(Any=value), **place) for name, value in variants.items() for seed in range(2)]
    show_paper_tables(["mcse:T2", "mcse:F3", "kdmcse:T1"], "paper", finished, DEFAULT_COMMANDS)
    printed = capsys.readouterr().out
    assert re.search(r"printed, 5 seeds .*\n(.*\n)*.* measured, paper, 2 seeds +74\.0", printed)
    assert re.search(r"measured, official, 2 seeds +73\.0", printed)
    assert "KDMCSE" not in printed, "no run fills it"


def test_a_paper_is_counted_once_and_estimated_from_operations(tmp_path: Path) -> None:
    printed = run("--paper", "mcse", results=tmp_path).output
    assert re.search(r"mcse:T7 +60 runs, 0 done", printed)
    assert re.search(r"mcse:F2 +40 runs, 0 done", printed)
    assert re.search(r"about [\d,.]+ h on one H200, [\d,.]+ h on one H100, .*by arithmetic.*not measured", printed)


def test_tables_and_figures_add_up(tmp_path: Path) -> None:
    request = make_request(Selection("tiny", table="dalr:T3,nonling:T4", figure="kdmcse:F7"))
    assert list(request.entries) == ["dalr:T3", "nonling:T4", "kdmcse:F7"]
    assert request.wanted is not None
    assert len(request.wanted) == 45 + 2 + 45
    plan = make_plan(request, Store(tmp_path))
    seeds = [run.resolved.spec.seed for run in plan.runs if run.resolved.spec in request.wanted]
    assert seeds == sorted(seeds), "every row has its first seed early"
    assert {run.key for run in plan.runs} >= {str(spec) for spec in request.wanted}


def test_only_the_suites_of_the_table_are_due(tmp_path: Path) -> None:
    request = make_request(Selection("tiny", table="dalr:T4,kdmcse:T2"))
    due = {run.key: run.todo for run in make_plan(request, Store(tmp_path)).runs}
    assert due["dalr/toy/toy-bert/seed-0"] == ("retrieval",)
    assert due["kdmcse/toy/toy-bert/seed-0"] == ("retrieval", "geometry")
    assert due["mcse/toy/toy-bert/seed-0"] == ("geometry",)


def test_a_wrong_override_is_named() -> None:
    request = make_request(Selection("tiny", set={"epoch": 3}, table="dalr:T3"))
    with pytest.raises(UserError, match="did you mean epochs"):
        make_plan(request, Store(Path("none")))


def test_a_run_outside_the_profile_is_skipped_with_a_reason(tmp_path: Path) -> None:
    profile = tmp_path / "own.toml"
    text = (Path(__file__).parents[2] / "harness" / "profiles" / "paper.toml").read_text()
    profile.write_text(text.replace('[settings."wiki+coco"]', '[settings."wiki+other"]'))
    printed = run("--table", "kdmcse:T1", "--profile", str(profile), results=tmp_path).output
    assert "10 runs, 0 done" in printed
    assert "skipping  kdmcse/wiki+coco/roberta-base: the profile 'own' has no setting 'wiki+coco'" in printed


def test_the_places_of_encoders_may_be_given() -> None:
    place = f"bert-base-uncased={student_folder()}"
    request = make_request(Selection("paper", table="mcse:T5", encoders=place))
    assert list(request.given) == ["bert-base-uncased"]
    assert {spec.encoder for spec in request.wanted} == {"bert-base-uncased", "roberta-base"}


COMMIT = "b17f672f6143a6b6ff2d60250a7c2fa7574ac6eb"


@pytest.fixture
def profile(tmp_path: Path) -> str:
    """The tiny profile with public weights in a folder of the data root."""
    shutil.copytree(student_folder(), tmp_path / "data" / "weights")
    tiny = (files("harness.profiles") / "tiny.toml").read_text("utf-8")
    weights = [
        *("[released.weights]", 'folder = "weights"', 'pooling = "mean"', 'encoder = "bert-base-uncased"'),
        *('rows = [{ tables = ["mcse:T1"], published = "mcse", setting = "wiki+flickr" }]', 'source = "here"'),
    ]
    (tmp_path / "mine.toml").write_text("\n".join([tiny, *weights]), "utf-8")
    return "./mine.toml"


def scores(tmp_path: Path) -> dict[str, list[str]]:
    """Run -> its suites, of every result file."""
    found = (json.loads(path.read_text()) for path in (tmp_path / "results").rglob("seed-*.json"))
    return {
        "/".join(str(one["spec"][name]) for name in ("variant", "setting", "encoder", "seed")): [
            evaluation["suite"] for evaluation in one["evaluations"]
        ]
        for one in found
    }


def test_weights_are_evaluated_once_whichever_command_asks(typed: Typed, tmp_path: Path, profile: str) -> None:
    where = ("--profile", profile, "--data-root", "data", "--device", "cpu")
    code, out, err = typed("run", "--released", "--table", "mcse:T1", *where)
    assert code == 0, err
    assert "mcse:T1      1 run, 0 done" in out
    assert scores(tmp_path) == {"none[pooling=mean]/none/weights/0": ["sts"]}
    code, out, err = typed("eval", "data/weights", "--pooling", "mean", "--suites", "sts", *where)
    assert code == 0, err
    assert "nothing to do" in out
    code, out, err = typed("run", "--released", "--suites", "sts", *where)
    assert "1 run, 1 done, 0 to do" in out


def test_missing_weights_are_named_with_their_commit_until_all_of_it_is_in_the_cache(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))

    def missing() -> list[str]:
        code, out, err = typed("run", "--released", "--table", "mcse:T1", "--dry-run")
        assert code == 0, err
        return [line for line in out.splitlines() if "missing   the weights of" in line]

    mine = f"UdS-LSV/mcse-flickr-bert-base-uncased at {COMMIT}"
    assert len(missing()) == 6
    assert any(mine in line for line in missing())
    snapshot = tmp_path / "hub" / "models--UdS-LSV--mcse-flickr-bert-base-uncased" / "snapshots" / COMMIT
    shutil.copytree(student_folder(), snapshot)
    assert len(missing()) == 6, "a snapshot without mcse.pt is not complete"
    (snapshot / "mcse.pt").touch()
    assert len(missing()) == 5
    assert not any(mine in line for line in missing())


def test_the_list_of_public_weights(typed: Typed) -> None:
    code, out, err = typed("list", "released")
    assert code == 0, err
    (line,) = (line for line in out.splitlines() if "UdS-LSV/mcse-flickr-bert-base-uncased" in line)
    tables = ["mcse:T1,", "mcse:T6,", "kdmcse:T1,", "dalr:T1"]
    assert line.split() == ["UdS-LSV/mcse-flickr-bert-base-uncased", COMMIT, "cls", *tables]


WORDS = ("run", "--profile", "tiny", "--seeds", "1", "--suites", "sts", "--set", "steps=2")
TUNE = ("--tune", "simcse:temperature=0.05|0.1|0.5", "--tune", "mcse:lambda=0.01|1", "--trials", "2")


def test_tuned_methods_are_ordinary_runs_that_the_report_compares(typed: Typed, tmp_path: Path) -> None:
    code, out, err = typed(*WORDS, *TUNE, "--dry-run")
    assert (code, err) == (0, "")
    assert "4 runs, 0 done, 4 to do" in out
    assert "tune      2 configurations each of simcse:temperature=0.05|0.1|0.5 and of mcse:lambda=0.01|1\n" in out
    assert not (tmp_path / "results").exists()
    code, out, _ = typed(*WORDS, *TUNE)
    assert code == 0
    for title in ("Expected best dev score", "simcse, tuned (2 trials)", "Picked trial of each seed"):
        assert title in out
    (report,) = TuningSection("tuned", Contents.of(Store(tmp_path / "results"))).reports
    (place,) = report.places
    assert [len(line.picks) for line in place.lines] == [1, 1]
    assert {pick.variant for line in place.lines for pick in line.picks} <= set(report.tuning.variants)
    again = harness.plan("tiny", methods=report.tuning.variants, seeds=1, suites="sts", set={"steps": 2})
    assert {run.state for run in again.runs} == {"done"}
    assert "nothing to do" in typed(*WORDS, *TUNE)[1]


def test_a_grid_without_the_baseline_says_that_no_gain_is_tested(tmp_path: Path) -> None:
    grid = ("--profile", "tiny", "--seeds", "1")
    assert "add simcse" in run("--methods", "mcse", *grid, results=tmp_path).output
    assert "add simcse" not in run("--methods", "mcse,simcse", *grid, results=tmp_path).output
    Store(tmp_path).save(result("simcse"))
    assert "add simcse" not in run("--methods", "mcse", *grid, results=tmp_path).output
