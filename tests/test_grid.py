"""Grids: their runs in order, the variants that lists of values make, and where each value of a run
comes from.
"""

from __future__ import annotations

from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.command_line import Selection
from harness.errors import UserError
from harness.grid import (
    UnfitSettingError,
    expand_variants,
    make_grid,
    resolve,
    resolve_all,
    split_set_values,
)
from harness.planning.request import make_request
from harness.profiles import load_profile
from harness.profiles.schema import Rule
from harness.spec import RunSpec, Variant, parse_setting

TINY = load_profile("tiny")


def variants(*texts: str) -> list[Variant]:
    return [Variant.parse(text) for text in texts]


def test_seeds_are_outermost_and_an_untrained_encoder_is_one_run_that_reads_nothing() -> None:
    specs = make_grid(
        TINY, variants("simcse", "mcse"), [parse_setting("toy")], ["toy-bert"], (0, 1)
    )
    assert [str(spec) for spec in specs] == [
        f"{method}/toy/toy-bert/seed-{seed}" for seed in (0, 1) for method in ("simcse", "mcse")
    ]
    settings = [parse_setting("toy"), parse_setting("toy-text")]
    specs = make_grid(TINY, variants("none"), settings, ["toy-bert"], (0, 1))
    assert [str(spec) for spec in specs] == ["none/none/toy-bert/seed-0"]
    run = resolve(TINY, specs[0], {})
    assert (run.streams, run.features, run.options) == ({}, {}, ())


def test_a_method_without_its_stream_is_skipped_with_the_reason() -> None:
    specs = make_grid(TINY, variants("mcse"), [parse_setting("toy-text")], ["toy-bert"], (0, 1))
    runs, skipped = resolve_all(TINY, specs, {})
    assert runs == []
    assert [str(skip.why) for skip in skipped] == [
        "mcse needs image-caption pairs, the setting toy-text has none"
    ]
    with pytest.raises(UnfitSettingError, match="mcse needs image-caption pairs"):
        resolve(TINY, RunSpec.parse("mcse/toy-text/toy-bert/seed-0"), {})


def test_later_layers_win() -> None:
    rules = (
        Rule(methods=("simcse",), source="a test", temperature=0.2, learning_rate=2e-3),
        Rule(encoders=("toy-bert",), methods=("simcse",), source="a test", temperature=0.3),
    )
    profile = TINY.model_copy(update={"hyperparameters": rules})
    for variant, overrides, temperature, rate in (
        ("simcse", {}, 0.3, 2e-3),
        ("simcse", {"temperature": 0.4, "learning_rate": 1e-4}, 0.4, 1e-4),
        ("simcse[temperature=0.5]", {"temperature": 0.4}, 0.5, 2e-3),
    ):
        run = resolve(profile, RunSpec.parse(f"{variant}/toy/toy-bert/seed-0"), overrides)
        assert (run.hyperparameters.named()["temperature"], run.training.learning_rate) == (
            temperature,
            rate,
        )


def test_a_variant_may_set_values_of_the_training() -> None:
    """They win over --set, and the experiment is the one that --set would give."""
    spec = RunSpec.parse("mcse[batch_size=32,lambda=0.5,learning_rate=1e-4]/toy/toy-bert/seed-0")
    run = resolve(TINY, spec, {"batch_size": 16})
    assert (run.training.batch_size, run.training.learning_rate) == (32, 1e-4)
    by_set = resolve(
        TINY,
        RunSpec.parse("mcse/toy/toy-bert/seed-0"),
        {"lambda": 0.5, **run.training.model_dump()},
    )
    assert (run.training, run.hyperparameters) == (by_set.training, by_set.hyperparameters)
    assert run.sources["batch_size"] == str(spec.variant)
    for text, says in {
        "mcse[batch_size=0]/toy": "the training value 'batch_size'",
        "mcse[batch_size=few]/toy": "the training value 'batch_size'",
        "none[batch_size=3]/none": "no option 'batch_size'",
    }.items():
        with pytest.raises(UserError, match=says):
            resolve(TINY, RunSpec.parse(f"{text}/toy-bert/seed-0"), {})


