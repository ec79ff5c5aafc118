"""Strict reading of model folders of transformers: every weight comes from the folder.

transformers itself initialises missing weights at random; here that is an error. Code in a folder
is executed only if the folder is trusted.
"""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError, safe_open

from harness.encoders.contents import FULL, account_for
from harness.encoders.foreign_code import refuse_foreign_code
from harness.encoders.modules import find_transformer_folder, list_all_modules, read_settings
from harness.errors import UserError, first_line
from harness.files import open_regular, read_regular
from harness.formatting import first_of

#: Raised by the libraries for a folder, a configuration or weights that they cannot read.
UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RuntimeError,
    ImportError,
    ArithmeticError,
    AssertionError,
    MemoryError,
    UnpicklingError,
    SafetensorError,
    StrictDataclassError,
)
_POOLER = "pooler."
#: Weights beside an encoder that its vectors do not depend on and no class of transformers adds, by
#: the beginning of their names without the base model's prefix: what SimCSE (`mlp`), DiffCSE
#: (`aux_bert`, `discriminator`, `generator`, `electra_head`), VisualCSE (`image_mlp`,
#: `vit_embeddings`) and AudioCSE (`v_`) train beside the encoder and save with it, where their
#: converter writes `mlp` as `pooler`; heads of DeBERTa as its authors name them.
_BESIDE = (
    _POOLER,
    "mlp.",
    "discriminator.",
    "generator.",
    "electra_head.",
    "aux_",
    "image_mlp.",
    "image_pooler.",
    "vit_embeddings.",
    "v_patch_embed.",
    "v_cls_token",
    "lm_predictions.",
    "mask_predictions.",
)
#: sizes in a config.json that must not exceed the size of the weights
_SIZES = (
    "num_hidden_layers",
    "hidden_size",
    "embedding_size",
    "vocab_size",
    "intermediate_size",
    "num_attention_heads",
    "max_position_embeddings",
    "type_vocab_size",
    "input_embedding_size",
)
#: types of numbers that weights may have, as safetensors and torch name them
_FLOATS = ("F64", "F32", "F16", "BF16", "float64", "float32", "float16", "bfloat16")
#: the repository of an attention, at any depth of a configuration
_KERNEL = re.compile(r'attn_implementation": (?:\{[^}]*)?"([^"]+/[^"]+)"')
#: buffers that older versions saved
_BUFFERS = (
    "position_ids",
    "embeddings.token_type_ids",
    "rotary_emb.inv_freq",
    "attn.bias",
    "attn.masked_bias",
    "num_batches_tracked",
    "relative_position_index",
    "embeddings.word_embeddings._weight",
)


@contextmanager
def convert_errors(
    what: str, folder: Path, remedy: str, *, trusted: bool = False
) -> Iterator[None]:
    """Convert a library's errors for an unreadable model folder into a UserError.

    The library executes code of the folder only if that is `trusted`.
    """
    try:
        with nullcontext() if trusted else refuse_foreign_code():
            yield
    except UNREADABLE as error:
        reason = first_line(error) if folder.is_dir() else "the folder does not exist"
        raise UserError(f"the {what} {folder} cannot be read: {reason}; {remedy}") from error


#: names of the rates of dropout in the configurations of encoders: of states, and of the weights of
#: attention
_RATES = {
    "dropout": (
        "hidden_dropout_prob",
        "dropout",
        "hidden_dropout",
        "dropout_rate",
        "resid_pdrop",
        "embd_pdrop",
        "embedding_dropout",
        "mlp_dropout",
        "residual_dropout",
        "resid_dropout",
        "embed_dropout",
    ),
    "attention_dropout": ("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop"),
}


