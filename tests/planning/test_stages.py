"""What a run reports of its long stages: features and tokens before training, sentences and tasks
of every suite.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from executor_jobs import plan

from harness import sources
from harness.corpora.files import SentencesFile
from harness.events import Event, Stage
from harness.planning.plan import Plan
from harness.profiles import load_profile
from harness.runs.execution import Execution
from harness.sources import Hashing
from harness.work.base import execute

pytestmark = pytest.mark.usefixtures("small_toy_tests")

SUITES = ["sts", "geometry", "retrieval", "mteb", "figures"]


def stages(made: Plan) -> Iterator[tuple[str, str, Stage]]:
    """The stages of a plan's run with the suite that is being evaluated and the key of who reports."""
    events: list[Event] = []
    execute(made, events.append, Execution(device="cpu"))
    assert events[-1].kind == "done"
    suite = ""
    for event in events:
        suite = event.suite or suite
        if event.stage is not None:
            assert event.kind == (
                "prepare" if event.stage.what in ("features", "tokens") else "evaluate"
            )
            yield suite, event.run, event.stage


@pytest.mark.parametrize(
    "suites", [["sts", "retrieval"], pytest.param(SUITES, marks=pytest.mark.long)]
)
def test_every_stage_of_a_run_is_counted_from_its_start_to_its_end(
    suites: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    reported = list(stages(plan(tmp_path / "results", "mcse", suites=suites)))
    before: dict[tuple[str, str, str], list[Stage]] = {}
    for suite, key, stage in reported:
        if not suite:
            before.setdefault((key, stage.what, stage.subject), []).append(stage)
    assert {"toy-text", "toy-pairs"} == {subject for _, what, subject in before if what == "tokens"}
    assert {(key, subject) for key, what, subject in before if what == "features"} == {
        (f"toy-clip features of the images of {source}", "toy-clip: features of images")
        for source in ("toy-pairs", "ToyRetrieval")
    }
    for (_, what, _), counted in before.items():
        assert counted == sorted(counted, key=lambda stage: stage.done)
        if what == "features":
            assert (counted[0].done, counted[-1].done) == (0, counted[-1].total)
    for suite in suites:
        mine = [stage for name, _, stage in reported if name == suite]
        tasks = [stage for stage in mine if stage.what == "tasks"]
        names = list(load_profile("tiny").suites[suite].tasks)
        assert [stage.item for stage in tasks] == names or suite == "mteb"
        assert [(stage.subject, stage.done, stage.total) for stage in tasks] == [
            (suite, at, len(names)) for at in range(len(names))
        ]
        assert all(
            stage.total is not None and stage.done <= stage.total
            for stage in mine
            if stage.what == "sentences"
        )
    reporting = {suite for suite, _, stage in reported if stage.what == "sentences"}
    assert {"sts", "retrieval", "mteb"} & set(suites) <= reporting


def test_a_text_file_says_how_many_sentences_to_expect(tmp_path: Path) -> None:
    (tmp_path / "wiki.txt").write_text("one\ntwo\nthree\n")
    assert SentencesFile("wiki.txt", "fetch it").expected(tmp_path) == 3
    assert SentencesFile("wiki.txt", "fetch it", limit=2).expected(tmp_path) == 2


def test_long_hashing_speaks_and_short_hashing_does_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each piece of 10 bytes takes 7 s here; the third look is 21 s after the start."""
    content = bytes(range(70))
    file = tmp_path / "weights"
    file.write_bytes(content)
    times = iter(range(0, 10**6, 7))
    with caplog.at_level(logging.INFO, "harness.sources"):
        hashing = Hashing(lambda: float(next(times)), piece=10)
        assert hashing.file(file, len(content)) == sha256(content).hexdigest()
        assert (
            Hashing(lambda: 0.0, piece=10).file(file, len(content)) == sha256(content).hexdigest()
        )
    assert len(caplog.messages) == 2, "a quick one says nothing"
    assert all(
        line.startswith(f"hashing {file}: ") and line.endswith("/s") for line in caplog.messages
    )
    assert "left" in caplog.messages[0]
    assert sources.LINE_EVERY_S <= 30
