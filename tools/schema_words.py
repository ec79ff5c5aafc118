"""Schemas in words, for the lists of `profiles_page.py` and `results_page.py`."""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from harness.sources import OWN_FILE

_PLAIN = {str: "text", int: "integer", float: "number", bool: "boolean"}
_BOUNDS = {"ge": "at least", "gt": "above"}


def format_keys(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown list of rows: a key, what stands in brackets (its type and default), its meaning."""
    lines = []
    for key, *details, meaning in rows:
        brackets = ", ".join(filter(None, details))
        if brackets:
            lines.append(f"- `{key}` ({brackets}): {meaning}")
        else:
            lines.append(f"- `{key}`: {meaning}")
    return "\n".join(lines) + "\n"


def describe_default(field: FieldInfo | inspect.Parameter) -> str:
    """A default as code, 'required' where there is none, and nothing for an empty one."""
    value = field.default
    if value in (PydanticUndefined, inspect.Parameter.empty):
        return "required"
    if value is None or value in ("", (), {}, OWN_FILE) or isinstance(value, BaseModel):
        return ""
    return f"default `{json.dumps(value)}`"


def describe_type(annotation: Any, field: FieldInfo | None = None) -> str:
    """A type in words, with the bounds of a number."""
    origin = get_origin(annotation)
    arguments = get_args(annotation)
    if origin is Annotated:
        return describe_type(arguments[0])

    if origin in (Union, types.UnionType):
        # that a key may be absent is said by its default
        words = [describe_type(argument) for argument in arguments if argument is not type(None)]
        return " or ".join(dict.fromkeys(words))

    if origin is Literal:
        return ", ".join(f"`{json.dumps(argument)}`" for argument in arguments)

    if origin is dict or origin is Mapping:
        return "tables by name" if find_models(annotation) else "table"

    if origin in (list, tuple, Sequence):
        items = [argument for argument in arguments if argument is not Ellipsis]
        word = describe_type(items[0])
        plural = "tables" if word == "table" else f"{word}s"
        return f"two {plural}" if len(items) == 2 else plural

    if annotation in _PLAIN:
        return ", ".join([_PLAIN[annotation], *_list_bounds(field)])
    return "table"


def _list_bounds(field: FieldInfo | None) -> Iterator[str]:
    if field is None:
        return
    for constraint in field.metadata:
        for name, word in _BOUNDS.items():
            bound = getattr(constraint, name, None)
            if bound is not None:
                yield f"{word} {bound:,}"


def find_models(annotation: Any) -> list[type[BaseModel]]:
    """The tables in a type."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return [annotation]

    models = []
    for argument in get_args(annotation):
        models += find_models(argument)
    return models
