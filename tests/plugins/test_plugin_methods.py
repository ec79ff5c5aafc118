"""A method of another package: an option that names a teacher, an optional loss term, and a mixing rule."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from plugin_packages import Install

import harness
from harness import registry
from harness.errors import PlugInError
from harness.method import Method
from harness.method.conformance import check_method
from harness.papers.needed import StandIns, teacher_options
from harness.profiles import load_profile

METHOD = '''\
    """SimCSE with a frozen guide: each caption is drawn towards the guide's vector of it."""
    from dataclasses import dataclass

    from torch.nn.functional import mse_loss

    from harness.encoders.heads import TanhHead, by_view
    from harness.losses.contrastive import info_nce
    from harness.method import Feature, Hyperparameters, Method, PairBatch, hyper


    @dataclass(frozen=True)
    class GuidedHyperparameters(Hyperparameters):
        """A guide, and whether the distance to it is a term."""

        guide: str = hyper("clip", source="a test", unit="text teacher", teacher=True)
        close: bool = hyper(False, source="a test", unit="whether the term 'close' is added")


    def thirds(rows, pairs, text_batches, paired_batches):
        """Every third step is paired, the last of its cycle."""
        return 3, 2


    class Guided(Method):
        """text on every batch; guide, and with an option close, on captions."""

        name = "guided"
        paper = "a test"
        streams = ("sentences", "pairs")
        terms = ("text", "guide", "close")
        optional_terms = ("close",)
        Hyperparameters = GuidedHyperparameters

        def __init__(self, hyperparameters, dimensions):
            super().__init__(hyperparameters, dimensions)
            self.head = TanhHead(dimensions.encoder, dimensions.features["guide"])

        @classmethod
        def features(cls, hyperparameters):
            return {"guide": Feature(hyperparameters.guide, "caption")}

        @classmethod
        def mixing(cls, hyperparameters):
            return thirds

        def loss_terms(self, batch, encode):
            vectors = encode(batch.tokens, 2)
            terms = {"text": info_nce(vectors[:, 0], vectors[:, 1], 0.05)}
            if isinstance(batch, PairBatch):
                first, _ = by_view(self.head, vectors)
                terms["guide"] = info_nce(first, batch.features["guide"], 0.05)
                if self.hyperparameters.close:
                    terms["close"] = mse_loss(first, batch.features["guide"])
            return terms
'''


def test_a_method_runs_with_its_teacher_its_term_and_its_rule(install: Install, tmp_path: Path) -> None:
    install("guides", METHOD, {"methods": {"guided": "Guided"}})
    done = harness.run(
        "tiny", methods="guided,guided[close=true]", seeds=1, suites="sts",
        set={"steps": 6, "eval_every": 1}, results=tmp_path,
    )  # fmt: skip
    assert not done.failures, done.failures
    plain, close = done.runs
    assert plain.teachers["guide"].teacher == "clip"
    assert set(plain.losses.terms) == {"text", "guide"}
    assert set(close.losses.terms) == {"text", "guide", "close"}
    paired = [step for step, value in zip(plain.losses.steps, plain.losses.terms["guide"], strict=True) if value]
    assert paired == [3, 6], "every third step, by the rule of the package"


def test_the_battery_and_stand_ins_treat_it_like_this_project_s(install: Install) -> None:
    install("guides", METHOD, {"methods": {"guided": "Guided"}})
    assert check_method(registry.get_class("method", "guided", Method)) == []
    assert list(teacher_options("guided")) == ["guide"]
    place = StandIns.of(load_profile("tiny")).place("guided[close=true,guide=simcse]", "wiki", "bert-base-uncased")
    assert place.variant == "guided[close=true,guide=run:mcse/toy/toy-bert/seed-0]"


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("def broken(:\n", "SyntaxError"),
        ("raise RuntimeError('no driver')\n", "no driver"),
        ("import sys\nsys.exit(3)\n", "SystemExit"),
        ("import os\nos._exit(0)\n", "ExitError"),
        ("Thing = 3\n", "Method"),
    ],
)
def test_a_broken_package_costs_the_grids_that_name_it(
    install: Install, tmp_path: Path, code: str, what: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    from harness.cli.main import main

    install("broken_package", code, {"methods": {"broken": "Thing"}})
    with pytest.raises(PlugInError, match=what):
        harness.plan("tiny", methods="broken,simcse", seeds=1, results=tmp_path)
    monkeypatch.setattr(sys, "argv", ["harness", "list", "methods"])
    with pytest.raises(SystemExit) as end:
        main()
    listed = capsys.readouterr().out
    assert not end.value.code
    assert "mcse" in listed
    assert "broken" in listed
    words = ["run", "--profile", "tiny", "--methods", "broken", "--seeds", "1", "--results", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["harness", *words])
    with pytest.raises(SystemExit) as end:
        main()
    (complaint,) = capsys.readouterr().err.splitlines()
    assert end.value.code == 2
    assert complaint.startswith("error: the method 'broken' ")
    assert len(harness.plan("tiny", methods="simcse", seeds=1, results=tmp_path).runs) == 1


def test_a_method_that_raises_in_a_batch_fails_alone(install: Install, tmp_path: Path) -> None:
    code = METHOD.replace(
        "            vectors = encode", "            raise KeyError('foo')\n            vectors = encode"
    )
    install("guides", code, {"methods": {"guided": "Guided"}})
    done = harness.run(
        "tiny", methods="guided,simcse", seeds=1, suites="sts", set={"steps": 2}, results=tmp_path
    )  # fmt: skip
    assert [run.spec.method for run in done.runs] == ["simcse"]
    (failure,) = done.failures
    assert "foo" in failure.error
    assert "guides.py" in failure.traceback


@pytest.mark.parametrize("hook", ["own_steps", "pooling", "captions", "features", "configure", "identity"])
def test_a_method_that_raises_while_planning_refuses_the_grid_with_one_line(
    install: Install, tmp_path: Path, hook: str
) -> None:
    of_options = hook == "identity"
    code = f"""
    def fails(*given):
        raise KeyError('foo')

    {"GuidedHyperparameters" if of_options else "Guided"}.{hook} = {"fails" if of_options else "classmethod(fails)"}
    """
    install("guides", METHOD + code, {"methods": {"guided": "Guided"}})
    with pytest.raises(PlugInError) as caught:
        harness.plan("tiny", methods="guided,simcse", seeds=2, results=tmp_path)
    assert "the method 'guided' (package guides, guides:Guided)" in str(caught.value)
    assert "KeyError: 'foo'" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(harness.plan("tiny", methods="simcse", seeds=2, results=tmp_path).runs) == 2
