"""The registry with real entry points of packages in a temporary folder, good and bad ones."""

from __future__ import annotations

import re
import sys

import pytest
from plugin_packages import Install

from harness import registry
from harness.errors import PlugInError, UserError
from harness.evaluation.suites import PairSuite
from harness.grid import make_grid, resolve_all
from harness.method.declared import get_declared_method
from harness.profiles import load_profile
from harness.spec import Variant

BAD = {
    "syntax": ("def (", "SyntaxError"),
    "exits": ("import sys; sys.exit(3)", "SystemExit: 3"),
    "raises": ("raise RuntimeError('no\\nluck')", "RuntimeError: no luck"),
    "imports": (
        "import no_such_module_here",
        "ModuleNotFoundError: No module named 'no_such_module_here'",
    ),
    "empty": ("", "AttributeError: module 'bad_empty' has no attribute 'Thing'"),
    "based": (
        "class Bad(BaseException): pass\nraise Bad('no luck')",
        "Bad: no luck (bad_based.py, line 2)",
    ),
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
def site(install: Install) -> None:
    """One bad package for each way to be bad, one that registers no method, and one under a name
    that is taken.
    """
    for name, (code, _) in BAD.items():
        install(f"bad_{name}", code, {"methods": {name: "Thing"}})
    install("faulty", FAULTY, {"methods": {"faulty": "Faulty"}})
    install("stranger", "class Thing: pass", {"methods": {"stranger": "Thing"}})
    install("rival", "", {"methods": {"simcse": "SimCSE"}})


@pytest.mark.parametrize("name", BAD)
@pytest.mark.usefixtures("site")
def test_a_package_that_fails_to_import_is_one_line_with_its_name_and_error(name: str) -> None:
    assert {*BAD, "mcse", "dalr"} <= set(registry.list_registered("method"))
    said = re.escape(
        f"the method '{name}' (package bad_{name}, bad_{name}:Thing) cannot be loaded: "
    )
    with pytest.raises(PlugInError, match=f"^{said}.*{re.escape(BAD[name][1])}"):
        registry.get("method", name)


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_declarations_are_refused_before_anything_reads_them(
    wrong: str, install: Install
) -> None:
    install("wrongly", f"{FAULTY}    {wrong}\n", {"methods": {"wrong": "Faulty"}})
    with pytest.raises(
        PlugInError, match=rf"the method 'wrong' .*wrongly:Faulty\).*{re.escape(WRONG[wrong])}"
    ):
        get_declared_method("wrong")


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("raises", "RuntimeError"),
        ("stranger", r"stranger:Thing\) is not a subclass of harness\.method\.Method"),
        ("faulty", "KeyError: 0"),
        ("simcse", "rival:SimCSE"),
    ],
)
@pytest.mark.usefixtures("site")
def test_a_bad_method_costs_only_the_grids_that_name_it_and_no_other_imports_it(
    name: str, what: str
) -> None:
    def runs(*named: str) -> set[str]:
        methods = [Variant.parse(text) for text in named]
        profile = load_profile("tiny")
        specs = make_grid(profile, methods, [Variant("toy")], ["toy-bert"], [0, 1])
        return {run.spec.variant.name for run in resolve_all(profile, specs, {"steps": 3})[0]}

    assert runs("mcse") == {"mcse"}
    assert f"bad_{name}" not in sys.modules
    with pytest.raises(PlugInError, match=f"the method '{name}'.*{what}"):
        runs("mcse", name)


def test_an_unknown_name_lists_the_closest_and_what_is_no_task_is_refused(install: Install) -> None:
    with pytest.raises(UserError, match="unknown method 'msce'; did you mean"):
        registry.get("method", "msce")
    with pytest.raises(UserError, match=r"unknown suite 'qqqq'; known: .*sts"):
        registry.find_target("suite", "qqqq")
    install("stray", "NONE = None", {"similarity": {"stray": "NONE"}})
    with pytest.raises(
        PlugInError, match=r"'stray' .*stray:NONE\) is not an instance of .*Checkable"
    ):
        PairSuite.find("stray")


@pytest.mark.parametrize(
    ("word", "known", "hint"),
    [
        ("squeezenet", ["clip", "squeezenet"], "known: clip"),
        ("resnet", ["resnet", "resnet50"], "did you mean resnet50?"),
        ("Clip", ["clip"], "did you mean clip?"),
        ("clip", ["clip"], "known: none"),
    ],
)
def test_a_suggestion_is_never_the_word_that_is_refused(
    word: str, known: list[str], hint: str
) -> None:
    assert registry.suggest(word, known) == hint
