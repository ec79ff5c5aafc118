"""Every file of a model folder: read, known to be without effect on vectors, or a reason to refuse
the folder.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path

from harness.encoders.modules import find_transformer_folder, read_settings
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
    "config.json",
    "tokenizer_config.json",
    "sentence_*_config.json",
    "config_sentence_transformers.json",
    "router_config.json",
    "model.safetensors",
    "model-*-of-*.safetensors",
    "pytorch_model*.bin",
    "model.*.safetensors",
    "tf_model*.h5",
    "flax_model*.msgpack",
    "rust_model.ot",
    "*.onnx",
    "openvino_*",
    "*.gguf",
    "consolidated*",
    "training_args.bin",
    "optimizer*",
    "scheduler*",
    "scaler*",
    "rng_state*",
    "random_states*",
    "mcse.pt",
    "colbert_linear.pt",
    "sparse_linear.pt",
    "model_head.*",
    "config_setfit.json",
    "data_config.json",
    "generation_config.json",
    "*processor_config.json",
    "train*_config.json",
    "ort_config.json",
    "onnx_config.json",
    "open_clip_*",
    "heads.safetensors",
    "wordembedding_config.json",
    "whitespacetokenizer_config.json",
    "phrasetokenizer_config.json",
)
#: names of files that can hold weights, or settings of these
_DATA = (
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
    "*.pkl",
    "*.pickle",
    "*.joblib",
    "*config*.json",
)
#: names of files of which a pointer can take the place
_CONTENTS = (*_DATA, "*.json", "*.txt", "*.model")
#: classes of sentence-transformers whose models give no vector of a sentence
_OTHER_KINDS = ("CrossEncoder", "SparseEncoder", "MultiVectorEncoder", "ColBERT")
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
        for pattern, reason in _REFUSED.items():
            if fnmatch(name, pattern):
                raise UserError(f"{folder} holds {name}, {reason}")

        is_read = name in read or _matches(name, _KNOWN)
        if _matches(name, _DATA) and not is_read:
            raise UserError(
                f"{folder} holds {name}, which is not read and may matter; if it does not, move it elsewhere"
            )
        if _matches(name, _CONTENTS) and _is_pointer(folder / name):
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
    # the trial of the model names a damaged file
    with suppress(UserError):
        settings = read_settings(find_transformer_folder(folder) / "config.json")
        for name in _WIDTHS:
            width = settings.get(name)
            if isinstance(width, int):
                return width
    return 0


def list_remarks(folder: Path) -> list[str]:
    """What a user should know of a model: a head that is left out, and weights that may be of
    another type.
    """
    settings: Mapping[str, object] = {}
    with suppress(UserError):  # the trial of the model names a damaged file
        settings = read_settings(folder / "config.json")
    architectures = settings.get("architectures")
    if not isinstance(architectures, list):
        return []

    kind = str(settings.get("model_type"))
    remarks = []
    for name in map(str, architectures):
        if name.endswith(_CLASSIFIERS):
            remarks.append(f"weights of a classifier ({name}); its head is left out")

        saved_kind = re.split("For|Model$", name)[0].lower()
        kinds = {saved_kind, kind.replace("-", "")}
        # one of the two is BERT, which alone counts positions from 0
        if len(kinds) == 2 and "bert" in kinds and kinds <= _LIKE_BERT:
            remarks.append(
                f"read as model_type = {kind}, and saved as {name}, whose positions are others; correct config.json"
            )
    return remarks


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def _is_pointer(file: Path) -> bool:
    with open_regular(file) as stream:
        return stream.read(len(_POINTER)) == _POINTER


def _refuse_settings(folder: Path) -> None:
    config = read_settings(folder / "config.json")
    for name in ("quantization_config", "compression_config"):
        quantised = config.get(name)
        if quantised:
            method = quantised.get("quant_method") if isinstance(quantised, Mapping) else None
            remark = f" ({method})" if method else ""
            raise UserError(f"{folder} has quantised weights{remark}; {FULL}")

    kind = read_settings(folder / "config_sentence_transformers.json").get("model_type")
    if "sbert_ce_default_activation_function" in config or "sentence_transformers" in config:
        kind = "CrossEncoder"
    if kind in _OTHER_KINDS:
        raise UserError(
            f"{folder} is a {kind}, which gives no vector of a sentence; give a sentence encoder"
        )
