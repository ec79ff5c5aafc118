"""`harness show` and `harness logs`: values with their source, runs under any spelling, runs that
failed, logs.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from builders import failure, result
from cli_words import Typed

from harness.grid import resolve
from harness.planning.names import find_result, find_stored_spelling
from harness.profiles import load_profile
from harness.spec import RunSpec
from harness.store import Result, Store
from harness.store import logs as logs_module
from harness.store.folder import Submission, write_submission
from harness.store.schema import Budget, GradientPoint


def row(printed: str, name: str) -> list[str]:
    """The first row of a table that begins with a name."""
    return next(
        line.split() for line in printed.splitlines() if line.strip().startswith(f"{name} ")
    )


def of_mcse(variant: str) -> Result:
    """A result of MCSE under tiny with the values that a run has there."""
    run = resolve(load_profile("tiny"), RunSpec.parse(f"{variant}/toy/toy-bert/seed-0"), {})
    parts = {"method": dict(run.hyperparameters.named()), "training": run.training.model_dump()}
    return result(variant, hyperparameters={**parts, "encoder": {"pooling": run.pooling}})


def test_a_method_is_shown_with_the_values_of_a_profile_and_their_source(typed: Typed) -> None:
    code, out, _ = typed("show", "mcse", "--profile", "tiny")
    assert code == 0
    assert row(out, "lambda")[:3] == ["lambda", "1.0", "chosen"]
    assert row(out, "steps")[1:3] == ["400", "[training]"]
    assert row(out, "temperature")[1:3] == ["0.05", "default"]
    code, out, _ = typed(
        "show",
        "mcse",
        "--profile",
        "paper",
        "--setting",
        "wiki+flickr",
        "--encoder",
        "roberta-base",
    )
    assert code == 0
    assert row(out, "lambda")[1] in ("0.01", "0.05")
    shown = " ".join(typed("show", "dalr")[1].split())
    assert "targets raw raw code, text silent" in shown
    assert "gradients code, text silent the targets of Eq. 7 have none" in shown
    code, _, error = typed("show", "mcse", "--profile", "tiny", "--setting", "toy-text")
    assert (code, "needs image-caption pairs" in error) == (2, True)


def test_a_run_is_found_under_any_spelling_of_its_values(typed: Typed, tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    plain, other = of_mcse("mcse"), of_mcse("mcse[lambda=0.5]")
    for saved in (plain, other):
        store.save_log(saved, f"log of {saved.spec.variant}\n")
        store.save(saved)
    for text, expected in (
        ("mcse[lambda=1]", plain),
        ("mcse[lambda=1,temperature=0.05]", plain),
        ("mcse[lambda=0.5,projection_dim=256]", other),
    ):
        key = f"{text}/toy/toy-bert/seed-0"
        assert f"{expected.spec.key}  profile tiny" in typed("show", key)[1]
        assert typed("logs", key)[1] == f"log of {expected.spec.variant}\n"
        assert find_result(key, store.root)[0] == expected
        assert find_stored_spelling([plain, other], text) == str(expected.spec.variant)
    assert find_stored_spelling([plain, other], "mcse[lambda=0.7]") == "mcse[lambda=0.7]"
    assert typed("show", "mcse[lambda=0.7]/toy/toy-bert/seed-0")[0] == 2
    code, out, _ = typed(
        "compare", "mcse[lambda=1]", "mcse[lambda=0.5,temperature=0.05]", "--metric", "sts.Avg"
    )
    assert code == 0
    assert "mcse against mcse[lambda=0.5]" in out


def test_a_run_is_shown_with_its_budget_the_parts_of_its_gradient_and_its_last_dev_score(
    typed: Typed, tmp_path: Path
) -> None:
    points = [
        GradientPoint(
            step=49, shares={"text": 0.25, "info": None}, cosines={"text": 0.1, "info": None}
        ),
        GradientPoint(
            step=99, shares={"text": 0.75, "info": 0.25}, cosines={"text": 0.5, "info": None}
        ),
    ]
    budget = Budget(steps=100, text_rows=6400, other_rows=3200, flops=None)
    Store(tmp_path / "results").save(
        result("mcse", budget=budget, gradients={"pairs": points}, dev=(60.0, 40.0))
    )
    out = typed("show", "mcse/toy/toy-bert/seed-0")[1]
    assert "best ToySTS-dev 60.00 at step 50; 40.00 at the last, 100\n" in out
    assert (
        "budget: 50 of 100 steps, 3,200 of 6,400 rows of text, 1,600 of 3,200 rows of images or audio, 812 peak MB"
        in out
    )
    lines = [line.split() for line in out.splitlines()]
    assert ["pairs", "text", "0.25", "0.75", "0.75", "0.50"] in lines
    assert ["pairs", "info", "0", "0.25", "0.25"] in lines


def test_words_of_a_key_or_a_fingerprint_show_the_one_run_that_has_them(
    typed: Typed, tmp_path: Path
) -> None:
    store = Store(tmp_path / "results")
    first, second = (result("mcse", seed) for seed in (0, 12))
    store.save(first)
    store.save(second)
    for words in ("seed-12", "toy-bert/seed-12", second.fingerprint[:8]):
        assert typed("show", words)[1].startswith(f"{second.spec.key}  ")
    assert "gradient in" not in typed("show", "seed-12")[1], "a table without rows is not printed"
    code, _, error = typed("show", "toy/toy-bert")
    assert (code, first.spec.key in error, second.spec.key in error) == (2, True, True)
    assert typed("show", "seed-1")[0] == 2


def test_a_damaged_result_is_named_under_any_spelling(typed: Typed, tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    damaged = store.path(store.save(of_mcse("mcse")))
    store.save(of_mcse("mcse[lambda=0.5]"))
    damaged.write_text("{}")
    for command, spelling in itertools.product(("show", "logs"), ("mcse", "mcse[lambda=1]")):
        code, _, error = typed(command, f"{spelling}/toy/toy-bert/seed-0")
        assert (code, str(damaged.relative_to(tmp_path)) in error) == (2, True)
    assert typed("show", "mcse[lambda=0.5,temperature=0.05]/toy/toy-bert/seed-0")[0] == 0


@pytest.mark.parametrize("traceback", ["Traceback\n  File mine.py, line 3\nKeyError: 'foo'\n", ""])
def test_a_run_that_failed_is_shown_with_its_traceback_and_log(
    typed: Typed, tmp_path: Path, traceback: str
) -> None:
    failed = failure(result("mcse", 3), "KeyError: 'foo' (mine.py, line 3)")
    failed = failed.model_copy(update={"traceback": traceback, "when": "2026-01-02T03:04:05+00:00"})
    Store(tmp_path / "results").save_failure(failed, "".join(f"line {n}\n" for n in range(30)))
    code, out, _ = typed("show", "mcse/toy/toy-bert/seed-3")
    assert code == 0
    assert "failed 2026-01-02T03:04:05+00:00: KeyError: 'foo' (mine.py, line 3)" in out
    assert (traceback or "no traceback: the process") in out
    assert "line 29" in out
    assert "line 19\n" not in out
    assert f"log: {Path('results') / 'failed' / failed.fingerprint[:16]}.log" in out


LINES = "2026-01-02T03:04:05Z  start mcse/toy/toy-bert/seed-0 on cpu\n2026-01-02T03:04:06Z  done\n"


def test_a_log_is_printed_as_it_is_and_ctrl_c_ends_that_quietly(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store(tmp_path / "results").save_log(result("mcse"), LINES)
    for follow in ((), ("--follow",)):
        assert typed("logs", "mcse", *follow) == (0, LINES, "")
    path = logs_module.running_log(Store(tmp_path / "results"), result("mcse").fingerprint)
    path.parent.mkdir(parents=True)
    path.write_text(LINES)

    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(logs_module, "follow", interrupt)
    assert typed("logs", "mcse", "--follow") == (0, "\n", "")


def test_a_run_that_waits_in_a_batch_system_has_no_log_yet(typed: Typed, tmp_path: Path) -> None:
    there, of = tmp_path / "jobs", result("mcse")
    note = Submission(system="SLURM", id="12", key=of.spec.key, log=there / "12_log.out")
    write_submission(Store(tmp_path / "results"), of.fingerprint, note)
    told = "mcse/toy/toy-bert/seed-0 has no log yet: its job is still queued; `harness status` shows where"
    assert typed("logs", "mcse") == (2, "", f"error: {told}\n")
