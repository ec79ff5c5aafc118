"""Downloads: the list shown before they start (sizes, licences, manual steps), their execution and
progress.

Nothing is downloaded before the user accepts the licences that restrict its use.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.pool import ThreadPool
from pathlib import Path
from time import monotonic

from harness.errors import UserError, first_line
from harness.fetching.entries import Entry, add_inputs, list_restricted
from harness.fetching.entry_files import Watch
from harness.fetching.folder import Say, find_state, format_size
from harness.fetching.transfer import Progress
from harness.formatting import one_line
from harness.registry import suggest
from harness.sources import Missing


def check_names(given: Iterable[str]) -> None:
    """Raise UserError if nothing with a restrictive licence has a name; model names, OWNER/NAME,
    are not checked.
    """
    known = [entry.name for entry in list_restricted()]
    for name in given:
        if name not in known and "/" not in name and not _is_of_mteb(name):
            raise UserError(
                f"--accept-licences {name}: no restricted data set or model has this name; {suggest(name, known)}"
            )


def _is_of_mteb(name: str) -> bool:
    """Whether mteb has a task of this name; its import takes seconds."""
    import mteb

    try:
        return bool(mteb.get_task(name))
    except KeyError:
        return False


def require_consent(terms: Mapping[str, str], accepted: Collection[str]) -> None:
    """Raise UserError unless the terms of each name are agreed to."""
    if all(name in accepted for name in terms):
        return
    refused = [f"{name}: {text}" for name, text in terms.items() if name not in accepted]
    raise UserError(
        f"licences restrict the use of some data ({'; '.join(refused)}); to accept them, add "
        f"--accept-licences {','.join(terms)}"
    )


def find_terms(root: Path, wanted: Iterable[Entry]) -> dict[str, str]:
    """Restrictive licences by name, of missing entries and of the missing entries that they are
    made from.
    """
    terms = {}
    for wanted_entry in wanted:
        for entry in add_inputs(wanted_entry):
            is_asked_for = entry.restricted and not entry.by_hand
            if is_asked_for and find_state(root, entry).word in ("absent", "part"):
                terms[entry.name] = entry.licence
    return terms


#: Seconds between two plain lines about one file.
LINE_EVERY_S = 10.0


@contextmanager
def show_downloads() -> Iterator[tuple[Say, Watch]]:
    """Yield a function that prints a line, and one that makes the progress callback of a file."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    console = Console(stderr=True)

    def say(line: str) -> None:
        console.print(one_line(line), highlight=False, markup=False, soft_wrap=True)

    if not console.is_terminal:
        yield say, lambda name: _print_progress(name, say)
        return

    with Bars(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=console,
    ) as bars:

        def watch(name: str) -> Progress:
            task = bars.add_task(name, total=None)
            return lambda done, total: bars.update(task, completed=done, total=total)

        yield say, watch


def _print_progress(name: str, say: Say) -> Progress:
    """Print the progress of a file, at most every LINE_EVERY_S seconds."""
    start = monotonic()
    last = start
    first_size: int | None = None

    def progress(done: int, total: int | None) -> None:
        nonlocal last, first_size
        if first_size is None:
            first_size = done
        now = monotonic()
        if now - last >= LINE_EVERY_S:
            last = now
            rate = format_size(round((done - first_size) / (now - start)))
            say(f"{name}: {format_size(done)} of {format_size(total)}, {rate}/s")

    return progress


#: number of parallel downloads
AT_A_TIME = 4


@dataclass(frozen=True)
class Fetchable:
    """One thing to download. `name` is the name for --accept-licences.

    `size` is that of the download in bytes, None if unknown, 0 if made from other entries. `spare`
    is the additional room needed while it is unpacked, `copied` the bytes of a copy that stays.
    `place` is a folder on the disk where it is stored, None without a data root. `terms` is the
    licence, if it restricts use.
    """

    name: str
    what: str
    size: int | None
    spare: int
    place: Path | None
    terms: str
    bring: Callable[[Say, Watch], None]
    copied: int = 0

    @property
    def size_text(self) -> str:
        if self.size == 0:
            return "made here"
        return format_size(self.size)


@dataclass(frozen=True)
class FetchList:
    """Missing inputs: downloads, and inputs that must be downloaded manually, with the exact steps."""

    items: tuple[Fetchable, ...]
    by_hand: tuple[Missing, ...]

    @property
    def size(self) -> int:
        """Bytes to download, without items of unknown size."""
        return sum(item.size or 0 for item in self.items)

    @property
    def unknown(self) -> list[str]:
        return [item.name for item in self.items if item.size is None]

    @property
    def size_text(self) -> str:
        if self.size and self.unknown:
            return f"{format_size(self.size)} and more of unknown size"
        if self.size:
            return format_size(self.size)
        return "of unknown size" if self.unknown else "nothing to download"

    def measure_room(self) -> list[tuple[Path, int, int]]:
        """For each disk: a folder on it, bytes needed (as far as known), and free bytes."""
        items_by_disk: dict[int, list[Fetchable]] = {}
        for item in self.items:
            if item.place is not None:
                disk = _find_existing_folder(item.place).stat().st_dev
                items_by_disk.setdefault(disk, []).append(item)

        room = []
        for _, items in sorted(items_by_disk.items()):
            folder = items[0].place
            assert folder is not None
            # as many are unpacked at a time as are downloaded
            unpacked = sorted(item.spare for item in items)[-AT_A_TIME:]
            needed = sum((item.size or 0) + item.copied for item in items) + sum(unpacked)
            free = shutil.disk_usage(_find_existing_folder(folder)).free
            room.append((folder, needed, free))

        return room

    def check(self, accepted: Collection[str]) -> None:
        """Raise UserError if there is no data root, no consent to a licence, or too little space on
        a disk.
        """
        if any(item.place is None for item in self.items):
            raise UserError("no data root is set; give --data-root DIR or set HARNESS_DATA")

        require_consent({item.name: item.terms for item in self.items if item.terms}, accepted)
        for folder, needed, free in self.measure_room():
            if free < needed:
                raise UserError(
                    f"about {format_size(needed)} are needed on the disk of {folder}, only {format_size(free)} are "
                    "free; free some space, or move the data root (--data-root) or the hub cache (HF_HOME)"
                )

    def carry_out(self, say: Say, watch: Watch) -> dict[str, str]:
        """Download everything, several items in parallel; return the errors of failed items, by
        name.
        """

        def bring(item: Fetchable) -> str:
            try:
                item.bring(say, watch)
            except UserError as error:
                reason = str(error)
            except Exception as error:  # no error of one download stops the others
                reason = f"{type(error).__name__}: {first_line(error)}"
            else:
                return ""

            say(f"{item.name}: failed")
            return reason

        # daemon threads, so that an interrupted command ends at once; partial downloads are kept
        with ThreadPool(AT_A_TIME) as pool:
            reasons = pool.map(bring, self.items, chunksize=1)
        errors = {}
        for item, reason in zip(self.items, reasons, strict=True):
            if reason:
                errors[item.name] = reason
        return errors


def _find_existing_folder(path: Path) -> Path:
    """The folder, or its nearest existing parent."""
    return next(folder for folder in (path, *path.parents) if folder.exists())
