"""The interface of methods: everything a method file imports besides losses and heads."""

from typing import TYPE_CHECKING, Any

from harness.method.declared import method_named as method_named
from harness.method.interface import UNMASKED as UNMASKED
from harness.method.interface import Batch as Batch
from harness.method.interface import CaptionRows as CaptionRows
from harness.method.interface import Dimensions as Dimensions
from harness.method.interface import Encode as Encode
from harness.method.interface import Feature as Feature
from harness.method.interface import Hyperparameters as Hyperparameters
from harness.method.interface import MediaBatch as MediaBatch
from harness.method.interface import MixingRule as MixingRule
from harness.method.interface import Neighbours as Neighbours
from harness.method.interface import OwnSteps as OwnSteps
from harness.method.interface import PairBatch as PairBatch
from harness.method.interface import Patches as Patches
from harness.method.interface import PhraseRows as PhraseRows
from harness.method.interface import Schedule as Schedule
from harness.method.interface import SentenceBatch as SentenceBatch
from harness.method.interface import TripletBatch as TripletBatch
from harness.method.interface import ValueOrigin as ValueOrigin
from harness.method.interface import Vocabulary as Vocabulary
from harness.method.interface import by_batches as by_batches
from harness.method.interface import find_search as find_search
from harness.method.interface import hyper as hyper
from harness.spec import CONTROLS as CONTROLS
from harness.spec import FeatureKind as FeatureKind
from harness.spec import OptionValue as OptionValue
from harness.spec import Stream as Stream
from harness.spec import split_teachers as split_teachers

if TYPE_CHECKING:
    from harness.encoders.rows import Packed as Packed
    from harness.encoders.student import Student as Student
    from harness.method.base import Method as Method


def __getattr__(name: str) -> Any:
    """Import what needs torch on first use, since planning does not."""
    if name == "Packed":
        from harness.encoders.rows import Packed

        return Packed
    if name == "Student":
        from harness.encoders.student import Student

        return Student
    if name == "Method":
        from harness.method.base import Method

        return Method
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
