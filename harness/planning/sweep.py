"""Lists of values that make variants: `mcse[lambda=0.01|0.1|1]`, and `--set lambda=0.01,0.1,1` for every method."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from math import prod

from harness.command_line import parse_overrides, parse_texts
from harness.errors import UserError
from harness.grid import Overrides, check_overrides
from harness.method.declared import declared_method
from harness.profiles import Training
from harness.spec import SpecError, Variant, split

#: variants that lists make; more are a mistake
MOST_VARIANTS = 1_000
#: key -> its values, as texts
Lists = Mapping[str, Sequence[str]]


def listed_values(values: Mapping[str, object] | Sequence[str]) -> tuple[Overrides, Lists]:
    """Values of `--set`, KEY=VALUE or a mapping: those that are one, and those that are several. Raises UserError."""
    pairs = [f"{key}={_text(value)}" for key, value in values.items()] if isinstance(values, Mapping) else values
    texts = parse_texts(pairs, "--set", "learning_rate=1e-4")
    lists = {key: _parts(f"--set {key}={text}", text, ",") for key, text in texts.items()}
    single = [f"{key}={texts[key]}" for key, parts in lists.items() if len(parts) == 1]
    return parse_overrides(single), {key: parts for key, parts in lists.items() if len(parts) > 1}


def one_value_each(values: Mapping[str, object] | Sequence[str], where: str) -> Overrides:
    """Values of `--set` where there is no grid. Raises UserError for a list."""
    overrides, lists = listed_values(values)
    for key, parts in lists.items():
        raise UserError(
            f"--set {key}={','.join(parts)} lists several values, which makes a grid, but {where}; give one value"
        )
    return overrides


def swept(methods: Sequence[str], overrides: Overrides, lists: Lists) -> list[Variant]:
    """The variants that texts mean, each with every combination of the values that it lists and that `lists` give it.

    An option that a variant has itself is not replaced. Raises UserError for a name that no method has, for lists that
    no variant takes, and for more than MOST_VARIANTS.
    """
    named = [Variant.parse(text) for text in methods]
    if lists:
        check_overrides(named, {**overrides, **dict.fromkeys(lists, 0)})
    found: dict[Variant, None] = {}
    taken: set[str] = set()
    for text, variant in zip(methods, named, strict=True):
        own = {key: _parts(text, value, "|") for key, value in variant.options}
        changeable = _changeable(variant) - own.keys() if lists else set()
        more = {key: values for key, values in lists.items() if key in changeable}
        taken |= more.keys()
        if len(found) + prod(map(len, [*own.values(), *more.values()])) > MOST_VARIANTS:
            raise UserError(f"these lists of values make more than {MOST_VARIANTS:,} variants; give fewer values")
        found |= dict.fromkeys(_combinations(variant, {**own, **more}))
    for key in lists.keys() - taken:
        raise UserError(
            f"--set {key}={','.join(lists[key])} changes no method of this grid: each sets its own {key}, or trains "
            "nothing; remove it"
        )
    return list(found)


def _combinations(variant: Variant, values: Lists) -> Iterator[Variant]:
    for chosen in itertools.product(*values.values()):
        yield Variant.make(variant.name, dict(zip(values, chosen, strict=True)), variant.reading)


def _changeable(variant: Variant) -> set[str]:
    """The options of a variant's method, and where it trains those of the training."""
    method = declared_method(variant.name)
    return {*method.options, *(Training.model_fields if method.trains else ())}


def _parts(whole: str, text: str, separator: str) -> list[str]:
    parts = list(dict.fromkeys(split(text, separator)))
    if not all(parts):
        raise SpecError(f"'{whole}' has an empty value in a list; write a value on both sides of '{separator}'")
    return parts


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
