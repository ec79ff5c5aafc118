"""Fetching or importing an entry: get its files, check them, make the outputs, move them into place.

All work happens in the staging folder of the entry, on the disk of the data root. Outputs are moved into place once all
are made, checked and hashed; the manifest is written last. A killed command resumes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from harness.catalogue import hub
from harness.catalogue.checks import check_download, check_output, difference
from harness.catalogue.download import Progress, download
from harness.catalogue.extract import remove
from harness.catalogue.manifest import hashes, read_manifest, state, write_manifest
from harness.catalogue.places import Say, check_room, held, manifest_path, only_plain_errors, readable, staging
from harness.catalogue.recipes import RECIPES, Got, Take
from harness.catalogue.schema import Entry, Origin
from harness.errors import UserError

#: returns the progress callback of a file
Watch = Callable[[str], Progress]


def fetch(root: Path, entry: Entry, say: Say, watch: Watch, offline: bool = False) -> None:
    """Download the files of an entry and make its outputs below the data root. Raises UserError."""
    _refuse_by_hand(entry)
    with held(root, entry.name, say), only_plain_errors(root):
        if _there(root, entry, say) or _finished(root, entry, say):
            return
        check_room(root, entry.name, entry.about)
        got = {origin.file: _fetched(root, entry, origin, say, watch, offline) for origin in entry.origins}
        _make(root, entry, got, _move, say)


def bring(root: Path, entry: Entry, folder: Path, link: bool, say: Say, watch: Watch) -> None:
    """Import an entry's files from a folder, by copy or symbolic link; other files with an address are downloaded.

    The folder is not changed. Raises UserError naming files that are missing or differ from the catalogue.
    """
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}; give the one with the files of {entry.name}")
    if not entry.origins:
        raise UserError(f"{entry.name} is not imported: {entry.note}")
    with held(root, entry.name, say), only_plain_errors(root):
        if _there(root, entry, say) or _finished(root, entry, say):
            return
        found = {origin.file: _given(entry, origin, folder) for origin in entry.origins}
        absent = [o for o in entry.origins if not found[o.file] and o.url is None]
        if absent:
            wanted = "; ".join(f"{o.file} ({o.hand or o.where})" for o in absent)
            raise UserError(f"files of {entry.name} are missing in {folder}: {wanted}; put them there and import again")
        fetched = {
            origin.file: _fetched(root, entry, origin, say, watch, offline=False)
            for origin in entry.origins
            if not found[origin.file]
        }
        _make(root, entry, found | fetched, _link if link else _copy, say)


def _refuse_by_hand(entry: Entry) -> None:
    if not entry.origins:
        raise UserError(f"{entry.name} is not fetched: {entry.note}")
    if entry.by_hand:
        how = "; ".join(f"{origin.file}: {origin.hand}" for origin in entry.by_hand)
        raise UserError(f"{entry.name} is got by hand ({entry.licence}): {how}; then run `{entry.import_command}`")


def _there(root: Path, entry: Entry, say: Say) -> bool:
    """Whether the outputs exist already. Raises UserError if files of another origin are in the way."""
    now = state(root, entry)
    if now.word in ("present", "unchecked"):
        how = "" if now.word == "present" else ", not put there by the catalogue; it is left as it is"
        say(f"{entry.name}: there already{how}")
        return True
    manifest = manifest_path(root, entry.name)
    known = read_manifest(manifest) if manifest.is_file() else {}
    begun = _made(root, entry).is_file()
    for output in entry.outputs:
        ours = begun or any(output.holds(path) for path in known)
        if output.path not in now.absent and not ours:
            raise UserError(
                f"{entry.name}: {root / output.path} is there already and was not put there by the catalogue; "
                f"move it away, since {', '.join(now.absent)} is not there"
            )
    return False


def _made(root: Path, entry: Entry) -> Path:
    return staging(root, entry.name) / "made.sha256"


def _finished(root: Path, entry: Entry, say: Say) -> bool:
    """Move outputs into place that an earlier command made and checked."""
    if not _made(root, entry).is_file():
        return False
    place = staging(root, entry.name) / "out"
    for output in entry.outputs:
        target, source = root / output.path, place / output.path
        if source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            if output.kind == "folder":
                remove(target)
            source.replace(target)
    _made(root, entry).replace(manifest_path(root, entry.name))
    remove(staging(root, entry.name))
    say(f"{entry.name}: in place: {', '.join(str(root / output.path) for output in entry.outputs)}")
    return True


def _make(root: Path, entry: Entry, got: Got, take: Take, say: Say) -> None:
    """Make, check and hash the outputs in the staging folder, then move them into place."""
    out = staging(root, entry.name) / "out"
    remove(out)
    out.mkdir(parents=True)
    say(f"{entry.name}: making and checking {len(entry.outputs)} output(s)")
    RECIPES[entry.recipe](entry, got, out, take)
    for output in entry.outputs:
        if not (out / output.path).exists():
            raise UserError(f"{entry.name}: its files contain nothing for {output.path}; check the input")
        check_output(entry, output, out / output.path)
    found = hashes(out, entry)
    os.sync()
    sources = ", ".join(dict.fromkeys(origin.where for origin in entry.origins))
    write_manifest(_made(root, entry), found, f"{entry.name}: {entry.title}; from {sources}")
    _finished(root, entry, say)


def _fetched(root: Path, entry: Entry, origin: Origin, say: Say, watch: Watch, offline: bool) -> list[Path]:
    """Download and check the files of an origin. Raises UserError."""
    folder = staging(root, entry.name) / "files"
    if origin.hub is not None:
        if origin.pick is not None and offline:
            raise UserError(f"{entry.name}: offline, the files {origin.file} of {origin.hub} cannot be listed")
        return [_from_hub(root, entry, each, folder, say, offline) for each in hub.resolve(origin, entry.name)]
    target = folder / origin.file
    if not target.is_file():
        if offline:
            raise UserError(
                f"{entry.name}: offline, and {origin.file} is no file of the hub; fetch without --offline, or run "
                f"`{entry.import_command}` with {origin.url}"
            )
        say(f"{entry.name}: fetching {origin.file} ({readable(origin.bytes)}) from {origin.url}")
        download(str(origin.url), target, entry.name, say, watch(origin.name))
    check_download(root, entry.name, origin, target, origin.checksum)
    return [target]


def _from_hub(root: Path, entry: Entry, origin: Origin, folder: Path, say: Say, offline: bool) -> Path:
    say(f"{entry.name}: fetching {origin.file} from the hub's {origin.hub}")
    path, checksum = hub.fetch(origin, folder, entry.name, offline)
    check_download(root, entry.name, origin, path, checksum)
    return path


def _given(entry: Entry, origin: Origin, folder: Path) -> list[Path]:
    """The file of an origin in a given folder, by path or name, or the folder that replaces it."""
    if origin.pick is not None:
        return sorted(folder.rglob(origin.name))
    for place in (folder / origin.file, folder / origin.name):
        if place.is_file():
            wrong = difference(origin, place, origin.checksum)
            if wrong:
                raise UserError(f"{entry.name}: {place} is not the file of the catalogue: {wrong}; get it again")
            return [place]
    if origin.folder is not None and (folder / origin.folder).is_dir():
        return [folder / origin.folder]
    return []


def _move(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    source.replace(target)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.symlink_to(source.resolve(), target_is_directory=source.is_dir())
