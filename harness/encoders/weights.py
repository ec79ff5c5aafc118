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
from harness.encoders.foreign_code import without_foreign_code
from harness.encoders.modules import all_modules, read_settings, transformer_folder
from harness.errors import UserError, first_line
from harness.files import open_regular, read_regular
from harness.formatting import first_of

#: Raised by the libraries for a folder, a configuration or weights that they cannot read.
UNREADABLE = (
    *(
        OSError,
        EOFError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RuntimeError,
        ImportError,
    ),
    *(
        ArithmeticError,
        AssertionError,
        MemoryError,
        UnpicklingError,
        SafetensorError,
        StrictDataclassError,
    ),
)
_POOLER = "pooler."
#: Weights beside an encoder that its vectors do not depend on and no class of transformers adds, by
#: the beginning of their names without the base model's prefix: what SimCSE (`mlp`), DiffCSE
#: (`aux_bert`, `discriminator`, `generator`, `electra_head`), VisualCSE (`image_mlp`,
#: `vit_embeddings`) and AudioCSE (`v_`) train beside the encoder and save with it, where their
#: converter writes `mlp` as `pooler`; heads of DeBERTa as its authors name them.
_BESIDE = (
    *(
        _POOLER,
        "mlp.",
        "discriminator.",
        "generator.",
        "electra_head.",
        "aux_",
        "image_mlp.",
        "image_pooler.",
    ),
    *("vit_embeddings.", "v_patch_embed.", "v_cls_token", "lm_predictions.", "mask_predictions."),
)
#: sizes in a config.json that must not exceed the size of the weights
_SIZES = (
    *(
        "num_hidden_layers",
        "hidden_size",
        "embedding_size",
        "vocab_size",
        "intermediate_size",
        "num_attention_heads",
    ),
    *("max_position_embeddings", "type_vocab_size", "input_embedding_size"),
)
#: types of numbers that weights may have, as safetensors and torch name them
_FLOATS = ("F64", "F32", "F16", "BF16", "float64", "float32", "float16", "bfloat16")
#: the repository of an attention, at any depth of a configuration
_KERNEL = re.compile(r'attn_implementation": (?:\{[^}]*)?"([^"]+/[^"]+)"')
#: buffers that older versions saved
_BUFFERS = (
    *(
        "position_ids",
        "embeddings.token_type_ids",
        "rotary_emb.inv_freq",
        "attn.bias",
        "attn.masked_bias",
    ),
    *("num_batches_tracked", "relative_position_index", "embeddings.word_embeddings._weight"),
)


@contextmanager
def reading(what: str, folder: Path, remedy: str, *, trusted: bool = False) -> Iterator[None]:
    """Convert a library's errors for an unreadable model folder into a UserError.

    The library executes code of the folder only if that is `trusted`.
    """
    try:
        with nullcontext() if trusted else without_foreign_code():
            yield
    except UNREADABLE as error:
        why = first_line(error) if folder.is_dir() else "the folder does not exist"
        raise UserError(f"the {what} {folder} cannot be read: {why}; {remedy}") from error


#: names of the rates of dropout in the configurations of encoders: of states, and of the weights of
#: attention
_RATES = (
    (
        *(
            "hidden_dropout_prob",
            "dropout",
            "hidden_dropout",
            "dropout_rate",
            "resid_pdrop",
            "embd_pdrop",
        ),
        *("embedding_dropout", "mlp_dropout", "residual_dropout", "resid_dropout", "embed_dropout"),
    ),
    ("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop"),
)


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
    folder = transformer_folder(folder)
    check_configuration(folder, trusted=trusted)
    options = {"local_files_only": True, "trust_remote_code": trusted}
    config, reader = _reader(folder, options)
    changed = dict[str, float]()
    for kind, names, rate in zip(("dropout", "attention_dropout"), _RATES, rates, strict=True):
        own = [name for name in names if isinstance(getattr(config, name, None), int | float)]
        if rate >= 0 and not own:
            raise UserError(
                f"{folder} is a {config.model_type}, whose config.json has no {kind}; leave {kind} out"
            )
        changed |= dict.fromkeys(own, rate) if rate >= 0 else {}
    with strict_weights(pooler=pooler):
        return reader.from_pretrained(str(folder), **options, **changed)