def load_encoder(
    folder: Path, *, pooler: bool, trusted: bool = False, rates: tuple[float, float] = (-1.0, -1.0)
) -> Any:
    """Read the encoder of a model folder in float32, that of T5 without its decoder.

    `pooler` says whether the weights of its pooler count, `trusted` whether code in the folder may
    be executed. `rates` of dropout, of states and of attention, replace those of the configuration,
    -1 keeps them. Raises one of UNREADABLE for a folder that cannot be read, and for weights that
    are missing or do not belong to the encoder; UserError for a folder of sentence-transformers
    without an encoder, and for dropout that it lacks.
    """
    folder = find_transformer_folder(folder)
    check_configuration(folder, trusted=trusted)

    options = {"local_files_only": True, "trust_remote_code": trusted}
    config, reader = _find_model_class(folder, options)
    changes = dict[str, float]()
    for (kind, names), rate in zip(_RATES.items(), rates, strict=True):
        if rate < 0:
            continue

        known_names = [
            name for name in names if isinstance(getattr(config, name, None), int | float)
        ]
        if not known_names:
            raise UserError(
                f"{folder} is a {config.model_type}, whose config.json has no {kind}; leave {kind} out"
            )
        changes |= dict.fromkeys(known_names, rate)

    with require_weights(pooler=pooler):
        return reader.from_pretrained(str(folder), **options, **changes)


def _find_model_class(folder: Path, options: Mapping[str, Any]) -> tuple[Any, Any]:
    """The configuration of a model and the class that reads it: AutoModel, or the encoder of an
    encoder-decoder such as T5.

    Raises UserError for a model without an encoder of text alone.
    """
    import transformers
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.from_pretrained(str(folder), **options)
    model = AutoModel._model_mapping.get(type(config), None)
    if isinstance(model, tuple):
        model = model[0]
    name = model.__name__ if model else config.model_type
    takes_text = getattr(model, "main_input_name", "input_ids") == "input_ids"
    is_text_alone = takes_text and config.get_text_config() is config
    # an encoder-decoder's class says so too where the configuration is of its encoder alone
    is_pair = config.is_encoder_decoder or getattr(type(config), "is_encoder_decoder", False)
    encoder = getattr(transformers, name.removesuffix("Model") + "EncoderModel", None)

    if is_text_alone and not is_pair:
        return config, AutoModel
    if is_text_alone and encoder is not None:
        return config, encoder
    raise UserError(
        f"the model in {folder} is a {name}, which cannot encode text on its own; give an encoder "
        "such as BERT or RoBERTa"
    )


@contextmanager
def require_weights(*, pooler: bool) -> Iterator[None]:
    """Let transformers read models in float32, and raise UserError if weights, with those of a
    `pooler`, do not fit the model being loaded.
    """
    import torch
    from transformers import PreTrainedModel
    from transformers.utils import logging

    original = PreTrainedModel.__dict__["from_pretrained"].__func__

    # transformers reports missing weights only to its caller, which can be another library
    def load(cls: Any, /, *args: Any, output_loading_info: bool = False, **kwargs: Any) -> Any:
        kwargs |= {"output_loading_info": True, "ignore_mismatched_sizes": True}
        # whatever the config.json names
        kwargs.pop("torch_dtype", None)
        kwargs["dtype"] = torch.float32
        kwargs["attn_implementation"] = "sdpa" if cls._supports_sdpa else "eager"

        model, info = original(cls, *args, **kwargs)
        model.config.return_dict = True
        _check_loaded(model, info, pooler, Path(args[0]))
        return (model, info) if output_loading_info else model

    logging.disable_progress_bar()
    logging.set_verbosity_error()  # the check refuses what it would warn of
    PreTrainedModel.from_pretrained = classmethod(load)
    try:
        yield
    finally:
        PreTrainedModel.from_pretrained = classmethod(original)


def check_configuration(folder: Path, *, trusted: bool) -> None:
    """Raise an error, before a model is built, for files that change vectors, for code and for
    absurd sizes.
    """
    check_modules(folder)
    if not trusted:
        _refuse_code(folder)
    _refuse_size(folder)


def check_modules(folder: Path) -> None:
    """Raise UserError for files in a folder, or its modules', that are not read as what the model
    was trained with.
    """
    account_for(folder, {path.name for path in _list_weight_files(folder)})
    for place in {folder, *(folder / module.path for module in list_all_modules(folder))}:
        for file in _list_weight_files(place):
            _check_types(file)


