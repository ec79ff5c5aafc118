"""Names of variants as people write them: `mcse[lambda=0.1]@official` is "MCSE (public code), λ =
0.1".

Users and result files use the code; a report shows the name, with the code beside it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from harness.errors import UserError
from harness.formatting import count_of
from harness.method.declared import get_declared_method
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
#: a number as Python writes it: 3e-05
_EXPONENT = re.compile(r"([\d.]+)e([+-])0*(\d+)")
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
    _name_variant.cache_clear()


def name_of(variant: str, overrides: str = "") -> VariantName:
    """The name of a variant from a result file; `overrides` are those of its runs, as
    `key=value,key=value`.

    Any other text is returned unchanged. A method that is not installed keeps its name.
    """
    text = _name_variant(variant)
    code = variant
    if overrides:
        values = []
        for part in overrides.split(","):
            key, _, value = part.partition("=")
            values.append(_name_value(key, value))
        text += f" ({', '.join(values)})"
        code += f" ({overrides})"
    return VariantName(text, code)


@lru_cache(maxsize=4096)
def _name_variant(text: str) -> str:
    try:
        variant = Variant.parse(text)
    except SpecError:
        return text

    values = dict(variant.options)
    if variant.name == UNTRAINED and "teacher" in values:
        return f"teacher {values['teacher']} alone"

    title = title_of(variant.name)
    if variant.reading != DEFAULT_READING:
        title += f" ({_READINGS.get(variant.reading, variant.reading)})"
    # terms belong to the method: "KDMCSE with CML", "DALR without rank and ima"
    if "with" in values:
        title += f" with {_list_terms(values['with'], abbreviated=True)}"
    if "without" in values:
        title += f" without {_list_terms(values['without'])}"

    parts = [title]
    for key, value in variant.options:
        if key not in ("with", "without"):
            parts.append(_name_option(variant.name, key, value))
    return ", ".join(parts)


def title_of(method: str) -> str:
    """The title that a method declares; its name if it declares none or cannot be loaded."""
    if method in _found:
        return _found[method]
    try:
        title = get_declared_method(method).title
    except UserError:
        return method
    return title


def option_title(key: str) -> str:
    """The name of a hyperparameter: `λ`, `batch size`."""
    return _LETTERS.get(key, key.replace("_", " "))


def _list_terms(text: str, *, abbreviated: bool = False) -> str:
    """`CML`, `rank and ima`; short names in capitals where they are abbreviations."""
    words = text.split("+")
    if abbreviated:
        words = [word.upper() if len(word) <= _ABBREVIATION else word for word in words]
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _name_option(method: str, key: str, value: str) -> str:
    if key == "pooling":
        pooling = _POOLINGS.get(value, value)
        return pooling if method == UNTRAINED else f"{pooling} pooling"

    number, _, trials = value.removesuffix("]").partition("[")
    if key == "tuned" and number.isdecimal():
        count = count_of(int(number), "trial")
        return f"tuned ({count}: {trials})" if trials else f"tuned ({count})"

    if value in CONTROLS:
        return _name_control(key, value)
    if value.startswith("run:"):
        with suppress(SpecError):
            teachers = [_name_teacher(name) for name in split_teachers(value)]
            return f"{option_title(key)} = {' + '.join(teachers)}"
    return _name_value(key, value)


def _name_control(key: str, control: str) -> str:
    """`shuffled images`, `noise as images`."""
    features = "images" if key == "image" else option_title(key)
    if control == UNTRAINED_IMAGES:
        return f"{features} through an untrained network"
    if control == "noise":
        return f"noise as {features}"
    return f"{control} {features}"


def _name_teacher(teacher: str) -> str:
    """A teacher of the profile by its name, that of another run by the name of its variant."""
    if not teacher.startswith("run:"):
        return teacher
    variant, slash, place = teacher.removeprefix("run:").partition("/")
    return _name_variant(variant) + slash + place


def _name_value(key: str, value: str) -> str:
    """`λ = 0.1`, `batch size = 64`, `learning rate = 3e-5`."""
    number = _EXPONENT.fullmatch(value)
    if number:
        mantissa, sign, exponent = number.groups()
        value = f"{mantissa}e{sign.strip('+')}{exponent}"
    return f"{option_title(key)} = {value}"
