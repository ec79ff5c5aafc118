"""Pretrain the student and the image teacher of the toy world.

It writes FOLDER/student, a small BERT trained by masked language modelling on the sentences of the
world, and FOLDER/clip, a small CLIP of open_clip, each in a few minutes. CLIP was not trained on
the papers' corpora, so this one is trained on pairs drawn with another seed. Its contrastive loss
alone needs many thousands of batches to find the shape and the place of a scene, where CLIP saw 400
million pairs; classifying each attribute from the features of both towers finds them in hundreds.
The classifiers are not saved. Without --out, the shipped files are replaced, which changes the
fingerprints of all toy experiments; do so only after changing the toy world. On another processor,
the weights differ from the shipped ones in the last bits.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from open_clip import CLIP, ClipLoss
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from torch import Tensor
from torch.nn import Linear, Module, ModuleList, Parameter
from torch.nn.functional import cross_entropy
from transformers import BertConfig, BertForMaskedLM, BertModel, PreTrainedTokenizerFast

from harness.seeds import derive_seed
from harness.toy import clip_folder, student_folder
from harness.toy.corpora import ToyPairs, ToySentences
from harness.toy.world import SIDE, SIZES, list_words

log = logging.getLogger(__name__)

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
#: maximum number of tokens, with special tokens, of the student and of the image teacher's text
#: encoder
LONGEST = 64
CONTEXT = 20
#: width of the image teacher's features
EMBEDDING = 64
BATCH = 128
LEARNING_RATE = 2e-3
STUDENT_STEPS = 800
CLIP_STEPS = 800
CLIP_PAIRS = 16384
#: the fraction of words masked, and of those the fractions replaced by [MASK] and by a random word
#: (as in BERT)
MASKED = 0.15
TO_MASK = 0.8
TO_RANDOM = 0.1
#: of the pixels for the image teacher
MEAN = (0.5, 0.5, 0.5)
STD = (0.25, 0.25, 0.25)


def pretrain_student(folder: Path, steps: int = STUDENT_STEPS) -> list[float]:
    """Pretrain the student, save it with its tokenizer, and return the loss of each step."""
    tokenizer = make_tokenizer()
    words = len(tokenizer)
    texts = list(ToySentences().load(None).texts)
    ids = tokenizer(texts, padding=True, return_tensors="pt")["input_ids"]
    config = BertConfig(
        vocab_size=words,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=256,
        max_position_embeddings=LONGEST,
        pad_token_id=SPECIAL.index("[PAD]"),
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(world="toy", part="student"))
        encoder = BertModel(config)
        model = BertForMaskedLM(encoder.config)
        # the pooler is unused, but without one in the file transformers draws a new one at each
        # loading
        model.bert.pooler = encoder.pooler

        def compute_loss() -> Tensor:
            rows = torch.randint(len(ids), (BATCH,))
            inputs, labels = _mask(ids[rows], words)
            attention_mask = (ids[rows] != 0).long()
            loss: Tensor = model(
                input_ids=inputs, attention_mask=attention_mask, labels=labels
            ).loss
            return loss

        parameters = [value for name, value in model.named_parameters() if "pooler" not in name]
        losses = _train("student", parameters, compute_loss, steps)

    encoder.load_state_dict(model.bert.state_dict())
    encoder.save_pretrained(str(folder))
    # a new tokenizer, since padding changes the one used above
    make_tokenizer().save_pretrained(str(folder))
    return losses


def pretrain_clip(folder: Path, steps: int = CLIP_STEPS, pairs: int = CLIP_PAIRS) -> list[float]:
    """Train the dual encoder, save it with its tokenizer, and return the loss of each step."""
    tokenizer = make_tokenizer()
    config = _make_clip_config(len(tokenizer))
    source = ToyPairs(seed=derive_seed(world="toy", part="clip pairs"), size=pairs)
    data = source.load(None)
    scenes = torch.from_numpy(source.draw_scenes())
    texts = tokenizer(
        list(data.texts), padding="max_length", max_length=CONTEXT, return_tensors="pt"
    )["input_ids"]
    assert data.images is not None
    mean = torch.tensor(MEAN).view(3, 1, 1)
    std = torch.tensor(STD).view(3, 1, 1)
    pixels = torch.from_numpy(np.asarray(data.images[:]))
    images = (pixels.permute(0, 3, 1, 2) / 255 - mean) / std

    contrast = ClipLoss()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(world="toy", part="clip"))
        model = CLIP(**config)
        classifiers = ModuleList(Linear(EMBEDDING, int(size)) for size in SIZES)

        def compute_loss() -> Tensor:
            _limit_scale(model)
            rows = torch.randint(len(images), (BATCH,))
            pictures, captions, scale = model(images[rows], texts[rows])
            picture_loss = _compute_attribute_loss(classifiers, pictures, scenes[rows])
            caption_loss = _compute_attribute_loss(classifiers, captions, scenes[rows])
            loss: Tensor = contrast(pictures, captions, scale) + (picture_loss + caption_loss) / 2
            return loss

        parameters = [*model.parameters(), *classifiers.parameters()]
        losses = _train("clip", parameters, compute_loss, steps)
        _limit_scale(model)

    folder.mkdir(parents=True, exist_ok=True)
    preprocessing = {"mean": MEAN, "std": STD}
    description = json.dumps({"model_cfg": config, "preprocess_cfg": preprocessing}, indent=2)
    (folder / "open_clip_config.json").write_text(description + "\n", encoding="utf-8")
    save_file(model.state_dict(), folder / "open_clip_model.safetensors")
    # a new tokenizer, since padding changes the one used above
    make_tokenizer().save_pretrained(str(folder))
    return losses


def _make_clip_config(words: int) -> dict[str, Any]:
    """The configuration of open_clip."""
    vision = {"image_size": SIDE, "patch_size": 8, "width": 64, "layers": 3, "head_width": 16}
    text = {
        "context_length": CONTEXT,
        "vocab_size": words,
        "width": 64,
        "heads": 4,
        "layers": 2,
        "pool_type": "eos",
        "eos_id": SPECIAL.index("[SEP]"),
        # open_clip loads the tokenizer from the model's folder, whatever the name
        "hf_tokenizer_name": "toy",
    }
    return {"embed_dim": EMBEDDING, "vision_cfg": vision, "text_cfg": text}


def _limit_scale(model: CLIP) -> None:
    """Keep the scale of the logits between 1 and 100, as CLIP does."""
    with torch.no_grad():
        model.logit_scale.clamp_(0, 4.6052)


def _compute_attribute_loss(
    classifiers: Iterable[Module], features: Tensor, scenes: Tensor
) -> Tensor:
    """The sum of the attributes' cross-entropies, from features (B, d) of length 1 and scenes (B,
    attributes).
    """
    scaled = features * features.shape[1] ** 0.5
    losses = [
        cross_entropy(classifier(scaled), values)
        for classifier, values in zip(classifiers, scenes.T, strict=True)
    ]
    return torch.stack(losses).sum()


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Build the tokenizer: [CLS] word ... word [SEP], in lower case; unknown words are [UNK]."""
    ids = {word: number for number, word in enumerate((*SPECIAL, *list_words()))}
    tokenizer = Tokenizer(WordLevel(ids, unk_token="[UNK]"))
    tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = Whitespace()
    ends = [(name, ids[name]) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )

    roles = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    tokens = dict(zip(roles, SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=LONGEST, **tokens)


def _train(
    name: str, parameters: Sequence[Parameter], compute_loss: Callable[[], Tensor], steps: int
) -> list[float]:
    """Minimise the loss of random batches, and return the loss of each step."""
    optimizer = torch.optim.AdamW(parameters, lr=LEARNING_RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps + 1)
    losses: list[float] = []
    for step in range(1, steps + 1):
        loss = compute_loss()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()

        losses.append(float(loss.detach()))
        if step % 100 == 0:
            log.info("%s: step %d of %d, loss %.3f", name, step, steps, sum(losses[-100:]) / 100)
    return losses


def _mask(ids: Tensor, words: int) -> tuple[Tensor, Tensor]:
    """Inputs with masked words, and labels that are -100 at all other places, both (B, L)."""
    is_masked = (torch.rand(ids.shape) < MASKED) & (ids >= len(SPECIAL))
    draws = torch.rand(ids.shape)
    random_words = torch.randint(len(SPECIAL), words, ids.shape)

    becomes_mask = is_masked & (draws < TO_MASK)
    becomes_random = is_masked & (draws >= TO_MASK) & (draws < TO_MASK + TO_RANDOM)
    inputs = torch.where(becomes_mask, SPECIAL.index("[MASK]"), ids)
    inputs = torch.where(becomes_random, random_words, inputs)
    return inputs, torch.where(is_masked, ids, -100)


@click.command(help=__doc__)
@click.option(
    "--out",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Without it, the shipped files are replaced.",
)
@click.option("--steps", default=STUDENT_STEPS, show_default=True, help="Of each model.")
def main(out: Path | None, steps: int) -> None:
    """Train both models."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    pretrain_student(out / "student" if out else student_folder(), steps)
    pretrain_clip(out / "clip" if out else clip_folder(), steps)


if __name__ == "__main__":
    main()
