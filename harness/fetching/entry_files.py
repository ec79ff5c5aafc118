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
        steps = "; ".join(f"{origin.file}: {origin.hand}" for origin in entry.by_hand)
        raise UserError(
            f"{entry.name} must be downloaded manually ({entry.licence}): {steps}; then run `{entry.import_command}`"
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

        files_by_origin = {}
        missing = []
        for origin in entry.origins:
            files = _find_given(entry, origin, folder)
            if files:
                files_by_origin[origin.file] = files
            elif origin.url is None and origin.output is None:
                missing.append(f"{origin.file} ({origin.hand or origin.where})")

        if missing:
            raise UserError(
                f"files of {entry.name} are missing in {folder}: {'; '.join(missing)}; put them there and import again"
            )

        work.make(files_by_origin, _make_link if link else _copy)


def _find_given(entry: Entry, origin: Origin, folder: Path) -> list[Path]:
    """Find the file of an origin in a given folder, by path or by name, or the unpacked folder that
    replaces it.
    """
    if origin.pick is not None:
        return sorted(folder.rglob(origin.name))

    for path in (folder / origin.file, folder / origin.name):
        if not path.is_file():
            continue
        difference = find_difference(origin, path, origin.checksum)
        if difference:
            raise UserError(
                f"{entry.name}: {path} is not the file of the catalogue: {difference}; download it again"
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
    def new_manifest(self) -> Path:
        """The manifest of outputs that are complete and checked, but not yet all in place."""
        return self.staging / "made.sha256"

    def is_done(self) -> bool:
        """Whether the outputs exist; outputs that an interrupted command completed are moved into
        place first.

        Raises UserError if other files are in the way.
        """
        name = self.entry.name
        state = find_state(self.root, self.entry)
        if state.word == "present":
            self.say(f"{name}: already present")
            return True
        if state.word == "unchecked":
            self.say(f"{name}: already present; not fetched by the catalogue, left unchanged")
            return True
        if self.new_manifest.is_file():
            self._finish()
            return True

        manifest = manifest_path(self.root, name)
        fetched = read_manifest(manifest) if manifest.is_file() else {}
        for output in self.entry.outputs:
            is_fetched = any(output.holds(path) for path in fetched)
            if output.path not in state.absent and not is_fetched:
                raise UserError(
                    f"{name}: {self.root / output.path} exists already and was not fetched by the catalogue; "
                    f"move it away, since {', '.join(state.absent)} is missing"
                )

        return False

    def make(self, given: Mapping[str, Sequence[Path]], take: Take) -> None:
        """Download the files that are not given, make, check and hash the outputs, and move them
        into place.
        """
        # imports pillow, which only a download needs
        from harness.fetching.data_sets import RECIPES

        entry = self.entry
        got = {}
        for origin in entry.origins:
            got[origin.file] = given.get(origin.file) or self._fetch_origin(origin)

        out = self.staging / "out"
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
        write_manifest(self.new_manifest, out, entry)
        self._finish()

    def _finish(self) -> None:
        places = []
        for output in self.entry.outputs:
            target = self.root / output.path
            places.append(str(target))
            source = self.staging / "out" / output.path
            if source.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                if output.kind == "folder":
                    remove(target)
                move(source, target)

        self.new_manifest.replace(manifest_path(self.root, self.entry.name))
        remove(self.staging)
        self.say(f"{self.entry.name}: in place: {', '.join(places)}")

    def _fetch_origin(self, origin: Origin) -> list[Path]:
        """Download and check the files of an origin. Raises UserError."""
        folder = self.staging / "files"
        if origin.output is not None:
            path = self.root / origin.output
            if not path.exists():  # of another entry
                fetch(
                    self.root, find_providers(origin.output)[0], self.say, self.watch, self.offline
                )
            return [path]

        if origin.hub is None:
            return [self._fetch_address(origin, folder / origin.file)]
        if origin.pick is not None and self.offline:
            raise UserError(
                f"{self.entry.name}: offline, the files {origin.file} of {origin.hub} cannot be listed"
            )

        files = resolve(origin, self.entry.name)
        return [self._fetch_from_hub(file, folder) for file in files]

    def _fetch_address(self, origin: Origin, target: Path) -> Path:
        """Download and check a file that is not on the hub; one from an earlier attempt is kept."""
        name = self.entry.name
        if not target.is_file():
            if self.offline:
                raise UserError(
                    f"{name}: offline, and {origin.file} is not on the hub; fetch without --offline, or run "
                    f"`{self.entry.import_command}` with {origin.address}"
                )
            size = format_size(origin.bytes)
            self.say(f"{name}: fetching {origin.file} ({size}) from {origin.address}")
            if origin.drive is not None:
                fetch_from_drive(self.entry, origin, target, self.watch(origin.name))
            else:
                download(str(origin.url), target, name, self.say, self.watch(origin.name))

        check_download(self.root, self.entry, origin, target, origin.checksum)
        return target

    def _fetch_from_hub(self, origin: Origin, folder: Path) -> Path:
        self.say(f"{self.entry.name}: fetching {origin.file} from the hub's {origin.hub}")
        path, checksum = fetch_from_hub(origin, folder, self.entry.name, self.offline)
        check_download(self.root, self.entry, origin, path, checksum)
        return path


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)


def _make_link(source: Path, target: Path) -> None:
    target.symlink_to(source.resolve(), target_is_directory=source.is_dir())
