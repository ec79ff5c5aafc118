"""`harness new`: what it writes works as it stands, and once its comments are removed; nothing is
overwritten.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cli_words import Typed

from harness.planning.inventory import Inventory
from harness.profiles import load_profile

pytestmark = pytest.mark.usefixtures("small_toy_tests")

FEW = ["--seeds", "1", "--set", "steps=2", "--set", "eval_every=2", "--executor", "serial"]


@pytest.mark.parametrize("kind", ["profile", "task"])
def test_a_profile_and_a_task_run_as_they_are_and_all_that_is_commented_out_is_valid(
    kind: str, typed: Typed, tmp_path: Path
) -> None:
    (command,) = re.findall(r"^  harness (.*)$", typed("new", kind, "mine")[1], re.MULTILINE)
    code, printed, _ = typed(*command.split(), *FEW, "--methods", "mcse", "--suites", "sts")
    assert code == 0
    assert "profile mine: 1 run, 0 done, 1 to do" in printed
    assert ("mine" if kind == "task" else "ToySTS") in printed.partition("[1/1]")[2]
    text = (tmp_path / "mine.toml").read_text()
    active, changed = re.subn(r"^#(\[|[a-z_0-9]+ = )", r"\1", text, flags=re.MULTILINE)
    assert changed > 5
    (tmp_path / "mine.toml").write_text(active)
    inventory = Inventory(load_profile("mine.toml"), None, {})
    assert inventory.tasks
    assert all(suite.tasks for suite in inventory.suites.values())
    assert inventory.corpora


@pytest.mark.parametrize(
    ("kind", "there"), [("profile", "it.toml"), ("task", "it.tsv"), ("method", "it/notes.txt")]
)
def test_nothing_is_overwritten(kind: str, there: str, typed: Typed, tmp_path: Path) -> None:
    (tmp_path / there).parent.mkdir(exist_ok=True)
    (tmp_path / there).write_text("mine")
    code, _, err = typed("new", kind, "it")
    assert (code, "exists already; give another name, or move it away" in err) == (2, True)
    assert [path.read_text() for path in tmp_path.rglob("*") if path.is_file()] == ["mine"]
