"""The catalogue of the papers' data sets, with sources, licences, row counts and checksums."""

from harness.fetching.downloads import require_consent, shown, terms_of
from harness.fetching.entries import Entry, entries, entry, providers, with_inputs
from harness.fetching.entry_files import Watch, fetch, import_folder
from harness.fetching.folder import Say, readable, state, verify
from harness.fetching.repositories import (
    HubRepository,
    fetch_files,
    files_named,
    files_read,
    look_up,
    record_commit,
    recorded_commit,
)
from harness.fetching.transfer import size_of as hub_size

__all__ = [
    "Entry",
    "HubRepository",
    "Say",
    "Watch",
    "entries",
    "entry",
    "fetch",
    "fetch_files",
    "files_named",
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
