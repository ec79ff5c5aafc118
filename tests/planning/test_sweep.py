"""Lists of values as variants: in a variant, in --set, and as the product of both."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UserError
from harness.grid import listed_values, resolve, swept
from harness.planning.request import make_request
from harness.planning.selection import Selection
from harness.spec import RunSpec, Variant


def variants(methods: str, *values: str, **mapped: object) -> list[str]:
    request = make_request(Selection("tiny", methods=methods, set=mapped or values))
    assert not set(request.overrides) & {"lambda", "learning_rate"}
    return [str(variant) for variant in request.methods]


THREE = [f"mcse[lambda={value}]" for value in ("0.01", "0.1", "1")]


def test_a_list_makes_one_variant_of_each_value_however_it_is_written() -> None:
    assert variants("mcse[lambda=0.01|0.1|1]") == THREE
    assert variants("mcse", "lambda=0.01,0.1,1") == THREE
    assert variants("mcse", **{"lambda": [0.01, 0.1, 1]}) == THREE
    assert variants("mcse[lambda=0.01|0.1|1.0|1e0]@official") == [f"{one}@official" for one in THREE]


def test_a_list_of_set_changes_the_methods_that_have_the_value() -> None:
    assert variants("simcse,mcse,none", "lambda=0.1,1") == ["simcse", "mcse[lambda=0.1]", "mcse[lambda=1]", "none"]
    assert variants("none,simcse", "learning_rate=1e-5,3e-5") == [
        *("none", "simcse[learning_rate=1e-05]", "simcse[learning_rate=3e-05]")
    ]
    assert variants("mcse[lambda=2],mcse", "lambda=0.1,1") == ["mcse[lambda=2]", "mcse[lambda=0.1]", "mcse[lambda=1]"]


def test_two_lists_make_their_product_and_one_value_stays_an_override() -> None:
    request = make_request(Selection("tiny", methods="mcse[lambda=0.1|1]", set=["temperature=0.05,0.1", "steps=4"]))
    assert [str(one) for one in request.methods] == [
        f"mcse[lambda={weight},temperature={heat}]" for weight in ("0.1", "1") for heat in ("0.05", "0.1")
    ]
    assert request.overrides == {"steps": 4}
    run = RunSpec(request.methods[-1], Variant("toy"), "toy-bert", 0)
    found = resolve(request.profile, run, request.overrides).hyperparameters.named()
    assert (found["lambda"], found["temperature"]) == (1.0, 0.1)


def test_commas_and_bars_inside_brackets_are_no_lists() -> None:
    text = "run:mcse[lambda=0.1,temperature=0.1]/toy/toy-bert/seed-0"
    overrides, lists = listed_values([f"text={text}"])
    assert (overrides, lists) == ({"text": text}, {})
    assert variants(f"dalr[text={text}|run:mcse[lambda=1]/toy/toy-bert/seed-0]") == [
        *(f"dalr[text={text}]", "dalr[text=run:mcse[lambda=1]/toy/toy-bert/seed-0]")
    ]


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (Selection("tiny", methods="mcse", set=["lambda=0.1,"]), "'--set lambda=0.1,' has an empty value in a list"),
        (Selection("tiny", methods="mcse[lambda=|1]"), "has an empty value in a list"),
        (Selection("tiny", methods="simcse", set=["lambda=0.1,1"]), "--set lambda: no such hyperparameter"),
        (Selection("tiny", methods="none", set=["epochs=1,2"]), "--set epochs=1,2 changes no method of this grid"),
        (Selection("tiny", table="mcse:T2", set=["lambda=0.1,1"]), "--table selects its own runs; give one value"),
        (
            Selection("tiny", methods="mcse",
                      set=[f"{k}={','.join(map(str, range(1, 11)))}" for k in ("steps", "eval_every")]
                      + [f"batch_size={','.join(map(str, range(2, 13)))}"]),
            "make more than 1,000 variants",
        ),
    ],
)  # fmt: skip
def test_lists_that_make_no_variants_are_one_line(selection: Selection, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        make_request(selection)
    assert "\n" not in str(caught.value)


@given(st.dictionaries(st.sampled_from(["lambda", "temperature", "epochs"]), st.lists(st.integers(1, 9), min_size=1)))
def test_every_combination_stands_once(lists: dict[str, list[int]]) -> None:
    inside = ",".join(f"{key}={'|'.join(map(str, values))}" for key, values in lists.items())
    found = swept([f"mcse[{inside}]" if inside else "mcse"], {}, {})
    assert len(set(found)) == len(found)
    product = 1
    for values in lists.values():
        product *= len(set(values))
    assert len(found) == product
