"""A paper's table filled with runs and public weights: what stands beside print, and what is asked
for.
"""

from __future__ import annotations

import re

import pytest
import scipy.stats
from builders import result, sts
from table_samples import PLACE, TASKS, lines, row, runs, stand_ins, table, weights

from harness.metrics import Significance
from harness.profiles import load_profile
from harness.reporting.sections.papers import list_paper_fields
from harness.reporting.tables.paper_grids import make_paper_grid
from harness.stats import holm

MCSE = [76.0, 77.0, 77.5]
SIMCSE = [75.0, 75.2, 74.9]
MCSE_MODEL = "UdS-LSV/mcse-flickr-bert-base-uncased"
SIMCSE_MODEL = "princeton-nlp/unsup-simcse-bert-base-uncased"


def test_table_1_of_mcse_is_whole() -> None:
    filled = table([])
    assert [encoder for encoder, _ in filled.blocks] == ["bert-base-uncased", "roberta-base"]
    assert len(filled.rows) == 14
    assert [column.name for column in filled.table.columns] == [*TASKS, "Avg"]
    printed = [[cell.published for cell in line.cells.values()] for line in filled.lines]
    assert sum(number.star for numbers in printed for number in numbers) == 25
    assert row(filled, "mcse").own.cells["Avg"].published.summary is not None
    avg = row(filled, "mcse", "wiki+coco", "roberta-base").own.cells["Avg"].published
    assert (avg.value, avg.std, avg.seeds, avg.star) == (77.6, 0.8, 5, True)


def test_quoted_rows_are_shown_and_never_measured() -> None:
    filled = table(runs("simcse", SIMCSE, setting="wiki"))
    quoted = [quoted_row for quoted_row in filled.rows if quoted_row.row.published_only]
    assert [quoted_row.own.cells["Avg"].published.value for quoted_row in quoted] == [76.3, 76.6]
    assert all(
        not quoted_row.own.due and quoted_row.own.cells["Avg"].measured is None
        for quoted_row in quoted
    )
    assert row(filled, "simcse", "wiki").own.cells["Avg"].measured is not None


def test_a_cell_stands_beside_its_printed_number() -> None:
    filled = table(runs("mcse", MCSE) + runs("simcse", SIMCSE))
    cell = row(filled, "mcse").own.cells["Avg"]
    assert cell.measured.summary.n == 3
    assert cell.difference == pytest.approx(sum(MCSE) / 3 - 77.3)
    measured = sum(MCSE) / 3, scipy.stats.tstd(MCSE), 3
    against_print = scipy.stats.ttest_ind_from_stats(
        *measured, 77.3, 0.55 * 1.25**0.5, 5, equal_var=False
    )
    assert cell.test.p == pytest.approx(against_print.pvalue)
    assert cell.measured.test.p == pytest.approx(scipy.stats.ttest_ind(MCSE, SIMCSE).pvalue)
    assert cell.measured.verdict is Significance.BETTER
    assert row(filled, "simcse").own.cells["Avg"].measured.test is None  # type: ignore[union-attr]


def test_no_test_without_a_spread_on_both_sides() -> None:
    filled = table(
        runs("none[pooling=avg-first-last]", [56.0], setting="none") + runs("mcse", [77.0])
    )
    untrained = row(filled, "none[pooling=avg-first-last]", "none").own
    assert untrained.cells["Avg"].test is None
    assert untrained.cells["Avg"].difference == pytest.approx(-0.7)
    assert not untrained.due
    assert row(filled, "mcse").own.cells["Avg"].test is None


@pytest.mark.parametrize(
    "changed",
    [
        {"profile": "tiny"},
        {"profile_origin": "file"},
        {"overrides": {"epochs": 1}},
        {"encoder": "bert-large"},
    ],
)
def test_only_the_papers_own_configuration_may_stand_beside_it(changed: dict[str, object]) -> None:
    assert table(runs("mcse", MCSE, **changed)).coverage.measured == 0


def test_what_is_missing_comes_with_one_command() -> None:
    filled = table(runs("mcse", MCSE))
    assert row(filled, "mcse").own.due
    assert filled.command == "harness run --table mcse:T1"
    assert not row(table(runs("mcse", [*MCSE, 77.0, 77.1])), "mcse").own.due
    places = [each.own.label for each in filled.planned_rows]
    values = [70.0, 71.0, 72.0, 73.0, 74.0]
    every = [
        runs(place.variant, values, setting=place.setting, encoder=place.encoder)
        for place in places
    ]
    assert table([result for some in every for result in some]).command is None