def test_a_run_knows_where_its_values_come_from_and_its_corpora_and_features_without_the_profile() -> (
    None
):
    rule = Rule(methods=("mcse",), source="Table 3", temperature=0.2, learning_rate=2e-3)
    profile = TINY.model_copy(update={"hyperparameters": (rule,)})
    run = resolve(
        profile, RunSpec.parse("mcse[lambda=1]/toy/toy-bert/seed-0"), {"learning_rate": 1e-4}
    )
    named = ("temperature", "learning_rate", "lambda", "batch_size", "max_length", "projection_dim")
    assert [run.sources.get(name) for name in named] == [
        "Table 3",
        "--set",
        "mcse[lambda=1]",
        "[training]",
        None,
        None,
    ]
    run = resolve(TINY, RunSpec.parse("kdmcse/toy/toy-bert/seed-0"), {})
    assert run.streams == {"toy-text": "sentences", "toy-pairs": "pairs"}
    assert {role: feature.of for role, feature in run.features.items()} == {
        "image": "image",
        "caption": "caption",
    }
    assert run.dev == TINY.find_dev_task("toy")
    other = resolve(TINY, run.spec, {"dev": "SICK-R-dev"})
    assert (other.dev, other.training) == ("SICK-R-dev", run.training)


def test_a_rule_for_a_method_that_is_not_installed_is_refused() -> None:
    rules = (*TINY.hyperparameters, Rule(methods=("mcsee",), source="a test"))
    profile = TINY.model_copy(update={"hyperparameters": rules})
    with pytest.raises(UserError, match=r"rule for the method 'mcsee': did you mean mcse"):
        resolve(profile, RunSpec.parse("simcse/toy/toy-bert/seed-0"), {})


def texts_of(methods: str, values: Any = ()) -> list[str]:
    request = make_request(Selection("tiny", methods=methods, set=values))
    assert not set(request.overrides) & {"lambda", "learning_rate"}
    return [str(variant) for variant in request.methods]


@pytest.mark.parametrize(
    ("methods", "values", "expected"),
    [
        # a list makes one variant of each value, however it is written
        ("mcse[lambda=0.01|1]", (), "mcse[lambda=0.01] mcse[lambda=1]"),
        ("mcse", {"lambda": [0.01, 1]}, "mcse[lambda=0.01] mcse[lambda=1]"),
        ("mcse", ("lambda=0.01,1",), "mcse[lambda=0.01] mcse[lambda=1]"),
        ("mcse[lambda=0.01|1|1.0|1e0]@official", (), "mcse[lambda=0.01]@official mcse[lambda=1]@official"),
        # a list of --set changes the methods that have the value
        ("simcse,mcse,none", ("lambda=0.1,1",), "simcse mcse[lambda=0.1] mcse[lambda=1] none"),
        ("none,simcse", ("learning_rate=1e-5,3e-5",),
         "none simcse[learning_rate=1e-05] simcse[learning_rate=3e-05]"),
        ("mcse[lambda=2],mcse", ("lambda=0.1,1",), "mcse[lambda=2] mcse[lambda=0.1] mcse[lambda=1]"),
    ],
)  # fmt: skip
def test_a_list_of_values_makes_variants(methods: str, values: Any, expected: str) -> None:
    assert texts_of(methods, values) == expected.split()


def test_two_lists_make_their_product_and_one_value_stays_an_override() -> None:
    request = make_request(
        Selection("tiny", methods="mcse[lambda=0.1|1]", set=["temperature=0.05,0.1", "steps=4"])
    )
    assert [str(variant) for variant in request.methods] == [
        f"mcse[lambda={weight},temperature={heat}]"
        for weight in ("0.1", "1")
        for heat in ("0.05", "0.1")
    ]
    assert request.overrides == {"steps": 4}
    run = RunSpec(request.methods[-1], Variant("toy"), "toy-bert", 0)
    values = resolve(request.profile, run, request.overrides).hyperparameters.named()
    assert (values["lambda"], values["temperature"]) == (1.0, 0.1)


def test_commas_and_bars_inside_brackets_are_no_lists() -> None:
    text = "run:mcse[lambda=0.1,temperature=0.1]/toy/toy-bert/seed-0"
    overrides, lists = split_set_values([f"text={text}"])
    assert (overrides, lists) == ({"text": text}, {})
    other = "run:mcse[lambda=1]/toy/toy-bert/seed-0"
    assert texts_of(f"dalr[text={text}|{other}]") == [f"dalr[text={run}]" for run in (text, other)]


@given(
    st.dictionaries(
        st.sampled_from(["lambda", "temperature", "epochs"]),
        st.lists(st.integers(1, 9), min_size=1),
    )
)
def test_every_combination_stands_once(lists: dict[str, list[int]]) -> None:
    inside = ",".join(f"{key}={'|'.join(map(str, values))}" for key, values in lists.items())
    combinations = expand_variants([f"mcse[{inside}]" if inside else "mcse"], {}, {})
    assert len(set(combinations)) == len(combinations)
    assert len(combinations) == prod(len(set(values)) for values in lists.values())
