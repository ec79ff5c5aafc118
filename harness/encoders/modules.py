"""Model folders of sentence-transformers: reading and writing the files beside an encoder; no model
is loaded.

`modules.json` names the modules, `sentence_bert_config.json` the longest sequence, `1_Pooling` the
pooling and `2_Dense` a head with its tanh. Types and keys are written under their older names,
which newer versions also accept.

Nothing here imports torch or transformers before it is called: plans read these files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import registry
from harness.encoders.poolings import MODULES, Pooling, get_pooling
from harness.errors import RESTORE, UserError
from harness.files import read_regular, write_text

if TYPE_CHECKING:
    from torch import Tensor

#: modules of these packages come with the libraries; all others are code of the folder or of
#: another package
_LIBRARY = "sentence_transformers."
_ACTIVATIONS = "torch."
_SWITCH = "pooling_mode_"
#: modules that send a text to one of several lists of modules; the second is the older name
_ROUTERS = ("Router", "Asym")


@dataclass(frozen=True)
class ListedModule:
    """A module in a model folder: its class by full name, and its sub-folder, '' for the folder
    itself.
    """

    type: str
    path: str

    @property
    def kind(self) -> str:
        return self.type.rpartition(".")[2]


def list_modules(folder: Path) -> tuple[ListedModule, ...]:
    """Return a folder's modules of sentence-transformers in order, if any. Raises UserError for a
    damaged list.
    """
    file = folder / "modules.json"
    if not file.is_file():
        return ()

    try:
        entries = json.loads(read_regular(file))
        modules = tuple(ListedModule(str(entry["type"]), str(entry["path"])) for entry in entries)
    except (OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise _make_unreadable_error(file, error) from error

    _check_paths(file, modules)
    return modules


def list_all_modules(folder: Path) -> tuple[ListedModule, ...]:
    """Return a folder's listed modules, and those to which a Router among them sends texts.

    Raises UserError for a damaged list.
    """
    modules = list(list_modules(folder))
    for module in modules:  # which grows: a route may begin with a Router
        if module.kind in _ROUTERS:
            modules += _list_routed_modules(folder, module)
    return tuple(modules)


def _list_routed_modules(folder: Path, router: ListedModule) -> list[ListedModule]:
    files = [folder / router.path / name for name in ("router_config.json", "config.json")]
    file = next((file for file in files if file.is_file()), files[0])
    types = read_settings(file).get("types", {})
    if not isinstance(types, dict):
        raise UserError(f"{file} has no table of types; {RESTORE}")

    modules = []
    for name, kind in types.items():
        path = Path(router.path, name)
        if path != Path(router.path):
            modules.append(ListedModule(str(kind), path.as_posix()))
    _check_paths(file, modules)
    return modules


def _check_paths(file: Path, modules: Iterable[ListedModule]) -> None:
    for module in modules:
        if Path(module.path).is_absolute() or ".." in Path(module.path).parts:
            raise UserError(
                f"{file} names the module {module.path} outside the folder; correct its path"
            )


def find_transformer_folder(folder: Path) -> Path:
    """Return the folder of the encoder: the first module's, or the folder itself. Raises UserError
    for no encoder.
    """
    modules = list_modules(folder)
    if modules and modules[0].kind != "Transformer":
        raise UserError(
            f"{folder} is a model of sentence-transformers that begins with {modules[0].kind}, not with an encoder of "
            "transformers; it can be evaluated by its modules (without --pooling), not trained or pooled otherwise"
        )
    return folder / modules[0].path if modules else folder


def list_module_files(folder: Path) -> Iterator[Path]:
    """Yield the files in the sub-folders of a folder's modules, descriptions excepted."""
    paths = {module.path for module in list_all_modules(folder)}
    for path in paths - {"", "."}:
        for file in (folder / path).rglob("*"):
            is_description = file.suffix == ".md" or file.name.startswith(".")
            if not file.is_dir() and not is_description:
                yield file


def refuse_code(folder: Path) -> None:
    """Raise UserError for a module or activation that is code from outside sentence-transformers
    and torch.
    """
    for module in list_all_modules(folder):
        _refuse_code_outside(folder, module.type, _LIBRARY)
        if module.kind == "Dense":
            settings = read_settings(folder / module.path / "config.json")
            activation = str(settings.get("activation_function", _ACTIVATIONS))
            _refuse_code_outside(folder, activation, _ACTIVATIONS)


def _refuse_code_outside(folder: Path, name: str, library: str) -> None:
    if not name.startswith(library):
        raise UserError(
            f"{folder} needs {name}, code from outside sentence-transformers, which is not "
            "executed by default; if you trust it, use `harness eval --trust-remote-code`"
        )


