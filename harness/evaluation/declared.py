"""What a suite declares for readers of its scores, usually without importing it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.code import get_declarations
from harness.errors import PlugInError
from harness.evaluation.suites import Suite, make_nested_name, split_nested_name
from harness.metrics import MetricWords
from harness.registry import get_class, list_registered


@dataclass(frozen=True)
class DeclaredSuite:
    """A suite's title, the words of its metrics, as the values of `MetricWords`, and whether only
    models with an image side have scores (see `harness.evaluation.suites.Suite`).
    """

    title: str
    words: Mapping[str, Sequence[str]]
    needs_images: bool

    def metric_words(self, metric: str) -> MetricWords:
        """The words of a metric, none for one that the suite does not name; of leading dimensions,
        those of the metric with their number.
        """
        if metric in self.words:
            return MetricWords(*self.words[metric])

        whole_metric, dimensions = split_nested_name(metric)
        words = MetricWords(*self.words.get(whole_metric, ()))
        heading = make_nested_name(words.heading, dimensions) if words.heading else ""
        return MetricWords(group=words.group, heading=heading)


def describe_suite(name: str) -> DeclaredSuite:
    """Return what a suite declares; one that is not installed, or fails, has its name alone.

    Results outlive the packages that made them, so that no table depends on the suite's code.
    """
    nothing = DeclaredSuite(name, {}, needs_images=False)
    if name not in list_registered("suite"):
        return nothing

    def answer() -> dict[str, Any]:
        suite = get_class("suite", name, Suite)
        words = {metric: list(texts) for metric, texts in suite.words.items()}
        return {"title": suite.title, "words": words, "needs_images": suite.needs_images}

    try:
        declared = get_declarations().ask("suite", name, "for readers", answer)
    except PlugInError:
        return nothing

    title = declared["title"] or name
    return DeclaredSuite(title, declared["words"], declared["needs_images"])
