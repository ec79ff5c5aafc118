"""The question that a report answers first: its verdict, sentences, ranks and checks, and the next
run.
"""

from __future__ import annotations

import shlex

import pytest
from builders import over_seeds, result, tables

from harness.commands import DEFAULT_COMMANDS
from harness.method.naming import VariantName
from harness.reporting.charts.standings import draw_standings
from harness.reporting.seeds.cells import compare
from harness.reporting.seeds.checks import Mark, list_checks
from harness.reporting.seeds.citable import describe_result, make_results_grid
from harness.reporting.seeds.controls import Control, Rival
from harness.reporting.seeds.gains import make_forests
from harness.reporting.seeds.next_run import find_next_run
from harness.reporting.seeds.question import LONGEST_NAME, MOST_WORDS, Answer, Question
from harness.reporting.seeds.standings import MOST_ROWS, make_standings
from harness.reporting.seeds.wording import describe_certainty
from harness.reporting.tables.latex import format_latex_table
from harness.spec import parse_seeds
from harness.store import Result

LOW, MIDDLE, HIGH = [20.0, 24.0, 22.5], [50.0, 53.0, 52.2], [70.0, 73.0, 72.2]
UNTRAINED = [
    run
    for pooling in ("cls", "mean")
    for run in over_seeds(f"none[pooling={pooling}]", [10.0], setting="none")
]
AHEAD = over_seeds("none[pooling=mean]", [90.0], setting="none")
SHUFFLED = over_seeds("mcse[images=shuffled]", LOW)
WORSE_SHUFFLED = over_seeds("mcse[images=shuffled]", [value - 5.0 for value in LOW])


def runs(**scores: list[float]) -> list[Result]:
    return [run for name, values in scores.items() for run in over_seeds(name, values)]


def ask(results: list[Result]) -> Question:
    (forest,) = make_forests(tables(results)[0], fewest=1)
    return Question(forest)


CASES = [
    (runs(simcse=LOW), Answer.ALONE, "SimCSE alone: nothing to compare it with."),
    (
        runs(simcse=LOW[:2], mcse=HIGH[:2]),
        Answer.TOO_FEW,
        "MCSE leads by 49.50, on too few seeds.",
    ),
    (
        runs(simcse=LOW, mcse=[21.0, 24.0, 23.0]),
        Answer.OPEN,
        "MCSE, by 0.50: not shown to beat SimCSE.",
    ),
    (
        runs(simcse=[21.0, 24.0, 23.0], mcse=LOW),
        Answer.OPEN,
        "SimCSE: no method is shown to beat it.",
    ),
    (
        runs(simcse=LOW, mcse=HIGH) + AHEAD,
        Answer.CONFOUNDED,
        "MCSE, by 49.57, but the untrained encoder scores higher.",
    ),
    (
        runs(simcse=LOW, mcse=HIGH) + over_seeds("mcse[images=shuffled]", HIGH[::-1]),
        Answer.CONFOUNDED,
        "MCSE, by 49.57, but not because of its pictures.",
    ),
    (
        runs(simcse=LOW, mcse=HIGH) + UNTRAINED,
        Answer.UNCONTROLLED,
        "MCSE, by 49.57, but its pictures are untested.",
    ),
    (
        runs(simcse=LOW, mcse=HIGH) + SHUFFLED,
        Answer.UNCONTROLLED,
        "MCSE, by 49.57, but a control is missing.",
    ),
    (
        runs(simcse=LOW, mcse=HIGH, kdmcse=[70.1, 72.8, 72.1]) + SHUFFLED + UNTRAINED,
        Answer.TIED,
        "MCSE and KDMCSE tie, 49.57 above SimCSE.",
    ),
    (
        runs(simcse=LOW, mcse=HIGH, dalr=MIDDLE) + SHUFFLED + UNTRAINED,
        Answer.BEST,
        "MCSE, by 49.57, and beyond every control.",
    ),
]


@pytest.mark.parametrize(("results", "answer", "verdict"), CASES, ids=lambda value: str(value)[:20])
def test_the_verdict_is_at_most_nine_words(
    results: list[Result], answer: Answer, verdict: str
) -> None:
    question = ask(results)
    assert (question.answer, question.verdict) == (answer, verdict)
    assert len(verdict.split()) <= MOST_WORDS
    assert 1 <= len(question.sentences) <= 2


