"""What two sides of a comparison do not share in their training is said beside it, from the runs themselves."""

from __future__ import annotations

import pytest
from builders import frame, over_seeds, tables
from table_samples import PLACE, PUBLISHED, table

from harness.papers.published import read_ablations
from harness.reporting.sections.claims import claims_grid
from harness.reporting.seeds.gains import forests, lead_text
from harness.reporting.seeds.groups import kept_groups, trained_apart
from harness.reporting.tables.worded import paper_grid
from harness.store import Result


def runs(variant: str, *values: float, epochs: int = 3, precision: str = "fp32", **place: str) -> list[Result]:
    training = {"batch_size": 64, "learning_rate": 3e-05, "epochs": epochs, "precision": precision, "steps": None}
    return over_seeds(variant, values, hyperparameters={"method": {}, "training": training, "encoder": {}}, **place)


def test_values_that_both_sides_have_are_compared() -> None:
    groups = kept_groups(frame(runs("mcse", 1.0) + runs("simcse", 2.0, epochs=1)))
    one, other = (group.training for group in groups.values())
    assert one == {"batch_size": "64", "epochs": "3", "learning_rate": "3e-05", "precision": "fp32", "steps": "None"}
    assert trained_apart(one, other) == "epochs 3 against 1"
    assert trained_apart(one, {"epochs": "3", "unreached": "rest"}) == ""
    assert trained_apart(one, {}) == trained_apart({}, one) == ""


@pytest.mark.parametrize(
    ("epochs", "precision", "said"),
    [
        (3, "fp32", "epochs 1 against 3, precision fp16 against fp32"),
        (3, "fp16", "epochs 1 against 3"),
        (1, "fp16", ""),
    ],
)
def test_headlines_and_claims_say_it(epochs: int, precision: str, said: str) -> None:
    ours = runs("visualcse", 70.0, 71.0, 72.0, epochs=1, precision="fp16")
    made = tables(ours + runs("simcse", 60.0, 61.0, 62.0, epochs=epochs, precision=precision))
    (forest,) = forests(made[0])
    assert lead_text(forest).partition(", trained with ")[2] == (f"{said})." if said else "")
    grid = claims_grid(read_ablations(), made, PUBLISHED)
    (line,) = [line for part in grid.sections for line in part.lines]
    assert line.heads[0] == "unpaired images help (nonling T3)" + (f"; here {said}" if said else "")


def test_a_table_says_it_below() -> None:
    def notes(epochs: int) -> list[str]:
        results = runs("mcse", 76.0, 77.0, **PLACE) + runs("simcse", 75.0, 75.5, epochs=epochs, **PLACE)
        return [note for note in paper_grid(table(results)).notes if "Trained differently" in note]

    assert notes(epochs=3) == []
    assert notes(epochs=1) == [
        "Trained differently from the row they are compared with: MCSE / wiki+flickr / bert-base-uncased: epochs 3 "
        "against 1 of SimCSE."
    ]
