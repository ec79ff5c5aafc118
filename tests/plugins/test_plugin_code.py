"""The code of another package belongs to what a run is: an edit trains anew, and no run mixes two
states of a file.
"""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from plugin_packages import Install

import harness
from harness import api
from harness.cli.run import status
from harness.code import hash_code, hash_module_code
from harness.errors import PlugInError
from harness.planning.experiments import Experiments
from harness.planning.plan import Plan, PlannedRun
from harness.planning.present import Present
from harness.registry import GROUPS, find_target, list_registered
from harness.sources import digest
from harness.store import PRESENT

pytestmark = pytest.mark.usefixtures("small_toy_tests")

METHOD = '''\
"""SimCSE with a scale of its own."""
from harness_methods.simcse import SimCSE
from . import scales


class Scaled(SimCSE):
    """text, scaled."""

    name = "scaled"

    def loss_terms(self, batch, encode):
        from lab.deep.factor import FACTOR

        return {"text": FACTOR * scales.ONE * super().loss_terms(batch, encode)["text"]}
'''
SHORT = {"methods": "scaled", "seeds": 1, "suites": "sts", "set": {"steps": 2, "batch_size": 8}}


@pytest.fixture
def lab(install: Install) -> Iterator[Path]:
    """A package with a method that imports two modules of it, one by name and one while it runs."""
    site = install("lab", "", {"methods": {"scaled": "Scaled"}})
    (site / "lab.py").unlink()
    package = site / "lab"
    (package / "deep").mkdir(parents=True)
    files = {
        "__init__": "from .method import Scaled\n",
        "method": METHOD,
        "scales": "ONE = 1.0\n",
        "apart": "",
    }
    for name, code in {**files, "deep/__init__": "", "deep/factor": "FACTOR = 1.0\n"}.items():
        (package / f"{name}.py").write_text(code)
    yield package
    forget()


