"""The rows of chosen runs are those of the earlier groups."""

from __future__ import annotations

import random

import pytest
from builders import result

from harness.reporting.seeds.choose import chosen, rows_of
from harness.reporting.seeds.groups import kept_groups
from harness.store import Frames, Result, frames_of


def random_frames(seed: int) -> Frames:
    draw = random.Random(seed)

    def scores() -> dict[str, dict[str, float]]:
        tasks = draw.sample(["A", "B", "ToySTS-dev", "Avg"], draw.randint(0, 4))
        return {task: {name: draw.gauss(70, 1) for name in draw.sample(["spearman", "n"], 2)} for task in tasks}

    def one() -> Result:
        shape = {"alignment": draw.random() * 0.1, "uniformity": -draw.random() * 0.2}
        given = {"sts": scores(), "geometry": {"A": shape}, "transfer": scores()}
        suites = draw.sample([*given], draw.randint(1, 3))
        parts = {task: {part: some for part in ("x", "y") if draw.random() < 0.5} for task, some in scores().items()}
        day = draw.randint(10, 20)
        return result(
            draw.choice(["simcse", "mcse", "mcse[lambda=2]", "none"]),
            draw.randint(0, 3),
            {suite: given[suite] for suite in suites},
            parts={"sts": parts},
            setting=draw.choice(["toy", "none"]),
            overrides=draw.choice([{}, {"training.steps": 9}]),
            data=draw.choice("ab"),
            version=draw.randint(1, 2),
            finished=f"2026-01-{day}T00:00:00+00:00",
        )

    states = [draw.choice(["present", "", "method code"]) for _ in range(40)]

    def judge(frames: Frames) -> list[str]:
        groups = frames.runs["group"][frames.evaluations["run"]]
        return [states[int(group[:4], 16) % 40] for group in groups]

    return frames_of([one() for _ in range(60)]).judged(judge)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("with_parts", [False, True])
def test_rows_are_the_earlier_groups(seed: int, with_parts: bool) -> None:
    frames = random_frames(seed)
    scores = [frames.scores, frames.parts] if with_parts else [frames.scores]
    rows = rows_of(frames, chosen(frames, *scores), *scores)
    groups = kept_groups(frames.flat(None if with_parts else ()))
    assert [(row.label, row.suite) for row in rows] == [*groups]
    for row, group in zip(rows, groups.values(), strict=True):
        assert (row.group, row.protocol, row.seeds, row.freshness) == (
            group.group,
            group.protocol,
            group.seeds,
            group.freshness,
        )
        assert (row.training, row.pooling) == (group.training, group.pooling)
        assert list(row.cells.items()) == list(group.cells().items())
        for part in ("x", "y"):
            assert list(row.of_part(part).items()) == list(group.cells(part).items())
        fingerprints = group.lines.drop_duplicates("seed")["fingerprint"].tolist()
        assert [frames.texts("fingerprint")[run] for run in row.runs] == fingerprints
    assert any(row.freshness.hidden for row in rows)
