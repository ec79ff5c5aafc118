"""Gains on test pairs that training has seen and on the others: recomputed from the stored parts,
drawn, and shown.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import pytest
import scipy.stats
from builders import Split, over_seeds, split
from site_samples import rendered, shown_run

from harness.metrics import AVERAGE, SEEN, UNSEEN
from harness.reporting.figures.drawn import ReportFigure
from harness.reporting.sections.seen import SeenTable, draw_seen_figures, make_seen_tables
from harness.reporting.seeds.cells import Cell
from harness.store import Result, metrics_of

SEEDS = (0, 1, 2)
#: score of STS-B on seen and unseen pairs, of SICK-R on seen and unseen pairs, of STS16 on unseen
#: pairs, by seed
SIMCSE = (
    (60.0, 70.0, 50.0, 65.0, 80.0),
    (61.0, 70.5, 52.0, 64.0, 81.0),
    (62.0, 69.0, 51.0, 66.0, 79.0),
)
MCSE = (
    (66.0, 71.0, 53.0, 66.0, 80.5),
    (65.0, 72.0, 53.5, 66.5, 80.0),
    (69.0, 69.5, 56.0, 66.5, 80.0),
)


def tasks(scores: tuple[float, ...], pairs: float = 189.0) -> Split:
    return {
        "STS-B": (pairs, scores[0], 1379 - pairs, scores[1]),
        "SICK-R": (436, scores[2], 4491, scores[3]),
        "STS16": (4, None, 1182, scores[4]),
    }


def runs(
    variant: str, scores: tuple[tuple[float, ...], ...], pairs: float = 189.0, **more: Any
) -> list[Result]:
    return [split(variant, seed, tasks(mine, pairs), **more) for seed, mine in enumerate(scores)]


def tables(results: list[Result]) -> list[SeenTable]:
    return make_seen_tables(results, metrics_of(results))


def numbers(
    table: SeenTable, variant: str, task: str, part: str
) -> tuple[Cell | None, Cell | None, Cell | None]:
    """The pairs, scores and gains of a variant's row."""
    (row,) = (row for row in table.rows if row.label.variant == variant)
    return (
        table.pairs(row, part, task),
        table.scores(row, part, task),
        table.gains.get((row.label, part, task)),
    )


def stored(results: list[Result], task: str, part: str) -> list[float]:
    return [run.evaluations[0].parts[task][part]["spearman"] for run in results]


def test_scores_and_gains_are_those_of_the_stored_parts() -> None:
    base, mine = runs("simcse", SIMCSE), runs("mcse", MCSE)
    (table,) = tables([*mine, *base])
    assert [row.label.variant for row in table.rows] == ["simcse", "mcse"]
    for task, part in [
        ("STS-B", SEEN),
        ("STS-B", UNSEEN),
        ("SICK-R", SEEN),
        ("SICK-R", UNSEEN),
        ("STS16", UNSEEN),
    ]:
        _, scores, gains = numbers(table, "mcse", task, part)
        before, after = stored(base, task, part), stored(mine, task, part)
        assert scores.values == tuple(after)
        assert gains.values == pytest.approx([a - b for a, b in zip(after, before, strict=True)])
        test = scipy.stats.ttest_rel(after, before)
        interval = test.confidence_interval(0.95)
        assert (gains.test.low, gains.test.high) == pytest.approx((interval.low, interval.high))
        assert gains.test.p == pytest.approx(test.pvalue)
        assert numbers(table, "simcse", task, part)[2] is None
    pairs, *others = numbers(table, "mcse", "STS16", SEEN)
    assert (pairs.summary.mean, others) == (4.0, [None, None])


def test_tasks_with_both_kinds_of_pairs_are_pooled_by_their_pairs() -> None:
    other = split("dalr", 9, {"STS16": (30, 50.0, 1156, 60.0)})
    (table,) = tables([*runs("simcse", SIMCSE), *runs("mcse", MCSE), other])
    with_mean = [row.label.variant for row in table.rows if table.pairs(row, SEEN, table.mean)]
    assert with_mean == ["simcse", "mcse"], "a row of other tasks has no mean over those it lacks"
    assert (table.averaged, table.mean) == (("STS-B", "SICK-R"), "2 tasks, pooled")
    (seen, _, gain), (unseen, _, other) = (
        numbers(table, "mcse", table.mean, part) for part in (SEEN, UNSEEN)
    )
    # by hand: the gains of STS-B and SICK-R by seed, weighted by their 189 and 436 seen, 1190 and
    # 4491 unseen pairs
    assert gain.values == pytest.approx(
        [(189 * first + 436 * second) / 625 for first, second in ((6, 3), (4, 1.5), (7, 5))]
    )
    assert other.values == pytest.approx(
        [
            (1190 * first + 4491 * second) / 5681
            for first, second in ((1, 1), (1.5, 2.5), (0.5, 0.5))
        ]
    )
    assert (seen.summary.mean, unseen.summary.mean) == (189 + 436, 1190 + 4491)
    assert numbers(table, "mcse", AVERAGE, UNSEEN)[1] is not None
    assert numbers(table, "mcse", AVERAGE, SEEN)[1] is None, "STS16 has too few seen pairs"