def find_pooling(folder: Path) -> str | None:
    """Return the pooling that a model folder names, None if it names none.

    It is `modules` for a folder of sentence-transformers. Otherwise it is read from
    `1_Pooling/config.json`, else from `pooling` in the front matter of an exported model's card.
    Raises UserError for a damaged list of modules.
    """
    if list_modules(folder):
        return MODULES

    file = folder / "1_Pooling" / "config.json"
    if file.is_file():
        return _match_pooling(read_settings(file))
    return _find_pooling_of_card(folder / "README.md")


def _match_pooling(settings: Any) -> str | None:
    """Find the registered pooling that a pooling file describes; None if there is none, or several
    modes.
    """
    mode = settings.get("pooling_mode")
    if isinstance(mode, str):
        modes = {mode}
    else:
        modes = {
            _get_mode(key)
            for key, value in settings.items()
            if key.startswith(_SWITCH) and value is True
        }

    for name in registry.list_registered("pooling"):
        # a package that fails to load cannot be the one that wrote the folder
        with suppress(UserError):
            pooling = get_pooling(name)
            if pooling.switch and not pooling.head and modes == {_get_mode(pooling.switch)}:
                return name

    return None


def _get_mode(switch: str) -> str:
    """Return the newer name of a pooling switch: 'pooling_mode_mean_tokens' is 'mean'."""
    return switch.removeprefix(_SWITCH).removesuffix("s").removesuffix("_token")


def _find_pooling_of_card(card: Path) -> str | None:
    from huggingface_hub import ModelCard
    from yaml import YAMLError

    if not card.is_file():
        return None

    pooling = None
    with suppress(ValueError, OSError, YAMLError):
        text = card.read_text(encoding="utf-8")
        pooling = ModelCard(text, ignore_metadata_errors=True).data.get("pooling")
    is_token_pooling = pooling in registry.list_registered("pooling") and pooling != MODULES
    return pooling if is_token_pooling else None


def read_settings(file: Path) -> dict[str, Any]:
    """Read a file of settings, {} for a missing one. Raises UserError for a damaged file."""
    if not file.is_file():
        return {}
    try:
        settings: dict[str, Any] = dict(json.loads(read_regular(file)))
    except (OSError, TypeError, ValueError, RecursionError) as error:
        raise _make_unreadable_error(file, error) from error
    return settings


def _make_unreadable_error(file: Path, error: Exception) -> UserError:
    return UserError(f"{file} is not a valid file of a model: {error}; {RESTORE}")


#: switches that are always in the pooling file
_SWITCHES = ("pooling_mode_cls_token", "pooling_mode_mean_tokens")


def write_modules(
    folder: Path, pooling: Pooling, width: int, longest: int, head: Mapping[str, Tensor]
) -> None:
    """Write the files of sentence-transformers beside a saved encoder, unless that library lacks
    the pooling.

    `width` are the encoder's dimensions, `longest` the tokens of its longest sequence. `head` holds
    `weight` (d, d) and `bias` (d,) of the linear layer before a tanh. Raises UserError for a
    pooling that needs a head without one.
    """
    if pooling.switch is None:
        return

    paths = {"Transformer": "", "Pooling": "1_Pooling"}
    if pooling.head:
        paths["Dense"] = "2_Dense"
        _write_dense(folder / paths["Dense"], head)

    switches = dict.fromkeys(_SWITCHES, False) | {pooling.switch: True}
    pooling_settings = {"word_embedding_dimension": width, **switches}
    _write_json(folder / paths["Pooling"] / "config.json", pooling_settings)

    encoder_settings = {"max_seq_length": longest, "do_lower_case": False}
    _write_json(folder / "sentence_bert_config.json", encoder_settings)

    modules = []
    for index, (kind, path) in enumerate(paths.items()):
        type_name = f"sentence_transformers.models.{kind}"
        modules.append({"idx": index, "name": str(index), "path": path, "type": type_name})
    _write_json(folder / "modules.json", modules)


def _write_dense(folder: Path, head: Mapping[str, Tensor]) -> None:
    from safetensors.torch import save_file

    if not head:
        raise UserError(
            "the pooling needs a head, but the architecture of this encoder has none; "
            "use an encoder such as BERT or RoBERTa"
        )

    width_out, width_in = head["weight"].shape
    settings = {
        "in_features": width_in,
        "out_features": width_out,
        "bias": True,
        "activation_function": "torch.nn.modules.activation.Tanh",
    }
    _write_json(folder / "config.json", settings)

    layer = {f"linear.{name}": value.detach().contiguous() for name, value in head.items()}
    save_file(layer, str(folder / "model.safetensors"), metadata={"format": "pt"})


def _write_json(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=2) + "\n")
