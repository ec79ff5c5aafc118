"""The first page: which runs there are, and how often measured numbers agree with printed ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from harness.papers.audit.numbers import Finding
from harness.reporting.seeds.headline import Sentence
from harness.store import Result
from harness.verdicts import AuditVerdict


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


def what_ran(results: Sequence[Result]) -> Iterator[Ran]:
    """The variants, seeds and suites of each profile, setting and encoder."""
    places: dict[tuple[str, str, str], list[Result]] = {}
    for one in results:
        places.setdefault((one.profile, one.spec.setting, one.spec.encoder), []).append(one)
    for place, mine in sorted(places.items()):
        variants = sorted({one.spec.variant for one in mine})
        suites = dict.fromkeys(found.suite for one in mine for found in one.current)
        yield Ran(*place, tuple(variants), spans(one.spec.seed for one in mine), tuple(suites), len(mine))


def spans(seeds: Iterable[int]) -> str:
    """`0–4, 7`."""
    texts: list[str] = []
    for _, group in groupby(enumerate(sorted(set(seeds))), key=lambda pair: pair[1] - pair[0]):
        numbers = [number for _, number in group]
        texts.append(str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}–{numbers[-1]}")
    return ", ".join(texts)


def by_place(sentences: Sequence[Sentence]) -> list[tuple[str, list[Sentence]]]:
    """Group the headline by place."""
    return [(place, list(group)) for place, group in groupby(sentences, key=lambda sentence: sentence.place)]


def by_paper(findings: Sequence[Finding]) -> dict[str, list[Finding]]:
    """Group the audit's findings by paper."""
    return {paper: list(group) for paper, group in groupby(findings, key=lambda finding: finding.paper)}


def verdict_counts(findings: Mapping[str, Sequence[Finding]]) -> dict[str, Counter[AuditVerdict]]:
    """How many statements of each paper hold, fail, or fail within rounding."""
    return {paper: Counter(finding.verdict for finding in some) for paper, some in findings.items()}