@pytest.mark.parametrize("pairs", [99, 100])
def test_fewer_than_a_hundred_seen_pairs_say_nothing(pairs: float) -> None:
    scores = {"A": (pairs, 50.0, 500, 60.0)}
    (table,) = tables([split(name, seed, scores) for name in ("simcse", "mcse") for seed in SEEDS])
    assert any("say nothing about a method: A (99)" in note for note in table.notes()) == (
        pairs < 100
    )


def test_seeds_are_paired_where_both_saw_the_same_pairs() -> None:
    base, mine = runs("simcse", SIMCSE), runs("mcse", MCSE)
    (table,) = tables([*base[1:], *mine])
    _, scores, gains = numbers(table, "mcse", "STS-B", SEEN)
    assert (scores.summary.n, gains.values) == (3, (65.0 - 61.0, 69.0 - 62.0)), (
        "one side lacks seed 0"
    )
    (table,) = tables([*base, *mine[:2], split("mcse", 2, tasks(MCSE[2], pairs=100))])
    assert numbers(table, "mcse", "STS-B", SEEN)[2].values == (66.0 - 60.0, 65.0 - 61.0), (
        "seed 2 saw other pairs"
    )
    (table,) = tables([*base, *runs("mcse", MCSE, pairs=195)])
    assert not table.problems, "a few pairs more or less do not matter"


@pytest.mark.parametrize(
    ("mine", "why"),
    [
        # a method that draws all captions of an image sees more pairs
        (
            runs("mcse", MCSE, pairs=420),
            "the numbers of seen pairs differ from those of SimCSE by more than 5%",
        ),
        ([split("mcse", 7, tasks(MCSE[0]))], "no seed in common with SimCSE"),
        (
            runs("mcse", MCSE, version=3),
            "SimCSE was evaluated with another version or other data of the suite",
        ),
        (runs("mcse", MCSE, overrides={"steps": 9}), "no matching run of SimCSE"),
    ],
    ids=["pairs", "seeds", "protocol", "--set"],
)
def test_a_row_is_not_compared_with_a_baseline_of_others(mine: list[Result], why: str) -> None:
    (table,) = tables([*runs("simcse", SIMCSE), *mine, *runs("kdmcse", MCSE)])
    row = next(row for row in table.rows if row.label.variant == "mcse")
    assert table.problems == {row.label: why}
    assert {label.variant for label, _, _ in table.gains} == {"kdmcse"}
    assert table.scores(row, SEEN, "STS-B") is not None
    (note,) = (note for note in table.notes() if note.startswith("Not compared"))
    assert note == f"Not compared, {why}: {row.label.name}."
    assert table.averaged == ("STS-B", "SICK-R"), (
        "the others are averaged over the same tasks as before"
    )


def test_settings_encoders_and_profiles_have_tables_of_their_own() -> None:
    places = [("a", "x", "small"), ("a", "x", "tiny"), ("a", "y", "tiny"), ("b", "x", "tiny")]
    made = tables(
        [
            split(variant, 0, tasks(MCSE[0]), setting=setting, encoder=encoder, profile=profile)
            for setting, encoder, profile in reversed(places)
            for variant in ("simcse", "mcse")
        ]
    )
    assert [(table.setting, table.encoder, table.profile) for table in made] == places
    assert all(len(table.rows) == 2 for table in made)
    assert len({table.key for table in made}) == 4


def one_task(variant: str, seed: int, seen: float, unseen: float, pairs: float = 100) -> Result:
    return split(variant, seed, {"STS15": (pairs, 60 + seen, 900, 70 + unseen)})


def drawn(results: list[Result]) -> list[ReportFigure]:
    (table,) = tables(results)
    return draw_seen_figures(table)


def test_points_are_mean_gains_of_each_compared_row() -> None:
    results = [one_task("simcse", seed, seed, seed) for seed in (0, 1)]
    results += [one_task("dalr", seed, 4 + 3 * seed, 1 + seed) for seed in (0, 1)]
    results += [one_task("mcse", seed, 2 + seed, 2 + seed) for seed in (0, 1)]
    results += [one_task("kdmcse@official", seed, 9, 9, pairs=400) for seed in (0, 1)]
    (figure,) = drawn(results)
    shown = re.findall(r"<t(?:ext|span)[^>]*>([^<]+)", figure.svg)
    assert [
        text for text in shown if text in ("DALR", "MCSE", "SimCSE", "KDMCSE (public code)")
    ] == ["DALR", "MCSE"]
    assert {"seen pairs", "unseen pairs"} <= set(shown)
    assert "gain over SimCSE, points of Spearman (n = 2)" in " ".join(shown)
    assert figure.caption.startswith("STS15, weighted by pairs. Bars are 95% intervals")
    assert drawn(results[:2]) == drawn(results[2:]) == [], "nothing is drawn without a comparison"


