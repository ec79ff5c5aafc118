"""The ranking of variants over settings and encoders."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from builders import error_tables, over_seeds, tables

from harness.reporting.sections.ranking import RankingTable, make_ranking_grid, rank_tables
from harness.reporting.tables.grids import get_code
from harness.store import Result


def runs(setting: str, encoder: str = "toy-bert", **values: Sequence[float]) -> list[Result]:
    return [
        run
        for name, some in values.items()
        for run in over_seeds(name, some, setting=setting, encoder=encoder)
    ]


def ranking(results: Sequence[Result]) -> RankingTable:
    (table,) = rank_tables(tables(results))
    return table


WIKI = runs("wiki", simcse=[70.0, 71, 72], mcse=[80.0, 81, 82], dalr=[75.0, 76, 77])
NLI = runs("nli", simcse=[60.0, 61, 62], mcse=[65.0, 66, 67], dalr=[66.0, 65.5, 67])


def test_ranks_are_averaged_over_settings() -> None:
    table = ranking(WIKI + NLI)
    assert table.places == ("nli / toy-bert", "wiki / toy-bert")
    assert table.names == ["mcse", "dalr", "simcse"]
    assert [rank for rank, *_ in table.ranks] == [1.5, 1.5, 3.0]
    first, *others = table.flips
    assert 0 < (first or 0) < 1
    assert others == [0.0, None]
    grid = make_ranking_grid(table)
    assert (
        grid.title
        == "Ranking by STS Avg: spearman over 2 pairs of setting and encoder, profile tiny"
    )
    last = grid.sections[0].lines[2]
    assert (tuple(map(get_code, last.heads)), [str(cell) for cell in last.cells]) == (
        ("simcse", "3"),
        ["3.00", "3.00 to 3.00", "–", "66.00 (65.25 to 66.75)", "–", "61.00", "71.00"],
    )


def test_the_untrained_encoder_is_ranked_in_every_place_and_smaller_errors_first() -> None:
    table = ranking(WIKI + NLI + over_seeds("none", [99.0], setting="none"))
    assert table.names == ["none", "mcse", "dalr", "simcse"]
    assert table.ranks[0][0] == 1.0
    assert not any("Unreliable" in note for note in make_ranking_grid(table).notes)
    (errors,) = rank_tables(error_tables(["a", "b"], simcse=0.3, mcse=0.1, dalr=0.2))
    assert errors.names == ["mcse", "dalr", "simcse"], "smaller is better"
    assert str(make_ranking_grid(errors).sections[0].lines[0].cells[4]) == "100% (100% to 100%)"


def test_what_is_not_everywhere_is_named() -> None:
    extra = runs("wiki", kdmcse=[1.0, 2.0]) + runs("flickr", mcse=[1.0])
    table = ranking(WIKI + NLI + extra)
    assert {*table.names} == {"simcse", "mcse", "dalr"}
    notes = make_ranking_grid(table).notes
    assert "Not ranked, not run in every pair of setting and encoder: KDMCSE." in notes
    assert "Pairs not used, without some of these variants: flickr / toy-bert." in notes
    few = ranking(
        [
            run
            for where in "ab"
            for run in runs(where, simcse=[1.0, 2.0], mcse=[3.0], dalr=[1.0] * 3)
        ]
    )
    assert (
        "Unreliable intervals, fewer than 3 seeds: MCSE (1), SimCSE (2)."
        in make_ranking_grid(few).notes
    )


TWO = [run for where in "ab" for run in runs(where, simcse=[1.0, 2.0], mcse=[3.0, 4.0])]


@pytest.mark.parametrize("results", [TWO + over_seeds("none", [1.0], setting="none"), WIKI])
def test_two_trained_variants_or_one_place_have_no_ranking(results: list[Result]) -> None:
    assert rank_tables(tables(results)) == []
