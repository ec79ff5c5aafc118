"""examples/field: methods of the field against loops over their equations; killed, they end the same."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from math import exp, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from plugin_packages import Install
from safetensors import safe_open
from toy_trainers import loaded, trainer

import harness
from harness.errors import UserError
from harness.method import Dimensions, SentenceBatch, method_named
from harness.method.conformance import check_all
from harness.stopping import Stopped
from harness.training import trainer as trainer_module
from harness.training.trainer import Trainer

FIELD = Path(__file__).resolve().parents[2] / "examples" / "field" / "src"
METHODS = {"moco-simcse": ("moco_simcse", "MoCoSimCSE"), "esimcse": ("esimcse", "ESimCSE")}
CPU = torch.device("cpu")


#: a method that reads texts, a frozen model, token vectors and a temperature that cools
GUIDED = '''
from dataclasses import dataclass
from harness.losses.contrastive import info_nce
from harness.method import Feature, Hyperparameters, Method, hyper

@dataclass(frozen=True)
class GuidedHyperparameters(Hyperparameters):
    guide: str = hyper("toy-bert", source="a test", teacher=True)

class Guided(Method):
    """text: from states at the second token to the model's vectors of the texts."""
    name, paper, terms, reads_texts = "guided", "a test", ("text",), True
    Hyperparameters = GuidedHyperparameters

    @classmethod
    def features(cls, hyperparameters):
        return {"guide": Feature(hyperparameters.guide, "model")}

    def prepare(self, student, vocabulary, models):
        self.guide, self.mask = (models["guide"],), vocabulary.mask

    def scheduled(self, share):
        return {"heat": 0.1 - 0.05 * share}

    def loss_terms(self, batch, encode):
        assert vocabulary_agrees(batch)
        (guide,) = self.guide
        vectors = guide.views(batch.texts, 1)[:, 0].detach()
        return {"text": info_nce(encode.states(batch.tokens)[:, 0, 1], vectors, self.now["heat"])}

def vocabulary_agrees(batch):
    return len(batch.texts) == len(batch.tokens["input_ids"]) and all(batch.texts)
