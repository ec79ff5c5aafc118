"""What the profile `paper` names on the hub, at its pinned commits: small random models, and the
data of mteb's tasks.

Google's and Facebook's encoders have safetensors, those that authors trained are pickled. Which
files of a repository are read is tested in tests/fetching, and which names of weights in
tests/encoders.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import pyarrow
import torch
from pyarrow import parquet
from safetensors.torch import save
from standin import COMMIT, StandIn
from torch import Tensor
from words import VOCABULARY, Writer

from harness.evaluation.mteb_suite import OwnTasks
from harness.profiles import Profile

WIDTH = 32
#: of a data set of mteb
ROWS = 12
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
#: owner of encoders that were not trained for sentences -> the licence of its cards
_LICENCES = {"FacebookAI": "mit", "dbmdz": "mit"} | dict.fromkeys(
    ("google-bert", "timm", "google"), "apache-2.0"
)
_SHAPE = {
    **{
        "hidden_size": WIDTH,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 2 * WIDTH,
    },
    "initializer_range": 0.2,
}
Files = dict[str, bytes]


def publish_models(standin: StandIn, profile: Profile) -> None:
    """Put every hub model of a profile on the hub: encoders, teachers, patch embeddings and public
    weights.
    """
    tables = (profile.encoders, profile.teachers, profile.patches, profile.released)
    for table in (each for named in tables for each in named.values()):
        if table.hub is None:
            continue
        commit = COMMIT if table.revision == "main" else str(table.revision)
        for name, content in _files(table.hub).items():
            standin.model_file(table.hub, name, content, commit)
        if heads := getattr(table, "heads", None):
            standin.model_file(table.hub, heads, _heads(), commit)
        owner = table.hub.partition("/")[0]
        standin.cards[table.hub] = {"license": _LICENCES[owner]} if owner in _LICENCES else {}


def _files(hub: str) -> Files:
    if hub.startswith("timm/vit"):
        return _clip()
    if hub.startswith("timm/resnet"):
        return _resnet()
    if hub.startswith("google/vit"):
        return _vit()
    roberta = "roberta" in hub
    weights = _weights(roberta)
    if hub.partition("/")[0] in ("google-bert", "FacebookAI"):
        return _texts(roberta) | {
            "model.safetensors": save(weights),
            "pytorch_model.bin": b"another format",
        }
    return _texts(roberta) | {"pytorch_model.bin": _pickled(weights)}


@cache
def _heads() -> bytes:
    """The projections that MCSE's script saves: of [CLS], and of ResNet's features."""
    torch.manual_seed(0)
    parts = {"grounding": ("dense", WIDTH), "visn_model": ("mlp.dense", 2048)}
    return _pickled(
        {
            part: {f"{name}.weight": torch.randn(16, width), f"{name}.bias": torch.randn(16)}
            for part, (name, width) in parts.items()
        }
    )


@cache
def _weights(roberta: bool) -> dict[str, Tensor]:
    from transformers import BertModel, RobertaModel

    torch.manual_seed(0)
    return dict((RobertaModel if roberta else BertModel)(_config(roberta)).state_dict())


def _config(roberta: bool) -> Any:
    from transformers import BertConfig, RobertaConfig

    if roberta:
        more = {"max_position_embeddings": 514, "type_vocab_size": 1, "pad_token_id": 1, **_SHAPE}
        return RobertaConfig(vocab_size=len(_tokens(True)), **more)
    return BertConfig(vocab_size=len(_tokens(False)), **_SHAPE)


def _pickled(weights: Mapping[str, object]) -> bytes:
    stream = io.BytesIO()
    torch.save(dict(weights), stream)
    return stream.getvalue()


@cache
def _tokens(roberta: bool) -> list[str]:
    if roberta:
        from transformers.convert_slow_tokenizer import bytes_to_unicode

        return ["<s>", "<pad>", "</s>", "<unk>", *bytes_to_unicode().values(), "<mask>"]
    letters = [chr(code) for code in range(33, 127)]
    return [*_SPECIAL, *letters, *(f"##{letter}" for letter in letters), *VOCABULARY]


def _texts(roberta: bool) -> Files:
    """Configuration and vocabulary."""
    words = _tokens(roberta)
    settings = {
        "model_max_length": 512,
        "tokenizer_class": "RobertaTokenizer" if roberta else "BertTokenizer",
    }
    files = {
        "config.json": _config(roberta).to_json_string().encode(),
        "tokenizer_config.json": json.dumps(
            settings if roberta else {"do_lower_case": True, **settings}
        ).encode(),
    }
    if roberta:
        numbers = {token: number for number, token in enumerate(words)}
        return files | {
            "vocab.json": json.dumps(numbers).encode(),
            "merges.txt": b"#version: 0.2\n",
        }
    return files | {"vocab.txt": "".join(f"{token}\n" for token in words).encode()}


@cache
def _clip() -> Files:
    """A dual encoder of open_clip that reads images of 224 pixels and CLIP's own tokens."""
    from open_clip import CLIP

    vision = {"image_size": 224, "layers": 1, "width": WIDTH, "patch_size": 32, "head_width": 16}
    text = {"context_length": 77, "vocab_size": 49408, "width": WIDTH, "heads": 2, "layers": 1}
    model = {"embed_dim": WIDTH, "vision_cfg": vision, "text_cfg": text, "quick_gelu": True}
    scale = {
        "mean": [0.4815, 0.4578, 0.4082],
        "std": [0.2686, 0.2613, 0.2758],
        "interpolation": "bicubic",
    }
    torch.manual_seed(0)
    weights = save({name: value.clone() for name, value in CLIP(**model).state_dict().items()})
    described = {"model_cfg": model, "preprocess_cfg": {**scale, "resize_mode": "shortest"}}
    return {
        "open_clip_config.json": json.dumps(described).encode(),
        "open_clip_model.safetensors": weights,
    }


