"""The image teacher of the toy world: a small CLIP of open_clip, trained with its contrastive loss.

CLIP was not trained on the papers' corpora, so this one is trained on pairs drawn with another seed.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import torch
from open_clip import CLIP, ClipLoss
from safetensors.torch import save_file
from torch import Tensor

from harness.corpora.toy.corpora import ToyPairs
from harness.corpora.toy.render import SIDE
from harness.corpora.toy.tokens import SPECIAL, save_tokenizer, world_tokenizer
from harness.seeds import derive_seed

log = logging.getLogger(__name__)
STEPS = 600
BATCH = 128
LEARNING_RATE = 2e-3
PAIRS = 16384
CONTEXT = 20
MEAN, STD = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)


def model_config(words: int) -> dict[str, Any]:
    """The `model_cfg` for open_clip."""
    return {
        "embed_dim": 64,
        "vision_cfg": {"image_size": SIDE, "patch_size": 8, "width": 64, "layers": 3, "head_width": 16},
        "text_cfg": {
            "context_length": CONTEXT,
            "vocab_size": words,
            "width": 64,
            "heads": 4,
            "layers": 2,
            "pool_type": "eos",
            "eos_id": SPECIAL.index("[SEP]"),
            # open_clip loads the tokenizer from the model's folder, whatever the name
            "hf_tokenizer_name": "toy",
        },
    }


def pretrain_clip(folder: Path, steps: int = STEPS, pairs: int = PAIRS) -> list[float]:
    """Train the dual encoder, save it with its tokenizer, and return the loss of each step."""
    tokenizer = world_tokenizer()
    config = model_config(len(tokenizer))
    data = ToyPairs(seed=derive_seed(world="toy", part="clip pairs"), size=pairs).load(None)
    texts = tokenizer(list(data.texts), padding="max_length", max_length=CONTEXT, return_tensors="pt")["input_ids"]
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, STD))
    images = (torch.from_numpy(data.images).permute(0, 3, 1, 2) / 255 - mean) / std
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(world="toy", part="clip"))
        model = CLIP(**config)
        losses = _train(model, images, texts, steps)
    folder.mkdir(parents=True, exist_ok=True)
    preprocess = {"mean": MEAN, "std": STD}
    described = json.dumps({"model_cfg": config, "preprocess_cfg": preprocess}, indent=2)
    (folder / "open_clip_config.json").write_text(described + "\n", encoding="utf-8")
    save_file(model.state_dict(), folder / "open_clip_model.safetensors")
    save_tokenizer(folder)
    return losses


def _train(model: CLIP, images: Tensor, texts: Tensor, steps: int) -> list[float]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps + 1)
    contrast = ClipLoss()
    losses: list[float] = []
    for step in range(steps):
        rows = torch.randint(len(images), (BATCH,))
        loss = contrast(*model(images[rows], texts[rows]))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            model.logit_scale.clamp_(0, 4.6052)
        losses.append(float(loss.detach()))
        if (step + 1) % 100 == 0:
            log.info("clip: step %d of %d, loss %.3f", step + 1, steps, sum(losses[-100:]) / 100)
    return losses
