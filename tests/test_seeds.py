"""Seeds are functions of their named axes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.seeds import derive_seed, make_generator

AXES = st.dictionaries(
    st.from_regex(r"[a-z]{1,6}", fullmatch=True),
    st.integers(0, 99) | st.text(max_size=5),
    min_size=1,
)


@given(AXES)
def test_the_order_of_axes_does_not_matter(axes: dict) -> None:
    assert derive_seed(**axes) == derive_seed(**dict(reversed(axes.items())))
    assert 0 <= derive_seed(**axes) < 2**63


@given(AXES, AXES)
def test_other_axes_give_another_seed(axes: dict, other: dict) -> None:
    assert (derive_seed(**axes) == derive_seed(**other)) == (axes == other)


def test_a_number_is_not_its_text_and_a_generator_starts_anew() -> None:
    assert derive_seed(seed=1) != derive_seed(seed="1")
    assert make_generator(seed=1).integers(1 << 30) == make_generator(seed=1).integers(1 << 30)
