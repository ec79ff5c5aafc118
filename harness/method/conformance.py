"""Checks that a method matches its declarations, on random batches; usable in a plug-in's own tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import torch
from torch import Tensor

from harness.inputs import Stream
from harness.method.base import Method
from harness.method.hyperparameters import ValueOrigin
from harness.method.interface import Batch, Dimensions, MediaBatch, PairBatch, SentenceBatch, TripletBatch

ROWS, WIDTH, LENGTH = 6, 8, 5


def check_method(method: type[Method]) -> list[str]:
    """Check every reading of a method and return the problems found, one line each.

    Documentation and sources, loss terms as declared and finite, weighted sums, terms left out, a valid mixing rule. A
    method with optional terms is checked without them.
    """
    problems = [f"{name} is missing" for name in ("__doc__", "name", "paper") if not getattr(method, name, "")]
    unknown = set(method.reading_values) - set(method.readings)
    problems += [f"reading_values has @{name}, which is not in readings" for name in sorted(unknown)]
    if "paper" not in method.readings:
        problems.append("readings has no 'paper'")
    options = method.Hyperparameters.options()
    problems += [f"the option '{name}' has no source" for name, item in options.items() if not item.metadata["source"]]
    origins = {f"the option '{name}'": item.metadata["origin"] for name, item in options.items()}
    origins |= {f"the decision on {name}": origin for name, (origin, _) in method.decisions.items()}
    problems += [
        f"{what} has an unknown origin '{origin}'"
        for what, origin in origins.items()
        if origin not in (None, *get_args(ValueOrigin))
    ]
    found: set[str] = set()
    for reading in method.readings:
        seen, more = _checked(method, reading)
        found |= seen
        problems += [f"@{reading}: {problem}" for problem in more]
    declared, optional = set(method.terms), set(method.optional_terms)
    problems += [f"the optional term '{name}' is not in terms" for name in sorted(optional - declared)]
    problems += [f"the term '{name}' appears in no reading" for name in sorted(declared - optional - found)]
    problems += [f"the term '{name}' is not declared" for name in sorted(found - declared)]
    return problems


def build(method: type[Method], reading: str = "paper", options: Mapping[str, Any] | None = None) -> Method:
    """A method with features and encoder of width 8."""
    hyperparameters = method.configure(reading, options or {})
    return method(hyperparameters, Dimensions(WIDTH, dict.fromkeys(method.features(hyperparameters), WIDTH)))


def random_batches(method: Method) -> list[Batch | MediaBatch]:
    """A random batch of each stream of a method, of six rows."""
    tokens = {"attention_mask": torch.tensor([[1] * LENGTH, [1, 1, 1, 0, 0]] * (ROWS // 2))}
    shapes = {"image": (ROWS, WIDTH), "caption": (ROWS, WIDTH), "tokens": (ROWS, LENGTH + 2, WIDTH)}
    wanted = method.features(method.hyperparameters)
    labels = torch.tensor([0, 0, 1, 2, 2, 2])
    batches: dict[Stream, Batch | MediaBatch] = {
        "sentences": SentenceBatch(tokens),
        "pairs": PairBatch(tokens, {role: torch.randn(shapes[feature.of]) for role, feature in wanted.items()}),
        "triplets": TripletBatch(tokens),
        "images": MediaBatch({"pixels": torch.randn(ROWS, 2, 3, 4, 4)}, labels),
        "audio": MediaBatch({"spectrograms": torch.randn(ROWS, 9, 4)}, labels),
    }
    return [batches[stream] for stream in method.streams]


def encode(inputs: Mapping[str, Tensor], views: int) -> Tensor:
    """Random vectors in place of an encoder's: (6, views, 8)."""
    return torch.randn(ROWS, views, WIDTH, requires_grad=True)


def _checked(method: type[Method], reading: str) -> tuple[set[str], list[str]]:
    """The terms of a reading and its problems."""
    built = build(method, reading)
    seen: set[str] = set()
    problems = []
    if set(built.weights()) - set(method.terms):
        problems.append("weights() has terms that are not declared")
    cycle, place = built.mixing(built.hyperparameters)(1000, 100, 50, 5)
    if not 0 <= place < cycle:
        problems.append(f"the mixing rule returns place {place} of a cycle of {cycle}")
    for batch in random_batches(built) if method.trains else ():
        total, terms = _losses(built, batch)
        seen |= set(terms)
        if total is None:
            problems.append(f"{type(batch).__name__} has no loss term")
            continue
        problems += [f"the term '{name}' is no finite scalar" for name, value in terms.items() if not _scalar(value)]
        weighted = sum(built.weights().get(name, 1.0) * value for name, value in terms.items())
        if not torch.allclose(total, torch.as_tensor(weighted)):
            problems.append(f"the loss of {type(batch).__name__} is not the weighted sum of its terms")
    for name in method.terms if len(method.terms) > 1 else ():
        problems += _without(built, reading, name)
    return seen, problems


def _without(whole: Method, reading: str, term: str) -> list[str]:
    """The problems of leaving a term out: the others must keep their values."""
    less = build(type(whole), reading, {"without": term})
    less.load_state_dict(whole.state_dict())
    for batch in random_batches(whole):
        total, rest = _losses(less, batch)
        terms = {name: value for name, value in _losses(whole, batch)[1].items() if name != term}
        if set(rest) != set(terms) or (total is None) != (not rest):
            return [f"without={term} changes which terms {type(batch).__name__} has"]
        if any(not torch.allclose(value, terms[name]) for name, value in rest.items()):
            return [f"without={term} changes the values of other terms"]
    return []


def _losses(method: Method, batch: Batch | MediaBatch) -> tuple[Tensor | None, dict[str, Tensor]]:
    """The loss of a batch under a fixed seed, which leaves the global generator as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return method.loss(batch, encode)


def _scalar(value: Tensor) -> bool:
    return value.ndim == 0 and bool(torch.isfinite(value))