def test_a_long_name_does_not_make_a_verdict_longer() -> None:
    question = ask(over_seeds("simcse", LOW) + over_seeds("visualcse-sup", HIGH) + AHEAD)
    assert len(question.verdict.split()) <= MOST_WORDS


def test_the_sentences_have_the_numbers_of_the_tests_with_their_intervals() -> None:
    question = ask(runs(simcse=LOW, mcse=HIGH, dalr=MIDDLE) + WORSE_SHUFFLED + UNTRAINED)
    first, second = question.sentences
    cell = question.leader.cell
    ends = f"({cell.test.low:.2f} to {cell.test.high:.2f})"
    assert first.startswith("MCSE scores 71.73 ± 1.55, 49.57 ")
    assert f"49.57 {ends} above SimCSE and " in first
    assert first.endswith("above DALR, the next method.")
    assert second.startswith("With shuffled pictures its score is 54.57 (")
    assert second.endswith("lower, and its strongest control is SimCSE.")


def test_figure_checks_and_sentences_name_the_same_strongest_control() -> None:
    # the best mean of all controls, but of another method
    dalr_alone = over_seeds("dalr[without=mm]", [80.0, 83.0, 82.2])
    question = ask(
        runs(simcse=LOW, mcse=HIGH, dalr=MIDDLE) + WORSE_SHUFFLED + UNTRAINED + dalr_alone
    )
    assert question.strongest.row is question.baseline.row
    plot = draw_standings(question, make_standings(question), "answer")
    (line,) = (layer for layer in plot.spec["layer"] if "strokeDash" in str(layer))
    assert line["encoding"]["x"]["datum"] == question.baseline.cell.summary.mean
    assert "Dashed: SimCSE, the strongest control of MCSE." in plot.text
    assert "SimCSE scores 22.17" in list_checks(question)[2].text

    confounded = ask(runs(simcse=LOW, mcse=HIGH) + SHUFFLED + AHEAD)
    assert confounded.verdict == "MCSE, by 49.57, but the untrained encoder scores higher."
    words = "the untrained encoder (mean)"
    assert f"its strongest control, {words}, is 18.27" in confounded.sentences[1]
    assert list_checks(confounded)[2].text.startswith(f"{words} scores 90.00, 18.27 (")
    assert f"Dashed: {words}, the strongest control of MCSE." in (
        draw_standings(confounded, make_standings(confounded), "answer").text
    )


def test_a_control_with_too_few_seeds_has_not_been_run_yet() -> None:
    question = ask(runs(simcse=LOW, mcse=HIGH) + SHUFFLED[:1] + UNTRAINED)
    assert question.verdict == "MCSE, by 49.57, but its pictures are untested."
    assert list_checks(question)[3].mark is Mark.OPEN
    chosen = find_next_run(question, DEFAULT_COMMANDS)
    assert [list(seeds) for seeds in chosen.runs.values()] == [[1, 2]]


def test_a_tie_whose_controls_are_missing_is_not_to_be_believed() -> None:
    question = ask(runs(simcse=LOW, mcse=HIGH, kdmcse=[70.1, 72.8, 72.1]))
    assert question.answer is Answer.TIED
    assert not question.is_believed
    assert question.verdict == "MCSE and KDMCSE tie, but a control is missing."
    lack = "a run with other pictures and the untrained encoder are missing."
    assert question.sentences[1].endswith(f"; {lack}")


def test_what_is_not_significant_stands_with_its_interval() -> None:
    question = ask(runs(simcse=LOW, mcse=[21.0, 24.0, 23.0]) + AHEAD)
    assert question.sentences[0] == (
        f"MCSE scores 22.67 ± 1.53, 0.50 ({interval_of(question)}; not significant) above SimCSE."
    )
    level = ask(runs(simcse=LOW, mcse=[LOW[0], LOW[1], LOW[2] + 0.001]))
    assert level.verdict == "MCSE: not shown to beat SimCSE."
    assert "level with SimCSE (0.00, " in level.sentences[0]
    assert describe_result(level).count("two-sided Welch's t-test") == 1


def interval_of(question: Question) -> str:
    test = question.find_test(question.leader, question.reference).test
    return f"{test.low:.2f} to {test.high:.2f}"


