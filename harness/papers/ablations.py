"""The papers' ablation claims in reports/ablations.toml: one variant is better than another."""

from __future__ import annotations

from statistics import mean
from typing import Annotated

from pydantic import Field

from harness.metrics import AVERAGE, Score
from harness.papers.published import REPORTS, PublishedNumbers
from harness.papers.schema import OwnVariant, PaperPart
from harness.tomlfiles import Name, read_toml

#: the score that all ablation claims are about
ABLATION_SCORE = Score("sts", AVERAGE, "spearman")


class Ablation(PaperPart):
    """A variant that a paper finds better than another, and its two printed rows, METHOD:VARIANT."""

    text: Name
    better: OwnVariant
    worse: OwnVariant
    paper: Name
    tables: Annotated[tuple[Name, ...], Field(min_length=1)]
    printed: tuple[Name, Name]


class _AblationFile(PaperPart):
    name: Name
    claim: tuple[Ablation, ...]


def read_ablations() -> tuple[Ablation, ...]:
    """Read the claims of reports/ablations.toml. Raises UserError naming the file and the key."""
    return read_toml(REPORTS / "ablations.toml", "claims file", _AblationFile).claim


def printed_difference(ablation: Ablation, published: PublishedNumbers) -> float | None:
    """Return better - worse, averaged over a paper's tables, encoders and settings; None where no two rows match."""
    better, worse = (_averages(ablation, row, published) for row in ablation.printed)
    differences = []
    for (table, encoder, setting), value in better.items():
        # a text-only method has no row in a setting with unpaired images: compare with its row on the text alone
        places = ((table, encoder, setting), (table, encoder, setting.partition("+")[0]))
        other = next((worse[place] for place in places if place in worse), None)
        if other is not None:
            differences.append(value - other)
    return mean(differences) if differences else None


def _averages(ablation: Ablation, row: str, published: PublishedNumbers) -> dict[tuple[str, str, str], float]:
    """Average score of a printed row by table, encoder and setting."""
    method, _, variant = row.partition(":")
    wanted = (ablation.paper, method, variant, ABLATION_SCORE.suite, ABLATION_SCORE.task)
    return {
        (key.table, key.encoder, key.setting): number.value
        for key, number in published.items()
        if key.table in ablation.tables and (key.paper, key.method, key.variant, key.benchmark, key.task) == wanted
    }
