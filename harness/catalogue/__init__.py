"""The catalogue of the papers' data sets, with sources, licences, row counts and checksums."""

from harness.catalogue.checks import State, state, verify
from harness.catalogue.download import Progress
from harness.catalogue.entries import Entry, entries, entry, providers, with_inputs
from harness.catalogue.fetching import Watch, fetch, import_folder
from harness.catalogue.places import readable

__all__ = [
    "Entry",
    "Progress",
    "State",
    "Watch",
    "entries",
    "entry",
    "fetch",
    "import_folder",
    "providers",
    "readable",
    "state",
    "verify",
    "with_inputs",
]
