"""The interface of a method, all that a method file imports besides losses and heads."""

from harness.inputs import FeatureKind, OptionValue, Stream
from harness.method.base import Method, method_named
from harness.method.batches import Batch, Encode, MediaBatch, PairBatch, SentenceBatch, TripletBatch
from harness.method.hyperparameters import Hyperparameters, hyper
from harness.method.mixing import MixingRule, by_batches
from harness.method.needs import CaptionRows, Dimensions, Feature, OwnSteps, Patches, Schedule
from harness.spec import NO_TEACHER, split_teachers

__all__ = [
    "NO_TEACHER",
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
    "by_batches",
    "hyper",
    "method_named",
    "split_teachers",
]
