"""SimCSE's masked-LM term against loops in float64, its masks, and a run that trains and resumes
with it.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from golden_tools import drawn
from harness_methods.simcse import SimCSE
from toy_trainers import stopped_and_resumed, trainer
from transformers import BertConfig, BertForMaskedLM

from harness.encoders.rows import TokenRows
from harness.method import UNMASKED, Dimensions, SentenceBatch, Vocabulary
from harness.method.samples import small_student

WORDS = Vocabulary(0, 2, 3, 4, frozenset(range(5)), 400, 32, lambda text: [], lambda ids: "")
STATES = drawn(4, 1, 5, 8, seed=3)


class Encoder:
    def __call__(self, tokens: Any, views: int) -> torch.Tensor:
        return drawn(2, 2, 8, seed=4)

    def states(self, tokens: Any, views: int = 1) -> torch.Tensor:
        return STATES


def test_the_term_is_the_mean_over_the_hidden_tokens_and_weighs_what_is_given() -> None:
    method = SimCSE(SimCSE.configure("official", {"mlm_weight": 0.1}), Dimensions(8))
    method.prepare(small_student(), WORDS, {})
    method = method.double()
    labels = [
        [UNMASKED, 7, UNMASKED],
        [UNMASKED, 9, 11, UNMASKED, 12],
        [UNMASKED],
        [UNMASKED, 8, UNMASKED],
    ]
    rows = TokenRows.from_lists(labels, 0)
    total, terms = method.loss(
        SentenceBatch({}, changed={"masked": rows, "labels": rows}), Encoder()
    )
    losses = []
    for row, wanted in enumerate(labels):
        for place, token in enumerate(wanted):
            if token != UNMASKED:
                scores = method.mlm_head(STATES[row, 0, place]).tolist()
                losses.append(math.log(sum(map(math.exp, scores))) - scores[token])
    assert float(terms["mlm"].detach()) == pytest.approx(sum(losses) / len(losses), rel=1e-9)
    assert float(total.detach()) == pytest.approx(
        float((terms["text"] + 0.1 * terms["mlm"]).detach()), rel=1e-12
    )


def test_its_head_starts_as_the_published_one_and_trains(tmp_path: Path) -> None:
    sizes = {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 8,
    }
    whole = BertForMaskedLM(BertConfig(vocab_size=32, **sizes)).eval()
    whole.save_pretrained(tmp_path)
    method, student = (
        SimCSE(SimCSE.configure("paper", {"mlm_weight": 1}), Dimensions(8)),
        small_student(),
    )
    student.folder = tmp_path
    method.prepare(student, WORDS, {})
    states = torch.randn(3, 8)
    torch.testing.assert_close(method.mlm_head(states), whole.cls(states))
    assert all(each.requires_grad for each in method.mlm_head.parameters())


def test_tokens_are_hidden_as_for_bert_and_special_ones_never() -> None:
    rows = [[2, *range(5, 395), 3]] * 100
    masked, labels = WORDS.masked(rows, 0.15, np.random.default_rng(0))
    kinds: Counter[str] = Counter()
    for row, new, label in zip(rows, masked, labels, strict=True):
        for token, seen, wanted in zip(row, new, label, strict=True):
            kinds["hidden"] += wanted != UNMASKED
            if wanted == UNMASKED:
                assert seen == token
            else:
                assert wanted == token >= 5
                kinds["mask" if seen == 4 else "same" if seen == token else "other"] += 1
    assert kinds["hidden"] / 39_000 == pytest.approx(0.15, abs=0.006)
    shares = {kind: kinds[kind] / kinds["hidden"] for kind in ("mask", "same", "other")}
    assert shares == pytest.approx({"mask": 0.8, "same": 0.1, "other": 0.1}, abs=0.02)


def test_a_training_with_it_is_resumed_bit_for_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make = partial(trainer, "simcse[mlm_weight=0.1]", "fp32", torch.device("cpu"))
    whole = make(tmp_path / "a")
    whole.run()
    again = stopped_and_resumed(lambda: make(tmp_path / "b"), 3)
    assert again.record.losses == whole.record.losses
    assert set(again.record.losses) == {"text", "mlm"}
    torch.testing.assert_close(again.method.state_dict(), whole.method.state_dict(), rtol=0, atol=0)