'''


def test_a_method_reads_texts_a_frozen_model_token_vectors_and_a_value_that_changes(
    install: Install, tmp_path: Path
) -> None:
    install("guided", GUIDED, {"methods": {"guided": "Guided"}})
    assert [checked for checked in check_all(method_named("guided")) if checked.problems] == []
    values = {"steps": 4, "eval_every": 2, "batch_size": 8}
    variants = "guided,guided[guide=run:simcse/toy/toy-bert/seed-0]"
    done = harness.run("tiny", methods=variants, settings="toy", seeds=1, suites="sts", set=values)
    assert not done.failures, done.failures
    runs = [run for run in done.runs if run.spec.variant.name == "guided"]
    assert len({run.fingerprint for run in runs}) == 2
    for run in runs:
        assert run.losses.terms["heat"] == pytest.approx([0.1 - 0.05 * step / 4 for step in range(4)])
        assert run.identity["features"]["guide"][-1] == "model"
    for name, why in {"gpt": "no teacher 'gpt'", "toy-clip": "is no encoder of text"}.items():
        with pytest.raises(UserError, match=why):
            harness.run("tiny", methods=f"guided[guide={name}]", settings="toy", seeds=1, suites="sts", set=values)


@pytest.fixture(autouse=True)
def _installed(install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    for name, (module, kind) in METHODS.items():
        install(module, (FIELD / f"{module}.py").read_text(), {"methods": {name: kind}})
    yield
    loaded.cache_clear()


def test_they_are_short_and_pass_the_checks() -> None:
    for name, (module, _) in METHODS.items():
        assert len((FIELD / f"{module}.py").read_text().splitlines()) <= 150
        assert [checked for checked in check_all(method_named(name)) if checked.problems] == []


def cosine(first: list[float], second: list[float]) -> float:
    dot = sum(a * b for a, b in zip(first, second, strict=True))
    return dot / sqrt(sum(a * a for a in first)) / sqrt(sum(b * b for b in second))


def test_the_loss_is_that_of_the_equation() -> None:
    """-log of exp(sim(i, i+) / t) over its sum with the other positives and the filled part of the queue."""
    loss = import_module("moco_simcse").queued_info_nce
    rows, positives, queue = torch.randn(16, 7, generator=torch.Generator().manual_seed(0)).double().split([4, 4, 8])
    for filled in (0, 3, 8):
        expected = 0.0
        for row, own in zip(rows.tolist(), positives.tolist(), strict=True):
            others = [*positives.tolist(), *queue[:filled].tolist()]
            expected -= log(exp(cosine(row, own) / 0.05) / sum(exp(cosine(row, each) / 0.05) for each in others)) / 4
        assert float(loss(rows, positives, queue, torch.tensor(filled), 0.05)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", METHODS)
def test_encoder_head_and_queue_follow_the_equations(name: str) -> None:
    """MoCo Eq. 2 weight by weight, over two steps in float64; the newest rows of the queue come first."""
    _, student, _ = loaded("simcse@paper")
    student = student.second().double().eval()
    kind: Any = method_named(name)
    method = kind(kind.configure("paper", {"queue": 3, "momentum": 0.9}), Dimensions(student.width)).double()
    method.encoder = student.second()
    tokens = student.tokenize(["a red circle", "the blue ring"], 32)
    batch, queue = SentenceBatch(tokens, changed={"repeated": tokens}), []
    slow = {key: value.clone() for key, value in student.state_dict().items()}
    for step in range(2):
        method.loss_terms(batch, student)
        with torch.no_grad():
            queue = [*method.head(method.encoder(tokens, 1)[:, 0]), *queue]
            for parameter in (*student.model.parameters(), *method.text_head.parameters()):
                parameter.add_(0.01)
            head = [value.clone() for value in method.head.parameters()]
            method.after_step(student, step)
        for key, value in student.state_dict().items():
            slow[key] = 0.9 * slow[key] + 0.1 * value if value.is_floating_point() else value
            torch.testing.assert_close(method.encoder.state_dict()[key], slow[key], rtol=1e-9, atol=1e-12)
        for value, was, new in zip(method.head.parameters(), head, method.text_head.parameters(), strict=True):
            torch.testing.assert_close(value.detach(), 0.9 * was + 0.1 * new.detach(), rtol=1e-9, atol=1e-12)
        assert int(method.filled) == (2, 3)[step]
        torch.testing.assert_close(method.queue[: len(queue[:3])], torch.stack(queue[:3]), rtol=1e-9, atol=1e-12)


def test_repeated_rows_repeat_only_sub_words_and_as_many_as_drawn() -> None:
    repeated, special = import_module("esimcse").repeated, frozenset((2, 3))
    rng, row = np.random.default_rng(0), [2, *range(10, 20), 3]
    added = [repeated(row, special, 0.32, rng) for _ in range(200)]
    assert {len(each) - len(row) for each in added} == {0, 1, 2, 3}, "from 0 to max(2, int(0.32 * 10))"
    for each in added:
        assert sorted(set(each)) == sorted(row)
        assert each == [token for token in row for _ in range(each.count(token))]
        assert (each.count(2), each.count(3), max(map(each.count, row))) <= (1, 1, 2)
    assert repeated([2, 3], special, 0.32, rng) == [2, 3]


@pytest.mark.parametrize("name", METHODS)
def test_a_killed_training_ends_the_same_bit_for_bit(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(folder: str) -> Trainer:
        return trainer(name, "fp32", CPU, tmp_path / folder)

    whole = made("whole")
    whole.run()
    steps = iter(range(1, 5))
    monkeypatch.setattr(trainer_module, "stop_requested", lambda: next(steps) == 3)
    with pytest.raises(Stopped):
        made("parts").run()
    monkeypatch.setattr(trainer_module, "stop_requested", lambda: False)
    parts = made("parts")
    started = {key: value.clone() for key, value in parts.method.encoder.state_dict().items()}
    parts.run()
    assert parts.first == 3
    assert parts.record.losses == whole.record.losses
    for first, second in ((whole.student, parts.student), (whole.method, parts.method)):
        torch.testing.assert_close(first.state_dict(), second.state_dict(), rtol=0, atol=0)
    assert any(not torch.equal(value, started[key]) for key, value in parts.method.encoder.state_dict().items())
    assert int(parts.method.filled) == 32
    with safe_open(tmp_path / "whole" / "best" / "heads.safetensors", "np") as kept:
        assert set(kept.keys()) == {"text_head.0.weight", "text_head.0.bias"}, "the rest is aside"


def test_changed_rows_depend_on_seed_and_step_alone(tmp_path: Path) -> None:
    batches = [trainer("esimcse", "fp32", CPU, tmp_path / str(number)).batches for number in range(2)]
    drawn = [[next(made.of(step))[1].changed["repeated"].listed_ids() for step in order] for made, order in
             zip(batches, ((0, 1), (1, 0)), strict=True)]  # fmt: skip
    assert drawn[0] == drawn[1][::-1]
    assert drawn[0][0] != drawn[0][1]


def test_a_row_that_grows_too_long_is_refused(tmp_path: Path) -> None:
    long = trainer("esimcse", "fp32", CPU, tmp_path)
    long.batches.change = lambda rows, random: {"repeated": [row * 40 for row in rows]}
    with pytest.raises(UserError, match=r"step 1: the changed rows 'repeated' have up to \d+ tokens.*lower max_length"):
        long.run()
