"""The catalogue of the papers' data sets, with sources, licences, row counts and checksums."""

from harness.fetching.downloads import find_terms as find_terms
from harness.fetching.downloads import require_consent as require_consent
from harness.fetching.downloads import show_downloads as show_downloads
from harness.fetching.entries import Entry as Entry
from harness.fetching.entries import add_inputs as add_inputs
from harness.fetching.entries import entries as entries
from harness.fetching.entries import find_entry as find_entry
from harness.fetching.entries import find_providers as find_providers
from harness.fetching.entry_files import Watch as Watch
from harness.fetching.entry_files import fetch as fetch
from harness.fetching.entry_files import import_folder as import_folder
from harness.fetching.folder import Say as Say
from harness.fetching.folder import find_state as find_state
from harness.fetching.folder import format_size as format_size
from harness.fetching.folder import verify as verify
from harness.fetching.repositories import INSTEAD as INSTEAD
from harness.fetching.repositories import HubFile as HubFile
from harness.fetching.repositories import HubRepository as HubRepository
from harness.fetching.repositories import RepositoryKind as RepositoryKind
from harness.fetching.repositories import fetch_files as fetch_files
from harness.fetching.repositories import look_up as look_up
from harness.fetching.repositories import read_commit as read_commit
from harness.fetching.repositories import record_commit as record_commit
from harness.fetching.repositories import select_files as select_files
from harness.fetching.repositories import select_model_files as select_model_files
from harness.fetching.transfer import measure_on_hub as measure_on_hub
