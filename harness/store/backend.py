"""The version of the training code, and results of earlier versions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness.formatting import count_of
from harness.store.indexed import IndexedResults
from harness.store.schema import Result

#: Increased when the same configuration would give other numbers: the loop, the batching, the seeds, the optimizer.
BACKEND_VERSION: Final = 3


def is_earlier(result: Result) -> bool:
    """Whether a run was trained by an earlier backend; what trains nothing has no backend."""
    return bool(result.hyperparameters.get("training")) and result.backend < BACKEND_VERSION


def earlier_backends(results: Sequence[Result]) -> str:
    """One line on the results of earlier backends; empty where there are none."""
    if isinstance(results, IndexedResults):
        earlier = [backend for backend in results.backends() if backend < BACKEND_VERSION]
    else:
        earlier = [result.backend for result in results if is_earlier(result)]
    if not earlier:
        return ""
    versions = " and ".join(map(str, sorted(set(earlier))))
    were = "was" if len(earlier) == 1 else "were"
    return (
        f"{count_of(len(earlier), 'result')} {were} made by backend {versions}, the current one is {BACKEND_VERSION}: "
        "the numbers have changed (CHANGELOG.md); `harness run` with their options trains them again"
    )
