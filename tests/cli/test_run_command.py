"""--table, --figure and --paper of `harness run` and `harness status`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from builders import result, sts
from click.testing import CliRunner, Result

from harness.cli.main import cli
from harness.cli.output import show_paper_tables
from harness.errors import UserError
from harness.planning.plan import make_plan
from harness.planning.request import make_request
from harness.planning.selection import Selection
from harness.store import Store


def run(*words: str, results: Path) -> Result:
    return CliRunner().invoke(cli, ["run", *words, "--results", str(results), "--dry-run"])


def test_a_table_is_planned_and_told(tmp_path: Path) -> None:
    printed = run("--table", "dalr:T3", "--profile", "tiny", "--seeds", "5", results=tmp_path).output
    assert "47 runs, 0 done" in printed, "nine variants, five seeds, and two runs of MCSE that are teachers"
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
    show_paper_tables(["mcse:T2", "mcse:F3", "kdmcse:T1"], "paper", finished)
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


@pytest.mark.parametrize("other", ["methods", "settings", "encoders", "suites"])
def test_the_grid_options_are_refused_beside_a_table(other: str) -> None:
    with pytest.raises(UserError, match=f"--table selects its own runs; remove --{other}"):
        make_request(Selection("tiny", table="dalr:T3", **{other: "simcse"}))  # type: ignore[arg-type]


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


def test_what_has_no_stand_in_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the profile tiny has no stand-ins for dalr:T2"):
        make_request(Selection("tiny", table="dalr:T2"))


def test_the_places_of_encoders_may_be_given(tmp_path: Path) -> None:
    from harness.toy import student_folder

    place = f"bert-base-uncased={student_folder()}"
    request = make_request(Selection("paper", table="mcse:T5", encoders=place))
    assert list(request.given) == ["bert-base-uncased"]
    assert {spec.encoder for spec in request.wanted} == {"bert-base-uncased", "roberta-base"}
    with pytest.raises(UserError, match="remove --encoders"):
        make_request(Selection("paper", table="mcse:T5", encoders="bert-base-uncased"))
