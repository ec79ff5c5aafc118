"""Loading profiles: shipped ones by name, others by path."""

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
    """Names of the profiles in this package, sorted."""
    return sorted(Path(item.name).stem for item in files(__package__).iterdir() if item.name.endswith(".toml"))


def load_profile(name: str) -> Profile:
    """Load a shipped profile by name, or a profile file by a path that ends in .toml.

    Raises UserError naming the file, the table and the key of the first mistake, or if a file has the name of a
    shipped profile, whose results could not be told from its own.
    """
    shipped = shipped_profiles()
    if name.endswith(".toml"):
        path = Path(name)
        if path.stem in shipped:
            raise UserError(
                f"the profile {path} has the name of a shipped profile; rename the file, for example to "
                f"my-{path.name}, or use --profile {path.stem}"
            )
        return read_toml(path, "profile", Profile, origin="file")
    if name not in shipped:
        hint = suggest(name, shipped)
        raise UserError(f"unknown profile '{name}'; {hint} (a profile file of your own: --profile ./{name}.toml)")
    return read_toml(Path(str(files(__package__) / f"{name}.toml")), "profile", Profile, origin="package")


def read_toml(path: Path, what: str, model: type[Model], **given: str) -> Model:
    """Read a TOML file into a pydantic model with a `name`, the file's stem, and the `given` fields.

    `what` is what errors call the file. Raises UserError naming file, table and key.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"the {what} {path} cannot be read: {error.strerror}; check the path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"the {what} {path} is not valid TOML: {error}; correct that line") from error
    fixed = {"name": path.stem, **given}
    for key in fixed:
        if key in content:
            raise UserError(f"the {what} {path} sets '{key}', which follows from the file itself; remove the line")
    try:
        return model.model_validate({**content, **fixed})
    except ValidationError as error:
        first = error.errors()[0]
        place = [str(part) for part in first["loc"]]
        table, key = ".".join(place[:-1]) or "top level", place[-1] if place else "the file as a whole"
        message = first["msg"].removeprefix("Value error, ")
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        raise UserError(f"the {what} {path}, table [{table}], key '{key}': {message}{more}") from error