def forget() -> None:
    """As a new process: nothing of the package is imported."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "lab"]:
        del sys.modules[name]
    importlib.invalidate_caches()


def edit(path: Path, old: str, new: str) -> None:
    """The file gets longer: Python takes a file of the same size and second for the one that it has
    compiled.
    """
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new) + "# edited\n")


def planned(folder: Path, **changes: object) -> tuple[Plan, PlannedRun]:
    """A plan with its first run."""
    forget()
    plan = harness.plan("tiny", **{**SHORT, **changes}, results=folder)
    return plan, plan.runs[0]


def test_this_projects_code_is_in_no_fingerprint() -> None:
    own = [
        (kind, name)
        for kind in GROUPS
        for name in list_registered(kind)
        if find_target(kind, name).startswith("harness")
    ]
    assert {hash_code(kind, name) for kind, name in own} == {""}
    assert len(own) > 60


def test_an_edit_of_what_a_method_imports_is_another_training_and_neither_other_files_nor_its_place_are(
    lab: Path, tmp_path: Path
) -> None:
    prints = [planned(tmp_path)[1].fingerprint]
    for file in ("method.py", "scales.py", "deep/factor.py", "__init__.py"):
        with (lab / file).open("a") as stream:
            stream.write("ANOTHER = 1\n")
        prints.append(planned(tmp_path)[1].fingerprint)
    assert len(set(prints)) == 5
    (lab / "apart.py").write_text("changed = True\n")
    assert planned(tmp_path)[1].fingerprint == prints[-1]
    code = hash_module_code("lab")
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    lab.rename(moved / "lab")
    sys.path.insert(0, str(moved))
    try:
        forget()
        assert hash_module_code("lab") == code
    finally:
        sys.path.remove(str(moved))


def test_an_edit_that_changes_no_operation_is_no_other_training(lab: Path, tmp_path: Path) -> None:
    before = planned(tmp_path)[1].fingerprint
    method = lab / "method.py"
    commented = '"""Another docstring."""\n# a comment\n' + method.read_text()
    method.write_text(commented.replace('{"text": FACTOR', "{\n 'text':  FACTOR"))
    assert planned(tmp_path)[1].fingerprint == before
    (lab / "scales.py").write_text("ONE = 1.5\n")
    assert planned(tmp_path)[1].fingerprint != before


def test_results_that_know_code_by_its_bytes_are_present_while_these_are_theirs(
    lab: Path, tmp_path: Path
) -> None:
    plan, run = planned(tmp_path)
    (new,) = api.execute(plan).runs
    old = Experiments(plan.inventory.by_bytes, plan.request.overrides).find(run.resolved)
    assert old.fingerprint != run.fingerprint
    notation = {"identity": old.identity, "fingerprint": old.fingerprint, "group": old.group}
    plan.store.path(new).unlink()
    shutil.rmtree(plan.store.work(new.fingerprint))
    plan.store.save(new.model_copy(update=notation))

    def judged() -> str:
        forget()
        return Present(tmp_path)(plan.store.frames())[0]

    again = planned(tmp_path)[1]
    assert (again.state, again.fingerprint) == ("done", old.fingerprint)
    assert planned(tmp_path, set={**SHORT["set"], "steps": 3})[1].changed == (
        "settings: steps 2 -> 3",
    )
    more = planned(tmp_path, seeds="0,1")[0].runs[1]
    assert more.group == old.group, "further seeds are averaged with the old ones"
    assert judged() == PRESENT
    edit(lab / "scales.py", "1.0", "1.0")
    assert planned(tmp_path)[1].changed == ("method code",)
    assert judged() == "method code"


def test_the_data_of_a_package_counts_and_files_without_effect_do_not(
    lab: Path, tmp_path: Path
) -> None:
    before = planned(tmp_path)[1].fingerprint
    prints = {before}
    for name, content in (("w.json", "1"), ("w.json", "2"), ("tables/w.csv", "1"), ("deep/w", "1")):
        (lab / name).parent.mkdir(exist_ok=True)
        (lab / name).write_text(content)
        prints.add(planned(tmp_path)[1].fingerprint)
    assert len(prints) == 5
    last = planned(tmp_path)[1].fingerprint
    for name in ("py.typed", ".hidden", "__pycache__/x.pyc", "unread/__init__.py", "unread/w.json"):
        (lab / name).parent.mkdir(exist_ok=True)
        (lab / name).write_text("")
    assert planned(tmp_path)[1].fingerprint == last


def test_an_edited_method_is_trained_anew_and_status_says_so(lab: Path, tmp_path: Path) -> None:
    plan, run = planned(tmp_path)
    first = api.execute(plan)
    assert not first.failures, first.failures
    (old,) = first.runs
    assert digest(old.identity) == old.fingerprint == run.fingerprint
    assert planned(tmp_path)[1].state == "done"
    edit(lab / "deep" / "factor.py", "1.0", "3.0")
    plan, run = planned(tmp_path)
    assert (run.state, run.changed) == ("missing", ("method code",))
    words = [
        "--profile",
        "tiny",
        "--methods",
        "scaled",
        "--seeds",
        "1",
        "--suites",
        "sts",
        "--results",
        str(tmp_path),
    ]
    shown = CliRunner().invoke(
        status, [*words, "--set", "steps=2", "--set", "batch_size=8"], catch_exceptions=False
    )
    assert "missing  scaled/toy/toy-bert/seed-0  changed: method code" in shown.output
    assert "will be trained (method code)" in shown.output
    (new,) = api.execute(plan).runs
    assert new.losses.terms["text"][0] == pytest.approx(3 * old.losses.terms["text"][0], rel=1e-4)
    assert new.group != old.group, "a table never averages them"
    assert planned(tmp_path, set={"steps": 3, "batch_size": 8})[1].changed == (
        "settings: steps 2 -> 3",
    )


def test_code_that_changed_after_its_import_is_refused_and_after_the_plan_not_run(
    lab: Path, tmp_path: Path
) -> None:
    plan, _ = planned(tmp_path)
    edit(lab / "scales.py", "1.0", "1.0")
    harness.plan("tiny", **SHORT, results=tmp_path)  # a comment: what was imported does the same
    edit(lab / "scales.py", "1.0", "2.0")
    with pytest.raises(
        PlugInError, match=r"the code in scales.py has changed since this process imported it"
    ):
        harness.plan("tiny", **SHORT, results=tmp_path)
    forget()  # a process of its own imports the file of now
    done = api.execute(plan)
    (failure,) = done.failures
    assert "the code of the method 'scaled' has changed since the run was planned" in failure.error


def test_corpora_and_suites_of_other_packages_count_with_their_code(
    install: Install, profile, tmp_path: Path
) -> None:
    code = """
    from harness.toy.corpora import ToySentences
    from harness.evaluation.sts import STSSuite

    class Mine(ToySentences):
        def __init__(self):
            super().__init__(seed=7, size=64)

    class Scores(STSSuite):
        name = "scores"
    """
    tables = '[corpora.mine]\nkind = "mine"\n[settings.mine]\ncorpora = ["mine"]\n[suites.scores]\ntasks = ["ToySTS"]\n'
    site = install("lab", code, {"corpora": {"mine": "Mine"}, "suites": {"scores": "Scores"}})
    under = profile(tables)

    def found() -> tuple[PlannedRun, str]:
        forget()
        plan = harness.plan(
            under, methods="simcse", settings="mine", seeds=1, suites="scores", results=tmp_path
        )
        return plan.runs[0], plan.inventory.find_protocol("scores").key

    (run, protocol), (again, same) = found(), found()
    assert (run.fingerprint, protocol) == (again.fingerprint, same)
    edit(site / "lab.py", "seed=7", "seed=8 - 1")
    changed, other = found()
    assert changed.fingerprint != run.fingerprint
    assert other != protocol
    before, after = (
        planned_run.experiment.corpora[0].read.fingerprint for planned_run in (run, changed)
    )
    assert before != after, "tokens are kept under it"
