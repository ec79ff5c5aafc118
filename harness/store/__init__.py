"""The results folder: records of finished and failed runs, the files that hold them, and the frame of all scores."""

from harness.store.files import Store, find_results
from harness.store.frame import FRAME_COLUMNS, frame_of, metrics_of, overrides_text, unjudged, unscored
from harness.store.indexed import (
    PRESENT,
    UNKNOWN,
    Chosen,
    IndexedResults,
    Judge,
    StaleIndexError,
    earlier_backends,
    of_profile,
    some_of,
    without_overrides,
)
from harness.store.schema import (
    BACKEND_VERSION,
    DevCurve,
    Evaluation,
    Failure,
    LossCurves,
    Protocol,
    Result,
    Spec,
    TeacherUse,
    is_earlier,
)

__all__ = [
    "BACKEND_VERSION",
    "FRAME_COLUMNS",
    "PRESENT",
    "UNKNOWN",
    "Chosen",
    "DevCurve",
    "Evaluation",
    "Failure",
    "IndexedResults",
    "Judge",
    "LossCurves",
    "Protocol",
    "Result",
    "Spec",
    "StaleIndexError",
    "Store",
    "TeacherUse",
    "earlier_backends",
    "find_results",
    "frame_of",
    "is_earlier",
    "metrics_of",
    "of_profile",
    "overrides_text",
    "some_of",
    "unjudged",
    "unscored",
    "without_overrides",
]
