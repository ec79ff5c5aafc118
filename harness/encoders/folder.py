"""Model folders of sentence-transformers: writing the files beside a saved encoder; `modules.py` reads them.

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

from harness.encoders.poolings import Pooling
from harness.errors import UserError
from harness.files import write_text

#: switches that are always in the pooling file
_SWITCHES = ("pooling_mode_cls_token", "pooling_mode_mean_tokens")


def write_modules(folder: Path, pooling: Pooling, width: int, longest: int, head: Mapping[str, Tensor]) -> None:
    """Write the files beside a saved encoder; nothing for a pooling that sentence-transformers does not have.

    `width` are the encoder's dimensions, `longest` the tokens of its longest sequence. `head` holds `weight` (d, d)
    and `bias` (d,) of the linear layer before a tanh. Raises UserError for a pooling that needs a head without one.
    """
    if pooling.switch is None:
        return
    paths = {"Transformer": "", "Pooling": "1_Pooling"} | ({"Dense": "2_Dense"} if pooling.head else {})
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for index, (kind, path) in enumerate(paths.items())
    ]
    switches = dict.fromkeys(_SWITCHES, False) | {pooling.switch: True}
    if pooling.head:
        _write_dense(folder / paths["Dense"], head)
    _write(folder / paths["Pooling"] / "config.json", {"word_embedding_dimension": width, **switches})
    _write(folder / "sentence_bert_config.json", {"max_seq_length": longest, "do_lower_case": False})
    _write(folder / "modules.json", modules)


def _write_dense(folder: Path, head: Mapping[str, Tensor]) -> None:
    if not head:
        raise UserError(
            "the pooling needs a head, but the architecture of this encoder has none; "
            "use an encoder such as BERT or RoBERTa"
        )
    width_out, width_in = head["weight"].shape
    shape = {"in_features": width_in, "out_features": width_out, "bias": True}
    _write(folder / "config.json", {**shape, "activation_function": "torch.nn.modules.activation.Tanh"})
    layer = {f"linear.{name}": value.detach().contiguous() for name, value in head.items()}
    save_file(layer, str(folder / "model.safetensors"), metadata={"format": "pt"})


def _write(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=2) + "\n")