@cache
def _resnet() -> Files:
    """A network of timm with the features' width of ResNet-50."""
    import timm

    shape = {"layers": [1, 1, 1, 1], "channels": [4, 4, 8, 512]}
    prepared = {
        **{
            "input_size": [3, 224, 224],
            "crop_pct": 0.875,
            "interpolation": "bilinear",
            "num_classes": 1000,
        },
        **{
            "mean": [0.485, 0.456, 0.406],
            "std": [0.229, 0.224, 0.225],
            "first_conv": "conv1",
            "classifier": "fc",
        },
    }
    described = {
        "architecture": "resnet50",
        "num_classes": 1000,
        "model_args": shape,
        "pretrained_cfg": prepared,
    }
    torch.manual_seed(0)
    weights = save(timm.create_model("resnet50", num_classes=1000, **shape).state_dict())
    return {"config.json": json.dumps(described).encode(), "model.safetensors": weights}


@cache
def _vit() -> Files:
    """A ViT of transformers, of the encoders' width."""
    from transformers import ViTConfig, ViTModel

    torch.manual_seed(0)
    weights = save(ViTModel(ViTConfig(**_SHAPE)).state_dict())
    return {
        "config.json": json.dumps({"model_type": "vit", **_SHAPE}).encode(),
        "preprocessor_config.json": b"{}",
        "model.safetensors": weights,
    }


def publish_tasks(standin: StandIn, profile: Profile) -> list[str]:
    """Put the data sets of a profile's suite `mteb` on the hub; the names of their tasks."""
    names = []
    for part in profile.suites["mteb"].tasks:
        own = (
            each
            for task in OwnTasks(part).build()
            for each in getattr(task.metadata, "tasks", None) or [task]
        )
        for task in own:
            _publish_task(standin, task)
            names.append(str(task.metadata.name))
    return names


def _publish_task(standin: StandIn, task: Any) -> None:
    from mteb.abstasks import AbsTaskRetrieval

    about, (split, *_) = task.metadata.dataset, task.eval_splits
    if isinstance(task, AbsTaskRetrieval):
        tables = _retrieval(split)
    else:
        texts, splits = Writer(30).sentences(2 * ROWS, 8), {split}
        rows = {
            "sentence1": texts[:ROWS],
            "sentence2": texts[ROWS:],
            "score": [row / 3 for row in range(ROWS)],
        }
        if task.metadata.type != "STS":
            splits.add("train")
            rows = {"text": texts[:ROWS], "label": [row % 2 for row in range(ROWS)]}
        named = {config: {**rows, "lang": [config] * ROWS} for config in task.hf_subsets}
        tables = {
            (config, own): columns for config, columns in named.items() for own in sorted(splits)
        }
    lines = ["---", "configs:"]
    for config in dict.fromkeys(config for config, _ in tables):
        own = [
            f"{{split: {name}, path: {config}/{name}.parquet}}"
            for at, name in tables
            if at == config
        ]
        lines += [f"- config_name: {config}", f"  data_files: [{', '.join(own)}]"]
    standin.hub_file(
        about["path"], "README.md", "\n".join([*lines, "---", ""]).encode(), about["revision"]
    )
    for (config, name), rows in tables.items():
        stream = io.BytesIO()
        parquet.write_table(pyarrow.table(rows), stream)
        standin.hub_file(
            about["path"], f"{config}/{name}.parquet", stream.getvalue(), about["revision"]
        )


def _retrieval(split: str) -> dict[tuple[str, str], dict[str, list[object]]]:
    """Documents, queries, judgements, and the candidates that a reranking task orders."""
    texts, numbers = Writer(32).sentences(ROWS, 8), [str(row) for row in range(ROWS)]
    queries = [f"q{number}" for number in numbers]
    return {
        ("default", split): {"query-id": [*queries], "corpus-id": [*numbers], "score": [1] * ROWS},
        ("corpus", "corpus"): {"_id": [*numbers], "title": [""] * ROWS, "text": [*texts]},
        ("queries", "queries"): {"_id": [*queries], "text": [*texts]},
        ("top_ranked", split): {"query-id": [*queries], "corpus-ids": [numbers] * ROWS},
    }