def test_the_grid_has_a_line_for_print_measure_difference_and_verdict() -> None:
    grid = make_paper_grid(table(runs("mcse", MCSE) + runs("simcse", SIMCSE)))
    mcse = lines(grid, "mcse")
    assert [line.kind for line in mcse] == ["published", "measured", "difference", "verdict"]
    assert [line.heads[2] for line in mcse[:3]] == [
        "printed, 5 seeds",
        "measured, 3 seeds",
        "difference",
    ]
    ps = []
    for name, values in (("mcse", MCSE), ("simcse", SIMCSE)):
        numbers = [cell.published for cell in row(table([]), name).own.cells.values()]
        measured = sum(values) / 3, scipy.stats.tstd(values), 3
        sides = [(*measured, n.value, (n.std + 0.05) * 1.25**0.5, 5) for n in numbers]
        ps += [scipy.stats.ttest_ind_from_stats(*side, equal_var=False).pvalue for side in sides]
    off = [p < 0.05 for p in holm(ps)[:8]]
    assert 0 < sum(off) < sum(p < 0.05 for p in ps[:8]) < 8
    assert [cell.value for cell in mcse[3].cells] == [
        "differs" if differs else "not distinguishable" for differs in off
    ]
    extras = [cell.extra for cell, differs in zip(mcse[3].cells, off, strict=True) if not differs]
    assert sum("differs alone; " in extra for extra in extras) == sum(
        p < 0.05 for p in ps[:8]
    ) - sum(off)
    assert all(
        re.fullmatch(r"(differs alone; )?(\d+|no number of) seeds", extra) for extra in extras
    )
    said = f"verdict: differs in {sum(off)} of 8 cells, not distinguishable in {8 - sum(off)}; "
    assert mcse[3].heads[2].startswith(said)
    assert [line.span for line in mcse] == [4, 0, 0, 0]
    assert str(mcse[0].cells[-1]) == "77.3 ± 0.5*"
    assert str(mcse[1].cells[-1]) == "76.8 ± 0.8*", (
        "one test of its column: components weaken nothing"
    )
    assert str(mcse[2].cells[-1]).startswith("-0.5 (p = 0.")
    assert grid.commands == (
        "harness run --table mcse:T1",
        "harness run --released --table mcse:T1",
    )


def test_a_table_says_what_a_row_does_not_share_with_the_row_it_is_compared_with() -> None:
    def notes(epochs: int) -> list[str]:
        training = {"mcse": {"epochs": 3}, "simcse": {"epochs": epochs}}
        values = {
            name: {"method": {}, "training": some, "encoder": {}} for name, some in training.items()
        }
        results = [
            run
            for name, some in values.items()
            for run in runs(name, [75.0, 76.0], hyperparameters=some)
        ]
        return [
            note for note in make_paper_grid(table(results)).notes if "Trained differently" in note
        ]

    assert notes(epochs=3) == []
    assert [note.partition("with: ")[2] for note in notes(epochs=1)] == [
        "MCSE / wiki+flickr / bert-base-uncased: epochs 3 against 1 of SimCSE."
    ]


def test_the_line_of_public_weights_stands_between_print_and_measurement_with_its_difference() -> (
    None
):
    grid = make_paper_grid(table([weights(MCSE_MODEL, 77.7), *runs("mcse", [76.0, 77.0])]))
    mcse = lines(grid, "mcse")
    assert [line.heads[2].partition(":")[0] for line in mcse] == [
        "printed, 5 seeds",
        "authors' weights",
        "difference, authors' weights",
        "verdict, authors' weights",
        "measured, 2 seeds",
        "difference",
        "verdict",
    ]
    assert mcse[3].heads[2] == "verdict, authors' weights: too few seeds: 1 seed measured"
    assert [line.span for line in mcse] == [7, 0, 0, 0, 0, 0, 0]
    assert [str(mcse[at].cells[-1]) for at in (0, 1, 2)] == ["77.3 ± 0.5*", "77.7", "+0.4"]
    assert {str(cell) for cell in mcse[3].cells} == {"too few seeds"}
    assert any(note.startswith("Authors' weights") and MCSE_MODEL in note for note in grid.notes)


