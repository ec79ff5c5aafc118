"""Names of variants as people write them: `mcse[lambda=0.1]@official` is "MCSE (public code), λ =
0.1".

Users and result files use the code; a report shows the name, with the code beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from harness.errors import UserError
from harness.formatting import count_of
from harness.method.declared import declared_method
from harness.spec import (
    CONTROLS,
    DEFAULT_READING,
    UNTRAINED,
    UNTRAINED_IMAGES,
    SpecError,
    Variant,
    split_teachers,
)

#: readings in words, in brackets after the method's title
_READINGS = {"official": "public code", "fixed": "corrected"}
#: options that are printed as a letter
_LETTERS = {"lambda": "λ", "mu": "μ", "gamma": "γ", "alpha": "α", "beta": "β", "tau": "τ"}
_POOLINGS = {"cls": "[CLS]", "avg-first-last": "first-last average"}
#: longest value of `with` that is an abbreviation, such as cml
_ABBREVIATION = 4
#: titles of methods, as another process that imported their classes found them
_found: dict[str, str] = {}


@dataclass(frozen=True)
class VariantName:
    """The name of a variant as people write it, and the code that users type. `str()` gives the
    name.
    """

    text: str
    code: str

    def __str__(self) -> str:
        return self.text


def take_titles(titles: Mapping[str, str]) -> None:
    """Use these titles of methods from now on, instead of importing the methods' classes."""
    _found.update(titles)
    _name.cache_clear()


def name_of(variant: str, overrides: str = "") -> VariantName:
    """The name of a variant from a result file; `overrides` are those of its runs, as
    `key=value,key=value`.

    Any other text is returned unchanged. A method that is not installed keeps its name.
    """
    text = _name(variant)
    code = variant
    if overrides:
        values = (part.partition("=") for part in overrides.split(","))
        text += f" ({', '.join(_value(key, value) for key, _, value in values)})"
        code += f" ({overrides})"
    return VariantName(text, code)


@lru_cache(maxsize=4096)
def _name(text: str) -> str:
    try:
        variant = Variant.parse(text)
    except SpecError:
        return text
    reading = (
        ""
        if variant.reading == DEFAULT_READING
        else f" ({_READINGS.get(variant.reading, variant.reading)})"
    )
    parts = {key: value for key, value in variant.options if key not in ("with", "without")}
    if variant.name == UNTRAINED and "teacher" in parts:
        return f"teacher {parts['teacher']} alone"
    said = (_option(variant.name, key, value) for key, value in parts.items())
    title = title_of(variant.name) + reading + "".join(_terms(dict(variant.options)))
    return ", ".join([title, *said])


def title_of(method: str) -> str:
    """The title that a method declares; its name if it declares none or cannot be loaded."""
    if method in _found:
        return _found[method]
    try:
        title = declared_method(method).title
    except UserError:
        return method
    return title


def option_title(key: str) -> str:
    """The name of a hyperparameter: `λ`, `batch size`."""
    return _LETTERS.get(key, key.replace("_", " "))


def _terms(options: Mapping[str, str]) -> Iterator[str]:
    """` with CML`, ` without rank and ima`."""
    for key in ("with", "without"):
        if key in options:
            words = options[key].split("+")
            if key == "with":
                words = [word.upper() if len(word) <= _ABBREVIATION else word for word in words]
            yield f" {key} {' and '.join(filter(None, [', '.join(words[:-1]), words[-1]]))}"


def _option(method: str, key: str, value: str) -> str:
    if key == "pooling":
        return _POOLINGS.get(value, value) + ("" if method == UNTRAINED else " pooling")
    number, _, tried = value.removesuffix("]").partition("[")
    if key == "tuned" and number.isdecimal():
        return f"tuned ({count_of(int(number), 'trial')}{tried and f': {tried}'})"
    if value in CONTROLS:
        things = "images" if key == "image" else option_title(key)
        if value == UNTRAINED_IMAGES:
            return f"{things} through an untrained network"
        return f"noise as {things}" if value == "noise" else f"{value} {things}"
    if value.startswith("run:"):
        try:
            return f"{option_title(key)} = {' + '.join(map(_teacher, split_teachers(value)))}"
        except SpecError:
            return _value(key, value)
    return _value(key, value)


def _teacher(name: str) -> str:
    variant, slash, rest = name.removeprefix("run:").partition("/")
    return _name(variant) + slash + rest if name.startswith("run:") else name


def _value(key: str, value: str) -> str:
    """`λ = 0.1`, `batch size = 64`, `learning rate = 3e-5`."""
    exact = re.sub(
        r"^([\d.]+)e([+-])0*(\d+)$",
        lambda number: f"{number[1]}e{number[2].strip('+')}{number[3]}",
        value,
    )
    return f"{option_title(key)} = {exact}"
