"""Facts of methods: read from their classes, with one line for every method that fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from harness.reporting.methods import method_facts

BROKEN = """
from harness_methods.simcse import SimCSE

class Raises(SimCSE):
    @classmethod
    def configure(cls, reading):
        raise ZeroDivisionError("broken")
"""
SCRIPT = """
from harness.reporting.methods import methods_from_a_process

if __name__ == "__main__":
    found, problems = methods_from_a_process()
    assert {"simcse", "mcse", "dalr"} <= {facts.name for facts in found}
    assert not {"absent", "raises"} & {facts.name for facts in found}
    print(*problems, sep="\\n")
"""


def test_facts_of_a_method() -> None:
    facts = method_facts("mcse")
    assert set(facts.terms) == {"text", "info"}
    values = {value.name: value for value in facts.values}
    assert values["temperature"].by_reading == ("0.05",) * len(facts.readings)
    assert values["lambda"].source
    assert values["lambda"].origin == "text"
    assert "images" in facts.teacher_options
    notes = [method_facts(name).notes for name in ("mcse", "visualcse-sup")]
    assert [path.name for path in notes if path] == ["mcse.md", "visualcse.md"]
    dalr = method_facts("dalr")
    assert {value.name: value.origin for value in dalr.values}["targets"] == "code, text silent"
    assert {subject: origin for subject, origin, _ in dalr.decisions}["indices"] == "text, corrected"


def test_methods_that_fail_cost_one_line_each(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    (tmp_path / "script.py").write_text(SCRIPT)
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[harness.methods]\nabsent = nowhere:Method\nraises = broken:Raises\n")
    done = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    absent, raises = done.stdout.splitlines()
    assert "nowhere" in absent
    assert "'raises' (package broken, broken:Raises) cannot be described: ZeroDivisionError: broken" in raises
