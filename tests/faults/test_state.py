"""State on disk, cut short or with a changed byte: the scores are those of an undisturbed run, or
the file is named.

Checkpoints, the best model, kept scores and caches are made again; a damaged result is named, left
out, and never made again without a word. `make faults` does every file at every place, `make test`
a file of each kind at two.
"""

from __future__ import annotations

import logging
import random
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from builders import failure, result, rewrite
from click.testing import CliRunner
from faults_tools import (
    ODD_KINDS,
    SHORT,
    contents,
    cut,
    flip,
    hashes,
    misplace,
    outcome,
    short_run,
)

import harness
from harness.caches import get_cache_folder
from harness.cli.main import cli
from harness.errors import UserError
from harness.events import Event
from harness.store import Store, index
from harness.store.logs import find_logs
from harness.training import trainer

pytestmark = pytest.mark.usefixtures("small_toy_tests")

MCSE: dict[str, Any] = {"settings": "toy", "executor": "serial"}
#: what a run is evaluated on, by where it was interrupted: after step 3 with the best model of step
#: 2, or at the end
STAGES = {"training": "sts", "scored": "sts", "drawn": "sts,figures"}
#: in the folder of the run
FILES = {
    "training": ("checkpoint-3-*", "checkpoint-*", "best", "best/model.safetensors", "best/heads.safetensors",
                 "best/CHECKSUMS"),
    "scored": ("trained.json", "best", "best/model.safetensors", "best/STEP", "scores-sts-*.json"),
    "drawn": ("scores-figures-*.json", "scores-figures-*.npz"),
}  # fmt: skip
#: files in whose place there is something else
MISPLACED = (("training", "checkpoint-*"), ("scored", "best/STEP"), ("scored", "scores-sts-*.json"))
#: what `make test` damages: a file of each kind
IN_SUITE = (("training", "checkpoint-*"), ("training", "best"), ("scored", "scores-sts-*.json"))
CACHES = ("tokens", "features", "seen", "hashes", "toy", "declarations")
Harm = tuple[Callable[[Path, Any], None], Any]
CUTS: list[Harm] = [(cut, tenth) for tenth in range(10)]
FLIPS: list[Harm] = [(flip, share) for share in (random.Random(seed).random() for seed in range(4))]
Stage = Callable[[str], tuple[Path, dict[str, object]]]


def harms() -> Iterator[Any]:
    """A stage, a pattern of files and what happens to them; `make test` does a few of each."""
    short = cycle((CUTS[7], FLIPS[0]))
    for stage, patterns in FILES.items():
        for pattern in patterns:
            chosen = next(short) if stage != "drawn" and "/" not in pattern else None
            for harm in (*CUTS, *FLIPS):
                in_suite = harm is chosen and (stage, pattern) in IN_SUITE
                yield pytest.param(
                    stage, pattern, harm, marks=() if in_suite else pytest.mark.faults
                )
    for row, state in enumerate(MISPLACED):
        for number, kind in enumerate(ODD_KINDS):
            yield pytest.param(
                *state, (misplace, kind), marks=() if row == number == 0 else pytest.mark.faults
            )


def interrupted(folder: Path, stage: str) -> None:
    """A run that ended where it reported something."""
    kind, suite, step = (
        ("progress", "", 3)
        if stage == "training"
        else ("evaluated", STAGES[stage].split(",")[-1], 0)
    )

    def stop(event: Event) -> None:
        if (event.kind, event.suite) == (kind, suite) and (
            event.progress is None or event.progress.step == step
        ):
            raise RuntimeError("interrupted")

    assert len(short_run("mcse", folder, progress=stop, suites=STAGES[stage], **MCSE).failures) == 1


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of two finished runs."""
    folder = tmp_path_factory.mktemp("whole")
    short_run("simcse,mcse", folder, **MCSE)
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy of them for one test."""
    return Path(shutil.copytree(whole, tmp_path / "results"))


