"""What a fork server imports once, for all processes of jobs; it uses no GPU, so they start clean.

To be imported in a fork server alone: it leaves the signals of a terminal to the driver.
"""

from __future__ import annotations

import gc
import signal
from contextlib import suppress
from importlib import import_module

from harness.stopping import SIGNALS

#: Modules of jobs, and those that libraries import only once a model is loaded, trained or scored:
#: 3 s of each job.
MODULES = (
    *("harness.runs.run", "harness.work.jobs", "harness.work.local"),
    *("scipy.stats", "transformers.conversion_mapping", "transformers.loss.loss_utils"),
    *("transformers.models.auto.tokenization_auto", "transformers.models.bert.modeling_bert"),
)

for number in SIGNALS:  # sent to the whole process group; the driver decides
    signal.signal(number, signal.SIG_IGN)
for name in MODULES:
    with suppress(ImportError):  # a library of another version; jobs import what they need
        import_module(name)
# an error here would end the server, and a library of another version may raise any
with suppress(Exception):
    from transformers.conversion_mapping import get_checkpoint_conversion_mapping

    # a thousand patterns for the weights of all types of encoders: 0.2 s of each job
    get_checkpoint_conversion_mapping("bert")
gc.collect()
gc.freeze()  # the memory of these objects stays shared with the processes that are forked