def _reader(folder: Path, options: Mapping[str, Any]) -> tuple[Any, Any]:
    """The configuration of a model and the class that reads it: AutoModel, or the encoder of an
    encoder-decoder such as T5.

    Raises UserError for a model without an encoder of text alone.
    """
    import transformers
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.from_pretrained(str(folder), **options)
    model = AutoModel._model_mapping.get(type(config), None)
    first = model[0] if isinstance(model, tuple) else model
    name = first.__name__ if first else config.model_type
    is_text_alone = (
        getattr(first, "main_input_name", "input_ids") == "input_ids"
        and config.get_text_config() is config
    )
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
def strict_weights(*, pooler: bool) -> Iterator[None]:
    """Let transformers read models in float32, and raise UserError if weights, with those of a
    `pooler`, do not fit the model being loaded.
    """
    import torch
    from transformers import PreTrainedModel
    from transformers.utils import logging

    original = PreTrainedModel.__dict__["from_pretrained"].__func__

    # transformers reports missing weights only to its caller, which can be another library
    def checked(cls: Any, /, *args: Any, output_loading_info: bool = False, **kwargs: Any) -> Any:
        kwargs |= {"output_loading_info": True, "ignore_mismatched_sizes": True}
        kwargs.pop("torch_dtype", None)
        kwargs["dtype"] = torch.float32  # whatever the config.json names
        kwargs["attn_implementation"] = (
            "sdpa" if cls._supports_sdpa else "eager"
        )  # whatever the config.json names
        model, info = original(cls, *args, **kwargs)
        model.config.return_dict = True
        _check(model, info, pooler, Path(args[0]))
        return (model, info) if output_loading_info else model

    logging.disable_progress_bar()
    logging.set_verbosity_error()  # the check refuses what it would warn of
    PreTrainedModel.from_pretrained = classmethod(checked)
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
    account_for(folder, {path.name for path in _weight_files(folder)})
    for path in {folder, *(folder / module.path for module in all_modules(folder))}:
        for file in _weight_files(path):
            for name, (_, kind) in _held(file).items():
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
        if kernel := _KERNEL.search(json.dumps(read_settings(folder / name))):
            raise ValueError(
                f"its {name} names the attention '{kernel[1]}', code of another repository, which is not executed; "
                "remove that key"
            )


def _refuse_size(folder: Path) -> None:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config = read_settings(folder / "config.json")
    kind = config.get("model_type")
    other = CONFIG_MAPPING[kind].attribute_map if kind in CONFIG_MAPPING else {}
    named = {
        name: config.get(name, config.get(other.get(name, name)))
        for name in (*_SIZES, "pad_token_id")
    }
    sizes = {name: value for name, value in named.items() if value is not None}
    for name, value in sizes.items():
        if type(value) is not int or (value < 0 and name != "pad_token_id"):
            raise ValueError(f"its config.json has {name} = {value!r}, which is no whole number")
    words = sizes.get("vocab_size")
    pad = sizes.pop("pad_token_id", 0)
    if words is not None and not -words <= pad < words:
        raise ValueError(
            f"its config.json has pad_token_id = {pad}, outside of its vocabulary of {words} tokens"
        )
    weights = _weight_files(folder)
    if not weights:
        return
    shapes = [shape for path in weights for shape, _ in _held(path).values()]
    numbers = min(
        sum(map(math.prod, shapes)), sum(path.stat().st_size for path in weights)
    )  # a byte each at least
    narrowest = min(
        (sizes[name] for name in sizes if name.endswith(("embedding_size", "hidden_size"))),
        default=1,
    )
    for name, value in sizes.items():
        width = narrowest if name == "vocab_size" else 1
        # layers may share weights
        if value * width > (max(len(shapes), 128) if name == "num_hidden_layers" else numbers):
            raise ValueError(
                f"its config.json has {name} = {value}, more than its {weights[0].name} can hold"
            )