@pytest.fixture(scope="module")
def stage_of(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Gives the folder of an interrupted run, beside a finished one, and the outcome of an
    undisturbed run.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(trainer, "SAVE_EVERY_S", 0.0)

        @cache
        def undisturbed(suites: str) -> dict[str, object]:
            return outcome(
                short_run("mcse", tmp_path_factory.mktemp("undisturbed"), suites=suites, **MCSE)
            )

        @cache
        def make(stage: str) -> tuple[Path, dict[str, object]]:
            folder = tmp_path_factory.mktemp(stage) / "cut"
            shutil.copytree(whole, folder)
            shutil.rmtree(folder / "tiny" / "mcse")
            shutil.rmtree(folder / ".work")
            interrupted(folder, stage)
            return folder, undisturbed(STAGES[stage])

        yield make


def files(base: Path, pattern: str) -> list[Path]:
    """The files that a pattern means, those of a folder included."""
    listed = [
        file
        for path in base.glob(pattern)
        for file in ([path] if path.is_file() else sorted(path.rglob("*")))
    ]
    assert listed, pattern
    return [
        file for file in listed if file.is_file() and file.suffix != ".lock" and file.stat().st_size
    ]


def copy_of(interrupted: Path, folder: Path) -> Path:
    """Copy results of an interrupted run; its work folder."""
    shutil.copytree(interrupted, folder)
    (log,) = folder.glob(".work/*/run.log")
    return log.parent


@pytest.mark.parametrize(("stage", "pattern", "harm"), [*harms()])
def test_a_run_goes_on_from_what_is_whole(
    stage_of: Stage, tmp_path: Path, stage: str, pattern: str, harm: Harm
) -> None:
    """Damage what an interrupted run left, let it go on, and compare."""
    made, folder = stage_of(stage), tmp_path / "results"
    work, before = copy_of(made[0], folder), hashes(folder)
    for file in files(work, pattern):
        harm[0](file, harm[1])
    assert outcome(short_run("mcse", folder, suites=STAGES[stage], **MCSE)) == made[1]
    assert before.items() <= hashes(folder).items()
    assert list(work.glob("*.damaged"))


@pytest.mark.parametrize("where", ["", "best", "best/model.safetensors"])
def test_work_behind_a_link_is_refused_and_left_as_it_is(
    stage_of: Stage, tmp_path: Path, where: str
) -> None:
    made, _ = stage_of("training")
    work = copy_of(made, tmp_path / "results")
    link = work / where
    link.symlink_to(link.rename(tmp_path / "elsewhere"))
    before = contents(tmp_path)
    with pytest.raises(UserError, match=f"{re.escape(str(link))}: it is a link.*; remove it"):
        short_run("mcse", tmp_path / "results", **MCSE)
    after = contents(tmp_path)
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize(
    ("kinds", "harms"),
    [
        pytest.param(CACHES, (CUTS[6], FLIPS[2]), id="all"),
        *(
            pytest.param((kind,), (harm,), marks=pytest.mark.faults)
            for kind in CACHES
            for harm in (*CUTS, *FLIPS)
        ),
    ],
)
def test_damaged_caches_are_made_again(
    stage_of: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    kinds: Sequence[str], harms: Sequence[Harm],
) -> None:  # fmt: skip
    """All files of some caches, by turns."""
    expected = stage_of("training")[1]
    shutil.copytree(get_cache_folder(), tmp_path / "cache")
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    for kind in kinds:
        for file, (harm, where) in zip(files(tmp_path / "cache", kind), cycle(harms), strict=False):
            harm(file, where)
    with caplog.at_level(logging.WARNING):
        assert outcome(short_run("mcse", tmp_path / "results", **MCSE)) == expected
    warnings = [line for line in caplog.messages if "is damaged" in line]
    assert len(set(warnings)) == len(warnings), "one warning each"
    for kind in ("tokens", "features", "seen", "toy") if kinds is CACHES else ():
        assert any(f"{kind}/" in line for line in warnings), kind


def test_the_commands_name_every_damaged_result_once_go_on_and_do_not_make_it_again(
    whole: Path, folder: Path
) -> None:
    (path,) = folder.glob("tiny/mcse/*/*/seed-0-*.json")
    content = path.read_bytes()
    cut(path, 5)
    link, other = (path.with_name(f"seed-{seed}-{'0' * 16}.json") for seed in (7, 8))
    link.symlink_to("nowhere")
    other.mkdir()
    path.with_name(f"seed-9-{'0' * 16}.json").write_bytes(
        content.replace(b'"spearman":', b'"spearman":1')
    )
    before = path.read_bytes()
    words = [
        "--profile",
        "tiny",
        "--methods",
        "mcse,simcse",
        "--settings",
        "toy",
        "--seeds",
        "1",
        "--suites",
        "sts",
    ]
    words += [
        "--set",
        "steps=4",
        "--set",
        "eval_every=2",
        "--set",
        "batch_size=8",
        "--results",
        str(folder),
    ]
    status, run = (CliRunner().invoke(cli, [name, *words]) for name in ("status", "run"))
    assert (status.exit_code, run.exit_code) == (0, 1), (status.output, run.output)
    damaged = sorted(path.parent.glob("seed-*.json"))
    assert len(damaged) == 4
    for each in damaged:
        assert status.output.count(str(each)) == 1, status.output
    assert run.output.count(str(path)) == 1
    assert "1 damaged" in run.output
    assert "restore it, or move it away" in run.output
    assert "nothing to do: every other run of this plan is finished" in run.output
    assert path.read_bytes() == before
    path.unlink()
    assert outcome(short_run("mcse,simcse", folder, **MCSE)) == outcome(harness.results(whole))


@pytest.mark.parametrize("kind", ODD_KINDS)
def test_what_is_no_file_in_a_results_folder_is_named_and_never_waited_for(
    folder: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    (path,) = folder.glob("tiny/mcse/*/*/seed-0-*.json")
    tuning, failed = (folder / name / f"{'0' * 12}.json" for name in ("tunings", "failed"))
    log = folder / ".work" / ("1" * 32) / "run.log"
    for each in (path, tuning, failed, log):
        each.parent.mkdir(exist_ok=True)
        misplace(each, kind)
    read = harness.results(folder)
    assert [run.spec.variant.name for run in read.runs] == ["simcse"]
    assert [
        str(each) in line for each, line in zip((path, tuning), read.problems, strict=True)
    ] == [True, True]
    store = Store(folder)
    assert not store.failures()
    assert str(failed) in caplog.text
    assert log not in [each.path for each in find_logs(store)]


def test_a_result_damaged_after_it_was_indexed_costs_its_own_page_and_curve_with_a_warning(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "WORTH_FILES", 1)
    monkeypatch.setattr(index, "_SETTLED_NS", 0)
    harness.results(folder)
    (path,) = folder.glob("tiny/mcse/*/*/seed-0-*.json")
    looked_at, status = index._read_status, index._read_status(str(path))
    flip(path, 0.5)
    # a disk that forgets changes no time, unlike a write
    monkeypatch.setattr(
        index, "_read_status", lambda name: status if name == str(path) else looked_at(name)
    )
    path.with_name(f"seed-7-{'0' * 16}.json").symlink_to("nowhere")
    assert len(harness.results(folder)) == 2, "it is trusted by its size and times"
    written = harness.report(folder, tmp_path / "report")
    assert written.results == 2
    damaged = sorted(path.parent.glob("seed-*.json"), reverse=True)
    assert [str(each) in line for each, line in zip(damaged, written.warnings, strict=True)] == [
        True,
        True,
    ]
    assert [
        page.name.partition("-")[0] for page in (tmp_path / "report" / "runs").glob("*-seed-*.js")
    ] == ["simcse"]
    rows = (tmp_path / "report" / "report.csv").read_text().splitlines()[1:]
    assert [row.split(",")[1] for row in rows] == ["mcse", "simcse"], (
        "its numbers were read from a sound file"
    )


def test_files_of_a_newer_version_are_named_left_alone_and_hold_up_no_other_run(
    tmp_path: Path,
) -> None:
    """Results, failures and notes with another schema, as of two versions of harness in one folder."""

    def typed(command: str, *words: str) -> tuple[int, str]:
        grid = "--profile tiny --settings toy-text --seeds 1 --suites sts --methods none[pooling=cls],simcse"
        values = [
            word for key, value in SHORT["set"].items() for word in ("--set", f"{key}={value}")
        ]
        done = CliRunner().invoke(
            cli, [command, *grid.split(), *values, "--results", str(tmp_path), *words]
        )
        return done.exit_code, done.output

    short_run("simcse", tmp_path)
    store = Store(tmp_path)
    store.save_failure(failure(result(seed=7)))
    newer = [*store.files(), *tmp_path.glob("failed/*.json"), *tmp_path.glob(".work/*/*.json")]
    assert len(newer) >= 3
    for path in newer:
        rewrite(path, schema_version=99, novelty=[1])
    before = {path: path.read_bytes() for path in newer}
    code, said = typed("run", "--executor", "serial")
    assert (code, said.count("has schema 99")) == (1, 1), said
    assert "1 run skipped" in said
    assert len(Store(tmp_path).load()[0]) == 1, "the other run was carried out"
    assert {path: path.read_bytes() for path in newer} == before
    code, said = typed("status")
    assert (code, "update harness" in said) == (0, True), said
