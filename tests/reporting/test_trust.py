"""How far a report can be trusted, what to run next, and the page of a running grid."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from builders import failure, over_seeds, result
from click.testing import CliRunner

from harness.cli.main import cli
from harness.locks import hold_lock
from harness.reporting import build
from harness.reporting.contents import Contents
from harness.reporting.trust import describe_trust, find_controls_to_run, list_runs_to_start
from harness.store import Store
from harness.store.logs import read_last_lines, running_log

RUNS = [
    *over_seeds("simcse", [70.0, 71.0, 72.0], hyperparameters={"training": {"precision": "fp32"}}),
    *over_seeds(
        "mcse[lambda=1]",
        [74.0],
        hardware={"device": "cuda", "processor": "some CPU", "accelerator": "H100"},
    ),
]
UNTRAINED = [
    run
    for name in ("cls", "mean")
    for run in over_seeds(f"none[pooling={name}]", [50.0], setting="none")
]


def test_the_box_counts_what_weakens_the_numbers(tmp_path: Path) -> None:
    contents = Contents(Store(tmp_path), RUNS, [failure(result("dalr", 4))], ["bad.json: damaged"])
    told = describe_trust(contents, find_controls_to_run(contents))
    assert told["seeds"].startswith("1 to 3 a trained row; 1 of 2 rows with fewer than 3")
    assert told["controls missing"].startswith(
        "the untrained encoder (untrained, [CLS]; untrained, mean) for toy / toy-b"
    )
    assert told["left out"] == "1 failed run, 1 bad file"
    assert told["precision"].startswith("fp32 (3 runs)")
    assert "H100 (1 run)" in told["hardware"]
    contents = Contents(Store(tmp_path), [*RUNS[:3], *UNTRAINED])
    whole = describe_trust(contents, find_controls_to_run(contents))
    assert whole["controls missing"].startswith("none")


def test_what_to_run_next_is_commands_as_typed(tmp_path: Path) -> None:
    contents = Contents(Store(tmp_path), RUNS, [failure(result("dalr", 4))])
    found = list(list_runs_to_start(contents, find_controls_to_run(contents)))
    words = [shlex.split(command) for _, command in found]
    options = [dict(zip(some[2::2], some[3::2], strict=True)) for some in words]
    assert [some[:2] for some in words] == [["harness", "run"]] * 4
    assert [(one["--methods"], one.get("--settings"), one.get("--seeds")) for one in options] == [
        ("dalr", "toy", "4,"),
        ("mcse[lambda=1]", "toy", "3"),
        ("none[pooling=cls],none[pooling=mean]", None, None),
        ("mcse[images=shuffled,lambda=1]", "toy", "0,"),
    ]
    plans = [CliRunner().invoke(cli, [*some[1:], "--dry-run"]) for some in words]
    assert [plan.exit_code for plan in plans] == [0] * 4, plans
    whole = Contents(Store(tmp_path), [*RUNS[:3], *UNTRAINED])
    assert list(list_runs_to_start(whole, find_controls_to_run(whole))) == []


def test_a_report_of_a_running_grid_says_so_and_follows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "results")
    for saved in RUNS:
        store.save(saved)
    log = running_log(store, "ab" * 32)
    log.parent.mkdir(parents=True)
    log.write_text("12:00  start mcse/toy/toy-bert/seed-1 on cpu\n12:01  step 20 of 60\n")
    assert read_last_lines(store) == {}, "nobody holds its lock"
    with hold_lock(store.lock_file("ab" * 32), "run"):
        assert read_last_lines(store) == {"mcse/toy/toy-bert/seed-1": "12:01  step 20 of 60"}
        first = build.render(Contents.of(store), tmp_path / "out")
        assert 'http-equiv="refresh"' in first.read_text("utf-8")
        page = first.with_name("overview.html").read_text("utf-8")
        assert 'http-equiv="refresh"' in page
        assert "step 20 of 60" in page
    counts = iter([2, 1, 0])
    waits: list[float] = []
    monkeypatch.setattr(
        build, "read_last_lines", lambda _: dict.fromkeys(map(str, range(next(counts))))
    )
    monkeypatch.setattr(build, "read_methods_in_process", lambda: ((), ()))
    monkeypatch.setattr(build, "render", lambda contents, out, one_file: out / "index.html")
    monkeypatch.setattr(build, "take_titles", lambda titles: None)
    monkeypatch.setattr("harness.cli.report.sleep", waits.append)
    typed = CliRunner().invoke(
        cli, ["report", "--results", str(store.root), "--out", str(tmp_path), "--follow"]
    )
    assert typed.exit_code == 0, typed.output
    assert len(waits) == 2
    assert typed.output.splitlines()[-1] == "4 results rendered, 0 runs in progress"