def _check_types(file: Path) -> None:
    """Raise UserError for weights that are no floating-point numbers."""
    for name, (_, kind) in _list_shapes(file).items():
        if kind not in _FLOATS and not name.endswith(_BUFFERS):
            raise UserError(
                f"{file} holds {name} as {kind}, numbers that are not read as weights; {FULL}"
            )


def _refuse_code(folder: Path) -> None:
    """Raise ValueError for an architecture or an attention that is code of a repository, not of
    transformers.
    """
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config = read_settings(folder / "config.json")
    if "auto_map" in config and config.get("model_type") not in CONFIG_MAPPING:
        raise ValueError(
            f"its architecture '{config.get('model_type', 'unknown')}' is code of the repository, which is not "
            "executed by default; if you trust it, use `harness eval --trust-remote-code`"
        )
    for name in ("config.json", "sentence_bert_config.json"):
        kernel = _KERNEL.search(json.dumps(read_settings(folder / name)))
        if kernel:
            raise ValueError(
                f"its {name} names the attention '{kernel[1]}', code of another repository, which is not executed; "
                "remove that key"
            )


def _refuse_size(folder: Path) -> None:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config = read_settings(folder / "config.json")
    kind = config.get("model_type")
    other_names = CONFIG_MAPPING[kind].attribute_map if kind in CONFIG_MAPPING else {}
    sizes = dict[str, int]()
    for name in (*_SIZES, "pad_token_id"):
        value = config.get(name, config.get(other_names.get(name, name)))
        if value is None:
            continue
        if type(value) is not int or (value < 0 and name != "pad_token_id"):
            raise ValueError(f"its config.json has {name} = {value!r}, which is no whole number")
        sizes[name] = value

    words = sizes.get("vocab_size")
    pad = sizes.pop("pad_token_id", 0)
    if words is not None and not -words <= pad < words:
        raise ValueError(
            f"its config.json has pad_token_id = {pad}, outside of its vocabulary of {words} tokens"
        )

    weights = _list_weight_files(folder)
    if not weights:
        return
    too_large = _find_size_too_large(sizes, weights)
    if too_large is not None:
        raise ValueError(
            f"its config.json has {too_large} = {sizes[too_large]}, more than its "
            f"{weights[0].name} can hold"
        )


def _find_size_too_large(sizes: Mapping[str, int], weights: Sequence[Path]) -> str | None:
    """The name of a size for which files of weights have too few numbers, None if there is none.

    A model of such a size would be built before its weights are read, whatever memory that takes.
    """
    shapes = [shape for path in weights for shape, _ in _list_shapes(path).values()]
    numbers = sum(map(math.prod, shapes))
    file_bytes = sum(path.stat().st_size for path in weights)
    widths = [sizes[name] for name in sizes if name.endswith(("embedding_size", "hidden_size"))]

    # a number takes a byte or more, whatever the header of its file says
    most = dict.fromkeys(_SIZES, min(numbers, file_bytes))
    most["num_hidden_layers"] = max(len(shapes), 128)  # layers may share weights
    most["vocab_size"] //= max(1, min(widths, default=1))
    return next((name for name, value in sizes.items() if value > most[name]), None)


def _list_weight_files(folder: Path) -> list[Path]:
    """The files from which transformers reads a folder's weights."""
    for name in ("model.safetensors", "pytorch_model.bin"):
        file = folder / name
        if file.is_file():
            return [file]

        index = folder / f"{name}.index.json"
        if index.is_file():
            shards = set(map(str, json.loads(read_regular(index))["weight_map"].values()))
            if any(Path(shard).name != shard for shard in shards):
                raise ValueError(f"its {index.name} names a file of another folder")
            return [folder / shard for shard in sorted(shards)]
    return []


