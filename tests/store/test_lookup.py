"""Results by what a person typed."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import result

from harness.errors import UserError
from harness.store import Store, find_results

KEY = "simcse/toy/toy-bert/seed-0"


def test_a_key_finds_every_configuration_and_a_file_one(tmp_path: Path) -> None:
    store = Store(tmp_path)
    tiny, small, slow = (
        store.save(one) for one in (result(), result(profile="small"), result(overrides={"learning_rate": 1e-5}))
    )
    store.save(result(seed=1))
    assert {one.fingerprint for one in find_results(store, KEY)} == {one.fingerprint for one in (tiny, small, slow)}
    assert find_results(store, KEY, "small") == [small]
    assert find_results(store, f"{store.path(slow)}") == [slow]
    assert Store.holding(store.path(slow)).root == tmp_path.resolve()


@pytest.mark.parametrize(
    ("text", "profile", "message"),
    [
        ("simcse/toy/toy-bert/seed-9", None, "there is no result of simcse/toy/toy-bert/seed-9 in"),
        (KEY, "paper", "under the profile 'paper'"),
        ("nowhere.json", None, r"there is no file nowhere\.json"),
    ],
)
def test_nothing_found_is_one_line(tmp_path: Path, text: str, profile: str | None, message: str) -> None:
    store = Store(tmp_path)
    store.save(result())
    with pytest.raises(UserError, match=message) as refusal:
        find_results(store, text, profile)
    assert "\n" not in str(refusal.value)
