"""Each loss term's part of the gradient at the vectors: against finite differences, and what
trainings record of it.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from torch import Tensor
from toy_trainers import stopped_and_resumed, trainer

from harness.method import Dimensions, PairBatch, method_named
from harness.training.gradients import measure_gradient_parts

CPU = torch.device("cpu")


def differences(loss: object, at: Tensor) -> Tensor:
    """The gradient of a float64 function, a coordinate at a time."""
    found = torch.empty_like(at)
    for place in range(at.numel()):
        step = torch.zeros(at.numel(), dtype=at.dtype)
        step[place] = 1e-6
        up, down = (loss(at + sign * step.view_as(at)) for sign in (1, -1))
        found.view(-1)[place] = (up - down) / 2e-6
    return found


@pytest.mark.parametrize("reading", ["paper", "official"])
def test_shares_and_cosines_are_those_of_finite_differences(reading: str) -> None:
    torch.manual_seed(0)
    kind, width, roles = (
        method_named("dalr"),
        4,
        ("image", "teacher1", "teacher2", "tokens1", "tokens2"),
    )
    method = kind(kind.configure(reading), Dimensions(width, dict.fromkeys(roles, width))).double()
    features = {
        role: torch.randn(3, 5, width) if "tokens" in role else torch.randn(3, width)
        for role in roles
    }
    tokens = {"attention_mask": torch.ones(3, 5, dtype=torch.int64)}
    batch = PairBatch(tokens, {role: value.double() for role, value in features.items()})
    vectors = torch.randn(3, 2, width, dtype=torch.float64)

    def weighted(at: Tensor) -> dict[str, Tensor]:
        weights = method.weights()
        return {
            name: weights.get(name, 1.0) * term
            for name, term in method.loss(batch, lambda inputs, views: at)[1].items()
        }

    leaf = vectors.clone().requires_grad_()
    shares, cosines = measure_gradient_parts(weighted(leaf), [leaf])
    with torch.no_grad():
        expected = {
            name: differences(lambda at, name=name: weighted(at)[name], vectors) for name in shares
        }
    whole, norms = (
        sum(expected.values()),
        {name: float(value.norm()) for name, value in expected.items()},
    )
    assert {*shares} == {"info", "cons", "cma", "rank", "ima"} | (
        {"text", "g2l"} if reading == "official" else set()
    )
    for name, value in expected.items():
        assert shares[name] == pytest.approx(norms[name] / sum(norms.values()), rel=1e-4)
        assert cosines[name] == pytest.approx(
            float((value * whole).sum() / value.norm() / whole.norm()), rel=1e-4
        )
    assert leaf.grad is None


def test_vectors_of_several_passes_count_together_and_a_common_factor_does_not() -> None:
    one, two = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    for factor in (1.0, 2.0**-100):
        terms = {
            "a": factor * 3 * one.sum(),
            "b": factor * (two.sum() - one.sum()),
            "none": torch.ones(()),
        }
        shares, cosines = measure_gradient_parts(terms, [one, two])
        a, b, whole = 18**0.5, 2.0, 10**0.5
        assert shares == pytest.approx({"a": a / (a + b), "b": b / (a + b), "none": 0.0}, rel=1e-5)
        assert cosines.pop("none") is None
        assert cosines == pytest.approx({"a": 12 / a / whole, "b": -2 / b / whole}, rel=1e-5)
    assert measure_gradient_parts({"a": one.sum() * torch.inf}, [one]) == ({"a": None}, {"a": None})


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_last_batch_of_each_stream_before_a_dev_score_is_measured(
    precision: str, tmp_path: Path
) -> None:
    """Here steps 1 and 3 are paired, and the pass over the data goes on in pieces of 3 rows."""
    made = trainer("mcse", precision, CPU, tmp_path, chunk=3).run()
    assert {stream: [at for at, *_ in points] for stream, points in made.gradients.items()} == {
        "pairs": [1, 3],
        "sentences": [2, 4],
    }
    for _, shares, cosines in made.gradients["sentences"]:
        assert (shares, cosines) == ({"text": 1.0}, {"text": pytest.approx(1.0)})
    for _, shares, _ in made.gradients["pairs"]:
        assert sum(shares.values()) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(
    ("name", "other"), [("visualcse", {"images": {"visual"}}), ("simcse[mlm_weight=0.1]", {})]
)
def test_own_steps_and_passes_of_other_rows_are_measured(
    name: str, other: dict[str, set[str]], tmp_path: Path
) -> None:
    made = trainer(name, "fp32", CPU, tmp_path).run()
    text = {"text"} if other else {"text", "mlm"}
    for stream, terms in {"sentences": text, "pairs": text, **other}.items():
        assert [
            {term for term, share in shares.items() if share}
            for _, shares, _ in made.gradients[stream]
        ] == ([terms] * 2)


def test_a_resumed_training_records_what_one_without_a_stop_records(tmp_path: Path) -> None:
    whole = trainer("mcse", "fp32", CPU, tmp_path / "whole")
    whole.run()
    resumed = stopped_and_resumed(lambda: trainer("mcse", "fp32", CPU, tmp_path / "stopped"), 2)
    first, second = (asdict(training.record) | {"seconds": 0} for training in (whole, resumed))
    assert json.dumps(first) == json.dumps(second), "as results keep it"


def test_a_checkpoint_of_a_version_that_did_not_count_leaves_the_count_open(tmp_path: Path) -> None:
    training = trainer("simcse", "fp32", CPU, tmp_path)
    state = training.state.state_dict(2)
    for name in ("gradients", "flops"):
        del state["record"][name]
    training.state.load_state_dict(state)
    made = training.run()
    assert made.flops is None
    assert made.gradients
