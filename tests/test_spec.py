"""The variant grammar and run keys."""

from __future__ import annotations

import string
from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.spec import (
    RunSpec,
    SpecError,
    Variant,
    parse_encoder,
    parse_seeds,
    parse_setting,
    split,
    split_teachers,
    write_canonical,
)

NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True)
KEYS = st.from_regex(r"[a-z][a-z_0-9]{0,8}", fullmatch=True)
PLAIN = st.text(string.ascii_lowercase + string.digits + "+.:-/@", min_size=1, max_size=10)
VALUES = st.recursive(
    PLAIN
    | st.floats(allow_nan=False, allow_infinity=False, width=32)
    | st.integers(-(10**9), 10**9),
    lambda inner: st.builds(
        lambda name, value: f"{name}[k={write_canonical(value)},j=1]", NAMES, inner
    ),
    max_leaves=3,
)
VARIANTS = st.builds(
    Variant.make,
    NAMES,
    st.dictionaries(KEYS, VALUES, max_size=4),
    st.sampled_from(["paper", "official", "fixed"]),
)


@given(VARIANTS)
def test_a_printed_variant_reads_back_as_itself(variant: Variant) -> None:
    assert Variant.parse(str(variant)) == variant


@given(NAMES, st.dictionaries(KEYS, VALUES, min_size=2, max_size=5), st.randoms())
def test_the_order_of_options_does_not_matter(
    name: str, options: dict[str, object], random
) -> None:
    items = list(options.items())
    random.shuffle(items)
    typed = f"{name}[{', '.join(f'{key} = {write_canonical(value)}' for key, value in items)}]"
    assert Variant.parse(typed) == Variant.make(name, options)


@given(
    VARIANTS, NAMES, st.sampled_from(["bert-base-uncased", "owner/model"]), st.integers(0, 10**6)
)
def test_a_printed_run_reads_back_as_itself(
    variant: Variant, setting: str, encoder: str, seed: int
) -> None:
    spec = RunSpec(variant, parse_setting(setting), encoder, seed)
    assert RunSpec.parse(str(spec)) == spec


@given(st.lists(VARIANTS, min_size=1, max_size=4))
def test_a_list_splits_only_at_commas_outside_brackets(variants: list[Variant]) -> None:
    assert [Variant.parse(part) for part in split(",".join(map(str, variants)))] == variants


def test_numbers_have_one_text_and_the_key_reads_as_the_architecture_says() -> None:
    for number, other in (
        ("0.05", "5e-2"),
        ("1", "1.0"),
        (".5", "0.50"),
        ("-0", "0"),
        ("1e3", "1000"),
    ):
        assert write_canonical(number) == write_canonical(other)
    text = "dalr[without=rank]/wiki+flickr/bert-base-uncased/seed-3"
    assert str(RunSpec.parse(text)) == text
    assert str(Variant.parse("kdmcse@official")) == "kdmcse@official"
    assert str(Variant.parse("mcse@paper")) == "mcse"


MALFORMED: dict[Callable[[str], object], str] = {
    Variant.parse: "| [a=1] | m[ | m[a=1 | m] | m[a] | m[a=] | m[=1] | m[a=1]x | m@ | m[a=1,a=2]",
    parse_encoder: "| ../up | a/b/c | a b | /abs",
    parse_seeds: "| five | -1 | 0 | 1.5 | 1,,2",
    split_teachers: "| + | a+ | +a | a++b | run:simcse/wiki",
    RunSpec.parse: "| mcse/wiki/bert | mcse/wiki/bert/3 | mcse/wiki/bert/seed-x | mcse/seed-1",
}


@pytest.mark.parametrize("parse", MALFORMED, ids=lambda parse: parse.__qualname__)
def test_what_is_malformed_is_refused(parse: Callable[[str], object]) -> None:
    for text in MALFORMED[parse].split("|"):
        with pytest.raises(SpecError):
            parse(text.strip())


def test_seeds() -> None:
    assert [parse_seeds(text) for text in ("3", "0,3,7", "4,")] == [(0, 1, 2), (0, 3, 7), (4,)]


RUN = "run:simcse/wiki+flickr/bert/seed-0"
SHOT = "run:mcse[lambda=0.05]@official/wiki+flickr[shot=100]/bert/seed-12"
NESTED = (
    f"run:dalr[text=run:simcse[temperature=0.1]/wiki/bert/seed-0+{RUN}]@official/wiki/bert/seed-1"
)
TEACHERS = ("simcse", "clip-b.32", RUN, SHOT, NESTED)


@pytest.mark.parametrize(
    "given", [*((name,) for name in TEACHERS), *product(TEACHERS, repeat=2)], ids="+".join
)
def test_teachers_are_split_outside_run_keys(given: tuple[str, ...]) -> None:
    assert split_teachers("+".join(given)) == given


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("dalr@official[captions=all,mu=1]", "dalr[captions=all,mu=1]@official"),
        ("dalr@9", "dalr@official"),
    ],
)
def test_options_typed_after_the_reading_are_put_before_it_in_the_message(
    typed: str, meant: str
) -> None:
    with pytest.raises(SpecError) as error:
        Variant.parse(typed)
    assert str(error.value).endswith(f"write for example {meant}")
    assert Variant.parse(meant).reading == "official"
