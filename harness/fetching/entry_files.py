"""Fetching or importing an entry: get its files, check them, make the outputs, move the outputs
into place.

All work happens in the staging folder of the entry, on the disk of the data root. Outputs are moved
into place once all are made, checked and hashed; the manifest is written last. After a kill, the
same command resumes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UserError
from harness.fetching.archives import Take
from harness.fetching.entries import Entry, Origin, find_providers
from harness.fetching.folder import (
    Say,
    books,
    check_download,
    check_output,
    check_room,
    find_difference,
    find_state,
    format_size,
    hold_entry,
    manifest_path,
    read_manifest,
    write_manifest,
)
from harness.fetching.transfer import Progress, download, fetch_from_drive, fetch_from_hub, resolve
from harness.files import move, remove

#: name of a file -> its progress callback
Watch = Callable[[str], Progress]


def fetch(root: Path, entry: Entry, say: Say, watch: Watch, offline: bool = False) -> None:
    """Download the files of an entry and make its outputs below the data root. Raises UserError."""
    if not entry.origins:
        raise UserError(f"{entry.name} is not fetched: {entry.note}")
    if entry.by_hand:
        how = "; ".join(f"{origin.file}: {origin.hand}" for origin in entry.by_hand)
        raise UserError(
            f"{entry.name} must be downloaded manually ({entry.licence}): {how}; then run `{entry.import_command}`"
        )
    work = _Work(root, entry, say, watch, offline)
    with hold_entry(root, entry.name, say):
        if not work.is_done():
            check_room(root, entry.name, entry.about)
            work.make({}, Path.replace)


def import_folder(
    root: Path, entry: Entry, folder: Path, link: bool, say: Say, watch: Watch
) -> None:
    """Import an entry's files from a folder, by copy or symbolic link; other files with an address
    are downloaded.

    The folder is not changed. Raises UserError naming files that are missing or differ from the
    catalogue.
    """
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}; give the one with the files of {entry.name}")
    if not entry.origins:
        raise UserError(f"{entry.name} is not imported: {entry.note}")
    work = _Work(root, entry, say, watch)
    with hold_entry(root, entry.name, say):
        if work.is_done():
            return
        given = {
            origin.file: file
            for origin in entry.origins
            if (file := _find_given(entry, origin, folder))
        }
        absent = [
            o for o in entry.origins if o.file not in given and o.url is None and o.output is None
        ]
        if absent:
            wanted = "; ".join(
                f"{origin.file} ({origin.hand or origin.where})" for origin in absent
            )
            raise UserError(
                f"files of {entry.name} are missing in {folder}: {wanted}; put them there and import again"
            )
        work.make(given, _make_link if link else _copy)


def _find_given(entry: Entry, origin: Origin, folder: Path) -> list[Path]:
    """Find the file of an origin in a given folder, by path or by name, or the unpacked folder that
    replaces it.
    """
    if origin.pick is not None:
        return sorted(folder.rglob(origin.name))
    for path in (folder / origin.file, folder / origin.name):
        if path.is_file():
            wrong = find_difference(origin, path, origin.checksum)
            if wrong:
                raise UserError(
                    f"{entry.name}: {path} is not the file of the catalogue: {wrong}; download it again"
                )
            return [path]
    if origin.folder is not None and (folder / origin.folder).is_dir():
        return [folder / origin.folder]
    return []


@dataclass(frozen=True)
class _Work:
    """The work on one entry, done while its lock is held."""

    root: Path
    entry: Entry
    say: Say
    watch: Watch
    offline: bool = False

    @property
    def staging(self) -> Path:
        """The folder of downloads and unfinished outputs, on the disk of the data root."""
        return books(self.root) / "staging" / self.entry.name

    @property
    def made(self) -> Path:
        """The manifest of outputs that are complete and checked, but not yet all in place."""
        return self.staging / "made.sha256"

    def is_done(self) -> bool:
        """Whether the outputs exist; outputs that an interrupted command completed are moved into
        place first.

        Raises UserError if other files are in the way.
        """
        name = self.entry.name
        now = find_state(self.root, self.entry)
        if now.word in ("present", "unchecked"):
            how = "" if now.word == "present" else "; not fetched by the catalogue, left unchanged"
            self.say(f"{name}: already present{how}")
            return True
        if self.made.is_file():
            self._finish()
            return True
        manifest = manifest_path(self.root, name)
        known = read_manifest(manifest) if manifest.is_file() else {}
        for output in self.entry.outputs:
            if output.path not in now.absent and not any(output.holds(path) for path in known):
                raise UserError(
                    f"{name}: {self.root / output.path} exists already and was not fetched by the catalogue; "
                    f"move it away, since {', '.join(now.absent)} is missing"
                )
        return False

    def make(self, given: Mapping[str, Sequence[Path]], take: Take) -> None:
        """Download the files that are not given, make, check and hash the outputs, and move them
        into place.
        """
        from harness.fetching.data_sets import (
            RECIPES,
        )  # imports pillow, which only a download needs

        entry = self.entry
        out = self.staging / "out"
        got = {
            origin.file: given.get(origin.file) or self._fetch_origin(origin)
            for origin in entry.origins
        }
        remove(out)
        out.mkdir(parents=True)
        self.say(f"{entry.name}: making and checking {len(entry.outputs)} output(s)")

        def put(source: Path, target: Path) -> None:
            target.parent.mkdir(parents=True, exist_ok=True)
            take(source, target)

        RECIPES[entry.recipe](entry, got, out, put)
        for output in entry.outputs:
            if not (out / output.path).exists():
                raise UserError(
                    f"{entry.name}: its files contain no data for {output.path}; check the input"
                )
            check_output(entry, output, out / output.path)
        os.sync()
        write_manifest(self.made, out, entry)
        self._finish()

    def _finish(self) -> None:
        for output in self.entry.outputs:
            target = self.root / output.path
            source = self.staging / "out" / output.path
            if source.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                if output.kind == "folder":
                    remove(target)
                move(source, target)
        self.made.replace(manifest_path(self.root, self.entry.name))
        remove(self.staging)
        where = ", ".join(str(self.root / output.path) for output in self.entry.outputs)
        self.say(f"{self.entry.name}: in place: {where}")

    def _fetch_origin(self, origin: Origin) -> list[Path]:
        """Download and check the files of an origin. Raises UserError."""
        name = self.entry.name
        folder = self.staging / "files"
        if origin.output is not None:
            if not (self.root / origin.output).exists():  # of another entry
                fetch(
                    self.root, find_providers(origin.output)[0], self.say, self.watch, self.offline
                )
            return [self.root / origin.output]
        if origin.hub is not None:
            if origin.pick is not None and self.offline:
                raise UserError(
                    f"{name}: offline, the files {origin.file} of {origin.hub} cannot be listed"
                )
            return [self._from_hub(each, folder) for each in resolve(origin, name)]
        target = folder / origin.file
        if not target.is_file():
            if self.offline:
                raise UserError(
                    f"{name}: offline, and {origin.file} is not on the hub; fetch without --offline, or run "
                    f"`{self.entry.import_command}` with {origin.address}"
                )
            self.say(
                f"{name}: fetching {origin.file} ({format_size(origin.bytes)}) from {origin.address}"
            )
            if origin.drive is not None:
                fetch_from_drive(self.entry, origin, target, self.watch(origin.name))
            else:
                download(str(origin.url), target, name, self.say, self.watch(origin.name))
        check_download(self.root, self.entry, origin, target, origin.checksum)
        return [target]

    def _from_hub(self, origin: Origin, folder: Path) -> Path:
        self.say(f"{self.entry.name}: fetching {origin.file} from the hub's {origin.hub}")
        path, checksum = fetch_from_hub(origin, folder, self.entry.name, self.offline)
        check_download(self.root, self.entry, origin, path, checksum)
        return path


def _copy(source: Path, target: Path) -> None:
    (shutil.copytree if source.is_dir() else shutil.copyfile)(source, target)


def _make_link(source: Path, target: Path) -> None:
    target.symlink_to(source.resolve(), target_is_directory=source.is_dir())
