"""Profiles: TOML files that define corpora, encoders, hyperparameters and suites, and can extend
other profiles.

The tables of a file are merged by key into those of the file that it extends; rules are appended,
so that later ones win; other values are replaced. A path that begins with './', '../' or '~/' is
relative to the folder of its file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from harness.errors import UserError
from harness.files import expand
from harness.profiles.schema import Profile, Rule, Training
from harness.registry import suggest
from harness.tomlfiles import read_content, validate_content

__all__ = ["Profile", "Rule", "Training", "load_profile", "shipped_profiles"]

_RULES = "hyperparameters"
#: keys that are derived from the file
_GIVEN = ("name", "origin")
#: tables with texts that may be paths, and the keys in them that are prose instead
_WITH_PATHS = ("corpora", "tasks", "encoders", "teachers", "patches", "released", "suites")
_PROSE = ("how", "source")
#: key -> keys of an extended file that it replaces, since both together would be refused or one
#: ignored
_PLACE_OF_A_MODEL = ("hub", "revision", "folder", "registered", "about")
_INSTEAD = {
    "epochs": ("steps",),
    "file": ("train", "dev", "test"),
    "train": ("file",),
    **dict.fromkeys(("hub", "folder", "registered"), _PLACE_OF_A_MODEL),
}


class Layer(NamedTuple):
    """The tables of one file."""

    path: Path
    content: Mapping[str, Any]


@cache
def shipped_profiles() -> Sequence[str]:
    """Names of the profiles in this package, sorted."""
    names = (item.name for item in files(__package__).iterdir())
    return sorted(Path(name).stem for name in names if name.endswith(".toml"))


def load_profile(name: str) -> Profile:
    """Load a shipped profile by name, or a profile file by a path that ends in .toml, with what it
    extends.

    Any other NAME means NAME.toml in the working folder, since results and commands name profiles
    without the suffix. Raises UserError naming the file, the table and the key of the first
    mistake, or if a file has the name of a shipped profile, since results would then name the wrong
    one.
    """
    shipped = shipped_profiles()
    if name in shipped:
        return _load_shipped(name)

    if not name.endswith(".toml") and Path(f"{name}.toml").is_file():
        name = f"{name}.toml"
    if not name.endswith(".toml"):
        advice = f"a file of your own: --profile ./{name}.toml"
        if "/" in name:
            advice = "give a file that ends in .toml"
        raise UserError(f"unknown profile '{name}'; {suggest(name, shipped)} ({advice})")
    return _validate_layers(_read_layers(Path(name), is_own=True), origin="file")


@cache
def _load_shipped(name: str) -> Profile:
    return _validate_layers(_read_layers(_find_shipped(name), is_own=False), origin="package")


def _validate_layers(layers: list[Layer], origin: str) -> Profile:
    """The profile of a file and of those that it extends, which is the last of the layers."""
    find_place = partial(_find_place, layers)
    name = layers[-1].path.stem
    merged = _merge_layers(layers)
    return validate_content(merged, "profile", Profile, find_place, name=name, origin=origin)


def _read_layers(path: Path, *, is_own: bool) -> list[Layer]:
    """A file, a user's own or a shipped one, and all files that it extends, the innermost base
    first.

    Raises UserError for a file that cannot be read or extends itself, and a user's with the name of
    a shipped profile.
    """
    layers: list[Layer] = []
    while True:
        if is_own:
            _check_name(path)
        content = read_content(path, "profile", _GIVEN if is_own else ())
        training = content.get("training")
        if isinstance(training, dict) and {"steps", "epochs"} <= training.keys():
            raise UserError(
                f"the profile {path}, table [training]: steps replace epochs; give one of them"
            )
        if path.resolve() in [layer.path.resolve() for layer in layers]:
            raise UserError(
                f"the profile {layers[-1].path} extends itself, through {path}; remove one 'extends'"
            )

        resolved = _resolve_paths(content, path.parent) if is_own else content
        layers.insert(0, Layer(path, resolved))
        if "extends" not in content:
            return layers
        path, is_own = _find_parent(path, content["extends"])


def _find_parent(path: Path, parent: Any) -> tuple[Path, bool]:
    """The file that a profile extends, and whether it is a user's own. Raises UserError."""
    if not isinstance(parent, str) or not parent.isprintable():
        raise UserError(
            f"the profile {path}, key 'extends': it must be the name of a profile or a path"
        )
    if parent.endswith(".toml"):
        return path.parent / expand(parent), True
    if parent not in shipped_profiles():
        hint = suggest(parent, shipped_profiles())
        raise UserError(
            f"the profile {path}, key 'extends': no profile '{parent}' is shipped; {hint} (a file of your own: a path "
            "that ends in .toml)"
        )
    return _find_shipped(parent), False


