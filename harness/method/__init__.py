"""The interface of a method, all that a method file imports besides losses and heads."""

from harness.inputs import FeatureKind, OptionValue, Stream
from harness.method.base import Method, method_named
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
from harness.spec import CONTROLS, split_teachers

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
