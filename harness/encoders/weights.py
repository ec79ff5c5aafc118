"""Strict reading of model folders of transformers: every weight and every token comes from the folder.

transformers itself initialises missing weights at random, and without a vocabulary maps every word to the unknown
token; here both are errors. Code in a folder is executed only if the folder is trusted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError, safe_open

from harness.encoders.modules import transformer_folder
from harness.errors import UserError, first_line
from harness.files import open_regular, read_regular

#: Raised by the libraries for a folder, a configuration or weights that they cannot read.
UNREADABLE = (
    *(OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, ImportError),
    *(ArithmeticError, AssertionError, MemoryError, UnpicklingError, SafetensorError, StrictDataclassError),
)
_POOLER = "pooler."
#: Weights beside an encoder that its vectors do not depend on, by the beginning of their names without the base model's
#: prefix: heads of masked language models, of classifiers and of question answering; decoders; what SimCSE (`mlp`),
#: DiffCSE (`aux_bert`, `discriminator`, `generator`, `electra_head`), VisualCSE (`image_mlp`, `vit_embeddings`) and
#: AudioCSE (`v_`) train beside the encoder and save with it; their converter writes `mlp` as `pooler`.
_BESIDE = (
    *(_POOLER, "cls.", "lm_head.", "predictions.", "lm_predictions.", "mask_predictions.", "sop_classifier."),
    *("vocab_transform.", "vocab_projector.", "vocab_layer_norm.", "seq_relationship.", "classifier."),
    *("pre_classifier.", "score.", "qa_outputs.", "discriminator_predictions.", "generator_predictions."),
    *("generator_lm_head.", "decoder.", "mlp.", "discriminator.", "generator.", "electra_head."),
    *("aux_", "image_mlp.", "image_pooler.", "vit_embeddings.", "v_patch_embed.", "v_cls_token"),
)
#: sizes in a config.json that must not exceed the size of the weights
_SIZES = (
    *("num_hidden_layers", "hidden_size", "embedding_size", "vocab_size", "intermediate_size", "num_attention_heads"),
    *("max_position_embeddings", "type_vocab_size"),
)
#: buffers that older versions saved
_BUFFERS = ("position_ids", "embeddings.token_type_ids", "rotary_emb.inv_freq")


@contextmanager
def reading(what: str, folder: Path, remedy: str) -> Iterator[None]:
    """Convert a library's errors for an unreadable model folder into a UserError."""
    try:
        yield
    except UNREADABLE as error:
        why = first_line(error) if folder.is_dir() else "the folder does not exist"
        raise UserError(f"the {what} {folder} cannot be read: {why}; {remedy}") from error


def load_encoder(folder: Path, *, pooler: bool, trusted: bool = False) -> tuple[Any, Any]:
    """Read encoder and tokenizer of a model folder, the former in float32.

    `pooler` says whether the weights of its pooler count, `trusted` whether code in the folder may be executed. Raises
    one of UNREADABLE for a folder that cannot be read, for weights that are missing or do not belong to the encoder,
    and for a missing vocabulary; UserError for a folder of sentence-transformers without an encoder.
    """
    import torch
    from transformers import AutoModel

    folder = transformer_folder(folder)
    check_configuration(folder, trusted=trusted)
    options = {"local_files_only": True, "trust_remote_code": trusted}
    with strict_weights(pooler=pooler):
        model = AutoModel.from_pretrained(str(folder), dtype=torch.float32, **options)
    if model.config.is_encoder_decoder or model.main_input_name != "input_ids":
        raise UserError(
            f"the model in {folder} is a {type(model).__name__}, which cannot encode text on its own; give an "
            "encoder such as BERT or RoBERTa"
        )
    return model, load_tokenizer(folder, trusted=trusted)


def load_tokenizer(folder: Path, *, trusted: bool = False) -> Any:
    """Read the tokenizer of a model folder alone. Raises as `load_encoder`."""
    from transformers import AutoTokenizer

    folder = transformer_folder(folder)
    with known_vocabulary(folder):
        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=trusted)
    check_tokenizer(folder, tokenizer)
    if tokenizer.pad_token_id is None:
        raise UserError(
            f"the tokenizer in {folder} has no pad token, which batches need; set "
            'one in its tokenizer_config.json ("pad_token")'
        )
    return tokenizer


@contextmanager
def strict_weights(*, pooler: bool) -> Iterator[None]:
    """Raise ValueError in this context if weights, with those of a `pooler`, do not fit the model being loaded."""
    from transformers import PreTrainedModel
    from transformers.utils import logging

    original = PreTrainedModel.__dict__["from_pretrained"].__func__

    # transformers reports missing weights only to its caller, which can be another library
    def checked(cls: Any, /, *args: Any, output_loading_info: bool = False, **kwargs: Any) -> Any:
        kwargs |= {"output_loading_info": True, "ignore_mismatched_sizes": True}
        model, info = original(cls, *args, **kwargs)
        _check(model, info, pooler)
        return (model, info) if output_loading_info else model

    logging.disable_progress_bar()
    logging.set_verbosity_error()  # the check refuses what it would warn of
    PreTrainedModel.from_pretrained = classmethod(checked)
    try:
        yield
    finally:
        PreTrainedModel.from_pretrained = classmethod(original)


def check_configuration(folder: Path, *, trusted: bool) -> None:
    """Raise ValueError, before a model is built, for code of a repository and for sizes larger than the weights."""
    if not trusted:
        _refuse_code(folder)
    _refuse_size(folder)


