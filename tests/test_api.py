"""The Python functions: their examples run as written, and agree with the command line."""

from __future__ import annotations

import doctest
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import harness
from harness.errors import MissingData
from harness.store import FRAME_COLUMNS

SHORT = {"steps": 4, "batch_size": 16}


@pytest.fixture(autouse=True)
def _no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """No machine's data changes what is missing."""
    monkeypatch.delenv("HARNESS_DATA", raising=False)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> harness.Results:
    """Two methods, two seeds, four steps."""
    folder = tmp_path_factory.mktemp("api") / "results"
    return harness.run(
        "tiny", methods=["simcse", "mcse"], seeds=2, suites="sts", set=SHORT, results=folder
    )


def test_a_wrong_limit_of_time_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    plan = harness.plan("tiny", tune="simcse:learning_rate=1e-4|3e-4", trials=2, results=tmp_path)
    with pytest.raises(harness.UserError, match="--run-timeout soon: not a time"):
        harness.execute(plan, run_timeout="soon")
    assert not list(tmp_path.iterdir())


#: functions whose examples make the same runs
SAME_RUNS = ("compare", "figure", "table")


@pytest.fixture(scope="module")
def same_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of their examples."""
    return tmp_path_factory.mktemp("examples")


@pytest.mark.parametrize("name", sorted(set(harness.__all__) - {"UserError"}))
def test_examples_of_docstrings(
    name: str, same_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(same_runs if name in SAME_RUNS else tmp_path)
    examples = doctest.DocTestFinder(recurse=False).find(getattr(harness, name), name, globs={})
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for example in examples:
        runner.run(example)
    assert runner.summarize(verbose=False).failed == 0


def test_the_package_lists_what_a_user_calls() -> None:
    assert dir(harness) == sorted(harness.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        harness.nonsense  # noqa: B018


#: a call with a wrong argument -> its line
WRONG = {
    "run() has no argument 'seed'; did you mean seeds?": lambda: harness.run("tiny", seed=3),
    "plan(), argument 'profile': it must be a text, not 3": lambda: harness.plan(3),
    "plan(), argument 'methods': it must be a text, not 3": lambda: harness.plan(
        "tiny", methods=["simcse", 3]
    ),
    "plan(), argument 'seeds': it must be a whole number or a text or a list, not 2.5": lambda: (
        harness.plan(seeds=2.5)
    ),
    "plan(), argument 'redo': it must be true or false, not 'yes'": lambda: harness.plan(
        "tiny", redo="yes"
    ),
    "seeds '-1,' are neither a number of seeds nor a list; write --seeds 5 or --seeds 0,3,7": lambda: (
        harness.plan("tiny", seeds=[-1])
    ),
    "the training value 'steps' = 'None' is refused: it must be a whole number": lambda: (
        harness.plan("tiny", set={"steps": None})
    ),
    "plan(): multiple values for argument 'profile'; give each argument once, by name": lambda: (
        harness.plan("tiny", profile="tiny")
    ),
    "execute(): missing a required argument: 'plan'; give each argument once, by name": lambda: (
        harness.execute()
    ),
    "execute(), argument 'plan': it must be a Plan, not 'tiny'": lambda: harness.execute("tiny"),
    "execute(), argument 'device': it must be 'auto', 'cpu' or 'cuda', not 'gpu'": lambda: (
        harness.execute(harness.plan("tiny"), device="gpu")
    ),
    "--jobs 0: not a positive number; give 1 or more": lambda: harness.execute(
        harness.plan("tiny"), jobs=0
    ),
    "to_fetch(), argument 'plan': it must be a Plan, not None": lambda: harness.to_fetch(None),
    "fetch(), argument 'listed': it must be a FetchList, not 'tiny'": lambda: harness.fetch("tiny"),
    "results() has no argument 'profil'; did you mean profile?": lambda: harness.results(
        profil="tiny"
    ),
    "report(), argument 'margin': it must be a number, not 'x'": lambda: harness.report(margin="x"),
    "none has no results; run `harness run --profile tiny --results none` first": lambda: (
        harness.results("none")
    ),
    "--set lr: no such hyperparameter; did you mean learning_rate or lora_rank?": lambda: (
        harness.plan("tiny", set={"lr": 1e-4})
    ),
    "seeds '0,0,' name a seed twice; name each once": lambda: harness.plan("tiny", seeds=[0, 0]),
    "load_model(), argument 'model': it must be a text or a Path, not None": lambda: (
        harness.load_model(None)
    ),
    "evaluate(), argument 'model': it must be a function, not 3": lambda: harness.evaluate(3),
    "overlaps(), argument 'settings': it must be a text or a list, not 3": lambda: harness.overlaps(
        "tiny", settings=3
    ),
    "plan_model() has no argument 'poling'; did you mean pooling?": lambda: harness.plan_model(
        "x", poling="cls"
    ),
    "Results.text(), argument 'text_format': it must be 'markdown', 'latex' or 'csv', not 'html'": lambda: (
        harness.results(".").text("sts", "html")
    ),
    "Results.compare() has no argument 'metrics'; did you mean metric?": lambda: harness.results(
        "."
    ).compare("mcse", "simcse", metrics="sts.Avg"),
}


@pytest.mark.parametrize("said", WRONG)
def test_a_wrong_argument_is_one_line_with_the_cause(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(harness.UserError) as error:
        WRONG[said]()
    assert str(error.value) == said


@pytest.mark.parametrize(
    "name", sorted(set(harness.__all__) - {"UserError", "Results", "SentenceModel"})
)
def test_every_function_refuses_an_unknown_argument(name: str) -> None:
    with pytest.raises(harness.UserError, match="has no argument 'no_such_thing'; "):
        getattr(harness, name)(no_such_thing=1)


@pytest.mark.parametrize(
    "seeds",
    [2, "2", [0, 1], range(2), np.arange(2), np.int64(2), iter([0, 1])],
    ids=lambda given: type(given).__name__,
)
def test_seeds_of_any_kind_are_the_same(seeds: object, tmp_path: Path) -> None:
    made = harness.plan("tiny", methods={"simcse"}, seeds=seeds, results=tmp_path)
    assert [run.resolved.spec.seed for run in made.runs] == [0, 1]


def test_results_are_what_the_folder_holds(finished: harness.Results) -> None:
    assert (len(finished), finished.failures) == (4, ())
    read = harness.results(finished.folder)
    assert sorted(run.fingerprint for run in read.runs) == sorted(
        run.fingerprint for run in finished.runs
    )
    assert list(read.frame.columns) == list(FRAME_COLUMNS)
    again = harness.plan(
        "tiny", methods="simcse,mcse", seeds=2, suites="sts", set=SHORT, results=finished.folder
    )
    assert [planned.state for planned in again.runs] == ["done"] * 4


def test_nothing_is_printed_unless_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events: list[str] = []
    asked = {"methods": "none", "seeds": 1, "suites": "sts"}
    harness.run(
        "tiny", **asked, results=tmp_path / "a", progress=lambda event: events.append(event.kind)
    )
    assert capsys.readouterr() == ("", "")
    assert events[0] == "start"
    assert events[-1] == "done"
    harness.run("tiny", **asked, results=tmp_path / "b", progress=True)
    assert "none/none/toy-bert/seed-0" in capsys.readouterr().out


def test_a_comparison_and_a_table(finished: harness.Results) -> None:
    compared = finished.compare("mcse", "simcse", "sts.Avg")
    averages = finished.frame.query("task == 'Avg' and metric == 'spearman' and part == ''")
    means = averages.groupby("variant")["value"].mean()
    assert compared.pooled.difference == pytest.approx(means["mcse"] - means["simcse"])
    table = finished.table("sts").set_index("variant")
    assert table.loc["mcse (batch_size=16,steps=4)", "Avg"].startswith(f"{means['mcse']:.2f} ± ")
    with pytest.raises(
        harness.UserError, match="no table 'transfer' in the results of profile 'tiny'; known: sts"
    ):
        finished.table("transfer")


def test_a_loaded_model_scores_as_its_run_did(finished: harness.Results) -> None:
    model = harness.load_model("mcse/toy/toy-bert/seed-0", results=finished.folder, device="cpu")
    rows = model.encode(["a red circle", "a blue ring"])
    assert rows.dtype == np.float32
    assert rows.shape == (2, 64)
    mine = harness.evaluate(model, "sts", profile="tiny").query(
        "task == 'Avg' and metric == 'spearman'"
    )["value"]
    run = finished.frame.query(
        "variant == 'mcse' and seed == 0 and task == 'Avg' and metric == 'spearman'"
    )
    assert mine.item() == pytest.approx(run.query("part == ''")["value"].item(), abs=1e-6)


def test_a_model_encodes_what_people_type(finished: harness.Results) -> None:
    model = harness.load_model("mcse/toy/toy-bert/seed-0", results=finished.folder, device="cpu")
    texts = ["a red circle", "a blue ring", "a red circle"]
    rows = model.encode(texts)
    assert model.encode("a red circle").tolist() == pytest.approx(rows[0].tolist(), abs=1e-6)
    for given in (tuple(texts), np.array(texts), pd.Series(texts), pd.Series(texts).values):
        assert np.array_equal(model.encode(given), rows)
    assert np.allclose(model.encode(texts, batch_size=1), rows, atol=1e-6)
    unit = model.encode(texts, normalize_embeddings=True, show_progress_bar=True)
    assert np.allclose(np.linalg.norm(unit, axis=1), 1)
    tensor = model.encode(texts, convert_to_tensor=True)
    assert tensor.shape == (3, 64)
    cosines = model.similarity(tensor, unit[0])
    assert cosines.ravel().tolist() == pytest.approx((unit @ unit[0]).tolist(), abs=1e-6)


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda model: model.encode([None]), "item 0 is None"),
        (lambda model: model.encode({"a": 1}), "takes a text or a list of texts, not dict"),
        (lambda model: model.encode("a", batch_size=0), "argument 'batch_size': 0 is below 1"),
        (lambda model: model.similarity(np.ones(3), np.ones(4)), "one width, not of 3 and 4"),
    ],
)
def test_a_model_refuses_what_is_not_text(
    finished: harness.Results, call: Callable[[harness.SentenceModel], object], line: str
) -> None:
    model = harness.load_model("mcse/toy/toy-bert/seed-0", results=finished.folder, device="cpu")
    with pytest.raises(harness.UserError, match=re.escape(line)):
        call(model)


def test_results_are_iterated_and_indexed(finished: harness.Results) -> None:
    assert [run.fingerprint for run in finished] == [run.fingerprint for run in finished.runs]
    assert finished[0].fingerprint == finished.runs[0].fingerprint


def test_values_and_spaces_are_texts_or_mappings(tmp_path: Path) -> None:
    def keys(**words: object) -> list[str]:
        return [run.key for run in harness.plan("tiny", seeds=1, results=tmp_path, **words).runs]

    by_text = keys(methods="mcse", set="steps=4,eval_every=2")
    assert by_text == keys(methods="mcse", set={"steps": 4, "eval_every": 2})
    space = {"mcse": {"lambda": [0.1, 1], "temperature": "0.02..0.1"}}
    drawn = keys(tune=space, trials=2)
    assert drawn == keys(tune="mcse:lambda=0.1|1,temperature=0.02..0.1", trials=2)
    assert len(drawn) == 2


def test_functions_read_a_folder_of_results(finished: harness.Results) -> None:
    by_function = harness.compare("mcse", "simcse", results=finished.folder)
    assert by_function.conclusion() == finished.compare("mcse", "simcse").conclusion()
    assert harness.table("sts", results=finished.folder).equals(finished.table("sts"))


def test_any_callable_is_evaluated() -> None:
    def constant(sentences: list[str]) -> np.ndarray:
        return np.ones((len(sentences), 2))

    assert set(harness.evaluate(constant, ["geometry"], profile="tiny")["suite"]) == {"geometry"}
    with pytest.raises(MissingData, match="the suite sts has no data"):
        harness.evaluate(constant, "sts", profile="paper")
    with pytest.raises(harness.UserError, match="no suite 'stx'"):
        harness.evaluate(constant, "stx", profile="tiny")
