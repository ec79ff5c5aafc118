from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import scipy.stats
from builders import frame, result, sts

from harness.errors import UserError
from harness.papers.published import Paper, read_paper, read_papers, read_published
from harness.reporting.tables.cells import FilledLine, FilledTable
from harness.reporting.tables.filled import paper_tables
from harness.reporting.tables.grids import code_of
from harness.reporting.tables.worded import paper_grid
from harness.verdicts import Significance

TASKS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")
MCSE = [76.0, 77.0, 77.5]
SIMCSE = [75.0, 75.2, 74.9]


def runs(variant: str, values: list[float], **given: Any) -> list:
    place: dict[str, Any] = {"profile": "paper", "setting": "wiki+flickr", "encoder": "bert-base-uncased", **given}
    return [result(variant, seed, sts(**dict.fromkeys(TASKS, value)), **place) for seed, value in enumerate(values)]


def filled(results: list) -> FilledTable:
    (table,) = [
        table
        for table in paper_tables(read_papers(), read_published(), frame(results))
        if (table.paper.name, table.name) == ("mcse", "T1")
    ]
    return table


def row(
    table: FilledTable, variant: str, setting: str = "wiki+flickr", encoder: str = "bert-base-uncased"
) -> FilledLine:
    """The row's own line."""
    place = (variant, setting, encoder)
    (found,) = [one.own for one in table.rows if one.own.place == place and not one.row.published_only]
    return found


def test_table_1_of_mcse_is_whole() -> None:
    table = filled([])
    assert [encoder for encoder, _ in table.blocks] == ["bert-base-uncased", "roberta-base"]
    assert len(table.rows) == 14
    assert [column.name for column in table.table.columns] == [*TASKS, "Avg"]
    printed = [[cell.published for cell in one.cells.values()] for one in table.lines]
    assert sum(number.star for numbers in printed for number in numbers) == 25
    assert row(table, "mcse").cells["Avg"].published.summary is not None
    avg = row(table, "mcse", "wiki+coco", "roberta-base").cells["Avg"].published
    assert (avg.value, avg.std, avg.seeds, avg.star) == (77.6, 0.8, 5, True)


def test_quoted_rows_are_shown_and_never_measured() -> None:
    table = filled(runs("simcse", SIMCSE, setting="wiki"))
    quoted = [one for one in table.rows if one.row.published_only]
    assert [one.own.cells["Avg"].published.value for one in quoted] == [76.3, 76.6]
    assert all(one.own.command is None and one.own.cells["Avg"].measured is None for one in quoted)
    assert row(table, "simcse", "wiki").cells["Avg"].measured is not None


def test_a_cell_stands_beside_its_printed_number() -> None:
    table = filled(runs("mcse", MCSE) + runs("simcse", SIMCSE))
    cell = row(table, "mcse").cells["Avg"]
    assert cell.measured.summary.n == 3
    assert cell.difference == pytest.approx(sum(MCSE) / 3 - 77.3)
    against_print = scipy.stats.ttest_ind_from_stats(sum(MCSE) / 3, scipy.stats.tstd(MCSE), 3, 77.3, 0.5, 5)
    assert cell.test.p == pytest.approx(against_print.pvalue)
    own = scipy.stats.ttest_ind(MCSE, SIMCSE)
    assert cell.measured.test.p == pytest.approx(own.pvalue)
    assert cell.measured.verdict is Significance.BETTER
    assert row(table, "simcse").cells["Avg"].measured.test is None  # type: ignore[union-attr]


def test_no_test_without_a_spread_on_both_sides() -> None:
    table = filled(runs("none[pooling=avg-first-last]", [56.0], setting="none") + runs("mcse", [77.0]))
    untrained = row(table, "none[pooling=avg-first-last]", "none")
    assert untrained.cells["Avg"].test is None
    assert untrained.cells["Avg"].difference == pytest.approx(-0.7)
    assert untrained.command is None
    assert row(table, "mcse").cells["Avg"].test is None


@pytest.mark.parametrize(
    "place",
    [
        {"profile": "tiny"},
        {"profile_origin": "file"},
        {"overrides": {"epochs": 1}},
        {"encoder": "bert-large"},
    ],
)
def test_only_the_papers_own_configuration_may_stand_beside_it(place: dict[str, object]) -> None:
    assert filled(runs("mcse", MCSE, **place)).measured_rows == 0


def test_what_is_missing_comes_with_a_command_that_asks_for_it() -> None:
    table = filled(runs("mcse", MCSE))
    command = row(table, "mcse").command
    assert command == (
        "harness run --methods mcse --settings wiki+flickr --encoders bert-base-uncased --seeds 5 --suites sts"
    )
    assert row(filled(runs("mcse", [*MCSE, 77.0, 77.1])), "mcse").command is None
    untrained = row(table, "none[pooling=avg-first-last]", "none").command
    assert untrained is not None
    words = shlex.split(untrained)
    assert words[words.index("--methods") + 1] == "none[pooling=avg-first-last]"
    assert "--settings" not in words


