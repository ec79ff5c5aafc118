"""Weights that change nothing: those that scale the whole loss of every step by one factor.

Adam divides a gradient by its own size, and clipping cuts what is too large, so that such a factor
is undone. It is found on random batches: a weight is doubled, and the weights of the terms that a
batch has are compared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness.method.interface import Hyperparameters
from harness.spec import Stream

if TYPE_CHECKING:
    from harness.method.base import Method

#: option -> the factors of all loss terms of a stream where the option is doubled, each once
Factors = Mapping[str, Sequence[float]]


def weight_factors(
    method: type[Method], hyperparameters: Hyperparameters
) -> dict[Stream, dict[str, list[float]]]:
    """How doubling each option scales the loss terms of each stream, of the options that scale
    any.
    """
    from harness.method.samples import build, compute_loss, random_batches  # import torch

    built = build(method, hyperparameters)
    weights = built.weights()
    names = {}
    for stream, batch in zip(method.streams, random_batches(built), strict=True):
        _, terms = compute_loss(built, batch)
        names[stream] = list(terms)
    factors: dict[Stream, dict[str, list[float]]] = {stream: {} for stream in names}
    for option, field in type(hyperparameters).options().items():
        value = getattr(hyperparameters, field.name)
        if not isinstance(value, float) or value <= 0:
            continue
        doubled_value: dict[str, Any] = {field.name: 2 * value}
        built.hyperparameters = dataclasses.replace(hyperparameters, **doubled_value)
        doubled = built.weights()
        if doubled == weights:
            continue
        for stream, of_stream in names.items():
            scaled = {
                doubled.get(term, 1.0) / (weights.get(term, 1.0) or 1.0) for term in of_stream
            }
            factors[stream][option] = sorted(scaled)
    return factors


def inert_options(
    factors: Mapping[Stream, Factors], streams: Collection[Stream], own: Collection[Stream]
) -> list[str]:
    """The options that scale the whole loss of every step of a run that reads some streams.

    Streams in `own` are trained in steps of their own, with an optimizer of their own.
    """
    read = [stream for stream in factors if stream in streams]
    shared = [stream for stream in read if stream not in own]
    groups = [shared, *([stream] for stream in read if stream in own)]
    options = dict.fromkeys(option for stream in read for option in factors[stream])

    inert = []
    for option in options:
        by_group = [
            {factor for stream in group for factor in factors[stream].get(option, [1.0])}
            for group in groups
            if group
        ]
        is_scaled = any(scales != {1.0} for scales in by_group)
        if is_scaled and all(len(scales) == 1 for scales in by_group):
            inert.append(option)
    return inert


def inert_note(options: Sequence[str], where: str) -> str:
    """`lambda changes nothing on pairs alone: it scales the whole loss ...`."""
    verbs = "changes nothing", "it scales"
    if len(options) > 1:
        verbs = "change nothing", "they scale"
    return (
        f"{' and '.join(options)} {verbs[0]} {where}: {verbs[1]} the whole loss of every step, which Adam and clipping "
        "undo; a weight needs a second term"
    )


def inert_weights(method: type[Method]) -> Iterator[str]:
    """A note on each reading and stream of a method in which, alone, a weight changes nothing."""
    for reading in method.readings if method.trains else ():
        values = method.configure(reading)
        own = method.own_steps(values)
        factors = weight_factors(method, values)
        for stream in factors:
            inert = inert_options(factors, [stream], own)
            if inert:
                yield f"@{reading}: {inert_note(inert, f'on {stream} alone')}"