RESULTS = [
    *(split("simcse", seed, {"STS15": (250, 60.0 + seed, 500, 70.0)}) for seed in (0, 1)),
    *(split("mcse", seed, {"STS15": (250, 64.0 + 2 * seed, 500, 69.0)}) for seed in (0, 1)),
    split("visualcse", 0, {"STS15": (250, 64.0, 500, 69.0)}, setting="wiki"),
    split("simcse", 0, {"STS15": (0, None, 750, 70.0)}, setting="wiki+digits"),
]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rendered(tmp_path_factory.mktemp("site") / "out", RESULTS).parent


def row(page: str, variant: str) -> list[str]:
    """The cells of a variant's first row, without marks and spaces."""
    line = next(
        line
        for line in re.findall(r"<tr.*?</tr>", page, re.DOTALL)
        if f'">{variant}</span></th>' in line
    )
    return [
        " ".join(re.sub(r"<[^>]*>", "", cell).split())
        for cell in re.findall(r"<td.*?</td>", line, re.DOTALL)
    ]


def test_the_page_has_pairs_scores_and_gains(out: Path) -> None:
    page = (out / "seen.html").read_text("utf-8")
    # gains of seed 0 and 1: 4 and 5 on seen pairs, -1 and -1 on unseen ones
    assert row(page, "MCSE") == [
        "2",
        "250",
        "65.00 ± 1.41",
        "+4.50 ± 0.71",
        "500",
        "69.00 ± 0.00",
        "−1.00 ± 0.00",
    ]
    assert row(page, "SimCSE") == ["2", "250", "60.50 ± 0.71", "–", "500", "70.00 ± 0.00", "–"]
    assert "Not compared, no matching run of SimCSE: VisualCSE." in page
    assert (
        "STS: training read no sentence of a test pair in wiki+digits / toy-bert (profile tiny)."
        in page
    )
    assert "wiki+digits" not in page.partition("</header>")[2]
    (picture,) = re.findall(r'<img src="([^"]*)"', page)
    assert (out / picture).read_text("utf-8").startswith("<svg")


def test_pages_lead_to_it_and_other_tables_leave_the_parts_out(out: Path) -> None:
    for path in out.rglob("*.html"):
        assert re.search(r'seen\.html"[^>]*>Seen pairs</a>', path.read_text("utf-8")), path
    assert 'href="seen.html#pairs-seen-tiny-sts-toy-toy-bert"' in (out / "overview.html").read_text(
        "utf-8"
    )
    profile = (out / "profiles" / "tiny.html").read_text("utf-8")
    assert profile.partition('id="ranking"')[0].count('<tr class="plain first">') == 2
    (parts,) = (table for table in shown_run(out, RESULTS[2])["scores"] if table["folded"])
    assert (
        parts["title"]
        == "parts of the tasks; [seen]: pairs of which training read a sentence, [unseen]: the others"
    )


def test_report_files_have_the_same_numbers(out: Path) -> None:
    text = (out / "report.md").read_text("utf-8")
    assert (
        "| STS15 | MCSE | 2 | 250 | 65.00 ± 1.41 | +4.50 ± 0.71 | 500 | 69.00 ± 0.00 | -1.00 ± 0.00 |"
        in text
    )
    assert "STS on seen and unseen pairs: toy / toy-bert" in (out / "report.tex").read_text("utf-8")
    lines = list(csv.DictReader((out / "tables.csv").open()))
    (seen,) = (
        line
        for line in lines
        if (line["table"], line["variant"], line["task"], line["part"])
        == ("seen", "mcse", "STS15", "[seen]")
    )
    assert (seen["n"], seen["mean"], seen["against"], seen["difference"]) == (
        "2",
        "65.0",
        "simcse",
        "4.5",
    )
    # the t interval of the differences 4 and 5
    assert float(seen["low"]) == pytest.approx(4.5 - 12.706204736 * 0.5)
    assert [
        line["part"] for line in lines if line["variant"] == "visualcse" and line["against"]
    ] == []


@pytest.mark.long
def test_without_such_parts_there_is_no_page_and_no_link(tmp_path: Path) -> None:
    rendered(tmp_path / "out", over_seeds("simcse", [1.0, 2.0]))
    assert not (tmp_path / "out" / "seen.html").exists()
    for path in (tmp_path / "out").rglob("*.html"):
        assert "seen.html" not in path.read_text("utf-8"), path
        assert "[unseen]" not in path.read_text("utf-8"), path