def test_the_grid_has_a_line_for_print_measure_and_difference() -> None:
    grid = paper_grid(filled(runs("mcse", MCSE) + runs("simcse", SIMCSE)))
    lines = [line for line in grid.sections[0].lines if tuple(map(code_of, line.heads[:2])) == ("mcse", "wiki+flickr")]
    assert [line.kind for line in lines] == ["published", "measured", "difference", "verdict"]
    said = ["printed, 5 seeds", "measured, 3 seeds", "difference"]
    assert [line.heads[2] for line in lines[:3]] == said
    numbers = [cell.published for cell in row(filled([]), "mcse").cells.values()]
    measured = sum(MCSE) / 3, scipy.stats.tstd(MCSE), 3
    off = [scipy.stats.ttest_ind_from_stats(*measured, n.value, n.std, 5).pvalue < 0.05 for n in numbers if n]
    assert 0 < sum(off) < 8, "and with deviations like these no cell can be equivalent within 1 point"
    assert [cell.value for cell in lines[3].cells] == ["differs" if one else "not distinguishable" for one in off]
    seeds = [cell.extra for cell in lines[3].cells if cell.extra]
    assert [bool(re.fullmatch(r"\d+ seeds", text)) for text in seeds] == [True] * (8 - sum(off))
    most = max(int(text.removesuffix(" seeds")) for text in seeds)
    assert lines[3].heads[2] == (
        f"verdict: differs in {sum(off)} of 8 cells, not distinguishable in {8 - sum(off)}; "
        f"up to {most} seeds a side would decide"
    )
    assert [line.span for line in lines] == [4, 0, 0, 0]
    assert str(lines[0].cells[-1]) == "77.3 ± 0.5*"
    assert str(lines[1].cells[-1]) == "76.8 ± 0.8*", "one test of its column: components weaken nothing"
    assert str(lines[2].cells[-1]).startswith("-0.5 (p = 0.")
    assert len(grid.commands) == 13, "one a row, and one for the public weights"
    assert paper_grid(filled([])).empty


GOOD = """
title = "A paper"
reference = "Somebody, 2022"
[tables.T1]
title = "A table"
suite = "sts"
metric = "spearman"
decimals = 1
seeds = 5
encoders = ["bert-base-uncased"]
columns = ["Avg"]
test = { kind = "independent-t", alpha = 0.05 }
[[tables.T1.rows]]
variant = "simcse"
setting = "wiki+flickr"
published = "simcse"
[[tables.T1.rows]]
variant = "mcse"
setting = "wiki+flickr"
published = "mcse"
against = "simcse"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "mcse.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_good_file_is_read(tmp_path: Path) -> None:
    assert isinstance(read_paper(write(tmp_path, GOOD)), Paper)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("decimals = 1", 'decimals = "one"', ("[tables.T1]", "'decimals'")),
        ("decimals = 1", "decimals = 1\ncolour = 3", ("[tables.T1]", "'colour'")),
        ('title = "A table"\n', "", ("[tables.T1]", "'title'")),
        ('variant = "mcse"', 'variant = "mcse["', ("[tables.T1.rows.1]", "'variant'", "unbalanced")),
        ('variant = "mcse"', 'variant = "mcse[b=1,a=2]"', ("'variant'", "'mcse[a=2,b=1]'")),
        ('against = "simcse"', 'against = "kdmcse"', ("[tables]", "'T1'", "no row in wiki+flickr")),
        ('kind = "independent-t"', 'kind = "sign"', ("[tables.T1.test]", "'kind'")),
        ('title = "A paper"', "title = ", ("not valid TOML",)),
    ],
)
def test_errors_name_file_table_and_key(tmp_path: Path, old: str, new: str, says: tuple[str, ...]) -> None:
    assert old in GOOD
    with pytest.raises(UserError) as caught:
        read_paper(write(tmp_path, GOOD.replace(old, new)))
    for word in ("mcse.toml", *says):
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_row_without_a_printed_number_is_refused(tmp_path: Path) -> None:
    paper = read_paper(write(tmp_path, GOOD.replace('published = "mcse"', 'published = "mcse:clip"')))
    with pytest.raises(UserError, match=r"mcse.toml, table \[tables.T1.rows.1\], key 'published'.*mcse,T1,mcse,clip,"):
        paper_tables([paper], read_published(), frame([]))


def test_a_bad_line_of_published_numbers_is_named(tmp_path: Path) -> None:
    path = tmp_path / "published.csv"
    head = "paper,table,method,variant,encoder,setting,benchmark,task,value,std,seeds,significant,source,note\n"
    path.write_text(head + "mcse,T1,mcse,,b,s,sts,Avg,77,8,5,1,own,\nmcse,T1,mcse,,b,s,sts,Avg,many,,,,own,\n")
    with pytest.raises(UserError, match=r"published.csv, line 3: .*many"):
        read_published(path)
    with pytest.raises(UserError, match="cannot be read"):
        read_published(tmp_path / "none.csv")
