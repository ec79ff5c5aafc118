"""A method of another package: an option that names a teacher, an optional loss term, and a mixing
rule.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from plugin_packages import Install

import harness
from harness import registry
from harness.cli.main import cli
from harness.errors import PlugInError
from harness.method import Method
from harness.method.conformance import check_method
from harness.papers.needed import StandIns, list_teacher_options
from harness.profiles import load_profile

pytestmark = pytest.mark.usefixtures("small_toy_tests")

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


def test_a_method_runs_with_its_teacher_its_term_and_its_rule(
    install: Install, tmp_path: Path
) -> None:
    """The battery and stand-ins treat it like this project's own."""
    install("guides", METHOD, {"methods": {"guided": "Guided"}})
    done = harness.run(
        "tiny", methods="guided,guided[close=true]", seeds=1, suites="sts",
        set={"steps": 6, "eval_every": 6}, results=tmp_path,
    )  # fmt: skip
    assert not done.failures, done.failures
    plain, close = done.runs
    assert plain.teachers["guide"].teacher == "clip"
    assert set(plain.losses.terms) == {"text", "guide"}
    assert set(close.losses.terms) == {"text", "guide", "close"}
    paired = [
        step
        for step, value in zip(plain.losses.steps, plain.losses.terms["guide"], strict=True)
        if value
    ]
    assert paired == [3, 6], "every third step, by the rule of the package"
    assert check_method(registry.get_class("method", "guided", Method)) == []
    assert list(list_teacher_options("guided")) == ["guide"]
    stood = StandIns.of(load_profile("tiny")).place(
        "guided[close=true,guide=simcse]", "wiki", "bert-base-uncased"
    )
    assert stood.variant == "guided[close=true,guide=run:mcse/toy/toy-bert/seed-0]"


def test_packages_that_cannot_be_used_are_listed(install: Install) -> None:
    install("ends", "raise SystemExit(3)", {"methods": {"ends": "Thing"}})
    install("rival", "", {"methods": {"simcse": "SimCSE"}})
    listed = CliRunner().invoke(cli, ["list", "methods"], catch_exceptions=False)
    said = " ".join(listed.output.split())
    for part in (
        "two packages register the method 'simcse'",
        "SystemExit: 3",
        "harness_methods.mcse:MCSE",
    ):
        assert part in said


@pytest.mark.parametrize("hook", ["own_steps", "captions", "features", "configure", "identity"])
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
    with pytest.raises(
        PlugInError, match=r"the method 'guided' \(package guides, guides:Guided\).*KeyError: 'foo'"
    ):
        harness.plan("tiny", methods="guided,simcse", seeds=2, results=tmp_path)
    assert len(harness.plan("tiny", methods="simcse", seeds=2, results=tmp_path).runs) == 2
