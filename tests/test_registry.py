"""The registry with real entry points of packages in a temporary folder, good and bad ones."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from harness import registry
from harness.errors import PlugInError, UserError
from harness.grid import expand
from harness.method import Method, method_named
from harness.profiles import load_profile
from harness.spec import Variant

BAD = {
    "syntax": ("def (", "SyntaxError"),
    "exits": ("import sys; sys.exit(3)", "SystemExit: 3"),
    "raises": ("raise RuntimeError('no\\nluck')", "RuntimeError: no luck"),
    "imports": ("import no_such_module_here", "ModuleNotFoundError: No module named 'no_such_module_here'"),
    "empty": ("", "AttributeError: module 'bad_empty' has no attribute 'Thing'"),
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
    importlib.invalidate_caches()
    registry._points.cache_clear()
    yield tmp_path
    registry._points.cache_clear()


def install(site: Path, package: str, code: str, entry: str, group: str = "harness.methods") -> None:
    """A module and its metadata, as pip would lay them out."""
    (site / f"{package}.py").write_text(code)
    info = site / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{entry}\n")


@pytest.mark.parametrize("name", BAD)
def test_a_package_that_fails_to_import_is_one_line_with_its_name_and_error(name: str, site: Path) -> None:
    assert {*BAD, "mcse", "dalr"} <= set(registry.names("method"))
    with pytest.raises(PlugInError) as caught:
        registry.get("method", name)
    assert str(caught.value).startswith(
        f"the method '{name}' (package bad_{name}, bad_{name}:Thing) cannot be loaded: "
    )
    assert BAD[name][1] in str(caught.value)
    assert "\n" not in str(caught.value)


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


def test_a_bad_method_costs_its_own_runs_only(site: Path) -> None:
    asked = [Variant.parse(name) for name in ("mcse", *BAD, "stranger", "faulty", "simcse")]
    runs, skipped = expand(load_profile("tiny"), asked, [Variant("toy")], ["toy-bert"], [0, 1], {"steps": 3})
    assert {run.spec.variant.name for run in runs} == {"mcse"}
    assert "faulty:Faulty) failed: KeyError: 0" in skipped[-2].why
    assert [skip.what for skip in skipped] == [*BAD, "stranger", "faulty", "simcse"]


def test_an_unknown_name_lists_the_closest() -> None:
    with pytest.raises(UserError, match="unknown method 'msce'; did you mean"):
        registry.get("method", "msce")
    with pytest.raises(UserError, match=r"unknown suite 'qqqq'; known: .*sts"):
        registry.target("suite", "qqqq")
