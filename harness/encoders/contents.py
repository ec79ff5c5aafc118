"""Every file of a model folder: read, known to be without effect on vectors, or a reason to refuse
the folder.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path

from harness.encoders.modules import read_settings, transformer_folder
from harness.errors import RESTORE, UserError
from harness.files import open_regular

_ADAPTER = (
    "an adapter, which is not applied; merge it into the weights (`merge_and_unload` of peft)"
)
#: names of the width of states in configurations
_WIDTHS = ("hidden_size", "dim", "d_model", "n_embd")
FULL = "give the model's original weights, in float32, float16 or bfloat16"
#: what changes vectors and is not read: what it is, and the remedy
_REFUSED = {
    **dict.fromkeys(("adapter_config.json", "adapter_model.*", "pytorch_adapter.bin"), _ADAPTER),
    "*quant*.json": f"the settings of quantised weights, which are not computed with; {FULL}",
}
#: what the libraries read, and the formats, states of training, heads and settings without effect
#: on vectors
_KNOWN = (
    *(
        "config.json",
        "tokenizer_config.json",
        "sentence_*_config.json",
        "config_sentence_transformers.json",
    ),
    *("router_config.json", "model.safetensors", "model-*-of-*.safetensors", "pytorch_model*.bin"),
    *(
        "model.*.safetensors",
        "tf_model*.h5",
        "flax_model*.msgpack",
        "rust_model.ot",
        "*.onnx",
        "openvino_*",
        "*.gguf",
    ),
    *(
        "consolidated*",
        "training_args.bin",
        "optimizer*",
        "scheduler*",
        "scaler*",
        "rng_state*",
        "random_states*",
    ),
    *(
        "mcse.pt",
        "colbert_linear.pt",
        "sparse_linear.pt",
        "model_head.*",
        "config_setfit.json",
        "data_config.json",
    ),
    *(
        "generation_config.json",
        "*processor_config.json",
        "train*_config.json",
        "ort_config.json",
        "onnx_config.json",
    ),
    *("open_clip_*", "heads.safetensors", "wordembedding_config.json"),
    *("whitespacetokenizer_config.json", "phrasetokenizer_config.json"),
)
#: names of files that can hold weights, or settings of these
_DATA = (
    *(
        "*.safetensors",
        "*.bin",
        "*.pt",
        "*.pth",
        "*.ckpt",
        "*.npy",
        "*.npz",
        "*.h5",
        "*.hdf5",
        "*.msgpack",
    ),
    *("*.pkl", "*.pickle", "*.joblib", "*config*.json"),
)
#: classes of sentence-transformers whose models give no vector of a sentence
_OTHERS = ("CrossEncoder", "SparseEncoder", "MultiVectorEncoder", "ColBERT")
#: ends of the names of transformers' models whose head gives no vector of a sentence
_CLASSIFIERS = (
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMultipleChoice",
)
#: types whose weights have BERT's names; all but BERT count positions from the pad token's id
_LIKE_BERT = {"bert", "roberta", "xlmroberta", "camembert"}
_POINTER = b"version https://git-lfs"


def account_for(folder: Path, read: Collection[str] = ()) -> None:
    """Raise UserError for a folder with a file that may change vectors and is not read, and for
    another kind of model.

    `read` names files of weights. Sub-folders are not read unless `modules.json` lists them.
    """
    for name in sorted(path.name for path in folder.glob("*") if not path.is_dir()):
        for pattern, what in _REFUSED.items():
            if fnmatch(name, pattern):
                raise UserError(f"{folder} holds {name}, {what}")
        if _is(name, _DATA) and not _is(name, _KNOWN) and name not in read:
            raise UserError(
                f"{folder} holds {name}, which is not read and may matter; if it does not, move it elsewhere"
            )
        if _is(name, (*_DATA, "*.json", "*.txt", "*.model")):
            with open_regular(folder / name) as stream:
                if stream.read(len(_POINTER)) == _POINTER:
                    raise UserError(
                        f"{folder / name} is a pointer of Git LFS, not the file; run `git lfs pull` there"
                    )
    if not (folder / "modules.json").is_file() and any(folder.glob("[0-9]_Dense/")):
        raise UserError(
            f"{folder} has a layer in 2_Dense and no modules.json that says how it is used; {RESTORE}"
        )
    _refuse_settings(folder)


def read_width(folder: Path) -> int:
    """The width of an encoder's vectors by its config.json; 0 if that does not say."""
    settings: Mapping[str, object] = {}
    with suppress(UserError):  # the trial of the model names a damaged file
        settings = read_settings(transformer_folder(folder) / "config.json")
    widths = [settings[name] for name in _WIDTHS if isinstance(settings.get(name), int)]
    return int(str(widths[0])) if widths else 0


def remarks_on(folder: Path) -> list[str]:
    """What a user should know of a model: a head that is left out, and weights that may be of
    another type.
    """
    settings: Mapping[str, object] = {}
    with suppress(UserError):  # the trial of the model names a damaged file
        settings = read_settings(folder / "config.json")
    listed = settings.get("architectures")
    kind = settings.get("model_type")
    lines = []
    for name in map(str, listed if isinstance(listed, list) else []):
        made = re.split("For|Model$", name)[0].lower()
        if name.endswith(_CLASSIFIERS):
            lines.append(f"weights of a classifier ({name}); its head is left out")
        if (
            {made, str(kind).replace("-", "")} < _LIKE_BERT
            and "bert" in (made, kind)
            and made != kind
        ):
            lines.append(
                f"read as model_type = {kind}, and saved as {name}, whose positions are others; correct config.json"
            )
    return lines


def _is(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def _refuse_settings(folder: Path) -> None:
    config, library = (
        read_settings(folder / name)
        for name in ("config.json", "config_sentence_transformers.json")
    )
    if quantised := config.get("quantization_config") or config.get("compression_config"):
        how = quantised.get("quant_method", "") if isinstance(quantised, Mapping) else ""
        raise UserError(f"{folder} has quantised weights{f' ({how})' if how else ''}; {FULL}")
    crossed = "sbert_ce_default_activation_function" in config or "sentence_transformers" in config
    kind = "CrossEncoder" if crossed else library.get("model_type")
    if kind in _OTHERS:
        raise UserError(
            f"{folder} is a {kind}, which gives no vector of a sentence; give a sentence encoder"
        )
