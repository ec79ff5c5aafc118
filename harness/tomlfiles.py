"""Reading TOML files into pydantic models, and checking values as arguments of classes, with
one-line errors.
"""

from __future__ import annotations

import inspect
import json
import reprlib
import sys
import tomllib
from collections import ChainMap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import is_dataclass
from functools import cache, wraps
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar, get_args, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    InstanceOf,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from harness.errors import UserError, describe_problems
from harness.formatting import one_line
from harness.registry import suggest

Name = Annotated[str, Field(min_length=1)]
#: a commit of the hub
Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
Model = TypeVar("Model", bound=BaseModel)
P = ParamSpec("P")
T = TypeVar("T")
_STRICT = ConfigDict(strict=True, allow_inf_nan=False)


class Table(BaseModel):
    """A table of a file; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    @field_validator("*", mode="before")
    @classmethod
    def _check_truth_values(cls, value: object, info: ValidationInfo) -> object:
        annotation = cls.model_fields[str(info.field_name)].annotation
        is_switch = annotation is bool or bool in get_args(annotation)
        if isinstance(value, bool) and not is_switch:
            raise ValueError("true and false are not a number or name")
        if is_switch and type(value) in (int, float):
            raise ValueError("it must be true or false")
        return value


#: the location of a mistake: a file, and the keys in it
Blame = Callable[[Sequence[str | int]], tuple[Path, Sequence[str | int]]]


def read_toml(path: Path, what: str, model: type[Model], **given: str) -> Model:
    """Read a TOML file into a pydantic model with a `name`, the file's stem, and the `given`
    fields.

    `what` is what errors call the file. Raises UserError naming file, table and key.
    """
    given = {"name": path.stem, **given}
    return validate_content(
        read_content(path, what, given), what, model, lambda key: (path, key), **given
    )


def read_content(path: Path, what: str, given: Collection[str] = ()) -> dict[str, Any]:
    """Read the tables of a file. Raises UserError, also if the file sets one of the `given` keys."""
    try:
        content = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise UserError(
            f"the {what} {path} cannot be read: {error.strerror}; check the path"
        ) from error
    except RecursionError as error:
        raise UserError(
            f"the {what} {path} is nested too deeply to be read; remove brackets"
        ) from error
    except UnicodeDecodeError as error:
        raise UserError(
            f"the {what} {path} is not UTF-8 text: {error}; save it as UTF-8"
        ) from error
    except ValueError as error:  # of its grammar, or a number of thousands of digits
        raise UserError(
            f"the {what} {path} is not valid TOML: {error}; correct that line"
        ) from error

    for key in content.keys() & set(given):
        raise UserError(
            f"the {what} {path} sets '{key}', which follows from the file itself; remove the line"
        )
    return content


def validate_content(
    content: Mapping[str, Any], what: str, model: type[Model], blame: Blame, **given: str
) -> Model:
    """Build the model from tables and `given` fields. Raises UserError at the location that `blame`
    finds.
    """
    try:
        return model.model_validate({**content, **given})
    except ValidationError as error:
        # an unknown key often explains why another is missing
        first = min(error.errors(), key=lambda problem: problem["type"] != "extra_forbidden")
        place = _find_present_keys(content, first["loc"])
        # a value that may be of several types has a problem with each
        problems = [
            problem
            for problem in error.errors()
            if _find_present_keys(content, problem["loc"]) == place
        ]
        path, parts = blame(place)
        keys = [str(part) for part in parts]
        table = ".".join(keys[:-1]) or "top level"
        key = keys[-1] if keys else "the file as a whole"
        message = describe_problems(*problems)
        if first["type"] == "extra_forbidden":
            message += f"; {suggest(key, _list_keys(model, first['loc'][:-1]))}"
        further = error.error_count() - len(problems)
        if further:
            message += f" (and {further} more)"
        raise UserError(f"the {what} {path}, table [{table}], key '{key}': {message}") from error


def _find_present_keys(content: Any, keys: Sequence[str | int]) -> list[str | int]:
    """A location from pydantic, without the names of tried alternatives, which are not keys of the
    file.
    """
    present: list[str | int] = []
    for number, part in enumerate(keys):
        is_last = number == len(keys) - 1
        if isinstance(content, Mapping):
            # the last part may be a key that is missing
            if part in content or is_last:
                present.append(part)
                content = content.get(part)
        elif isinstance(content, list):
            if isinstance(part, int):
                present.append(part)
                content = content[part]
        else:
            break

    return present


def _list_keys(kind: Any, location: Sequence[str | int]) -> list[str]:
    """The keys of the table at a location of pydantic's, in a model or in a type that is made of
    models.
    """
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        keys = []
        for part in get_args(kind):
            keys += _list_keys(part, location)
        return keys

    for number, part in enumerate(location):
        if part in kind.model_fields:
            field_type = kind.model_fields[str(part)].annotation
            return _list_keys(field_type, location[number + 1 :])
    return list(kind.model_fields)


def check_call(function: Callable[P, T]) -> Callable[P, T]:
    """Make a function refuse wrong arguments with a UserError of one line, as the command line
    does.
    """

    @wraps(function)
    def call(*args: P.args, **keywords: P.kwargs) -> T:
        arguments = check_arguments(
            function, f"{function.__qualname__}()", args, keywords, "argument"
        )
        return function(**arguments)  # type: ignore[call-arg]

    return call


def check_arguments(
    kind: Callable[..., object],
    where: str,
    args: Sequence[object],
    keywords: Mapping[str, Any],
    noun: str = "key",
) -> dict[str, Any]:
    """The arguments of a function or class by name, arrays as lists; in messages, they are `noun`s
    of `where`.

    Refuses an unknown or a missing one, a value of another type than is declared, and a number that
    is not finite. Raises UserError.
    """
    signature = inspect.signature(kind)
    try:
        arguments = signature.bind(*args, **keywords).arguments
    except TypeError as error:
        unknown = [name for name in keywords if name not in signature.parameters]
        if unknown:
            hint = suggest(unknown[0], [*signature.parameters][len(args) :])
            raise UserError(f"{where} has no {noun} '{unknown[0]}'; {hint}") from error
        raise UserError(
            f"{where}: {str(error).replace('argument', noun)}; give each {noun} once, by name"
        ) from error

    for name, value in arguments.items():
        if hasattr(value, "tolist"):
            arguments[name] = value.tolist()
        elif isinstance(value, range | Set | Iterator):
            arguments[name] = list(value)

    validators = _make_validators(kind)
    for name in arguments.keys() & validators.keys():
        try:
            _validate(validators[name], arguments[name])
        except ValidationError as error:
            # of several types, those problems count that lie deepest in the value
            problems = error.errors()
            depth = max(len(problem["loc"]) for problem in problems)
            deepest = [problem for problem in problems if len(problem["loc"]) == depth]
            value_text = one_line(reprlib.repr(deepest[0]["input"]))
            raise UserError(
                f"{where}, {noun} '{name}': {describe_problems(*deepest)}, not {value_text}"
            ) from error

    return arguments


def _validate(validator: TypeAdapter[Any], value: object) -> None:
    """Raise ValidationError for a value of another type."""
    if isinstance(value, list | tuple | dict):
        # as JSON, where a list is any sequence type
        validator.validate_json(json.dumps(value, default=lambda _: None))
    else:
        validator.validate_python(value)


@cache
def _make_validators(kind: Callable[..., object]) -> dict[str, TypeAdapter[Any]]:
    """A validator for each argument of a function or class whose type can be checked."""
    classes = getattr(kind, "__mro__", (kind,))
    scope = ChainMap(*(vars(sys.modules[class_.__module__]) for class_ in classes))
    validators: dict[str, TypeAdapter[Any]] = {}
    for name, argument in inspect.signature(kind).parameters.items():
        try:
            annotated = type("Arguments", (), {"__annotations__": {name: argument.annotation}})
            hint = get_type_hints(annotated, {}, scope, include_extras=True)[name]
            if is_dataclass(hint):  # ours, whose fields are not checked again
                validators[name] = TypeAdapter(InstanceOf[hint])  # type: ignore[valid-type, misc]
            else:
                validators[name] = TypeAdapter(hint, config=_STRICT)
        # a class of another package
        except (NameError, PydanticSchemaGenerationError, PydanticUserError):
            continue

    return validators
