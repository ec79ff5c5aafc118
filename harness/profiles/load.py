"""Reading profiles: the shipped ones by name, a user's own by path."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from harness.errors import UserError
from harness.profiles.schema import Profile
from harness.registry import suggest

Model = TypeVar("Model", bound=BaseModel)


def shipped_profiles() -> list[str]:
    """Names of the profiles inside the package, sorted."""
    return sorted(Path(item.name).stem for item in files(__package__).iterdir() if item.name.endswith(".toml"))


def load_profile(name: str) -> Profile:
    """Read a shipped profile by name, or the file at a path that ends in .toml.

    Raises UserError naming the file, the table and the key of whatever is wrong.
    """
    if name.endswith(".toml"):
        return read_profile(Path(name))
    if name not in shipped_profiles():
        hint = suggest(name, shipped_profiles())
        raise UserError(f"unknown profile '{name}'; {hint} (a profile of your own: --profile ./{name}.toml)")
    return read_profile(Path(str(files(__package__) / f"{name}.toml")))


def read_profile(path: Path) -> Profile:
    """Read and check one profile file."""
    return read_toml(path, "profile", Profile)


def read_toml(path: Path, what: str, model: type[Model]) -> Model:
    """Read a TOML file into a pydantic model that has a `name`, which is the file's stem.

    `what` is what the file is called in errors. Raises UserError naming file, table and key.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"the {what} {path} cannot be read: {error.strerror}; check the path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"the {what} {path} is not valid TOML: {error}; mend that line") from error
    if "name" in content:
        raise UserError(f"the {what} {path} sets 'name'; remove it, the file's own name serves")
    try:
        return model.model_validate({**content, "name": path.stem})
    except ValidationError as error:
        first = error.errors()[0]
        place = [str(part) for part in first["loc"]]
        table, key = ".".join(place[:-1]) or "top level", place[-1] if place else "the file as a whole"
        message = first["msg"].removeprefix("Value error, ")
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        raise UserError(f"the {what} {path}, table [{table}], key '{key}': {message}{more}") from error
