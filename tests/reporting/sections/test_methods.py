"""Facts of methods: read from their classes, with one line for every method that fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.method import facts
from harness.method.facts import read_method_facts, read_methods_in_process
from harness.registry import list_registered

BROKEN = """
from harness_methods.simcse import SimCSE

class Raises(SimCSE):
    @classmethod
    def configure(cls, reading):
        raise ZeroDivisionError("broken")
"""
#: a user's script as it may be: without a main guard, on a machine without /dev/shm
SCRIPT = """
import multiprocessing.synchronize

def without_memory(*given, **named):
    raise FileNotFoundError(2, "No such file or directory: /dev/shm")

multiprocessing.synchronize._multiprocessing.SemLock = without_memory
from harness.method.facts import read_methods_in_process

found, problems = read_methods_in_process()
assert not {"absent", "raises"} & {facts.name for facts in found}
print(*({"simcse", "mcse", "dalr"} & {facts.name for facts in found}), *problems, sep="\\n")
"""


def test_facts_of_a_method() -> None:
    facts = read_method_facts("mcse")
    assert set(facts.terms) == {"text", "info"}
    values = {value.name: value for value in facts.values}
    assert values["temperature"].by_reading == ("0.05",) * len(facts.readings)
    assert values["lambda"].source
    assert values["lambda"].origin == "text"
    notes = [read_method_facts(name).notes for name in ("mcse", "visualcse-sup")]
    assert [path.name for path in notes if path] == ["mcse.md", "visualcse.md"]
    dalr = read_method_facts("dalr")
    assert {value.name: value.origin for value in dalr.values}["targets"] == "code, text silent"
    assert {subject: origin for subject, origin, _ in dalr.decisions}[
        "indices"
    ] == "text, corrected"


def test_kept_facts_need_no_other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    described_here = [read_method_facts(name) for name in list_registered("method")]
    monkeypatch.delattr(facts, "get_context")
    assert read_methods_in_process() == (described_here, [])


def described(folder: Path, code: str) -> list[str]:
    """What SCRIPT prints beside a package of this code: methods, then problems."""
    (folder / "broken.py").write_text(code)
    (folder / "script.py").write_text(SCRIPT)
    info = folder / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[harness.methods]\nabsent = nowhere:Method\nraises = broken:Raises\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, str(folder / "script.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_methods_that_fail_cost_one_line_each(tmp_path: Path) -> None:
    *found, absent, raises = described(tmp_path, BROKEN)
    assert len(found) == 3
    assert "nowhere" in absent
    assert (
        "'raises' (package broken, broken:Raises) cannot be described: ZeroDivisionError: broken"
        in raises
    )


@pytest.mark.long
def test_a_method_that_ends_its_process_costs_the_descriptions_alone(tmp_path: Path) -> None:
    assert described(tmp_path, "import os; os._exit(1)") == [
        "no method is described: a method ended the process that imported it"
    ]
