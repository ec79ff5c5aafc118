"""The student of the toy world: a small BERT pretrained by masked language modelling on its sentences."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from transformers import BertConfig, BertForMaskedLM, BertModel

from harness.corpora.toy.corpora import ToySentences
from harness.corpora.toy.tokens import LONGEST, SPECIAL, save_tokenizer, world_tokenizer
from harness.seeds import derive_seed

log = logging.getLogger(__name__)
STEPS = 800
BATCH = 128
LEARNING_RATE = 2e-3
#: the fraction of words masked, and of those the fractions replaced by [MASK] and by a random word (as in BERT)
MASKED, TO_MASK, TO_RANDOM = 0.15, 0.8, 0.1


def pretrain_student(folder: Path, steps: int = STEPS) -> list[float]:
    """Pretrain the student, save it with its tokenizer, and return the loss of each step."""
    tokenizer = world_tokenizer()
    ids = tokenizer(list(ToySentences().load(None).texts), padding=True, return_tensors="pt")["input_ids"]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(world="toy", part="student"))
        encoder = BertModel(_config(len(tokenizer)))
        model = BertForMaskedLM(encoder.config)
        # the pooler is unused, but without one in the file transformers draws a new one at each loading
        model.bert.pooler = encoder.pooler
        losses = _train(model, ids, steps)
    encoder.load_state_dict(model.bert.state_dict())
    encoder.save_pretrained(str(folder))
    save_tokenizer(folder)
    return losses


def _config(words: int) -> BertConfig:
    return BertConfig(
        vocab_size=words,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=256,
        max_position_embeddings=LONGEST,
        pad_token_id=SPECIAL.index("[PAD]"),
    )


def _train(model: BertForMaskedLM, ids: Tensor, steps: int) -> list[float]:
    optimizer = torch.optim.AdamW([p for n, p in model.named_parameters() if "pooler" not in n], lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps + 1)
    losses: list[float] = []
    for step in range(steps):
        rows = torch.randint(len(ids), (BATCH,))
        inputs, labels = _masked(ids[rows], model.config.vocab_size)
        loss = model(input_ids=inputs, attention_mask=(ids[rows] != 0).long(), labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
        if (step + 1) % 100 == 0:
            log.info("student: step %d of %d, loss %.3f", step + 1, steps, _mean(losses[-100:]))
    return losses


def _masked(ids: Tensor, words: int) -> tuple[Tensor, Tensor]:
    """Inputs with masked words, and labels that are -100 at all other places, both (B, L)."""
    chosen = (torch.rand(ids.shape) < MASKED) & (ids >= len(SPECIAL))
    fate = torch.rand(ids.shape)
    random = torch.randint(len(SPECIAL), words, ids.shape)
    inputs = torch.where(chosen & (fate < TO_MASK), SPECIAL.index("[MASK]"), ids)
    inputs = torch.where(chosen & (fate >= TO_MASK) & (fate < TO_MASK + TO_RANDOM), random, inputs)
    return inputs, torch.where(chosen, ids, -100)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
