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


def key_list(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown list of rows: a key, what stands in brackets (its type and default), its meaning."""
    lines = []
    for key, *details, meaning in rows:
        brackets = ", ".join(filter(None, details))
        lines.append(f"- `{key}` ({brackets}): {meaning}" if brackets else f"- `{key}`: {meaning}")
    return "\n".join(lines) + "\n"


def default_in_words(field: FieldInfo | inspect.Parameter) -> str:
    """A default as code, 'required' where there is none, and nothing for an empty one."""
    value = field.default
    if value in (PydanticUndefined, inspect.Parameter.empty):
        return "required"
    if value is None or value in ("", (), {}, OWN_FILE) or isinstance(value, BaseModel):
        return ""
    return f"default `{json.dumps(value)}`"


def type_in_words(annotation: Any, field: FieldInfo | None = None) -> str:
    """A type in words, with the bounds of a number."""
    origin = get_origin(annotation)
    arguments = get_args(annotation)
    if origin is Annotated:
        return type_in_words(arguments[0])
    if origin in (Union, types.UnionType):
        return " or ".join(
            dict.fromkeys(type_in_words(one) for one in arguments if one is not type(None))
        )
    if origin is Literal:
        return ", ".join(f"`{json.dumps(one)}`" for one in arguments)
    if origin is dict or origin is Mapping:
        return "tables by name" if models_in(annotation) else "table"
    if origin in (list, tuple, Sequence):
        inner = [one for one in arguments if one is not Ellipsis]
        word = type_in_words(inner[0])
        plural = "tables" if word == "table" else f"{word}s"
        return f"two {plural}" if len(inner) == 2 else plural
    if annotation in _PLAIN:
        return ", ".join([_PLAIN[annotation], *_bounds(field)])
    return "table"


def _bounds(field: FieldInfo | None) -> Iterator[str]:
    for one in field.metadata if field else ():
        for name, word in _BOUNDS.items():
            if (bound := getattr(one, name, None)) is not None:
                yield f"{word} {bound:,}"


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """The tables in a type."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in models_in(part)]
