"""The interface of methods: everything a method file imports besides losses and heads."""

from typing import TYPE_CHECKING, Any

from harness.method.declared import method_named
from harness.method.interface import (
    UNMASKED,
    Batch,
    CaptionRows,
    Dimensions,
    Encode,
    Feature,
    Hyperparameters,
    MediaBatch,
    MixingRule,
    OwnSteps,
    PairBatch,
    Patches,
    Schedule,
    SentenceBatch,
    TripletBatch,
    ValueOrigin,
    Vocabulary,
    by_batches,
    hyper,
)
from harness.spec import CONTROLS, FeatureKind, OptionValue, Stream, split_teachers

if TYPE_CHECKING:
    from harness.encoders.student import Student
    from harness.method.base import Method

__all__ = [
    "CONTROLS",
    "UNMASKED",
    "Batch",
    "CaptionRows",
    "Dimensions",
    "Encode",
    "Feature",
    "FeatureKind",
    "Hyperparameters",
    "MediaBatch",
    "Method",
    "MixingRule",
    "OptionValue",
    "OwnSteps",
    "PairBatch",
    "Patches",
    "Schedule",
    "SentenceBatch",
    "Stream",
    "Student",
    "TripletBatch",
    "ValueOrigin",
    "Vocabulary",
    "by_batches",
    "hyper",
    "method_named",
    "split_teachers",
]


def __getattr__(name: str) -> Any:
    """Import what needs torch on first use, since planning does not."""
    if name == "Student":
        from harness.encoders.student import Student

        return Student
    if name == "Method":
        from harness.method.base import Method

        return Method
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
