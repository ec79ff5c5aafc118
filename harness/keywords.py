"""Values from a file that become keyword arguments of a registered class, checked against the types it declares."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from harness.errors import UserError

_STRICT = ConfigDict(strict=True, allow_inf_nan=False)


def check_keywords(kind: type, values: Mapping[str, object], place: str) -> None:
    """Refuse a value of another type than `kind` declares for it, and a number that is not finite.

    Arguments without a declared type are not checked. `place` is the table in messages. Raises UserError.
    """
    known = _declared(kind)
    for name, value in values.items():
        if name not in known:
            continue
        try:
            # as JSON, a list of a file is a sequence of any type, and true is no number
            known[name].validate_json(json.dumps(value))
        except ValidationError as error:
            raise UserError(f"{place}, key '{name}': {error.errors()[0]['msg']}") from error
        except TypeError as error:
            raise UserError(f"{place}, key '{name}': a date is not allowed; write a text or a number") from error


@cache
def _declared(kind: type) -> dict[str, TypeAdapter[Any]]:
    """What checks each argument of a class whose type can be checked."""
    try:
        arguments = inspect.signature(kind, eval_str=True).parameters
    except (NameError, TypeError, ValueError):  # a name that is only there for type checkers
        return {}
    found: dict[str, TypeAdapter[Any]] = {}
    for name, argument in arguments.items():
        try:
            found[name] = TypeAdapter(argument.annotation, config=_STRICT)
        except (PydanticSchemaGenerationError, PydanticUserError):  # a class of another package
            continue
    return found
