"""Changes of a run since its result: its code, its data or its settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.planning.ingredients import Experiment
from harness.store import Result

#: values named in a line; the others are counted
_NAMED = 4


def changes(result: Result, experiment: Experiment) -> tuple[str, ...]:
    """In what a run differs from a result with its key: 'method code', 'data: corpus toy', 'settings: steps 4 -> 8'.

    Results that hold no identity are compared by their values alone; 'data or code' stands for what they do not tell.
    """
    return known_changes(result, experiment) or ("data or code",)


def known_changes(result: Result, experiment: Experiment) -> tuple[str, ...]:
    """The same, empty where nothing is known to differ; data is not compared where some of it is missing."""
    now, then = experiment.identity, result.identity
    lines = [*_code(then, now)] if then else []
    if then and not experiment.missing:
        lines += _data(then, experiment)
    if values := list(_values(result, experiment)):
        more = f" and {len(values) - _NAMED} more" if len(values) > _NAMED else ""
        lines.append(f"settings: {', '.join(values[:_NAMED])}{more}")
    if "backend" in now and result.backend != now["backend"]:
        lines.append(f"backend {result.backend} -> {now['backend']}")
    return tuple(lines)


def _code(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    before, after = then.get("code", {}), now.get("code", {})
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield "method code" if name.startswith("method ") else f"code of the {name}"


def _data(then: Mapping[str, Any], experiment: Experiment) -> Iterator[str]:
    """What was read: encoder, corpora, teachers' features, patch embeddings and the dev task."""
    now, read = experiment.identity, experiment.ingredients
    found = ["encoder"] if then["encoder"] != now["encoder"] else []
    if "corpora" in now and "corpora" in then:
        found += _corpora(then["corpora"], now["corpora"], [corpus.name for corpus in read.corpora])
        features = {**then["features"], **now["features"]}
        found += [f"features {role}" for role in features if then["features"].get(role) != now["features"].get(role)]
        found += ["patches"] if then.get("patches") != now.get("patches") else []
        found += ["dev task"] if then["dev"] != now["dev"] else []
    found += ["heads"] if then.get("heads") != now.get("heads") else []
    if found:
        yield f"data: {', '.join(found)}"


def _corpora(then: Sequence[str], now: Sequence[str], names: Sequence[str]) -> list[str]:
    if len(then) != len(now):
        return ["corpora"]
    return [f"corpus {name}" for name, before, after in zip(names, then, now, strict=True) if before != after]


def _values(result: Result, experiment: Experiment) -> Iterator[str]:
    """Values of the method and of the training that differ; older results have more names and fewer than identities."""
    now, then = experiment.identity, result.identity
    for part, stored in (("hyperparameters", "method"), ("training", "training")):
        after: Mapping[str, Any] = now.get(part, {})
        before: Any = then.get(part, {}) if then else result.hyperparameters[stored]
        for name in dict.fromkeys((*after, *(before if then else ()))):
            if (name in before or then) and before.get(name) != after.get(name):
                yield f"{name} {_text(before.get(name))} -> {_text(after.get(name))}"


def _text(value: object) -> str:
    return "default" if value is None else str(value) or "nothing"
