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


def compute_weight_factors(
    method: type[Method], hyperparameters: Hyperparameters
) -> dict[Stream, dict[str, list[float]]]:
    """How doubling each option scales the loss terms of each stream, of the options that scale
    any.
    """
    from harness.method.samples import build, compute_loss, random_batches  # import torch

    built = build(method, hyperparameters)
    weights = built.weights()
    terms_by_stream = {}
    for stream, batch in zip(method.streams, random_batches(built), strict=True):
        _, terms = compute_loss(built, batch)
        terms_by_stream[stream] = list(terms)

    factors: dict[Stream, dict[str, list[float]]] = {stream: {} for stream in terms_by_stream}
    for option, field in type(hyperparameters).options().items():
        value = getattr(hyperparameters, field.name)
        if not isinstance(value, float) or value <= 0:
            continue

        doubled_value: dict[str, Any] = {field.name: 2 * value}
        built.hyperparameters = dataclasses.replace(hyperparameters, **doubled_value)
        doubled_weights = built.weights()
        if doubled_weights == weights:
            continue

        for stream, names in terms_by_stream.items():
            scales = set()
            for name in names:
                # a term without a weight counts once, and one of weight 0 is scaled from 1
                weight = weights.get(name, 1.0) or 1.0
                scales.add(doubled_weights.get(name, 1.0) / weight)
            factors[stream][option] = sorted(scales)
    return factors


def find_inert_options(
    factors: Mapping[Stream, Factors], streams: Collection[Stream], own: Collection[Stream]
) -> list[str]:
    """The options that scale the whole loss of every step of a run that reads some streams.

    Streams in `own` are trained in steps of their own, with an optimizer of their own.
    """
    # streams whose losses are added in one step, by optimizer
    shared: list[Stream] = []
    groups = [shared]
    options = dict[str, None]()
    for stream, scales_by_option in factors.items():
        if stream not in streams:
            continue
        options |= dict.fromkeys(scales_by_option)
        if stream in own:
            groups.append([stream])
        else:
            shared.append(stream)

    inert = []
    for option in options:
        scales_by_group = []
        for group in groups:
            scales = set[float]()
            for stream in group:
                scales.update(factors[stream].get(option, [1.0]))
            if scales:
                scales_by_group.append(scales)

        is_scaled = any(scales != {1.0} for scales in scales_by_group)
        if is_scaled and all(len(scales) == 1 for scales in scales_by_group):
            inert.append(option)
    return inert


def describe_inert_options(options: Sequence[str], where: str) -> str:
    """`lambda changes nothing on pairs alone: it scales the whole loss ...`."""
    verbs = "changes nothing", "it scales"
    if len(options) > 1:
        verbs = "change nothing", "they scale"
    return (
        f"{' and '.join(options)} {verbs[0]} {where}: {verbs[1]} the whole loss of every step, which Adam and clipping "
        "undo; a weight needs a second term"
    )


def describe_inert_weights(method: type[Method]) -> Iterator[str]:
    """A note on each reading and stream of a method in which, alone, a weight changes nothing."""
    for reading in method.readings if method.trains else ():
        values = method.configure(reading)
        own = method.own_steps(values)
        factors = compute_weight_factors(method, values)
        for stream in factors:
            inert = find_inert_options(factors, [stream], own)
            if inert:
                yield f"@{reading}: {describe_inert_options(inert, f'on {stream} alone')}"
