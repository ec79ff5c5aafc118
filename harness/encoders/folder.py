"""The files by which sentence-transformers reads a model folder of transformers with the right pooling.

`modules.json` names the modules, `sentence_bert_config.json` the longest sequence, `1_Pooling` the pooling and
`2_Dense` a head with its tanh. Types and keys have their older names, which newer versions read as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from harness.errors import UserError
from harness.sources import write_text

#: pooling here -> the switch of sentence-transformers; 'avg-first-last' is no module of that library
_SWITCHES = {
    "cls": "pooling_mode_cls_token",
    "pooler": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
}
#: pooling as sentence-transformers declares it, in its older and its newer form -> pooling here
_DECLARED = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean", "cls": "cls", "mean": "mean"}


def has_modules(pooling: str) -> bool:
    """Whether sentence-transformers has modules that read a student by this pooling."""
    return pooling in _SWITCHES


def read_modules(folder: Path) -> tuple[Path, str | None]:
    """The encoder's folder inside a sentence-transformers folder, and its pooling; (folder, None) for any other.

    Raises UserError for a pooling or a module that is not supported here.
    """
    listed = folder / "modules.json"
    if not listed.is_file():
        return folder, None
    try:
        modules = {
            module["type"].rpartition(".")[2]: folder / module["path"] for module in json.loads(listed.read_text())
        }
        settings = json.loads((modules["Pooling"] / "config.json").read_text())
    except (OSError, KeyError, ValueError) as error:
        raise UserError(f"{listed} cannot be read as sentence-transformers writes it: {error}") from error
    older = [key for key, on in settings.items() if on is True and key.startswith("pooling_mode_")]
    chosen = [settings["pooling_mode"]] if "pooling_mode" in settings else older
    unknown = sorted(set(modules) - {"Transformer", "Pooling", "Normalize", "Dense"})
    if len(chosen) != 1 or chosen[0] not in _DECLARED or unknown:
        what = ", ".join(unknown) or ", ".join(map(str, chosen))
        raise UserError(f"{folder} has an unsupported module or pooling: {what}; give --pooling and a plain folder")
    return modules["Transformer"], "pooler" if "Dense" in modules else _DECLARED[chosen[0]]


def write_modules(folder: Path, pooling: str, width: int, longest: int, head: Mapping[str, Tensor]) -> None:
    """Write the files beside a saved encoder; nothing where sentence-transformers lacks the pooling.

    `width` are the encoder's dimensions, `longest` the tokens of its longest sequence. `head` holds `weight` (d, d)
    and `bias` (d,) of the linear layer that [CLS] passes before a tanh; only the pooling 'pooler' reads it. Raises
    UserError where that pooling has no head.
    """
    if not has_modules(pooling):
        return
    kinds = {"Transformer": "", "Pooling": "1_Pooling"}
    _write(folder / "sentence_bert_config.json", {"max_seq_length": longest, "do_lower_case": False})
    switches = dict.fromkeys(sorted(set(_SWITCHES.values())), False) | {_SWITCHES[pooling]: True}
    _write(folder / kinds["Pooling"] / "config.json", {"word_embedding_dimension": width, **switches})
    if pooling == "pooler":
        kinds["Dense"] = "2_Dense"
        _write_dense(folder / kinds["Dense"], head)
    _write(
        folder / "modules.json",
        [
            {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for index, (kind, path) in enumerate(kinds.items())
        ],
    )


def _write_dense(folder: Path, head: Mapping[str, Tensor]) -> None:
    if not head:
        raise UserError(
            "sentences are read through a head, and the encoder has none to save: its architecture has no pooler; "
            "name an encoder such as BERT or RoBERTa"
        )
    width_out, width_in = head["weight"].shape
    activation = "torch.nn.modules.activation.Tanh"
    shape = {"in_features": width_in, "out_features": width_out, "bias": True, "activation_function": activation}
    _write(folder / "config.json", shape)
    layer = {f"linear.{name}": value.detach().contiguous() for name, value in head.items()}
    save_file(layer, str(folder / "model.safetensors"), metadata={"format": "pt"})


def _write(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=2) + "\n")
