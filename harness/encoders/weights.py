"""Reading model folders of transformers so that every weight and every token comes from the folder.

transformers draws weights that a file lacks at random, and reads a model without its vocabulary as one unknown word.
Both would be scored like a model; here they are refused. No code of a folder is executed unless it is trusted, and
transformers unpickles weights in torch's weights-only mode.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from safetensors import SafetensorError, safe_open

from harness.encoders.modules import transformer_folder
from harness.errors import UserError

#: Raised by the libraries for a folder, a configuration or weights that they cannot read.
UNREADABLE = (
    *(OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, ImportError),
    *(UnpicklingError, SafetensorError),
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
#: buffers that older versions saved
_BUFFERS = ("position_ids", "embeddings.token_type_ids", "rotary_emb.inv_freq")


def load_encoder(folder: Path, *, pooler: bool, trusted: bool = False) -> tuple[Any, Any]:
    """Read encoder and tokenizer of a model folder, the former in float32.

    `pooler` says whether the weights of its pooler count, `trusted` whether code in the folder may be executed. Raises
    one of UNREADABLE for a folder that cannot be read, for weights that are missing or do not belong to the encoder,
    and for a missing vocabulary; UserError for a folder of sentence-transformers without an encoder.
    """
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = transformer_folder(folder)
    if not trusted:
        refuse_architecture(folder)
    refuse_size(folder)
    options = {"local_files_only": True, "trust_remote_code": trusted}
    with strict_weights(pooler=pooler):
        model = AutoModel.from_pretrained(str(folder), dtype=torch.float32, **options)
    if model.config.is_encoder_decoder or model.main_input_name != "input_ids":
        raise UserError(
            f"the model in {folder} is a {type(model).__name__}, which cannot encode text on its own; give an "
            "encoder such as BERT or RoBERTa"
        )
    with known_vocabulary(folder):
        tokenizer = AutoTokenizer.from_pretrained(str(folder), **options)
    check_vocabulary_files(folder, tokenizer)
    if tokenizer.pad_token_id is None:
        raise UserError(
            f"the tokenizer in {folder} has no pad token, which batches need; set "
            'one in its tokenizer_config.json ("pad_token")'
        )
    return model, tokenizer


@contextmanager
def strict_weights(*, pooler: bool) -> Iterator[None]:
    """Refuse weights that do not fit in every model that transformers loads inside, by whatever library it is called.

    `pooler` says whether the weights of a pooler count. Raises ValueError.
    """
    from transformers import PreTrainedModel
    from transformers.utils import logging

    original = PreTrainedModel.__dict__["from_pretrained"].__func__

    # transformers hands out what it found to its caller alone, and that can be another library
    def checked(cls: Any, /, *args: Any, output_loading_info: bool = False, **kwargs: Any) -> Any:
        kwargs |= {"output_loading_info": True, "ignore_mismatched_sizes": True}
        model, found = original(cls, *args, **kwargs)
        _check(model, found, pooler)
        return (model, found) if output_loading_info else model

    logging.disable_progress_bar()
    logging.set_verbosity_error()  # what it would warn of is refused
    PreTrainedModel.from_pretrained = classmethod(checked)
    try:
        yield
    finally:
        PreTrainedModel.from_pretrained = classmethod(original)


def refuse_architecture(folder: Path) -> None:
    """Raise ValueError for an architecture or an attention that is code of a repository, not of transformers."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    file = folder / "config.json"
    config = json.loads(file.read_text()) if file.is_file() else {}
    if "auto_map" in config and config.get("model_type") not in CONFIG_MAPPING:
        raise ValueError(
            f"its architecture '{config.get('model_type', 'unknown')}' is code of the repository, which is not "
            "executed by default; if you trust it, use `harness eval --trust-remote-code`"
        )
    for name in ("config.json", "sentence_bert_config.json"):
        if (folder / name).is_file() and (kernel := _kernel(json.loads((folder / name).read_text()))):
            raise ValueError(
                f"its {name} names the attention '{kernel}', code of another repository, which is not executed; remove "
                "that key"
            )


def refuse_size(folder: Path) -> None:
    """Raise ValueError, before a model is built, for sizes that the weights in model.safetensors cannot have."""
    weights, file = folder / "model.safetensors", folder / "config.json"
    config = json.loads(file.read_text()) if file.is_file() else {}
    if not weights.is_file() or not isinstance(config, dict):
        return
    with safe_open(weights, framework="np") as held:
        shapes = [held.get_slice(name).get_shape() for name in held.keys()]  # noqa: SIM118 - it is no mapping
    numbers = sum(map(math.prod, shapes))
    most = {"num_hidden_layers": len(shapes), "hidden_size": numbers, "embedding_size": numbers, "vocab_size": numbers}
    asked = {name: config[name] for name in most if config.get(name) is not None}
    for name, value in asked.items():
        if type(value) is not int:
            raise ValueError(f"its config.json has {name} = {value!r}, which is no whole number")
        if name == "vocab_size":
            value *= asked.get("embedding_size", asked.get("hidden_size", 1))
        if value > most[name]:
            raise ValueError(f"its config.json has {name} = {config[name]}, more than its {weights.name} can hold")


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


def check_vocabulary_files(folder: Path, tokenizer: Any) -> None:
    """Raise ValueError if a folder has none of the files of its tokenizer's vocabulary, or no word in them."""
    files = set(tokenizer.vocab_files_names.values())
    if files and not any((folder / name).is_file() for name in files):
        raise ValueError(_no_vocabulary(files))
    if not set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens):
        raise ValueError("its vocabulary has special tokens only, so every word would be unknown")


@contextmanager
def known_vocabulary(folder: Path) -> Iterator[None]:
    """Raise ValueError where reading a tokenizer fails inside and the folder has no vocabulary."""
    try:
        yield
    except UNREADABLE as error:
        files = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")
        if not any(next(folder.glob(name), None) for name in files):
            raise ValueError(_no_vocabulary(files)) from error
        raise


def _no_vocabulary(files: Collection[str]) -> str:
    return f"it has no vocabulary ({' or '.join(sorted(files))}), so every word would be unknown"


def _check(model: Any, found: Mapping[str, Any], pooler: bool) -> None:
    """Raise ValueError for weights that are missing, that have another shape, or that belong to another model."""
    name = type(model).__name__
    absent = [key for key in found["missing_keys"] if pooler or not _bare(model, key).startswith(_POOLER)]
    if pooler and not absent and getattr(model, "pooler", None) is None:
        absent = ["pooler"]
    if absent:
        raise ValueError(f"it has no weights of {_listed(absent)}, which {name} would initialise at random")
    odd = [key for key, *_ in found["mismatched_keys"]]
    odd += [key for key in found["unexpected_keys"] if not _beside(_bare(model, key))]
    if odd:
        raise ValueError(f"its weights {_listed(odd)} do not fit {name} as its config.json describes it")


def _bare(model: Any, key: str) -> str:
    return key.removeprefix(f"{model.base_model_prefix}.")


def _beside(key: str) -> bool:
    return key.startswith(_BESIDE) or key.endswith(_BUFFERS)


def _listed(keys: Sequence[str], most: int = 3) -> str:
    first = sorted(keys)[:most]
    return ", ".join(first) + (f" and {len(keys) - most} more" if len(keys) > most else "")
