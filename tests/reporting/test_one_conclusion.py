"""One comparison, all its appearances: page, table, compare, CSV, LaTeX, Markdown and documents say
the same.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from builders import result, sts, tidy

from harness.metrics import Column
from harness.reporting.csvfiles import list_summary_fields
from harness.reporting.results import Results
from harness.reporting.sections.leaderboard import Board
from harness.reporting.seeds.conclusion import Conclusion
from harness.reporting.seeds.gains import describe_lead, make_forests
from harness.reporting.tables.grids import STARS
from harness.store import Result, Store

#: the variants of a made-up store, and the pairs of each that are looked at
VARIANTS = (
    *("simcse", "mcse", "mcse[lambda=2]", "mcse[images=shuffled]", "kdmcse", "kdmcse@official"),
    *("dalr", "dalr[without=rank]", "simcse[temperature=0.1]", "none[pooling=mean]"),
)
PAIRS = 6
AVG = Column("Avg", "spearman")
PLANNED = {"batch_size": 64, "steps": 60}


def made_up_store(seed: int) -> list[Result]:
    """Runs of some variants in two settings: seeds, means, deviations and batches by chance."""
    rng = np.random.default_rng(seed)
    runs = []
    for setting in ("toy", "wiki"):
        shared = rng.normal(0.0, rng.choice([0.1, 1.0]), 9)
        for variant in ("simcse", *rng.choice(VARIANTS[1:], 5, replace=False)):
            is_trained = not variant.startswith("none")
            seeds = int(rng.choice([1, 2, 3, 5, 5, 5, 9])) if is_trained else 1
            training = PLANNED if rng.random() < 0.7 else {"batch_size": 32, "steps": 60}
            values = rng.normal(70.0, 1.0) + shared + rng.normal(0.0, rng.choice([0.05, 0.5]), 9)
            for number in range(seeds):
                made = result(
                    str(variant),
                    number,
                    sts(A=float(values[number]), B=float(values[number] ** 1.01)),
                    setting=setting if is_trained else "none",
                    hyperparameters={"method": {}, "training": training, "encoder": {}},
                )
                runs.append(made)
            if not is_trained and setting == "wiki":
                runs = runs[:-seeds]  # an untrained encoder has one run, without a setting
    return runs


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (4, 7))]
)
def test_all_appearances_of_a_comparison_have_its_p_verdict_and_words(seed: int) -> None:
    results = Results(Store(Path("nowhere")), made_up_store(seed))
    (table,) = results.tables
    written = list(csv.DictReader(io.StringIO(tidy(list_summary_fields(table)))))
    texts = {name: results.text("sts", name, tasks="Avg") for name in ("markdown", "latex", "csv")}
    rng = np.random.default_rng(seed)
    for forest in make_forests(table, AVG):
        board = Board(forest, [], {})
        entries = [entry for entry in board.entries if not entry.also]
        for _ in range(PAIRS // 2):
            first, second = rng.choice(len(entries), 2, replace=False)
            a, b = sorted((entries[first], entries[second]), key=lambda entry: entry.number)
            outcome = table.conclude(a.gain.row, b.gain.row, AVG)
            compared = results.compare(
                a.gain.row.name, b.gain.row.name, setting=forest.block.setting
            )

            _same(outcome, compared.outcome)
            (said, _) = board.data["pairs"][f"{a.number} {b.number}"]
            assert said == compared.conclusion()
            assert ("confounded" in said) == bool(outcome.confounded)
            back = table.conclude(b.gain.row, a.gain.row, AVG)
            assert (back.p, back.p_corrected, back.family) == (
                outcome.p,
                outcome.p_corrected,
                outcome.family,
            )

            gains = board.data["gains"].get(b.gain.name.text)
            if gains and gains[a.number] and a.gain.row.is_trained and outcome.test:
                assert gains[a.number][4] == outcome.words
            if b.gain.row == forest.base and a.gain.row.is_trained and outcome.test:
                _check_table(outcome, written, texts, forest.place)
                if outcome.words != "not tested":
                    assert board.words[a.number][1] == outcome.words
        describe_lead(forest)


def _same(outcome: Conclusion, other: Conclusion) -> None:
    for name in ("p", "p_corrected", "correction", "verdict", "words", "confounded", "sentence"):
        assert getattr(outcome, name) == getattr(other, name), name


def _check_table(
    outcome: Conclusion,
    written: Sequence[dict[str, str]],
    texts: dict[str, str],
    place: str,
) -> None:
    """A row against the baseline, as tables.csv and the tables of `harness table` have it."""
    label = outcome.a.label
    (fields,) = (
        row
        for row in written
        if (row["variant"], row["setting"], row["task"]) == (label.variant, label.setting, "Avg")
    )
    assert float(fields["p"]) == outcome.p
    assert float(fields["p_corrected"]) == outcome.p_corrected
    assert fields["correction"] == outcome.correction
    assert fields["verdict"] == str(outcome.verdict)
    assert fields["conclusion"] == outcome.words
    assert fields["confounded_by"] == outcome.confounded

    mark = STARS.get(outcome.verdict, "")
    rows = csv.DictReader(io.StringIO(texts["csv"]))
    (line,) = (row for row in rows if (row["code"], row["where"]) == (label.variant, place))
    assert line.get("Avg mark", "") == mark
    name = re.escape(label.name.text.replace("λ", "λ"))
    (shown,) = re.findall(
        rf"\| {re.escape(place)} \| {name} \|[^|]*\|([^|]*)\|", _plain(texts["markdown"])
    )
    assert re.sub(r"[^*†≈()]", "", shown.partition("(n")[0]) == mark
    latex_marks = {"": "", "*": "{*}", "†": r"$\dagger$", "≈": r"$\approx$"}
    bare = mark.strip("()")
    assert texts["latex"].count(latex_marks[bare]) if bare else True


def _plain(text: str) -> str:
    """Markdown without bold print and escapes."""
    return text.replace("**", "").replace("\\", "")
