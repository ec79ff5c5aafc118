"""The catalogue of the papers' data sets, with sources, licences, row counts and checksums."""

from harness.catalogue.checks import State, state, verify
from harness.catalogue.consent import require_consent, terms_of
from harness.catalogue.display import shown
from harness.catalogue.download import Progress
from harness.catalogue.entries import Entry, entries, entry, providers, with_inputs
from harness.catalogue.fetching import Watch, fetch, import_folder
from harness.catalogue.hub import size_of as hub_size
from harness.catalogue.models import (
    HubRepository,
    fetch_model,
    files_read,
    look_up,
    record_commit,
    recorded_commit,
)
from harness.catalogue.places import Say, readable

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
