"""What a run was planned with is what it finds: classes, data and tests that change in between are
refused.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.code import Declarations
from harness.encoders.poolings import ClsPooling
from harness.errors import UserError
from harness.method import Method, method_named
from harness.method.declared import get_declared_method
from harness.planning.experiments import Experiment
from harness.planning.ingredients import Ingredient
from harness.registry import find_change
from harness.sources import FileSource

SIMCSE, MCSE = method_named("simcse"), method_named("mcse")


def planned(**given: Any) -> Experiment:
    (run,) = harness.plan("tiny", methods="simcse", seeds=1, **given).runs
    return run.experiment


CHANGES: list[tuple[type, str, object]] = [
    (SIMCSE, "change_rows", lambda self, rows, random: {}),
    (SIMCSE, "loss_terms", lambda self, batch, encode: {}),
    (SIMCSE, "streams", ("pairs",)),
    (Method, "mixing", classmethod(lambda cls, hyperparameters: None)),
    (SIMCSE, "weights", lambda self: {"text": 2.0}),
    (ClsPooling, "__call__", lambda self, layers, mask: layers[0][:, 0]),
    (ClsPooling, "first_token", False),
]


@pytest.mark.parametrize(
    ("changed", "name", "value"), CHANGES, ids=[name for _, name, _ in CHANGES]
)
def test_a_class_that_the_process_changed_is_refused_and_answers_for_nobody(
    changed: type, name: str, value: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = planned()
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    with monkeypatch.context() as patched:
        patched.setattr(changed, name, value)
        assert name in find_change(
            ClsPooling if changed is ClsPooling else MCSE if changed is Method else SIMCSE
        )
        for ask in (planned, before.check_code):
            with pytest.raises(UserError, match=f"{name} was replaced after its class was defined"):
                ask()
        if changed is not ClsPooling:
            known = Declarations()
            known.ask("method", "simcse", "x", lambda: "changed")
            known.save()
            assert Declarations().ask("method", "simcse", "x", lambda: "as defined") == "as defined"
    assert not find_change(changed)
    assert planned().fingerprint == before.fingerprint
    before.check_code()


def test_a_function_that_the_process_replaced_beside_a_class_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place, name, before = SIMCSE.__module__, "info_nce", planned()
    with monkeypatch.context() as patched:
        patched.setattr(f"{place}.{name}", lambda *given, **named: 0)
        for ask in (planned, before.check_code):
            with pytest.raises(
                UserError, match=rf"{place}.{name} was replaced after its class was defined"
            ):
                ask()
    assert planned().fingerprint == before.fingerprint


def test_answers_of_another_process_are_compared_with_the_class_where_the_run_is_carried_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    experiment = planned()
    with monkeypatch.context() as patched:
        patched.setattr(SIMCSE.Hyperparameters, "identity", lambda self: {"temperature": 0.5})
        with pytest.raises(
            UserError,
            match="simcse has changed since the run was planned; run the same command again",
        ):
            experiment.check_code()
    experiment.check_code()
    assert (
        get_declared_method("simcse").configured("simcse", "paper", ({}, {}))["identity"][
            "temperature"
        ]
        == 0.05
    )


def test_no_declared_answer_is_kept_by_a_process_whose_code_has_changed_on_disk(
    tmp_path: Path,
) -> None:
    package = tmp_path / "harness_methods_copy"
    package.mkdir()
    code = f"""
import os, pathlib, sys
sys.path.insert(0, {str(tmp_path)!r})
from harness import code
code._DECLARING = (*code._DECLARING, "harness_methods_copy")
known = code.Declarations()
known.ask("method", "simcse", "x", lambda: 1)
if sys.argv[1] == "changed":
    pathlib.Path({str(package / "new.py")!r}).write_text("value = 2")
known.save()
print(any(pathlib.Path(os.environ["HARNESS_CACHE"]).rglob("*.json")))
"""
    for state, kept in (("changed", "False"), ("as it was", "True")):
        environment = {**os.environ, "HARNESS_CACHE": str(tmp_path / f"cache {state}")}
        done = subprocess.run(
            [sys.executable, "-c", code, state], env=environment, capture_output=True, text=True
        )
        assert done.stdout.strip() == kept, done.stderr


class Lines(FileSource):
    """A file."""


@pytest.mark.parametrize("keep", ["size", "size and time", "nothing"])
def test_an_input_that_changed_since_the_run_was_planned_is_refused(
    keep: str, tmp_path: Path
) -> None:
    path = tmp_path / "rows.txt"
    path.write_text("a cat sleeps")
    known = Ingredient(Lines([path.name]), tmp_path)
    before, times = known.fingerprint, path.stat()
    assert known.current() is known.source
    path.write_text("a dog sleeps" if keep != "nothing" else "a dog")
    if keep == "size and time":
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(
        UserError,
        match=r"rows\.txt has changed since the run was planned; run the same command again",
    ):
        known.current()
    assert Ingredient(Lines([path.name]), tmp_path).fingerprint != before


def test_scores_of_tests_that_changed_since_the_run_was_planned_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inventory = harness.plan("tiny", methods="simcse", seeds=1).inventory
    before = inventory.find_protocol("sts")
    inventory.check_protocol("sts")
    monkeypatch.setattr(inventory.suites["sts"], "identity", lambda root: "other data")
    assert inventory.find_protocol("sts") == before
    with pytest.raises(
        UserError, match="a test of the suite 'sts' has changed since the run was planned"
    ):
        inventory.check_protocol("sts")
