"""The catalogue of the papers' data sets, with sources, licences, row counts and checksums."""

from harness.catalogue.download import Progress
from harness.catalogue.entries import entries, entry, providers
from harness.catalogue.fetching import Watch, bring, fetch
from harness.catalogue.manifest import State, state, verify
from harness.catalogue.places import readable
from harness.catalogue.schema import Entry

__all__ = [
    "Entry",
    "Progress",
    "State",
    "Watch",
    "bring",
    "entries",
    "entry",
    "fetch",
    "providers",
    "readable",
    "state",
    "verify",
]
