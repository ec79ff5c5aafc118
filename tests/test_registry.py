"""The registry with real entry points of packages in a temporary folder, good and bad ones."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

from harness import foreign, registry
from harness.errors import PlugInError, UserError
from harness.evaluation.suites import PairSuite
from harness.grid import expand
from harness.method import Method, method_named
from harness.method.declared import declared_method
from harness.profiles import load_profile
from harness.spec import Variant

BAD = {
    "syntax": ("def (", "SyntaxError"),
    "exits": ("import sys; sys.exit(3)", "SystemExit: 3"),
    "raises": ("raise RuntimeError('no\\nluck')", "RuntimeError: no luck"),
    "imports": ("import no_such_module_here", "ModuleNotFoundError: No module named 'no_such_module_here'"),
    "empty": ("", "AttributeError: module 'bad_empty' has no attribute 'Thing'"),
    "based": ("class Bad(BaseException): pass\nraise Bad('no luck')", "Bad: no luck (bad_based.py, line 2)"),
    "endless": ("import time\nwhile True: time.sleep(0.01)", "TimeoutError: its import has not ended"),
}
#: what a class of a plug-in declares wrongly -> what is said of it
WRONG = {
    "terms = None": "terms = None",
    "terms = 'text'": "terms = 'text'",
    "readings = 7": "readings = 7",
    "streams = 3": "streams = 3",
    "streams = ('songs',)": "streams = ('songs',)",
    "reading_values = {'paper': 1}": "reading_values = ",
    "Hyperparameters = 5": "Hyperparameters = 5",
    "del paper": "does not define paper",
    "del loss_terms": "does not define loss_terms",
}
FAULTY = """
from harness.method import Method

class Faulty(Method):
    name = "faulty"
    paper = "none"

    @classmethod
    def features(cls, hyperparameters):
        return {}[0]

    def loss_terms(self, batch, encode):
        return {}
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path with one bad package for each way to be bad, and one that registers no method class."""
    for name, (code, _) in BAD.items():
        install(tmp_path, f"bad_{name}", code, f"{name} = bad_{name}:Thing")
    install(tmp_path, "faulty", FAULTY, "faulty = faulty:Faulty")
    install(tmp_path, "stranger", "class Thing: pass", "stranger = stranger:Thing")
    install(tmp_path, "rival", "", "simcse = rival:SimCSE")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    registry._points.cache_clear()


def install(site: Path, package: str, code: str, entry: str, group: str = "harness.methods") -> None:
    """A module and its metadata, as pip would lay them out."""
    (site / f"{package}.py").write_text(code)
    registry._points.cache_clear()
    importlib.invalidate_caches()
    info = site / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{entry}\n")


@pytest.mark.parametrize("name", BAD)
def test_a_package_that_fails_to_import_is_one_line_with_its_name_and_error(
    name: str, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "IMPORT_S", 0.2)
    assert {*BAD, "mcse", "dalr"} <= set(registry.names("method"))
    said = re.escape(f"the method '{name}' (package bad_{name}, bad_{name}:Thing) cannot be loaded: ")
    with pytest.raises(PlugInError, match=f"^{said}.*{re.escape(BAD[name][1])}"):
        registry.get("method", name)


def test_what_is_no_method_is_refused(site: Path) -> None:
    with pytest.raises(
        PlugInError, match=r"'stranger' \(stranger:Thing\) is not a subclass of harness\.method\.Method"
    ):
        method_named("stranger")


def test_two_packages_with_one_name_cost_that_name_only(site: Path) -> None:
    with pytest.raises(
        PlugInError, match=r"two packages register the method 'simcse': .* rival:SimCSE|rival:SimCSE and"
    ):
        registry.get("method", "simcse")
    assert issubclass(method_named("mcse"), Method)


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_declarations_are_refused_before_anything_reads_them(wrong: str, site: Path) -> None:
    install(site, "wrongly", f"{FAULTY}    {wrong}\n", "wrong = wrongly:Faulty")
    sys.modules.pop("wrongly", None)
    with pytest.raises(PlugInError, match=rf"the method 'wrong' \(wrongly:Faulty\).*{re.escape(WRONG[wrong])}"):
        declared_method("wrong")


def test_what_is_no_task_is_refused(site: Path) -> None:
    install(site, "stray", "NONE = None", "stray = stray:NONE", "harness.similarity")
    with pytest.raises(PlugInError, match=r"'stray' \(stray:NONE\) is not an instance of .*Task"):
        PairSuite.find("stray")


@pytest.mark.parametrize("name", ["raises", "stranger", "faulty", "simcse"])
def test_a_bad_method_costs_only_the_grids_that_name_it(name: str, site: Path) -> None:
    def runs(*named: str) -> set[str]:
        methods = [Variant.parse(one) for one in named]
        found, _ = expand(load_profile("tiny"), methods, [Variant("toy")], ["toy-bert"], [0, 1], {"steps": 3})
        return {run.spec.variant.name for run in found}

    assert runs("mcse") == {"mcse"}
    with pytest.raises(PlugInError, match=f"the method '{name}'"):
        runs("mcse", name)


def test_a_bad_method_is_imported_by_no_run_of_another(site: Path) -> None:
    expand(load_profile("tiny"), [Variant("mcse")], [Variant("toy")], ["toy-bert"], [0], {})
    assert all("loaded" not in vars(registry._find("method", name)) for name in BAD)


def test_an_unknown_name_lists_the_closest() -> None:
    with pytest.raises(UserError, match="unknown method 'msce'; did you mean"):
        registry.get("method", "msce")
    with pytest.raises(UserError, match=r"unknown suite 'qqqq'; known: .*sts"):
        registry.target("suite", "qqqq")