def _list_shapes(path: Path) -> dict[str, tuple[Sequence[int], str]]:
    """Shape and type of the tensors in a file of weights by name. Raises UserError for other
    contents.
    """
    with open_regular(path):  # opening a pipe would block for ever
        pass

    shapes: dict[str, tuple[Sequence[int], str]] = {}
    if path.suffix == ".safetensors":
        with safe_open(path, framework="np") as file:
            for name in file.keys():  # noqa: SIM118 - not a mapping
                part = file.get_slice(name)
                shapes[name] = (part.get_shape(), part.get_dtype())
        return shapes

    import torch

    try:
        weights = torch.load(path, map_location="meta", weights_only=True)
    except UnpicklingError as error:
        raise UserError(
            f"{path} cannot be read: it is a pickled object of Python, not weights by name; save the model with "
            "`save_pretrained`"
        ) from error

    values = weights.values() if isinstance(weights, dict) else [None]
    if not all(isinstance(value, torch.Tensor) for value in values):
        raise UserError(
            f"{path} does not hold weights by name alone; save the model with `save_pretrained`"
        )
    for name, value in weights.items():
        shapes[name] = (value.shape, str(value.dtype).removeprefix("torch."))
    return shapes


def _check_loaded(model: Any, info: Mapping[str, Any], pooler: bool, folder: Path) -> None:
    """Raise UserError for weights that are missing, that have another shape, or that belong to
    another model.
    """
    name = type(model).__name__
    remedy = "give the folder of one model as `save_pretrained` writes it"

    unexpected = sorted(info["unexpected_keys"])
    missing = sorted(info["missing_keys"])
    if not pooler:
        missing = [key for key in missing if not _strip_prefix(model, key).startswith(_POOLER)]

    if missing:
        for key in unexpected:
            if key.endswith(f".{missing[0]}"):
                prefix = key.removesuffix(missing[0])
                raise UserError(
                    f"{folder} cannot be read: all names of its weights begin with '{prefix}'; "
                    "save them without it"
                )
        raise UserError(
            f"{folder} cannot be read: it has no weights of {first_of(missing, 3)}, which {name} "
            f"would initialise at random; {remedy}"
        )

    if pooler and not hasattr(getattr(model, "pooler", None), "dense"):
        raise UserError(
            f"{folder} is a {name}, which has no pooler like BERT's; give --pooling cls or mean"
        )

    foreign = [key for key, *_ in info["mismatched_keys"]]
    foreign += _list_foreign(model, unexpected)
    if foreign:
        raise UserError(
            f"{folder} cannot be read: its weights {first_of(sorted(foreign), 3)} do not fit {name} "
            f"as its config.json describes it; {remedy}"
        )


def _list_foreign(model: Any, unexpected: Sequence[str]) -> list[str]:
    """Those of the weights that a model does not take that belong to no head or module beside it."""
    strange = []
    for key in unexpected:
        is_beside = _strip_prefix(model, key).startswith(_BESIDE)
        if not is_beside and not key.endswith(_BUFFERS):
            strange.append(key)
    if not strange:
        return []

    heads = _list_heads(model)
    return [key for key in strange if _strip_prefix(model, key).partition(".")[0] not in heads]


def _list_heads(model: Any) -> frozenset[str]:
    """The modules that transformers' classes of this type, such as its masked language model, add
    to the encoder.
    """
    import torch
    from transformers.models.auto import modeling_auto

    config = copy.deepcopy(model.config)
    classes = set[Any]()
    for name, mapping in vars(modeling_auto).items():
        if name.endswith("_MAPPING"):
            listed = mapping.get(type(config), ())
            classes.update(listed if isinstance(listed, tuple) else [listed])

    config.num_labels = 2  # some classes for answers to questions take no other
    modules = set[str]()
    with torch.device("meta"):
        for headed_class in classes - {type(model)}:
            modules |= _list_module_names(headed_class(config))
    return frozenset(modules - {model.base_model_prefix} - _list_module_names(model))


def _list_module_names(model: Any) -> set[str]:
    """The names of a model's modules that have weights."""
    return {name.partition(".")[0] for name in model.state_dict()}


def _strip_prefix(model: Any, key: str) -> str:
    return key.removeprefix(f"{model.base_model_prefix}.")
