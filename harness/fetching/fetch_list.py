"""Downloads, listed before they start: sizes, restrictive licences, and manual downloads."""

from __future__ import annotations

import queue
import shutil
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from harness.errors import UserError, first_line
from harness.fetching import Say, Watch, readable, require_consent

#: things that are downloaded at a time
AT_A_TIME = 4


@dataclass(frozen=True)
class Fetchable:
    """One thing to download. `name` is what --accept-licences takes.

    `size` is that of the download in bytes, None if it is not known, 0 for what is made of other things. `spare` is the
    room that is needed beside it while it is unpacked, `copied` the bytes of a copy that stays. `place` is the folder
    on whose disk it goes, None without a data root. `terms` is the licence, if it restricts use.
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
        """The size of the download in words."""
        if self.size is None:
            return "unknown"
        return readable(self.size) if self.size else "made here"


@dataclass(frozen=True)
class ByHand:
    """An input that must be downloaded manually, with its exact steps."""

    name: str
    steps: str


@dataclass(frozen=True)
class FetchList:
    """Missing inputs: downloads, and inputs that must be downloaded manually."""

    items: tuple[Fetchable, ...]
    by_hand: tuple[ByHand, ...]

    @property
    def size(self) -> int:
        """Bytes to download, as far as they are known."""
        return sum(item.size or 0 for item in self.items)

    @property
    def unknown(self) -> list[str]:
        """Names of things whose size is not known."""
        return [item.name for item in self.items if item.size is None]

    @property
    def size_text(self) -> str:
        """The size in words."""
        if not self.size:
            return "of unknown size" if self.unknown else "nothing to download"
        return f"{readable(self.size)}{' and more of unknown size' if self.unknown else ''}"

    def room(self) -> list[tuple[Path, int, int]]:
        """For each disk: a folder on it, bytes needed as far as they are known, and free bytes."""
        places = {item.place: _existing(item.place) for item in self.items if item.place is not None}
        disks = sorted(places.items(), key=lambda pair: pair[1].stat().st_dev)
        found = []
        for _, group in groupby(disks, key=lambda pair: pair[1].stat().st_dev):
            folders = dict(group)
            here = [item for item in self.items if item.place in folders]
            unpacked = sorted(item.spare for item in here)[-AT_A_TIME:]
            needed = sum((item.size or 0) + item.copied for item in here) + sum(unpacked)
            found.append((next(iter(folders)), needed, shutil.disk_usage(next(iter(folders.values()))).free))
        return found

    def check(self, accepted: Collection[str]) -> None:
        """Raise UserError without a data root, without consent to a licence, and for a disk that is too small."""
        if any(item.place is None for item in self.items):
            raise UserError("no data root is set; give --data-root DIR or set HARNESS_DATA")
        require_consent({item.name: item.terms for item in self.items if item.terms}, accepted)
        for place, needed, free in self.room():
            if free < needed:
                raise UserError(
                    f"about {readable(needed)} are needed on the disk of {place}, only {readable(free)} are free; free "
                    "some space, or move the data root (--data-root) or the hub cache (HF_HOME)"
                )

    def carry_out(self, say: Say, watch: Watch) -> dict[str, str]:
        """Download everything, several things at a time; return the reasons of those that failed, by name."""
        failed: dict[str, str] = {}
        waiting: queue.SimpleQueue[Fetchable] = queue.SimpleQueue()
        for item in self.items:
            waiting.put(item)

        def work() -> None:
            while True:
                try:
                    item = waiting.get_nowait()
                except queue.Empty:
                    return
                try:
                    item.bring(say, watch)
                except Exception as error:  # whatever stops one download, the others go on
                    why = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {first_line(error)}"
                    failed[item.name] = why
                    say(f"{item.name}: failed")

        # daemons, so that an interrupted command ends at once; what is received is kept
        workers = [threading.Thread(target=work, daemon=True) for _ in range(min(AT_A_TIME, len(self.items)))]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return {item.name: failed[item.name] for item in self.items if item.name in failed}


def _existing(place: Path) -> Path:
    """The folder, or the nearest above it that exists."""
    return next(folder for folder in (place, *place.parents) if folder.exists())