@pytest.mark.parametrize("results", [case[0] for case in CASES[2:]])
def test_the_page_says_what_the_one_conclusion_says(results: list[Result]) -> None:
    question = ask(results)
    conclusion = question.forest.conclude(question.leader.row, question.reference.row)
    check = list_checks(question)[1]
    assert (check.mark is Mark.YES) == conclusion.cell.holds
    if conclusion.p_corrected is not None and conclusion.cell.holds:
        assert describe_certainty(conclusion.cell) in check.text
        assert describe_certainty(conclusion.cell) in describe_result(question)
    if conclusion.confounded_by:
        assert question.answer is Answer.CONFOUNDED


def test_ranks_are_shared_where_no_test_tells_methods_apart() -> None:
    question = ask(runs(simcse=LOW, mcse=HIGH, dalr=[71.0, 72.0, 72.4], kdmcse=[99.0, 99.0]))
    ranks = {gain.row.label.method: question.rank_text(gain.row.label) for gain in question.methods}
    assert ranks == {"kdmcse": "", "mcse": "1–2", "dalr": "1–2", "simcse": "3"}


def test_every_method_and_control_has_a_row_and_what_has_none_is_counted() -> None:
    results = runs(simcse=LOW, mcse=HIGH, dalr=MIDDLE) + SHUFFLED + UNTRAINED
    rows = make_standings(ask(results)).rows
    assert [(row.name.text, row.is_control) for row in rows] == [
        ("MCSE", False),
        ("DALR", False),
        ("SimCSE (baseline)", False),
        ("MCSE, shuffled images", True),
        ("untrained, [CLS]", True),
        ("untrained, mean", True),
    ]
    assert [row.difference for row in rows][:3] == ["+49.57", "+29.57", ""]
    many = [
        run for at in range(20) for run in over_seeds(f"own{at}", [value + at for value in LOW])
    ]
    standings = make_standings(ask(results + many))
    assert len(standings.rows) == MOST_ROWS
    assert len(standings.rows) + standings.more_methods + standings.more_controls == 26


def test_a_variant_that_stands_for_its_method_has_a_short_name() -> None:
    tuned = "kdmcse[lambda=0.1,learning_rate=0.0003,steps=600]"
    question = ask(runs(simcse=LOW) + over_seeds(tuned, HIGH))
    row = next(gain.row for gain in question.forest.gains if gain.row.label.variant == tuned)
    name = question.short_name(row)
    assert (name.text, name.code) == ("KDMCSE, λ = 0.1, learning rate = 0.0003, steps = 600", tuned)
    picked = Question(question.forest, {tuned}).short_name(row)
    assert picked.text == "KDMCSE, tuned"


def test_distances_are_those_that_are_tested() -> None:
    """The means of all seeds are 2.47 apart, those of the three seeds that both have 1.97."""
    question = ask(over_seeds("mcse", [50, 51, 52, 53]) + over_seeds("simcse", [48, 49, 50.1]))
    mcse, simcse = (gain.row for gain in question.forest.gains)
    column = question.forest.column
    pairs = compare(mcse.cells[column], simcse.cells[column], question.forest.metric, paired=True)
    control = Control("the same text alone", simcse.label)
    rival = Rival(control, simcse, simcse.cells[column], pairs, confounds=False)
    assert question.place_beside(rival, "MCSE").startswith("1.97 (")
    assert not question.is_ahead(rival)


def test_a_row_with_values_set_for_all_runs_is_named_by_them() -> None:
    values = {"steps": 20, "eval_every": 10, "learning_rate": 0.001}
    question = ask(over_seeds("mcse", HIGH, overrides=values))
    (gain,) = question.forest.gains
    assert len(gain.name.text) > LONGEST_NAME
    assert question.short_name(gain.row).text == "MCSE, eval every = 10 and 2 other values"


def test_checks_are_six_and_say_what_is_not_known() -> None:
    checks = list_checks(ask(runs(simcse=LOW, mcse=HIGH) + SHUFFLED + UNTRAINED))
    assert [check.mark for check in checks] == [
        Mark.YES,
        Mark.YES,
        Mark.YES,
        Mark.YES,
        Mark.OPEN,
        Mark.YES,
    ]
    assert checks[0].text.startswith("3 of each; smallest difference they show: ")
    assert "with shuffled pictures its score is 49.57" in checks[3].text
    doubted = list_checks(ask(runs(simcse=LOW, mcse=HIGH) + AHEAD))
    assert [check.mark for check in doubted][2:4] == [Mark.NO, Mark.OPEN]
    few = list_checks(ask(runs(simcse=LOW[:2], mcse=HIGH)))
    assert (few[0].mark, few[1].mark) == (Mark.NO, Mark.OPEN)


