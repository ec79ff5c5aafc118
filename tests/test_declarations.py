"""Declarations from the cache: equal to those of the classes, never those of other code, and no
import of torch.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness import code as module
from harness.code import Declarations
from harness.encoders.teachers import get_teacher_class, get_teacher_features
from harness.method import method_named
from harness.method.declared import get_declared_method
from harness.registry import find_target, list_registered

#: reads every kind of teacher, stream and option that tiny has
METHODS = (
    "simcse,mcse,mcse[images=shuffled],kdmcse@official,dalr,visualcse,audiocse,simcse-sup,none"
)
#: a plan of every method and what its jobs need, the time of the papers' runs, then `harness run`,
#: and its table
PROCESS = f"""
import sys, harness
from harness.cli.main import main
from harness.planning.estimate import estimate
from harness.work.jobs import list_jobs
from harness.work.queue import Queue
plan = harness.plan("tiny", methods={METHODS!r}, seeds=2)
queue = Queue(list_jobs(plan))
assert all(queue.estimate_resources(job).memory_mb for job in queue.waiting)
assert estimate(harness.plan("paper", methods={METHODS!r}))
try:
    main()
finally:
    harness.table("sts", results=sys.argv[-1])
    print([run.fingerprint for run in plan.runs])
    print([name for name in ("torch", "transformers") if name in sys.modules])
"""


@pytest.mark.long
def test_a_finished_plan_asked_again_imports_no_torch(tmp_path: Path) -> None:
    words = (
        "run --profile tiny --methods simcse --seeds 1 --suites sts --executor serial --set steps=2"
    )
    words += " --set eval_every=2"
    environment = {**os.environ, "HARNESS_CACHE": str(tmp_path / "cache")}
    command = [
        sys.executable,
        "-c",
        PROCESS,
        *words.split(),
        "--results",
        str(tmp_path / "results"),
    ]
    printed = []
    for _ in range(2):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout.splitlines())
    (*_, first, imported), (*_, second, again) = printed
    assert len(first.split(",")) > 12
    assert second == first
    assert "'torch'" in imported
    assert again == "[]"
    assert "nothing to do: every run of this plan is finished" in printed[1]
    assert any("ToySTS" in line for line in printed[1])


def test_declarations_of_every_method_and_teacher() -> None:
    for name in list_registered("method"):
        method, declared = method_named(name), get_declared_method(name)
        assert (declared.trains, declared.streams, declared.readings) == (
            method.trains,
            method.streams,
            tuple(method.readings),
        )
        assert declared.options == set(method.Hyperparameters.options())
        assert declared.reading_values == method.reading_values
    for kind in list_registered("teacher kind"):
        found_kind = get_teacher_features(kind)
        assert found_kind == (get_teacher_class(kind).gives, get_teacher_class(kind).pooled)


def test_the_key_is_the_code_and_what_is_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "other_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    file = package / "methods.py"
    file.write_text("value = 1")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(module, "_DECLARING", ("other_package",))
    keys = []
    for text in ("value = 1", "value = 2", "value = 1"):
        times = file.stat()
        file.write_text(text)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        keys.append(module.hash_state_of_code.__wrapped__())
    assert keys[0] == keys[2] != keys[1]
    monkeypatch.setattr(module, "list_targets", lambda kind: {})
    assert module.hash_state_of_code.__wrapped__() != keys[0]


def test_an_unwritable_or_damaged_cache_is_as_good_as_none_and_none_has_code_of_other_packages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    monkeypatch.delitem(sys.modules, find_target("method", "mcse").partition(":")[0], raising=False)

    def ask(answer: int) -> object:
        known = Declarations()
        answered = known.ask("method", "mcse", "x", lambda: answer)
        known.save()
        return answered

    with monkeypatch.context() as patched:
        patched.setattr(module, "find_target", lambda kind, name: "someone_else.methods:Thing")
        assert [ask(1), ask(2)] == [1, 2]
        assert not list(tmp_path.rglob("*.json"))
    (tmp_path / "declarations").write_text("in the way")
    assert [ask(1), ask(2)] == [1, 2]
    (tmp_path / "declarations").unlink()
    assert [ask(1), ask(2)] == [1, 1]
    (file,) = tmp_path.rglob("*.json")
    whole = file.read_text()
    for content in (whole.replace(": 1", ": 2"), whole[:9], "", "{}", "\xff"):
        file.write_text(content)
        assert ask(3) == 3


def test_what_another_process_has_kept_is_known_once_it_is_read_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A report reads it after the process that describes the methods, for the report after it."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    own, other = Declarations(), Declarations()
    other.ask("method", "mcse", "x", lambda: 1)
    other.save()
    assert own.recall("method", "mcse", "x") is None
    own.read_again()
    assert own.recall("method", "mcse", "x") == 1


def test_a_question_is_answered_once_in_a_block_that_holds_the_answers() -> None:
    import harness_methods.simcse  # noqa: F401  (a class whose module is loaded is read each time)

    known = Declarations()
    asked: list[str] = []

    def ask(question: str) -> int:
        def answer() -> int:
            asked.append(question)
            return len(asked)

        answered: int = known.ask("method", "simcse", question, answer)
        return answered

    with known.hold():
        assert [ask("first"), ask("second"), ask("first")] == [1, 2, 1]
    assert ask("first") == 3
