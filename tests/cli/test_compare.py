"""The `compare` and `power` commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from builders import result, sts
from cli_words import Typed
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.metrics import Metric, Score
from harness.reporting.seeds.cells import Cell, Label, Row, compare_rows
from harness.reporting.seeds.comparison import Comparison
from harness.reporting.seeds.conclusion import Conclusion
from harness.store import DevCurve, Store
from harness.store.schema import Budget

SIMCSE = [70.1, 70.9, 69.6, 70.4, 70.0]
MCSE = [71.9, 72.4, 71.0, 72.1, 71.6]
AVERAGE = ("compare", "mcse", "simcse", "--metric", "sts.Avg")


@pytest.fixture
def put(tmp_path: Path) -> Callable[..., None]:
    """Puts the scores of a variant, one a seed, into the folder of results."""
    store = Store(tmp_path / "results")

    def save(
        variant: str,
        values: Sequence[float],
        seeds: Sequence[int] | None = None,
        *,
        setting: str = "wiki",
        dev: str = "STS-B-dev",
        **overrides: int,
    ) -> None:
        curve = DevCurve(
            task=dev, metric="spearman", steps=[1], scores=[1.0], best_step=1, best_score=1.0
        )
        for seed, value in zip(seeds or range(len(values)), values, strict=True):
            row = {"spearman": value, "pearson": 1.0}
            geometry = {"STS-B": {"alignment": 100 - value, "uniformity": -1.0}}
            scores = {"sts": {"STS-B": row, "Avg": row}, "geometry": geometry}
            made = result(
                variant, seed, scores, setting=setting, encoder="bert", overrides=overrides
            )
            store.save(made.model_copy(update={"dev": curve}))

    return save


def test_equal_budgets_are_compared_and_others_name_the_command_that_makes_them_equal(
    typed: Typed, tmp_path: Path
) -> None:
    store = Store(tmp_path / "results")
    for variant, text in (("simcse", 100), ("mcse", 200)):
        budget = Budget(steps=100, text_rows=text, other_rows=0, flops=1e9 * text)
        for seed in range(3):
            store.save(result(variant, seed, sts(ToySTS=70.0 + seed), budget=budget))
    store.save(result("none", 0, sts(ToySTS=60.0), setting="none", dev=(), losses={}))
    compared = ("compare", "mcse", "simcse", "--metric", "sts.Avg", "--equal")
    assert typed(*compared, "steps")[0] == 0
    for what, words in (("rows", "rows of text"), ("flops", "FLOPs")):
        code, out, error = typed(*compared, what)
        assert (code, out) == (2, "")
        assert f"mcse has 2.00 times as many {words} as simcse; `harness run" in error
        assert "--methods 'simcse[steps=200]'" in error
        assert "then compare simcse[steps=200]" in error
    code, _, error = typed("compare", "mcse", "none", "--metric", "sts.Avg", "--equal", "steps")
    assert code == 2
    assert "none has no count of steps: it trains nothing" in error


def test_trainings_of_equal_budgets_whose_scored_weights_have_seen_less_are_not_equal(
    typed: Typed, tmp_path: Path
) -> None:
    store = Store(tmp_path / "results")
    budget = Budget(steps=100, text_rows=6400, other_rows=0, flops=1e12)
    for variant, dev in (("simcse", (60.0, 50.0)), ("mcse", (50.0, 60.0))):
        for seed in range(3):
            store.save(result(variant, seed, sts(ToySTS=70.0 + seed), dev=dev, budget=budget))
    code, out, error = typed("compare", "mcse", "simcse", "--metric", "sts.Avg", "--equal", "rows")
    assert (code, out) == (2, "")
    assert "those of mcse have seen 2.00 times as many rows of text as those of simcse" in error
    assert "(100 steps against 50 of 100)" in error
    assert "--set checkpoint=last" in error


def test_all_tests_in_one_table_and_one_sentence(put: Callable[..., None], typed: Typed) -> None:
    put("simcse", SIMCSE)
    put("mcse", MCSE)
    code, out, err = typed(*AVERAGE)
    assert (code, err) == (0, "")
    pooled, welch = (
        scipy.stats.ttest_ind(MCSE, SIMCSE, equal_var=equal) for equal in (True, False)
    )
    assert scipy.stats.ttest_rel(MCSE, SIMCSE).pvalue < 0.0001
    for text in (
        *(
            "71.80 ± 0.53 (5 seeds, stale)",
            f"p = {pooled.pvalue:.4f}",
            f"p = {welch.pvalue:.4f}",
            "p < 0.0001",
        ),
        *(
            "t-test (pooled)",
            "t-test (Welch)",
            "paired by 5 seeds",
            "permutation test (exact)",
            "bootstrap",
        ),
        *(
            "p = 0.0079 (smallest possible 0.0079)",
            "Hedges' g",
            "at most 0.00 (below 0.2: mcse better)",
        ),
    ):
        assert text in out
    assert out.count("warning") == out.count("stale, changed since: tasks or test data") == 2
    interval, p = welch.confidence_interval(), f"{welch.pvalue:.4f}"
    assert out.splitlines()[-1] == (
        f"mcse is better than simcse (+1.60, 95% interval {interval.low:.2f} to {interval.high:.2f}, p = {p}, "
        "Welch's t-test)."
    )
    assert (
        "simcse is worse than mcse (-1.60"
        in typed("compare", "simcse", "mcse", "--metric", "sts.Avg")[1]
    )
    lower = typed(*AVERAGE[:4], "geometry.STS-B.alignment")[1].splitlines()[-1].partition(";")[0]
    assert "mcse is lower than simcse (-1.600" in lower
    assert "better" not in lower, "of alignment alone"


@pytest.mark.parametrize(
    ("simcse", "mcse", "begins", "ends"),
    [
        (
            [70.0, 71.0, 72.0],
            [71.5, 72.5, 70.5],
            "No significant difference between mcse and simcse (+0.50",
            "at most 2.25 apart (90 %); if real, 64 seeds each would decide with 80% power.",
        ),
        ([70.0, 70.0, 70.0], [72.0, 72.0, 72.0], "No conclusion for mcse and simcse", "."),
        (
            [70.0, 72.0, 74.0, 76.0],
            [70.9, 73.0, 75.1, 77.0],
            "No significant difference between mcse and simcse (+1.00, 95% interval -3.",
            "the tests disagree: a difference by the paired t-test; none by Welch's t-test, the pooled t-test, "
            "the permutation test, the bootstrap, almost stochastic order.",
        ),
        (
            [70.0, 71.0],
            [72.0, 72.0, 72.0],
            "Too few seeds to compare mcse and simcse (3 and 2 seeds",
            "fewest).",
        ),
    ],
    ids=["too little power", "no deviation", "tests disagree", "too few seeds"],
)
def test_what_is_not_shown_is_said(
    put: Callable[..., None],
    typed: Typed,
    simcse: list[float],
    mcse: list[float],
    begins: str,
    ends: str,
) -> None:
    put("simcse", simcse)
    put("mcse", mcse)
    out = typed(*AVERAGE)[1]
    assert out.splitlines()[-1].startswith(begins)
    assert out.splitlines()[-1].endswith(ends)
    assert "nan" not in out


def test_warnings(put: Callable[..., None], typed: Typed) -> None:
    put("simcse", [70.0, 71.0])
    put("mcse", [72.0, 72.0, 72.0], seeds=[1, 2, 3])
    out = typed(*AVERAGE)[1]
    assert "mcse has a deviation of zero" in out
    assert "the seeds differ: 1,2,3 and 0,1; paired tests use 1 common seed" in out
    assert "selected on" not in out
    put("kdmcse", [70.0, 71.0, 72.0], dev="STS-B")
    for metric in ("sts.STS-B", "sts.Avg"):
        assert (
            "kdmcse: selected on STS-B" in typed("compare", "kdmcse", "mcse", "--metric", metric)[1]
        )


def test_an_untrained_encoder_is_tested_as_in_the_report(
    put: Callable[..., None], typed: Typed
) -> None:
    put("simcse", SIMCSE)
    put("none", [60.0], setting="none")
    for pair, difference in ((("simcse", "none"), "+10.20"), (("none", "simcse"), "-10.20")):
        code, out, _ = typed("compare", *pair, "--metric", "sts.Avg", "--setting", "wiki")
        assert code == 0
        assert "t-test (one sample)" in out
        assert f"({difference}, 95% interval" in out.splitlines()[-1]


def test_the_conclusion_names_the_family(put: Callable[..., None], typed: Typed) -> None:
    put("simcse", [70.0, 70.4, 70.8])
    put("mcse", [71.2, 71.6, 72.0])
    put("mcse[lambda=2]", [75.0, 75.1, 75.2])
    put("kdmcse[lambda=2]", [75.0, 75.1, 75.2])
    assert "mcse is better than simcse (+1.20" in typed(*AVERAGE)[1]
    for name in ("dalr", "kdmcse"):
        put(name, [70.1, 70.4, 70.9 if name == "dalr" else 70.8])
    out = typed(*AVERAGE)[1]
    assert "mcse is better than simcse alone (+1.20" in out
    assert (
        "p = 0.0213, Welch's t-test), not after Holm's correction over 3 tests (methods against SimCSE) "
        "(p = 0.0639)"
    ) in out
    for name, said in (("mcse", " (+3.50"), ("dalr", ", tested alone (+4.63")):
        other = typed("compare", "mcse[lambda=2]", name, "--metric", "sts.Avg")[1]
        assert f"mcse[lambda=2] is better than {name}{said}" in other
        assert ("also after Holm's correction over 2 tests" in other) == (name == "mcse"), (
            "both variants against theirs"
        )


PLANNED = {"batch_size": 64, "steps": 60}


@pytest.mark.parametrize(
    ("training", "begins"),
    [
        ({}, "mcse and simcse are equal within 0.08 (90 %) (+0.04, 95% interval -0.01 to 0.09"),
        (
            {"batch_size": 128},
            "No significant difference between mcse and simcse (+0.04, 95% interval -0.6",
        ),
    ],
    ids=["the same batches", "others"],
)
def test_a_pair_is_compared_by_seed_where_it_shares_its_batches(
    tmp_path: Path, typed: Typed, training: dict[str, int], begins: str
) -> None:
    """Differences of 0.01, 0.08, 0.05, -0.02, 0.07 by seed, with deviations of 0.5 over seeds."""
    mcse = [
        value + more for value, more in zip(SIMCSE, (0.01, 0.08, 0.05, -0.02, 0.07), strict=True)
    ]
    interval = scipy.stats.ttest_rel(mcse, SIMCSE).confidence_interval(0.9)
    assert 0.07 < interval.high < 0.08
    store = Store(tmp_path / "results")
    for name, values, more in (("simcse", SIMCSE, {}), ("mcse", mcse, training)):
        of_run = {"method": {}, "training": PLANNED | more, "encoder": {}}
        for seed, value in enumerate(values):
            store.save(result(name, seed, sts(A=value), hyperparameters=of_run))
    said = typed(*AVERAGE)[1].splitlines()[-1]
    assert said.startswith(begins)
    assert ("paired by 5 seeds, r = 0.99" in said) == (not training)
    assert ("would decide with 80% power" in said) == bool(training)
    assert "equal within" not in typed(*AVERAGE, "--margin", "0.05")[1]
    assert "margin -1 is not a positive number" in typed(*AVERAGE, "--margin", "-1")[2]


def test_settings_and_overrides_tell_runs_apart(put: Callable[..., None], typed: Typed) -> None:
    put("simcse", SIMCSE)
    put("mcse", MCSE, setting="wiki+flickr")
    assert "have no runs with the same profile" in typed(*AVERAGE)[2]
    out = typed("compare", "mcse/wiki+flickr/bert", "simcse/wiki/bert", "--metric", "sts.Avg")[1]
    assert "wiki+flickr / bert and wiki / bert" in out
    assert "mcse is better than simcse" in out
    put("mcse", MCSE)
    for name, values in (("simcse", SIMCSE), ("mcse", MCSE)):
        put(name, [value + 5 for value in values], steps=9)
    assert "71.80 ± 0.53" in typed(*AVERAGE)[1], "those without overrides"
    assert "76.80 ± 0.53" in typed(*AVERAGE, "--set", "steps=9")[1]


@settings(max_examples=40)
@given(
    st.lists(st.floats(60, 61), min_size=3, max_size=6),
    st.lists(st.floats(60, 61), min_size=3, max_size=6),
)
def test_no_row_contradicts_the_conclusion(a: list[float], b: list[float]) -> None:
    score, cells = (
        Score("sts", "Avg", "spearman"),
        (Cell.of(dict(enumerate(values))) for values in (a, b)),
    )
    labels = [Label("tiny", name, "toy", "bert", "") for name in ("mcse", "simcse")]
    rows = (
        Row(label, cell.seeds, {score.column: cell})
        for label, cell in zip(labels, cells, strict=True)
    )
    mcse, simcse = rows
    metric = Metric("spearman")
    cell = compare_rows(mcse, simcse, score.column, metric)
    outcome = Conclusion(mcse, simcse, score.column, metric, cell)
    comparison = Comparison(outcome, score)
    larger = int(np.sign(np.mean(a) - np.mean(b)))
    assert set(comparison.decisions().values()) <= {0, larger}
    said = comparison.conclusion()
    shown = [
        test.p < 0.05 for test in (comparison.welch, comparison.pooled, comparison.paired) if test
    ]
    agree = len(set(comparison.decisions().values())) == 1
    assert agree or "the tests disagree" in said or said.startswith("No conclusion")
    if " is better " in said or " is worse " in said:
        assert shown[0]
        assert all(shown) or "the tests disagree" in said
        assert comparison.ahead.name == ("mcse" if " is better " in said else "simcse")
    elif " are equal within " in said:
        assert not shown[0]
        assert comparison.outcome.equality.bound < 0.1, "a tenth of a deviation is less here"
    elif said.startswith("No significant"):
        assert not shown[0]
        assert not any(shown) or "the tests disagree" in said
    else:
        assert said.startswith("No conclusion")


def test_the_untrained_encoder_stands_beside_both(put: Callable[..., None], typed: Typed) -> None:
    put("simcse", SIMCSE)
    put("mcse", MCSE)
    missing = "harness run --profile tiny --methods 'none[pooling=cls],none[pooling=mean]' --encoders bert=FOLDER"
    assert f"Untrained bert not evaluated; `{missing}` adds it" in typed(*AVERAGE)[1]
    put("none[pooling=mean]", [71.0], setting="none")
    out = typed(*AVERAGE)[1]
    assert "Untrained bert" not in out
    assert "71.00 (1 seed, stale)" in out
    assert (
        "warning: the untrained encoder, none[pooling=mean], is ahead of simcse" in out.splitlines()
    )
    assert "ahead of" not in typed(*AVERAGE[:4], "geometry.STS-B.uniformity")[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("mcse", "simces", "--metric", "sts.Avg"),
            "no runs of 'simces' have this metric; did you mean simcse?",
        ),
        (
            ("mcse", "simcse", "--metric", "sts.Agv"),
            "no result has the metric 'sts.Agv'; did you mean sts.Avg?",
        ),
        (
            ("mcse", "simcse", "--metric", "avg"),
            "no result has the metric 'avg'; did you mean sts.Avg?",
        ),
        (
            ("mcse", "simcse", "--metric", "sts.Avg", "--encoder", "toy-bart"),
            "no runs with the encoder toy-bart have this",
        ),
        (
            ("mcse", "simcse", "--metric", "sts"),
            "'sts' may be sts.Avg, sts.STS-B; choose with --metric",
        ),
        (
            ("mcse", "simcse", "--metric", "geometry.STS-B"),
            "geometry.STS-B.alignment, geometry.STS-B.uniformity",
        ),
        (
            ("mcse", "simcse", "--metric", "sts.Avg"),
            "several settings (coco, wiki); choose with --setting",
        ),
        (
            ("mcse", "simcse", "--metric", "sts.Avg", "--setting", "nli"),
            "no runs with the setting nli have this metric; known: ",
        ),
        (
            ("mcse/wiki", "simcse", "--metric", "sts.Avg"),
            "neither a variant nor VARIANT/SETTING/ENCODER",
        ),
        (
            ("mcse", "simcse", "--metric", "sts.Avg", "--results", "nowhere"),
            "nowhere has no results",
        ),
        (("mcse", "mcse", "--metric", "sts.Avg"), "are the same variant"),
    ],
)
def test_a_mistake_is_one_line(
    put: Callable[..., None], typed: Typed, words: tuple[str, ...], message: str
) -> None:
    for setting in ("wiki", "coco"):
        put("simcse", SIMCSE[:2], setting=setting)
        put("mcse", MCSE[:2], setting=setting)
    code, _, err = typed("compare", *words)
    assert (code, message in err) == (2, True)


def test_power_shows_the_seeds_needed_and_the_power_of_few(typed: Typed) -> None:
    code, out, _ = typed("power", "--effect", "0.5", "--std", "1", "--seeds", "64")
    assert code == 0
    assert "needs 64 seeds of each variant" in out
    rows = {
        line.split()[0]: line.split()[1:] for line in out.splitlines() if line.strip()[:1].isdigit()
    }
    assert list(rows) == ["3", "5", "10", "20", "64"]
    assert rows["64"] == ["80%", "0.499"]
