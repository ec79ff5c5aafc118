"""Suites and metrics as a reader calls them; their names in results stay the codes."""

from __future__ import annotations

from collections.abc import Collection

from harness.metrics import Column

_SUITES = {
    "sts": "STS",
    "stsb-multi": "Multilingual STS-B",
    "transfer": "Transfer tasks",
    "retrieval": "Image-text retrieval",
    "geometry": "Alignment and uniformity",
    "mteb": "MTEB",
}
_METRICS = {
    "spearman": "Spearman correlation x 100",
    "pearson": "Pearson correlation x 100",
    "acc": "accuracy in percent",
    "main_score": "main score of each task",
}
#: directions of retrieval, as metrics begin
_WAYS = {"i2t": "image to text", "t2i": "text to image"}


def suite_title(suite: str) -> str:
    """A suite's name as a reader calls it; that of a suite of another package is its own."""
    return _SUITES.get(suite, suite)


def metric_words(metrics: Collection[str]) -> str:
    """The only metric of a table in words; empty where it has several, which its columns name."""
    return _METRICS.get(next(iter(metrics)), next(iter(metrics))) if len(metrics) == 1 else ""


def data_of(profile: str) -> str:
    """What a title calls the data of a profile."""
    return "toy data" if profile == "tiny" else f"profile {profile}"


def by_way(metric: str) -> tuple[str, str]:
    """A direction of retrieval in words and the rest of a metric's name, `i2t_R@1`; no direction for other metrics."""
    way, _, rest = metric.partition("_")
    return (_WAYS[way], rest) if way in _WAYS and rest else ("", metric)


def heading(column: Column, *, several: bool) -> tuple[str, str]:
    """The heading of a column and of the group above it, which is empty unless the table has `several` metrics.

    The metrics of one task, and of one direction of retrieval, are a group.
    """
    if not several:
        return "", column.task
    way, metric = by_way(column.metric)
    return ", ".join(filter(None, (column.task, way))), metric
