"""Order and mixing: functions of the step's number alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from harness_methods.dalr import after_text
from harness_methods.kdmcse import every_ceil
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UserError
from harness.method import MixingRule, by_batches
from harness.training.batching import Order, make_mixing


def loop_of_the_public_code(text: int, paired: int, epochs: int) -> list[tuple[str, int]]:
    """MCSE's loop (train_mix.py) written out: two endless loaders, a period, the index reset every
    epoch.
    """
    texts, pairs = itertools.count(), itertools.count()
    period, steps = text // paired, []
    for _ in range(epochs):
        steps += [
            ("pairs", next(pairs)) if index % period == 0 else ("text", next(texts))
            for index in range(text + paired)
        ]
    return steps


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 3))
def test_mixing_is_the_public_loop_without_its_memory(text: int, paired: int, epochs: int) -> None:
    if paired > text:
        with pytest.raises(UserError, match="at least as many text batches"):
            make_mixing(text, paired, 1, by_batches)
        return
    mixing = make_mixing(text, paired, 1, by_batches)
    assert [mixing.step(k) for k in range(mixing.epoch * epochs)] == loop_of_the_public_code(
        text, paired, epochs
    )


@pytest.mark.parametrize(("pairs", "cycle"), [(29_783, 34), (82_783, 13)])
def test_cycles_are_those_of_the_papers(pairs: int, cycle: int) -> None:
    """A million sentences: MCSE's p = 33; KDMCSE's ceil(N / M) and DALR's N // M text steps with a
    paired one.
    """
    mcse = make_mixing(1_000_000, 29_783, 64, by_batches)
    assert (mcse.text, mcse.paired, mcse.cycle, mcse.place) == (15625, 466, 33, 0)
    for rule in (every_ceil, after_text):
        mixing = make_mixing(1_000_000, pairs, 64, rule)
        assert not mixing.leaves_out_text
        streams = [mixing.step(k)[0] for k in range(2 * cycle)]
        assert [step for step, stream in enumerate(streams) if stream == "pairs"] == [
            cycle - 1,
            2 * cycle - 1,
        ]


@pytest.mark.parametrize(
    ("rule", "paired"), [(by_batches, 400), (every_ceil, 400), (after_text, 200)]
)
def test_with_as_many_pairs_as_sentences_two_of_three_rules_never_read_the_text(
    rule: MixingRule, paired: int
) -> None:
    """A million of each, as in wiki+cc12m-1: paired steps among the first 400."""
    mixing = make_mixing(1_000_000, 1_000_000, 64, rule)
    assert [mixing.step(k)[0] for k in range(400)].count("pairs") == paired
    assert mixing.leaves_out_text is (paired == 400)


@given(
    st.integers(30, 200),
    st.integers(1, 30),
    st.sampled_from([by_batches, every_ceil, after_text]),
    st.integers(1, 3),
)
def test_every_rule_reads_each_stream_batch_by_batch(
    rows: int, pairs: int, rule: MixingRule, epochs: int
) -> None:
    mixing = make_mixing(rows, pairs, 3, rule)
    steps = [mixing.step(k) for k in range(mixing.epoch * epochs)]
    for stream in ("text", "pairs"):
        numbers = [number for name, number in steps if name == stream]
        assert numbers == list(range(len(numbers)))


def test_one_stream_fills_every_step_and_a_place_outside_its_cycle_is_refused() -> None:
    with pytest.raises(UserError, match="place 3 in a cycle of 3"):
        make_mixing(100, 10, 5, lambda rows, pairs, text_batches, pair_batches: (3, 3))
    text, pairs = make_mixing(3, 0, 1, by_batches), make_mixing(0, 3, 1, after_text)
    assert [text.step(k) for k in (0, 7)] == [("text", 0), ("text", 7)]
    assert [pairs.step(k) for k in (0, 7)] == [("pairs", 0), ("pairs", 7)]
    assert (text.leaves_out_text, pairs.leaves_out_text) == (False, False)


@given(st.integers(1, 50), st.integers(1, 20))
def test_a_pass_reads_every_row_once_and_the_next_in_another_order(rows: int, batch: int) -> None:
    order = Order(rows, batch, 3, "wiki", "sentences")
    turns = [
        np.concatenate([order.batch(turn * order.batches + k) for k in range(order.batches)])
        for turn in range(2)
    ]
    for turn in turns:
        assert sorted(turn) == list(range(rows))
    if rows > 12:
        assert list(turns[0]) != list(turns[1])


def test_order_depends_on_seed_setting_and_stream_only() -> None:
    axes = ((0, "wiki", "sentences"), (0, "wiki", "sentences"), (1, "wiki", "sentences"))
    axes += ((0, "flickr", "sentences"), (0, "wiki", "pairs"))
    first, same, *others = (tuple(Order(100, 10, *axis).batch(4)) for axis in axes)
    assert first == same
    assert first not in others
