"""--tasks and --encoders of `run` and `eval`; scores of some tasks are never mixed with those of
all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import harness
from harness.command_line import Selection
from harness.errors import UserError
from harness.planning.request import make_request
from harness.store import Result
from harness.toy import student_folder
from harness.work.tally import format_result

pytestmark = pytest.mark.usefixtures("small_toy_tests")

BOTH = {"my-pairs", "ToySTS"}


def scored(world: Path, **options: Any) -> list[Result]:
    """Evaluate the untrained toy encoder on the suite sts."""
    return harness.execute(planned(world, **options), executor="serial", device="cpu").runs


def planned(world: Path, **options: Any) -> harness.Plan:
    return harness.plan_model(
        "toy-bert", pooling="cls", profile=str(world), suites="sts", **options
    )


def test_some_tasks_first_then_all_adds_and_nothing_is_mixed(world: Path) -> None:
    (some,) = scored(world, tasks="my-pairs")
    assert [set(evaluation.scores) for evaluation in some.evaluations] == [{"my-pairs"}], (
        "not the suite's mean"
    )
    assert format_result(some).startswith(
        f"sts: my-pairs spearman {some.evaluations[0].scores['my-pairs']['spearman']:.2f}"
    )
    assert not planned(world, tasks=["my-pairs"]).todo
    (every,) = scored(world)
    assert [set(evaluation.scores) for evaluation in every.evaluations] == [
        {"my-pairs"},
        {*BOTH, "Avg"},
    ]
    assert every.evaluations[0] == some.evaluations[0], "what was scored is not changed"
    first, second = (evaluation.scores["my-pairs"] for evaluation in every.evaluations)
    assert first == pytest.approx(second, abs=1e-4)
    frame = harness.results("results").frame
    protocols = set(frame[frame["task"] == "my-pairs"]["protocol"])
    assert protocols == {evaluation.protocol.key for evaluation in every.evaluations}
    assert not planned(world, tasks="ToySTS").todo, "it has all tasks"


def test_a_suite_of_the_same_tasks_alone_has_another_protocol(world: Path) -> None:
    scored(world, tasks="my-pairs")
    world.write_text(world.read_text().replace('"my-pairs", "ToySTS"]', '"my-pairs"]'))
    (whole,) = scored(world)
    assert [set(evaluation.scores) for evaluation in whole.evaluations] == [
        {"my-pairs"},
        {"my-pairs", "Avg"},
    ]


def test_tasks_choose_suites_of_a_grid_and_unknown_ones_are_named(world: Path) -> None:
    request = make_request(Selection(str(world), tasks="my-pictures,my-pairs"))
    assert list(request.suites) == ["sts", "retrieval"]
    runs = harness.plan(str(world), methods="mcse", tasks="my-pairs", seeds=1).runs
    assert [run.todo for run in runs] == [("sts",)]
    with pytest.raises(
        UserError,
        match=r"--tasks my-pair: no such task in the suites sts, .* did you mean my-pairs",
    ):
        make_request(Selection(str(world), tasks="my-pair"))
    name = "MTEB(eng, v1):STS"
    assert make_request(Selection("paper", suites="sts,mteb", tasks=f"{name},STS-B")).tasks == [
        name,
        "STS-B",
    ]


def test_eval_takes_encoders_of_the_profile_and_folders_beside_a_model(world: Path) -> None:
    words = f"toy-bert,other={student_folder()}"
    plan = harness.plan_model(
        encoders=words, pooling="mean", profile=str(world), suites="sts", tasks="my-pairs"
    )
    assert [run.key for run in plan.runs] == [
        f"none[pooling=mean]/none/{name}/seed-0" for name in ("toy-bert", "other")
    ]
    again = harness.plan_model(
        str(student_folder()), encoders="toy-bert", pooling="cls", profile=str(world), suites="sts"
    )
    assert len(again.runs) == 2


def test_eval_of_a_run_takes_the_folder_of_its_encoder(world: Path) -> None:
    chosen = {"profile": str(world), "encoders": f"mine={student_folder()}", "suites": "sts"}
    harness.run(
        **chosen,
        methods="simcse",
        settings="toy-text",
        seeds=1,
        tasks="my-pairs",
        executor="serial",
    )
    key = "simcse/toy-text/mine/seed-0"
    plan = harness.plan_model(key, **chosen, tasks="ToySTS")
    assert [(run.key, run.state) for run in plan.runs] == [(key, "trained")]
    with pytest.raises(
        UserError, match="has the encoder mine; give --encoders mine=FOLDER, or none"
    ):
        harness.plan_model(key, profile=str(world), encoders="toy-bert")
    with pytest.raises(
        UserError, match="no model is given; give a folder, a hub name, a run's key or --encoders"
    ):
        harness.plan_model(profile=str(world))
