"""The interface of methods: everything a method file imports besides losses and heads."""

from typing import TYPE_CHECKING, Any

from harness.method.hyperparameters import Hyperparameters, ValueOrigin, hyper
from harness.method.interface import (
    Batch,
    CaptionRows,
    Dimensions,
    Encode,
    Feature,
    MediaBatch,
    MixingRule,
    OwnSteps,
    PairBatch,
    Patches,
    Schedule,
    SentenceBatch,
    TripletBatch,
    by_batches,
)
from harness.spec import CONTROLS, FeatureKind, OptionValue, Stream, split_teachers

if TYPE_CHECKING:
    from harness.method.base import Method, method_named

__all__ = [
    "CONTROLS",
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
    "TripletBatch",
    "ValueOrigin",
    "by_batches",
    "hyper",
    "method_named",
    "split_teachers",
]


def __getattr__(name: str) -> Any:
    """The base class, which imports torch, on first use: a plan can do without it."""
    if name in ("Method", "method_named"):
        from harness.method import base

        return getattr(base, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
