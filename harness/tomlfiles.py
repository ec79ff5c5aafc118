"""Reading TOML files into pydantic models, and checking values as arguments of classes, with one-line errors."""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, ValidationInfo, field_validator
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from harness.errors import UserError

Name = Annotated[str, Field(min_length=1)]
#: a commit of the hub
Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
Model = TypeVar("Model", bound=BaseModel)
#: maximum bytes of a file, and parts of a key, that are read, since parsing time grows with their square
LARGEST, LONGEST_KEY = 10**6, 32
#: pydantic's error types -> messages in terms of the file
_MESSAGES = {
    "extra_forbidden": "there is no such key",
    "dict_type": "it should be a table, with a name and a table for each entry",
    "model_type": "it should be a table",
    "missing": "it is missing",
}
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_STRICT = ConfigDict(strict=True, allow_inf_nan=False)
_LONG_KEY = re.compile(rf"(?<![\w-])(?:{_PART}[ \t]*+\.[ \t]*+){{{LONGEST_KEY}}}")


class Table(BaseModel):
    """A table of a file; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    @field_validator("*", mode="before")
    @classmethod
    def _true_is_no_number(cls, value: object, info: ValidationInfo) -> object:
        is_switch = cls.model_fields[str(info.field_name)].annotation is bool
        if isinstance(value, bool) and not is_switch:
            raise ValueError("true and false are not a number or name")
        if is_switch and type(value) in (int, float):
            raise ValueError("it must be true or false")
        return value


#: the location of a mistake: a file, and the keys in it
Blame = Callable[[Sequence[str | int]], tuple[Path, Sequence[str | int]]]


def read_toml(path: Path, what: str, model: type[Model], **given: str) -> Model:
    """Read a TOML file into a pydantic model with a `name`, the file's stem, and the `given` fields.

    `what` is what errors call the file. Raises UserError naming file, table and key.
    """
    given = {"name": path.stem, **given}
    return validated(toml_content(path, what, given), what, model, lambda key: (path, key), **given)


def toml_content(path: Path, what: str, given: Collection[str] = ()) -> dict[str, Any]:
    """Read the tables of a file. Raises UserError, also if the file sets one of the `given` keys."""
    try:
        content = tomllib.loads(_text(path, what))
    except OSError as error:
        raise UserError(f"the {what} {path} cannot be read: {error.strerror}; check the path") from error
    except RecursionError as error:
        raise UserError(f"the {what} {path} is nested too deeply to be read; remove brackets") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"the {what} {path} is not valid TOML: {error}; correct that line") from error
    for key in content.keys() & set(given):
        raise UserError(f"the {what} {path} sets '{key}', which follows from the file itself; remove the line")
    return content


def validated(content: Mapping[str, Any], what: str, model: type[Model], blame: Blame, **given: str) -> Model:
    """Build the model from tables and `given` fields. Raises UserError at the location that `blame` finds."""
    try:
        return model.model_validate({**content, **given})
    except ValidationError as error:
        # an unknown key often explains why another is missing
        first = min(error.errors(), key=lambda problem: problem["type"] != "extra_forbidden")
        path, parts = blame(_there(content, first["loc"]))
        keys = [str(part) for part in parts]
        table, key = ".".join(keys[:-1]) or "top level", keys[-1] if keys else "the file as a whole"
        message = _MESSAGES.get(first["type"], first["msg"].removeprefix("Value error, "))
        if first["type"] == "extra_forbidden" and len(keys) == 1:
            near = get_close_matches(key, model.model_fields, 1)
            message += f"; did you mean {near[0]}?" if near else f"; it has {', '.join(model.model_fields)}"
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        raise UserError(f"the {what} {path}, table [{table}], key '{key}': {message}{more}") from error


def _there(content: Any, keys: Sequence[str | int]) -> list[str | int]:
    """A location from pydantic, without the names of tried alternatives, which are not keys of the file."""
    present: list[str | int] = []
    for number, part in enumerate(keys):
        if isinstance(content, Mapping) and part not in content and number < len(keys) - 1:
            continue
        present.append(part)
        inside = isinstance(content, Mapping) or (isinstance(content, list) and isinstance(part, int))
        content = content[part] if inside and (not isinstance(content, Mapping) or part in content) else None
    return present


def _text(path: Path, what: str) -> str:
    """Read the text of a file. Raises OSError, UnicodeDecodeError, and UserError if a file or a key is too long."""
    with path.open("rb") as stream:
        content = stream.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise UserError(f"the {what} {path} has more than {LARGEST / 1e6:.0f} MB; is it the right file?")
    text = content.decode("utf-8")
    if long := _LONG_KEY.search(text):
        line = text.count("\n", 0, long.start()) + 1
        raise UserError(
            f"the {what} {path}, line {line}, has a key of more than {LONGEST_KEY} parts; correct that line"
        )
    return text


def check_keywords(kind: type, values: Mapping[str, object], where: str) -> None:
    """Refuse a value of another type than `kind` declares for it, and a number that is not finite.

    Arguments without a declared type are not checked. `where` is the table in messages. Raises UserError.
    """
    known = _declared(kind)
    for name, value in values.items():
        if name not in known:
            continue
        try:
            # checked as JSON, so that a list can be any sequence type, and true is not a number
            known[name].validate_json(json.dumps(value))
        except ValidationError as error:
            first = error.errors()[0]
            raise UserError(f"{where}, key '{name}': {_MESSAGES.get(first['type'], first['msg'])}") from error
        except TypeError as error:
            raise UserError(f"{where}, key '{name}': a date is not allowed; write a text or a number") from error


@cache
def _declared(kind: type) -> dict[str, TypeAdapter[Any]]:
    """A validator for each argument of a class whose type can be checked."""
    try:
        arguments = inspect.signature(kind, eval_str=True).parameters
    except (NameError, TypeError, ValueError):  # a name that exists only for type checkers
        return {}
    adapters: dict[str, TypeAdapter[Any]] = {}
    for name, argument in arguments.items():
        try:
            adapters[name] = TypeAdapter(argument.annotation, config=_STRICT)
        except (PydanticSchemaGenerationError, PydanticUserError):  # a class of another package
            continue
    return adapters