@pytest.mark.parametrize("results", [case[0] for case in CASES if case[1] is not Answer.TIED])
def test_the_next_run_has_never_been_made(results: list[Result]) -> None:
    chosen = find_next_run(ask(results), DEFAULT_COMMANDS)
    assert chosen is not None
    words = shlex.split(chosen.command)
    options = dict(zip(words[2::2], words[3::2], strict=True))
    done = {(str(run.spec.variant), run.spec.seed) for run in results}
    seeds = parse_seeds(options["--seeds"]) if "--seeds" in options else (0,)
    asked = {(label.variant, seed) for label, missing in chosen.runs.items() for seed in missing}
    assert asked
    assert not asked & done
    assert {seed for _, seed in asked} <= {*seeds}
    assert {variant for variant, _ in asked} == {label.variant for label in chosen.runs}


def test_once_it_has_been_made_another_run_comes_next_or_none() -> None:
    results = runs(simcse=LOW, mcse=HIGH)
    decided = []
    for _ in range(6):
        chosen = find_next_run(ask(results), DEFAULT_COMMANDS)
        if chosen is None:
            break
        decided.append(chosen.decides)
        for label, missing in chosen.runs.items():
            new = over_seeds(label.variant, LOW, setting=label.setting)
            results += new[: len(missing)]
    assert chosen is None
    assert decided == [
        "Does MCSE need its pictures, or do others do as well?",
        "Is MCSE better than the untrained encoder?",
        "Is MCSE better than the untrained encoder?",
    ]


def test_a_test_gets_the_seeds_of_both_sides() -> None:
    chosen = find_next_run(ask(runs(simcse=LOW[:2], mcse=HIGH[:1])), DEFAULT_COMMANDS)
    missing = {label.variant: list(seeds) for label, seeds in chosen.runs.items()}
    assert missing == {"mcse": [1, 2], "simcse": [2]}


def test_a_paper_gets_a_sentence_and_a_table_of_one_column() -> None:
    question = ask(runs(simcse=LOW, mcse=HIGH) + over_seeds("mcse[images=shuffled]", HIGH[::-1]))
    sentence = describe_result(question)
    assert sentence.startswith("MCSE scores 71.73 ± 1.55 on the STS average over 3 seeds, 49.57 ")
    assert "(95 % CI [" in sentence
    assert "The gain is not its own: with shuffled pictures its score is the same (0.00" in sentence
    text = format_latex_table(make_results_grid(question, make_standings(question), "answer"))
    assert text.startswith("\\begin{table}\n")
    assert text.count("\\begin{tabular}") == 1


def test_names_of_the_figure_do_not_overlap_those_of_the_next_row() -> None:
    question = ask(runs(simcse=LOW, mcse=HIGH))
    standings = make_standings(question)
    name = VariantName("supervised SimCSE (public code)", "simcse-sup@official")
    rows = [row._replace(name=name) for row in standings.rows]

    def lines(count: int) -> set[int]:
        shown = standings._replace(rows=rows * count)
        params = draw_standings(question, shown, "answer").spec["params"]
        (names,) = (one["value"] for one in params if one["name"] == "names")
        return {len(parts) for parts in names}

    assert lines(2) == {2}, "few rows are high"
    assert lines(8) == {1}


def test_averages_of_some_tasks_are_no_tasks() -> None:
    """MTEB's suite has an average of each kind of tasks beside that of all."""
    names = ("STSBenchmark", "SICK-R", "Banking77", "Avg[STS]", "Avg[Classification]", "Avg")
    results = [
        result(variant, seed, {"mteb": {name: {"main_score": score + seed} for name in names}})
        for variant, score in (("simcse", 40.0), ("mcse", 50.0))
        for seed in range(3)
    ]
    question = ask(results)
    assert question.score_name == "average of 3 MTEB tasks"
    tasks = question.forest.table.list_tasks("main_score")
    assert [column.task for column in tasks] == list(names[:3])
