"""Public weights in the papers' tables: a line of their own between print and measurement, compared with print."""

from __future__ import annotations

import pytest
from builders import result, sts
from table_samples import PLACE, lines, runs, stand_ins, table, weights

from harness.profiles import load_profile
from harness.reporting.sections.papers import paper_rows
from harness.reporting.tables.worded import paper_grid

MCSE = "UdS-LSV/mcse-flickr-bert-base-uncased"
SIMCSE = "princeton-nlp/unsup-simcse-bert-base-uncased"


def test_the_line_stands_between_print_and_measurement_with_its_difference() -> None:
    grid = paper_grid(table([weights(MCSE, 77.7), *runs("mcse", [76.0, 77.0])]))
    found = lines(grid, "mcse")
    assert [line.heads[2].partition(":")[0] for line in found] == [
        "printed, 5 seeds",
        "authors' weights",
        "difference, authors' weights",
        "verdict, authors' weights",
        "measured, 2 seeds",
        "difference",
        "verdict",
    ]
    assert found[3].heads[2] == "verdict, authors' weights: too few seeds: 1 seed measured"
    assert [line.span for line in found] == [7, 0, 0, 0, 0, 0, 0]
    assert [str(found[at].cells[-1]) for at in (0, 1, 2)] == ["77.3 ± 0.5*", "77.7", "+0.4"]
    assert {str(cell) for cell in found[3].cells} == {"too few seeds"}
    assert any(note.startswith("Authors' weights") and MCSE in note for note in grid.notes)


def test_a_quoted_row_has_the_authors_weights_and_still_no_run_of_its_own() -> None:
    grid = paper_grid(table([weights(SIMCSE, 76.25)]))
    assert not grid.empty, "numbers of public weights alone fill a table"
    quoted = lines(grid, "simcse (one seed, quoted from Gao et al. 2021)", "wiki")
    kinds = [line.heads[2].partition(":")[0] for line in quoted]
    assert kinds[:2] == ["printed, 1 seed", "authors' weights"]
    assert not any(kind.startswith("measured") for kind in kinds)
    own = lines(grid, "simcse", "wiki")
    assert [line.heads[2] for line in own] == ["printed, 5 seeds", "measured, no run yet"]


def test_weights_read_by_another_pooling_are_not_these() -> None:
    assert not any(row.released for row in table([weights(MCSE, 77.7, pooling="mean")]).rows)
    assert not any(row.released for row in table([weights(MCSE, 77.7, profile_origin="file")]).rows)


def test_counts_verdicts_and_ranks_are_those_of_runs_alone() -> None:
    own = [*runs("mcse", [76.0, 77.0]), *runs("simcse", [75.0, 75.5])]
    alone, beside = table(own), table([*own, weights(MCSE, 99.0), weights(SIMCSE, 98.0)])
    assert alone.coverage == beside.coverage
    assert alone.lines == beside.lines
    bold = [[cell.bold for cell in line.cells] for line in lines(paper_grid(beside), "mcse")]
    assert not any(bold[1])
    assert all(bold[4])


def test_a_table_says_the_command_until_every_model_has_its_scores() -> None:
    command = "harness run --released --table nonling:T4"
    some = ["gcyzsl/unsup-VisualCSE-bert-base-uncased", "gcyzsl/unsup-VisualCSE-roberta-base"]
    assert command in table([], "nonling:T4").commands
    assert command in table([weights(some[0], 77.5)], "nonling:T4").commands
    assert command not in table([weights(name, 77.5) for name in some], "nonling:T4").commands
    assert not any("--released" in line for line in table([], "mcse:T2").commands)


def test_the_line_is_in_the_csv_with_its_hub_name() -> None:
    rows = [one for one in paper_rows(table([weights(MCSE, 77.7)])) if one["encoder"] == MCSE]
    assert len(rows) == 8
    average = next(row for row in rows if row["task"] == "Avg")
    assert (average["variant"], average["setting"], average["n"]) == ("none[pooling=cls]", "none", 1)
    assert average["minus_published"] == pytest.approx(0.4)
    assert average["verdict_published"] == "too few seeds"


def test_retrieval_of_public_weights_is_on_the_split_that_fits_their_training() -> None:
    """MCSE's captions of Flickr30k are of the training images of Entities, and 944 of Karpathy's test images."""
    scores = {"i2t_R@1": 5.0, "i2t_R@5": 15.0, "t2i_R@1": 6.0, "t2i_R@5": 16.0}
    tasks = {"Flickr30k": dict.fromkeys(scores, 99.0), "Flickr30k-Entities": scores, "COCO": dict.fromkeys(scores, 1.0)}
    public = result("none[pooling=cls]", 0, {"retrieval": tasks}, **{**PLACE, "setting": "none", "encoder": MCSE})
    filled = table([public], "mcse:T6")
    (row,) = (row for row in filled.rows if row.released and row.row.setting == "wiki+flickr")
    cells = row.released[0].cells
    assert {name: cell.measured.summary.mean for name, cell in cells.items() if cell.measured} == scores


def test_a_profile_with_stand_ins_shows_its_own_weights_without_print() -> None:
    tiny, paper = load_profile("tiny"), load_profile("paper").released[MCSE]
    profile = tiny.model_copy(update={"released": {MCSE: paper}})
    places = [("simcse", "toy-text"), ("simcse", "toy"), ("mcse", "toy"), ("none[pooling=avg-first-last]", "none")]
    own = [result(variant, 0, sts(ToySTS=70.0), setting=setting) for variant, setting in places]
    public = result("none[pooling=cls]", 0, sts(ToySTS=71.5), setting="none", encoder=MCSE)
    filled = stand_ins([*own, public], profile)["mcse:T1"]
    texts = [line.heads[2] for line in lines(paper_grid(filled), "mcse", "toy")]
    assert texts[:2] == ["authors' weights", "measured, 1 seed"]
