"""The results folder: records of finished and failed runs, the files that hold them, and the frame
of all scores.
"""

from harness.store.files import Store as Store
from harness.store.files import find_results as find_results
from harness.store.frames import FRAME_COLUMNS as FRAME_COLUMNS
from harness.store.frames import PRESENT as PRESENT
from harness.store.frames import UNKNOWN as UNKNOWN
from harness.store.frames import Frames as Frames
from harness.store.frames import Judge as Judge
from harness.store.frames import describe_earlier_backends as describe_earlier_backends
from harness.store.frames import describe_unscored_runs as describe_unscored_runs
from harness.store.frames import format_overrides as format_overrides
from harness.store.frames import frames_of as frames_of
from harness.store.frames import lines_of as lines_of
from harness.store.frames import list_unjudged_metrics as list_unjudged_metrics
from harness.store.frames import metrics_of as metrics_of
from harness.store.frames import read_declared_metrics as read_declared_metrics
from harness.store.frames import scored_name as scored_name
from harness.store.schema import BACKEND_VERSION as BACKEND_VERSION
from harness.store.schema import COUNTED as COUNTED
from harness.store.schema import MEASURES as MEASURES
from harness.store.schema import BatchMixing as BatchMixing
from harness.store.schema import DevCurve as DevCurve
from harness.store.schema import EncoderTrial as EncoderTrial
from harness.store.schema import Evaluation as Evaluation
from harness.store.schema import Failure as Failure
from harness.store.schema import LossCurves as LossCurves
from harness.store.schema import Protocol as Protocol
from harness.store.schema import Result as Result
from harness.store.schema import TeacherUse as TeacherUse
