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
from harness.encoders.poolings import MODULES, Pooling, pooling_named
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


def listed_modules(folder: Path) -> tuple[ListedModule, ...]:
    """Return a folder's modules of sentence-transformers in order, if any. Raises UserError for a
    damaged list.
    """
    file = folder / "modules.json"
    if not file.is_file():
        return ()
    try:
        modules = tuple(
            ListedModule(str(each["type"]), str(each["path"]))
            for each in json.loads(read_regular(file))
        )
    except (OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise _unreadable(file, error) from error
    _check_paths(file, modules)
    return modules


def all_modules(folder: Path) -> tuple[ListedModule, ...]:
    """Return a folder's listed modules, and those to which a Router among them sends texts.

    Raises UserError for a damaged list.
    """
    modules = list(listed_modules(folder))
    for module in modules:  # which grows: a route may begin with a Router
        if module.kind in _ROUTERS:
            modules += _routed_modules(folder, module)
    return tuple(modules)


def _routed_modules(folder: Path, router: ListedModule) -> list[ListedModule]:
    place = folder / router.path
    files = [place / name for name in ("router_config.json", "config.json")]
    file = next((file for file in files if file.is_file()), files[0])
    types = read_settings(file).get("types", {})
    if not isinstance(types, dict):
        raise UserError(f"{file} has no table of types; {RESTORE}")
    modules = [
        ListedModule(str(kind), Path(router.path, name).as_posix()) for name, kind in types.items()
    ]
    _check_paths(file, modules)
    return [module for module in modules if Path(module.path) != Path(router.path)]


def _check_paths(file: Path, modules: Iterable[ListedModule]) -> None:
    for module in modules:
        if Path(module.path).is_absolute() or ".." in Path(module.path).parts:
            raise UserError(
                f"{file} names the module {module.path} outside the folder; correct its path"
            )


def transformer_folder(folder: Path) -> Path:
    """Return the folder of the encoder: the first module's, or the folder itself. Raises UserError
    for no encoder.
    """
    modules = listed_modules(folder)
    if modules and modules[0].kind != "Transformer":
        raise UserError(
            f"{folder} is a model of sentence-transformers that begins with {modules[0].kind}, not with an encoder of "
            "transformers; it can be evaluated by its modules (without --pooling), not trained or pooled otherwise"
        )
    return folder / modules[0].path if modules else folder


def module_files(folder: Path) -> Iterator[Path]:
    """Yield the files in the sub-folders of a folder's modules, descriptions excepted."""
    for path in {module.path for module in all_modules(folder)} - {"", "."}:
        for file in (folder / path).rglob("*"):
            if not file.is_dir() and file.suffix != ".md" and not file.name.startswith("."):
                yield file


def refuse_code(folder: Path) -> None:
    """Raise UserError for a module or activation that is code from outside sentence-transformers
    and torch.
    """
    for module in all_modules(folder):
        settings = (
            read_settings(folder / module.path / "config.json") if module.kind == "Dense" else {}
        )
        activation = str(settings.get("activation_function", _ACTIVATIONS))
        for name, library in ((module.type, _LIBRARY), (activation, _ACTIVATIONS)):
            if not name.startswith(library):
                raise UserError(
                    f"{folder} needs {name}, code from outside sentence-transformers, which is not executed by "
                    "default; if you trust it, use `harness eval --trust-remote-code`"
                )


def declared_pooling(folder: Path) -> str | None:
    """Return the pooling that a model folder names, None if it names none.

    It is `modules` for a folder of sentence-transformers. Otherwise it is read from
    `1_Pooling/config.json`, else from `pooling` in the front matter of an exported model's card.
    Raises UserError for a damaged list of modules.
    """
    if listed_modules(folder):
        return MODULES
    file = folder / "1_Pooling" / "config.json"
    return _pooling_of(read_settings(file)) if file.is_file() else _of_card(folder / "README.md")


def _pooling_of(settings: Any) -> str | None:
    """Find the registered pooling that a pooling file describes; None if there is none, or several
    modes.
    """
    named = settings.get("pooling_mode")
    switches = {
        key.removeprefix(_SWITCH)
        for key, on in settings.items()
        if key.startswith(_SWITCH) and on is True
    }
    modes = {named} if isinstance(named, str) else {_mode(switch) for switch in switches}
    for name in registry.names("pooling"):
        with suppress(
            UserError
        ):  # a package that fails to load cannot be the one that wrote the folder
            pooling = pooling_named(name)
            if (
                pooling.switch
                and not pooling.head
                and {_mode(pooling.switch.removeprefix(_SWITCH))} == modes
            ):
                return name
    return None


def _mode(switch: str) -> str:
    """Return the newer name of a pooling switch: 'mean_tokens' is 'mean'."""
    return switch.removesuffix("s").removesuffix("_token")


def _of_card(card: Path) -> str | None:
    from huggingface_hub import ModelCard
    from yaml import YAMLError

    if not card.is_file():
        return None
    with suppress(ValueError, OSError, YAMLError):
        named = ModelCard(card.read_text(encoding="utf-8"), ignore_metadata_errors=True).data.get(
            "pooling"
        )
        return named if named in registry.names("pooling") and named != MODULES else None
    return None


def read_settings(file: Path) -> dict[str, Any]:
    """Read a file of settings, {} for a missing one. Raises UserError for a damaged file."""
    try:
        settings: dict[str, Any] = dict(json.loads(read_regular(file))) if file.is_file() else {}
    except (OSError, TypeError, ValueError, RecursionError) as error:
        raise _unreadable(file, error) from error
    return settings


def _unreadable(file: Path, error: Exception) -> UserError:
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
    paths = {"Transformer": "", "Pooling": "1_Pooling"} | (
        {"Dense": "2_Dense"} if pooling.head else {}
    )
    modules = [
        {
            "idx": index,
            "name": str(index),
            "path": path,
            "type": f"sentence_transformers.models.{kind}",
        }
        for index, (kind, path) in enumerate(paths.items())
    ]
    switches = dict.fromkeys(_SWITCHES, False) | {pooling.switch: True}
    if pooling.head:
        _write_dense(folder / paths["Dense"], head)
    _write(
        folder / paths["Pooling"] / "config.json", {"word_embedding_dimension": width, **switches}
    )
    _write(
        folder / "sentence_bert_config.json", {"max_seq_length": longest, "do_lower_case": False}
    )
    _write(folder / "modules.json", modules)


def _write_dense(folder: Path, head: Mapping[str, Tensor]) -> None:
    from safetensors.torch import save_file

    if not head:
        raise UserError(
            "the pooling needs a head, but the architecture of this encoder has none; "
            "use an encoder such as BERT or RoBERTa"
        )
    width_out, width_in = head["weight"].shape
    shape = {"in_features": width_in, "out_features": width_out, "bias": True}
    _write(
        folder / "config.json", {**shape, "activation_function": "torch.nn.modules.activation.Tanh"}
    )
    layer = {f"linear.{name}": value.detach().contiguous() for name, value in head.items()}
    save_file(layer, str(folder / "model.safetensors"), metadata={"format": "pt"})


def _write(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=2) + "\n")