def test_a_quoted_row_has_the_authors_weights_and_still_no_run_of_its_own() -> None:
    grid = make_paper_grid(table([weights(SIMCSE_MODEL, 76.25)]))
    assert not grid.empty, "numbers of public weights alone fill a table"
    quoted = lines(grid, "simcse (one seed, quoted from Gao et al. 2021)", "wiki")
    kinds = [line.heads[2].partition(":")[0] for line in quoted]
    assert kinds[:2] == ["printed, 1 seed", "authors' weights"]
    assert not any(kind.startswith("measured") for kind in kinds)
    own = lines(grid, "simcse", "wiki")
    assert [line.heads[2] for line in own] == ["printed, 5 seeds", "measured, no run yet"]


def test_weights_read_by_another_pooling_are_not_these() -> None:
    assert not any(row.released for row in table([weights(MCSE_MODEL, 77.7, pooling="mean")]).rows)
    assert not any(
        row.released for row in table([weights(MCSE_MODEL, 77.7, profile_origin="file")]).rows
    )


def test_counts_verdicts_and_ranks_are_those_of_runs_alone() -> None:
    own = [*runs("mcse", [76.0, 77.0]), *runs("simcse", [75.0, 75.5])]
    alone, beside = (
        table(own),
        table([*own, weights(MCSE_MODEL, 99.0), weights(SIMCSE_MODEL, 98.0)]),
    )
    assert alone.coverage == beside.coverage
    assert alone.lines == beside.lines
    bold = [[cell.bold for cell in line.cells] for line in lines(make_paper_grid(beside), "mcse")]
    assert not any(bold[1])
    assert all(bold[4])


def test_a_table_says_the_command_until_every_model_has_its_scores() -> None:
    command = "harness run --released --table nonling:T4"
    some = ["gcyzsl/unsup-VisualCSE-bert-base-uncased", "gcyzsl/unsup-VisualCSE-roberta-base"]
    assert command in table([], "nonling:T4").commands
    assert command in table([weights(some[0], 77.5)], "nonling:T4").commands
    assert command not in table([weights(name, 77.5) for name in some], "nonling:T4").commands
    assert not any("--released" in line for line in table([], "mcse:T2").commands)


def test_public_weights_are_in_the_csv_with_their_hub_name() -> None:
    rows = [
        record
        for record in list_paper_fields(table([weights(MCSE_MODEL, 77.7)]))
        if record["encoder"] == MCSE_MODEL
    ]
    assert len(rows) == 8
    average = next(row for row in rows if row["task"] == "Avg")
    assert (average["variant"], average["setting"], average["n"]) == (
        "none[pooling=cls]",
        "none",
        1,
    )
    assert average["minus_published"] == pytest.approx(0.4)
    assert average["verdict_published"] == "too few seeds"


def test_retrieval_of_public_weights_is_on_the_split_that_fits_their_training() -> None:
    """MCSE's captions of Flickr30k are of the training images of Entities, and 944 of Karpathy's
    test images.
    """
    scores = {
        "i2t_R@1": 5.0,
        "i2t_R@5": 15.0,
        "t2i_R@1": 6.0,
        "t2i_R@5": 16.0,
    }
    tasks = {
        "Flickr30k": dict.fromkeys(scores, 99.0),
        "Flickr30k-Entities": scores,
        "COCO": dict.fromkeys(scores, 1.0),
    }
    public = result(
        "none[pooling=cls]",
        0,
        {"retrieval": tasks},
        **{**PLACE, "setting": "none", "encoder": MCSE_MODEL},
    )
    filled = table([public], "mcse:T6")
    (row,) = (row for row in filled.rows if row.released and row.row.setting == "wiki+flickr")
    cells = row.released[0].cells
    measured = [cell.measured.summary.mean for cell in cells.values() if cell.measured]
    assert measured == list(scores.values())


def test_a_profile_with_stand_ins_shows_its_own_weights_without_print() -> None:
    tiny, paper = load_profile("tiny"), load_profile("paper").released[MCSE_MODEL]
    profile = tiny.model_copy(update={"released": {MCSE_MODEL: paper}})
    places = [
        ("simcse", "toy-text"),
        ("simcse", "toy"),
        ("mcse", "toy"),
        ("none[pooling=avg-first-last]", "none"),
    ]
    own = [result(variant, 0, sts(ToySTS=70.0), setting=setting) for variant, setting in places]
    public = result("none[pooling=cls]", 0, sts(ToySTS=71.5), setting="none", encoder=MCSE_MODEL)
    filled = stand_ins([*own, public], profile)["mcse:T1"]
    texts = [line.heads[2] for line in lines(make_paper_grid(filled), "mcse", "toy")]
    assert texts[:2] == ["authors' weights", "measured, 1 seed"]
