"""What the schema of results admits, and what it refuses: a result of others costs its own place
and no command.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import result, rewrite
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.cli.main import cli
from harness.errors import UserError
from harness.files import LARGEST
from harness.reporting.build import render
from harness.reporting.contents import Contents
from harness.store import Result, Store
from harness.store.merging import merge

Content = dict[str, Any]


def _put(*path: str | int, value: object) -> Callable[[Content], None]:
    def change(content: Content) -> None:
        here: Any = content
        for step in path[:-1]:
            here = here[step]
        here[path[-1]] = value

    return change


SCORES = ("evaluations", 0, "scores", "ToySTS", "spearman")
REFUSED = {
    "a score of 1e155": _put(*SCORES, value=1e155),
    "a score of 1e308": _put(*SCORES, value=-1e308),
    "a dev score more": _put("dev", "scores", value=[1.0, 2.0, 3.0]),
    "a best step without score": _put("dev", "best_score", value=None),
    "a loss less": _put("losses", "terms", value={"text": [1.0]}),
    "digits below 0": _put("evaluations", 0, "protocol", "metrics", 0, "digits", value=-5),
    "a thousand digits": _put("evaluations", 0, "protocol", "metrics", 0, "digits", value=1000),
    "a version of 30 digits": _put("evaluations", 0, "protocol", "version", value=10**30),
    "a backend of 30 digits": _put("backend", value=10**30),
    "a negative seed": _put("spec", "seed", value=-1),
    "a seed of 30 digits": _put("spec", "seed", value=10**30),
    "a variant that is none": _put("spec", "variant", value="../../etc"),
    "a variant in another spelling": _put("spec", "variant", value="simcse[temperature=0.050]"),
    "another method": _put("spec", "method", value="mcse"),
    "a setting with a reading": _put("spec", "setting", value="toy@official"),
    "an encoder with a blank": _put("spec", "encoder", value="toy bert"),
    "a name more": _put("spec", "lab", value="a"),
    "no names": _put("spec", value="simcse/toy/toy-bert/seed-0"),
    "a step of 30 digits": _put("losses", "steps", value=[1, 10**30]),
    "seconds of 1e300": _put("train_seconds", value=1e300),
    "deep values": _put("identity", "x", value=json.loads("[" * 500 + "]" * 500)),
}


def _written(store: Store, changes: Callable[[Content], object], **given: Any) -> Path:
    path = store.path(store.save(result(**given)))
    rewrite(path, changes)
    return path


@pytest.mark.parametrize("what", REFUSED)
def test_odd_content_with_a_valid_digest_is_refused_by_the_name_of_its_file(
    what: str, tmp_path: Path
) -> None:
    store = Store(tmp_path / "lab")
    path = _written(store, REFUSED[what])
    with pytest.raises(UserError, match=re.escape(str(path))):
        store.read(path)
    assert [str(path) in line for line in store.frames().problems] == [True]
    into = Store(tmp_path / "all")
    done = merge(into, [store])
    assert [str(path) in line for line in done.problems] == [True]
    assert not into.files()
    assert not list(into.root.rglob("seed-*"))


def test_a_file_larger_than_any_result_is_refused(tmp_path: Path) -> None:
    path = _written(Store(tmp_path), len)
    os.truncate(path, LARGEST + 1)
    with pytest.raises(UserError, match="MB"):
        Store(tmp_path).read(path)


NUMBERS = st.floats(-1e60, 1e60) | st.sampled_from([0.0, -0.0, 1e-320, 1e60, -1e60, 50.0])
TEXTS = st.text(max_size=6)
STEPS = st.lists(st.integers(0, 10**15), max_size=3)


@st.composite
def admitted(draw: st.DrawFn) -> Content:
    """What a result of others may hold besides its name: extremes that the schema admits."""
    metric = {
        "name": "spearman",
        "larger_is_better": draw(st.booleans()),
        "digits": draw(st.integers(0, 12)),
        "unit": draw(TEXTS),
        "shown": draw(st.booleans()),
    }
    scores = draw(
        st.dictionaries(st.sampled_from(["ToySTS", "Avg", ""]) | TEXTS, st.just({}), max_size=3)
    )
    for task in scores:
        scores[task] = draw(
            st.dictionaries(st.sampled_from(["spearman", ""]) | TEXTS, NUMBERS, max_size=2)
        )
    steps, lost = draw(STEPS), draw(STEPS)
    best = bool(steps)
    return {
        "evaluations": [
            {
                "suite": draw(st.sampled_from(["sts", "geometry", ""]) | TEXTS),
                "protocol": {
                    "version": draw(st.integers(0, 10**15)),
                    "data": draw(TEXTS),
                    "metrics": [metric],
                },
                "scores": scores,
                "parts": {task: {draw(TEXTS): {"spearman": draw(NUMBERS)}} for task in scores},
                "seconds": draw(NUMBERS),
                "finished": draw(TEXTS),
            }
        ],
        "dev": {
            "task": draw(TEXTS),
            "metric": draw(TEXTS),
            "steps": steps,
            "scores": [draw(NUMBERS) for _ in steps],
            "best_step": steps[0] if best else None,
            "best_score": draw(NUMBERS) if best else None,
        },
        "losses": {
            "steps": lost,
            "terms": {draw(TEXTS): [draw(NUMBERS | st.none()) for _ in lost]},
        },
        "train_seconds": draw(NUMBERS),
        "peak_memory_mb": draw(NUMBERS),
        "started": draw(TEXTS),
        "finished": draw(TEXTS),
        "warnings": draw(st.lists(TEXTS, max_size=2)),
        "revision": draw(st.none() | TEXTS),
    }


@settings(max_examples=2, suppress_health_check=list(HealthCheck))
@given(st.lists(admitted(), min_size=6, max_size=6))
def test_tables_and_pages_are_made_of_whatever_the_schema_admits(
    tmp_path_factory: pytest.TempPathFactory, contents: list[Content]
) -> None:
    folder = tmp_path_factory.mktemp("admitted")
    for number, content in enumerate(contents):
        variant, seed = ("simcse", "mcse")[number % 2], number // 2
        path = _written(
            Store(folder),
            lambda whole, content=content: whole.update(content),
            variant=variant,
            seed=seed,
        )
        assert isinstance(Store(folder).read(path), Result)
    for words in (["table", "sts"], ["compare", "mcse", "simcse", "--metric", "sts.Avg"]):
        done = CliRunner().invoke(cli, [*words, "--results", str(folder)])
        assert done.exit_code == 0 or isinstance(done.exception, UserError), words
    assert render(Contents.of(Store(folder)), folder / "report").is_file()