def _weight_files(folder: Path) -> list[Path]:
    """The files from which transformers reads a folder's weights."""
    for name in ("model.safetensors", "pytorch_model.bin"):
        whole = folder / name
        index = folder / f"{name}.index.json"
        if whole.is_file():
            return [whole]
        if index.is_file():
            shards = {
                str(shard) for shard in json.loads(read_regular(index))["weight_map"].values()
            }
            if any(Path(shard).name != shard for shard in shards):
                raise ValueError(f"its {index.name} names a file of another folder")
            return [folder / shard for shard in sorted(shards)]
    return []


def _held(path: Path) -> dict[str, tuple[Sequence[int], str]]:
    """Shape and type of the tensors in a file of weights by name. Raises UserError for other
    contents.
    """
    with open_regular(path):  # opening a pipe would block for ever
        pass
    if path.suffix == ".safetensors":
        with safe_open(path, framework="np") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
            return {name: (part.get_shape(), part.get_dtype()) for name, part in slices.items()}
    import torch

    try:
        held = torch.load(path, map_location="meta", weights_only=True)
    except UnpicklingError as error:
        raise UserError(
            f"{path} cannot be read: it is a pickled object of Python, not weights by name; save the model with "
            "`save_pretrained`"
        ) from error
    if not isinstance(held, dict) or not all(
        isinstance(value, torch.Tensor) for value in held.values()
    ):
        raise UserError(
            f"{path} does not hold weights by name alone; save the model with `save_pretrained`"
        )
    return {
        name: (value.shape, str(value.dtype).removeprefix("torch.")) for name, value in held.items()
    }


def _check(model: Any, info: Mapping[str, Any], pooler: bool, folder: Path) -> None:
    """Raise UserError for weights that are missing, that have another shape, or that belong to
    another model.
    """
    name = type(model).__name__
    unread = f"{folder} cannot be read"
    remedy = "give the folder of one model as `save_pretrained` writes it"
    unexpected = sorted(info["unexpected_keys"])
    missing = sorted(info["missing_keys"])
    absent = [key for key in missing if pooler or not _bare(model, key).startswith(_POOLER)]
    if absent and (found := [key for key in unexpected if key.endswith(f".{absent[0]}")]):
        prefix = found[0].removesuffix(absent[0])
        raise UserError(
            f"{unread}: all names of its weights begin with '{prefix}'; save them without it"
        )
    if absent:
        made_up = (
            f"it has no weights of {first_of(absent, 3)}, which {name} would initialise at random"
        )
        raise UserError(f"{unread}: {made_up}; {remedy}")
    if pooler and not hasattr(getattr(model, "pooler", None), "dense"):
        raise UserError(
            f"{folder} is a {name}, which has no pooler like BERT's; give --pooling cls or mean"
        )
    odd = [key for key, *_ in info["mismatched_keys"]]
    strange = [
        key
        for key in unexpected
        if not (_bare(model, key).startswith(_BESIDE) or key.endswith(_BUFFERS))
    ]
    heads = _heads(model) if strange else frozenset()
    odd += [key for key in strange if _bare(model, key).partition(".")[0] not in heads]
    if odd:
        foreign = f"its weights {first_of(sorted(odd), 3)} do not fit {name} as its config.json describes it"
        raise UserError(f"{unread}: {foreign}; {remedy}")


def _heads(model: Any) -> frozenset[str]:
    """The modules that transformers' classes of this type, such as its masked language model, add
    to the encoder.
    """
    import torch
    from transformers.models.auto import modeling_auto

    config = copy.deepcopy(model.config)
    classes = set[Any]()
    for name, mapping in vars(modeling_auto).items():
        found = mapping.get(type(config), ()) if name.endswith("_MAPPING") else ()
        classes |= set(found if isinstance(found, tuple) else [found])
    config.num_labels = 2  # some classes for answers to questions take no other
    with torch.device("meta"):
        built = [each(config) for each in classes - {type(model)}]
    names = {name.partition(".")[0] for each in built for name in each.state_dict()}
    return frozenset(
        names - {model.base_model_prefix} - {name.partition(".")[0] for name in model.state_dict()}
    )


def _bare(model: Any, key: str) -> str:
    return key.removeprefix(f"{model.base_model_prefix}.")
