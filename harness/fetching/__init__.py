"""The catalogue of the papers' data sets, with sources, licences, row counts and checksums."""

from harness.fetching.bring import Watch, fetch, import_folder
from harness.fetching.checks import State, state, verify
from harness.fetching.consent import require_consent, terms_of
from harness.fetching.display import shown
from harness.fetching.download import Progress
from harness.fetching.entries import Entry, entries, entry, providers, with_inputs
from harness.fetching.hub import size_of as hub_size
from harness.fetching.models import (
    HubRepository,
    fetch_model,
    files_read,
    look_up,
    record_commit,
    recorded_commit,
)
from harness.fetching.places import Say, readable

__all__ = [
    "Entry",
    "HubRepository",
    "Progress",
    "Say",
    "State",
    "Watch",
    "entries",
    "entry",
    "fetch",
    "fetch_model",
    "files_read",
    "hub_size",
    "import_folder",
    "look_up",
    "providers",
    "readable",
    "record_commit",
    "recorded_commit",
    "require_consent",
    "shown",
    "state",
    "terms_of",
    "verify",
    "with_inputs",
]
