"""The catalogue of the papers' data sets, with sources, licences, row counts and checksums."""

from harness.fetching.downloads import require_consent as require_consent
from harness.fetching.downloads import shown as shown
from harness.fetching.downloads import terms_of as terms_of
from harness.fetching.entries import Entry as Entry
from harness.fetching.entries import entries as entries
from harness.fetching.entries import entry as entry
from harness.fetching.entries import providers as providers
from harness.fetching.entries import with_inputs as with_inputs
from harness.fetching.entry_files import Watch as Watch
from harness.fetching.entry_files import fetch as fetch
from harness.fetching.entry_files import import_folder as import_folder
from harness.fetching.folder import Say as Say
from harness.fetching.folder import readable as readable
from harness.fetching.folder import state as state
from harness.fetching.folder import verify as verify
from harness.fetching.repositories import INSTEAD as INSTEAD
from harness.fetching.repositories import HubFile as HubFile
from harness.fetching.repositories import HubRepository as HubRepository
from harness.fetching.repositories import RepositoryKind as RepositoryKind
from harness.fetching.repositories import fetch_files as fetch_files
from harness.fetching.repositories import files_named as files_named
from harness.fetching.repositories import files_read as files_read
from harness.fetching.repositories import look_up as look_up
from harness.fetching.repositories import record_commit as record_commit
from harness.fetching.repositories import recorded_commit as recorded_commit
from harness.fetching.transfer import hub_size as hub_size
