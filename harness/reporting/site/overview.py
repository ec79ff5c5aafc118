"""What stands on the first page: what ran, and how far the measured numbers agree with the printed ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from harness.reporting.seeds.headline import Sentence
from harness.reporting.tables.grids import Grid

AGREES, DIFFERS, TOO_FEW = "agrees", "differs", "too few seeds to say"


@dataclass(frozen=True)
class Ran:
    """The runs of one profile, setting and encoder."""

    profile: str
    setting: str
    encoder: str
    variants: tuple[str, ...]
    seeds: str
    suites: tuple[str, ...]
    runs: int


@dataclass(frozen=True)
class Agreement:
    """How many cells of a paper's table agree with print, by the verdicts in it; `commands` are still to run."""

    title: str
    key: str
    rows: int
    measured: int
    agrees: int
    differs: int
    too_few: int
    commands: int


def what_ran(results: Sequence[Any]) -> Iterator[Ran]:
    """Profiles x settings x encoders with their variants and seeds."""
    places: dict[tuple[str, str, str], list[Any]] = {}
    for one in results:
        places.setdefault((one.profile, one.spec.setting, one.spec.encoder), []).append(one)
    for place in sorted(places):
        mine = places[place]
        variants = sorted({one.spec.variant for one in mine})
        suites = dict.fromkeys(evaluation.suite for one in mine for evaluation in one.evaluations)
        yield Ran(*place, tuple(variants), spans(one.spec.seed for one in mine), tuple(suites), len(mine))


def spans(seeds: Iterator[int]) -> str:
    """`0–4, 7`."""
    texts: list[str] = []
    for _, group in groupby(enumerate(sorted(set(seeds))), key=lambda pair: pair[1] - pair[0]):
        numbers = [number for _, number in group]
        texts.append(str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}–{numbers[-1]}")
    return ", ".join(texts)


def agreement(grid: Grid) -> Agreement:
    """What a paper's grid says of itself."""
    lines = [line for section in grid.sections for line in section.lines]
    words = [cell.value for line in lines if line.kind == "verdict" for cell in line.cells]
    return Agreement(
        title=grid.title,
        key=grid.key,
        rows=sum(line.kind == "published" for line in lines),
        measured=sum(line.kind == "measured" and line.heads[-1] != "measured, no run yet" for line in lines),
        agrees=words.count(AGREES),
        differs=words.count(DIFFERS),
        too_few=words.count(TOO_FEW),
        commands=len(grid.commands),
    )


def by_place(sentences: Sequence[Sentence]) -> list[tuple[str, list[Sentence]]]:
    """The headline, place by place."""
    return [(place, list(group)) for place, group in groupby(sentences, key=lambda sentence: sentence.place)]


def failures(failed: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Failure records in words: key, profile, error, when, traceback."""
    return [
        {"key": _key(one), **{name: str(one.get(name) or "") for name in ("profile", "error", "when", "traceback")}}
        for one in failed
    ]


def _key(record: Mapping[str, Any]) -> str:
    """What a failure record is about, as a run's key."""
    spec = record.get("spec", "?")
    if not isinstance(spec, Mapping):
        return str(spec)
    return f"{spec.get('variant')}/{spec.get('setting')}/{spec.get('encoder')}/seed-{spec.get('seed')}"
