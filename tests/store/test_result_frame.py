"""The tidy frame of all scores, and the metrics of results."""

from __future__ import annotations

from builders import result, sts

from harness.metrics import Metric
from harness.store import FRAME_COLUMNS, Evaluation, Protocol, frames_of, metrics_of


def test_one_row_a_score() -> None:
    runs = [result(seed=seed, overrides={"steps": 3, "batch_size": 2}) for seed in range(3)]
    frame = frames_of(runs).flat()
    assert list(frame.columns) == list(FRAME_COLUMNS)
    average = frame[(frame["task"] == "Avg") & (frame["metric"] == "spearman")]
    assert sorted(average["value"]) == [70.0, 71.0, 72.0]
    assert set(frame["overrides"]) == {"batch_size=2,steps=3"}
    assert set(frame["protocol"]) == {runs[0].evaluations[0].protocol.key}
    assert frame["dev"].unique().tolist() == [60.0]
    assert frame["minutes"].iloc[0] * 60 == runs[0].train_seconds
    assert list(frames_of([]).flat().columns) == list(FRAME_COLUMNS)


def test_parts_and_protocols_are_columns() -> None:
    first = result(scores=sts(STS12=60.0), parts={"sts": {"STS12": {"MSRvid": {"spearman": 50.0}}}})
    (later,) = result(
        scores={"sts": {"STS12": {"spearman": 61.0}}}, version=2, finished="2027-01-01"
    ).evaluations
    frame = frames_of(
        [first.model_copy(update={"evaluations": [*first.evaluations, later]})]
    ).flat()
    rows = frame[frame["task"] == "STS12"][["part", "metric", "value"]].to_numpy().tolist()
    assert rows == [["", "spearman", 60.0], ["MSRvid", "spearman", 50.0], ["", "spearman", 61.0]]
    assert frame["protocol"].nunique() == 2
    assert frame["finished"].iloc[-1] == later.finished


def test_the_newest_declaration_of_a_metric_counts() -> None:
    def scored(suite: str, year: int, *metrics: Metric) -> Evaluation:
        protocol = Protocol(version=year, data="d" * 64, metrics=metrics)
        return Evaluation(
            suite=suite, protocol=protocol, scores={}, finished=f"{year}-01-01T00:00:00+00:00"
        )

    new, old = Metric("error", larger_is_better=False, digits=3), Metric("error")
    runs = [
        result(evaluations=[scored("own", 2027, new)]),
        result(evaluations=[scored("own", 2026, old, Metric("n"))]),
    ]
    assert metrics_of(runs) == {"own": {"error": new, "n": Metric("n")}}
    assert metrics_of([]) == {}


def test_a_protocol_is_its_version_and_data_not_how_metrics_are_shown() -> None:
    shown = Protocol(version=1, data="d" * 64, metrics=(Metric("spearman"),))
    assert shown.key == Protocol(version=1, data="d" * 64).key
    others = [Protocol(version=2, data="d" * 64), Protocol(version=1, data="e" * 64)]
    assert len({shown.key, *(protocol.key for protocol in others)}) == 3
    assert len(shown.key) == 12