def _refuse_code(folder: Path) -> None:
    """Raise ValueError for an architecture or an attention that is code of a repository, not of transformers."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config = _configuration(folder)
    if "auto_map" in config and config.get("model_type") not in CONFIG_MAPPING:
        raise ValueError(
            f"its architecture '{config.get('model_type', 'unknown')}' is code of the repository, which is not "
            "executed by default; if you trust it, use `harness eval --trust-remote-code`"
        )
    for name in ("config.json", "sentence_bert_config.json"):
        if kernel := _kernel(_configuration(folder, name)):
            raise ValueError(
                f"its {name} names the attention '{kernel}', code of another repository, which is not executed; remove "
                "that key"
            )


def _configuration(folder: Path, name: str = "config.json") -> dict[str, Any]:
    file = folder / name
    config = json.loads(read_regular(file)) if file.is_file() else {}
    if not isinstance(config, dict):
        raise ValueError(f"its {name} is not a JSON object")
    return config


def _refuse_size(folder: Path) -> None:
    config = _configuration(folder)
    sizes = {name: config[name] for name in (*_SIZES, "pad_token_id") if config.get(name) is not None}
    for name, value in sizes.items():
        if type(value) is not int or (value < 0 and name != "pad_token_id"):
            raise ValueError(f"its config.json has {name} = {value!r}, which is no whole number")
    words, pad = sizes.get("vocab_size"), sizes.pop("pad_token_id", 0)
    if words is not None and not -words <= pad < words:
        raise ValueError(f"its config.json has pad_token_id = {pad}, outside of its vocabulary of {words} tokens")
    weights = _weight_files(folder)
    if not weights:
        return
    shapes = [shape for path in weights for shape in _shapes(path)]
    numbers = min(sum(map(math.prod, shapes)), sum(path.stat().st_size for path in weights))  # a byte each at least
    for name, value in sizes.items():
        width = sizes.get("embedding_size", sizes.get("hidden_size", 1)) if name == "vocab_size" else 1
        if value * width > (len(shapes) if name == "num_hidden_layers" else numbers):
            raise ValueError(f"its config.json has {name} = {value}, more than its {weights[0].name} can hold")


def _weight_files(folder: Path) -> list[Path]:
    """The files from which transformers reads a folder's weights."""
    for name in ("model.safetensors", "pytorch_model.bin"):
        whole, index = folder / name, folder / f"{name}.index.json"
        if whole.is_file():
            return [whole]
        if index.is_file():
            shards = {str(shard) for shard in json.loads(read_regular(index))["weight_map"].values()}
            if any(Path(shard).name != shard for shard in shards):
                raise ValueError(f"its {index.name} names a file of another folder")
            return [folder / shard for shard in sorted(shards)]
    return []


def _shapes(path: Path) -> list[Sequence[int]]:
    """The shapes of the tensors in a file of weights, read without their numbers."""
    with open_regular(path):  # opening a pipe would block for ever
        pass
    if path.suffix == ".safetensors":
        with safe_open(path, framework="np") as held:
            return [held.get_slice(name).get_shape() for name in held.keys()]  # noqa: SIM118 - not a mapping
    import torch

    held = torch.load(path, map_location="meta", weights_only=True)
    return [tensor.shape for tensor in held.values() if isinstance(tensor, torch.Tensor)]


def _kernel(value: Any) -> str:
    """The repository of an attention kernel that a configuration names at any depth; empty for none."""
    if isinstance(value, list):
        return next(filter(None, map(_kernel, value)), "")
    if not isinstance(value, dict):
        return ""
    for key, held in value.items():
        texts = held.values() if isinstance(held, dict) else [held]
        if key.endswith("attn_implementation") and (
            named := next((text for text in texts if isinstance(text, str) and "/" in text), "")
        ):
            return named
    return next(filter(None, map(_kernel, value.values())), "")


def check_tokenizer(folder: Path, tokenizer: Any) -> None:
    """Raise ValueError for a folder without its tokenizer's vocabulary, and for one of special tokens only."""
    files = set(tokenizer.vocab_files_names.values())
    if files and not any((folder / name).is_file() for name in files):
        raise ValueError(_no_vocabulary(files))
    if not set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens):
        raise ValueError("its vocabulary has special tokens only, so every word would be unknown")


@contextmanager
def known_vocabulary(folder: Path) -> Iterator[None]:
    """Raise ValueError if reading a tokenizer fails in this context and the folder has no vocabulary."""
    try:
        yield
    except UNREADABLE as error:
        files = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")
        if not any(next(folder.glob(name), None) for name in files):
            raise ValueError(_no_vocabulary(files)) from error
        raise


def _no_vocabulary(files: Collection[str]) -> str:
    return f"it has no vocabulary ({' or '.join(sorted(files))}), so every word would be unknown"


def _check(model: Any, info: Mapping[str, Any], pooler: bool) -> None:
    """Raise ValueError for weights that are missing, that have another shape, or that belong to another model."""
    name = type(model).__name__
    absent = [key for key in info["missing_keys"] if pooler or not _bare(model, key).startswith(_POOLER)]
    if pooler and not absent and getattr(model, "pooler", None) is None:
        absent = ["pooler"]
    if absent:
        raise ValueError(f"it has no weights of {_listed(absent)}, which {name} would initialise at random")
    odd = [key for key, *_ in info["mismatched_keys"]]
    odd += [key for key in info["unexpected_keys"] if not _beside(_bare(model, key))]
    if odd:
        raise ValueError(f"its weights {_listed(odd)} do not fit {name} as its config.json describes it")


def _bare(model: Any, key: str) -> str:
    return key.removeprefix(f"{model.base_model_prefix}.")


def _beside(key: str) -> bool:
    return key.startswith(_BESIDE) or key.endswith(_BUFFERS)


def _listed(keys: Sequence[str], most: int = 3) -> str:
    first = sorted(keys)[:most]
    return ", ".join(first) + (f" and {len(keys) - most} more" if len(keys) > most else "")