def _merge_layers(layers: Sequence[Layer]) -> dict[str, Any]:
    """Merge the tables of all layers, as if they were in one file."""
    merged: dict[str, Any] = {}
    for layer in layers:
        rules = [*_list_rules(merged), *_list_rules(layer.content)]
        merged = {**_merge_sections(merged, layer.content), _RULES: rules}
    return merged


def _find_place(
    layers: Sequence[Layer], keys: Sequence[str | int]
) -> tuple[Path, Sequence[str | int]]:
    """The last file that sets a place of the merged tables, and that place within the file."""
    if len(keys) > 1 and keys[0] == _RULES and isinstance(keys[1], int):
        number = keys[1]
        for layer in layers:
            rules = _list_rules(layer.content)
            if number < len(rules):
                return layer.path, [_RULES, number, *keys[2:]]
            number -= len(rules)

    for layer in reversed(layers):
        if _has(layer.content, keys):
            return layer.path, keys
    return layers[-1].path, keys


def _check_name(path: Path) -> None:
    """Raise UserError for a file named like a shipped profile, since results name their profile."""
    if path.stem in shipped_profiles():
        raise UserError(
            f"the profile {path} has the name of a shipped profile; rename the file, for example to "
            f"my-{path.name}, or use --profile {path.stem}"
        )


def _find_shipped(name: str) -> Path:
    return Path(str(files(__package__) / f"{name}.toml"))


def _list_rules(content: Mapping[str, Any]) -> list[Any]:
    """The rules of a file; anything but a list is kept as a rule, so that validation refuses it."""
    rules = content.get(_RULES, [])
    return rules if isinstance(rules, list) else [rules]


def _merge_sections(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge tables by key; values, and tables of another kind, are replaced."""
    replaced = set[str]()
    for name in above:
        replaced.update(_INSTEAD.get(name, ()))
    replaced -= above.keys()

    merged = {key: value for key, value in below.items() if key not in replaced}
    for key, value in above.items():
        old_value = merged.get(key)
        if isinstance(old_value, dict) and _is_same_kind(old_value, value):
            merged[key] = _merge_sections(old_value, value)
        else:
            merged[key] = value
    return merged


def _is_same_kind(below: Mapping[str, Any], above: Any) -> bool:
    return isinstance(above, dict) and above.get("kind", below.get("kind")) == below.get("kind")


def _resolve_paths(content: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The tables of a file with its relative paths made absolute."""
    folder = expand(folder).resolve()
    return {
        name: _resolve_value(value, folder) if name in _WITH_PATHS else value
        for name, value in content.items()
    }


def _resolve_value(value: Any, folder: Path) -> Any:
    """A value with its relative paths made absolute."""
    if isinstance(value, dict):
        return {
            key: item if key in _PROSE else _resolve_value(item, folder)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_resolve_value(item, folder) for item in value]
    if isinstance(value, str) and value.startswith(("./", "../", "~/")):
        return str((folder / expand(value)).resolve())
    return value


def _has(content: Any, keys: Sequence[str | int]) -> bool:
    """Whether nested sections and lists have a value at this place."""
    for part in keys:
        is_key = isinstance(content, Mapping) and part in content
        is_index = isinstance(content, list) and isinstance(part, int) and part < len(content)
        if not (is_key or is_index):
            return False
        content = content[part]
    return True
