"""Results in a data set repository of the hub: labs/LAB/PROFILE/... as in a store, with every check
of a merge.

Pushed and pulled results are merged with the existing ones, so that nothing is overwritten on
either side.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.errors import UserError
from harness.fetching.repositories import (
    HubRepository,
    check_repository,
    download,
    find_or_make,
    look_up,
    upload,
)
from harness.formatting import count_of
from harness.store import Store
from harness.store.files import MOST_PACKED
from harness.store.labs import Merged, check_lab, contributor, labs_of, merge

#: the folder of a repository that contains the labs
_FOLDER = "labs"
_PATTERNS = [f"{_FOLDER}/*.json", f"{_FOLDER}/*.npz"]


def pull(into: Store, repository: str, revision: str | None = None) -> tuple[Merged, str]:
    """Merge the results of a repository into a store; return the outcome and the commit.

    Raises UserError for a repository that is not visible on the hub or has no results.
    """
    remote = look_up(check_repository(repository), "dataset", revision)
    with _downloaded(remote) as (sources, problems):
        if not sources:
            raise UserError(
                f"{repository} has no results in its folder {_FOLDER}; name another repository"
            )
        done = merge(into, sources)
        done.problems += problems
    return done, remote.commit


def push(store: Store, repository: str, lab: str) -> tuple[Merged, str, int]:
    """Add a store's results to a repository, its own under the name `lab`; existing scores are
    never overwritten.

    Returns the outcome of the merge, the commit, and its number of files, 0 if nothing was new.
    Raises UserError for a store without results and a repository that cannot be written to.
    """
    check_lab(lab)
    if not store.files():
        raise UserError(f"{store.root} has no results to push; run some first")
    remote = find_or_make(repository, "dataset")
    with _downloaded(remote) as (theirs, damaged), TemporaryDirectory() as folder:
        both = Store(Path(folder) / "results")
        damaged += merge(both, theirs).problems
        done = merge(both, {lab: store})
        files = dict(_new_files(both, remote, theirs))
        done.problems += damaged
        commit = (
            upload(remote, files, f"Add {count_of(len(files), 'file')} of results")
            if files
            else remote.commit
        )
    return done, commit, len(files)


@contextmanager
def _downloaded(remote: HubRepository) -> Iterator[tuple[dict[str, Store], list[str]]]:
    """The stores of a repository's labs with results, and one line for each folder name that no lab
    can have.
    """
    names = sorted(
        {
            name.split("/")[1]
            for name in remote.names
            if name.startswith(f"{_FOLDER}/") and name.count("/") > 1
        }
    )
    sources, large = (
        dict[str, Store](),
        [file for file in remote.files if (file.size or 0) > MOST_PACKED],
    )
    problems = [f"{file.name} has more than {MOST_PACKED / 1e6:.0f} MB; left out" for file in large]
    with TemporaryDirectory() as folder:
        if names:
            download(remote, _PATTERNS, Path(folder), large)
        for name in names:
            store = Store(Path(folder) / _FOLDER / name)
            try:
                if store.files():
                    sources[check_lab(name)] = store
            except UserError as error:
                problems.append(str(error))
        yield sources, problems


def _new_files(
    both: Store, remote: HubRepository, theirs: dict[str, Store]
) -> Iterator[tuple[str, Path]]:
    """The files to upload, by name: files new to the repository, and results with more evaluations."""
    for lab, held in labs_of(both).items():
        for path in held.files():
            name = f"{_FOLDER}/{lab}/{path.relative_to(held.root).as_posix()}"
            result = held.read(path)
            if name not in remote.names or (lab in theirs and _extends(path, theirs[lab], held)):
                yield name, path
            if contributor(both, result) != lab:
                continue
            for evaluation in result.evaluations:
                arrays = both.arrays_path(result, evaluation)
                beside = f"{name.rpartition('/')[0]}/{arrays.name}"
                if arrays.is_file() and beside not in remote.names:
                    yield beside, arrays


def _extends(path: Path, theirs: Store, held: Store) -> bool:
    """Whether a merged result has more than the repository's; False if that is damaged, since it
    stays as it is.
    """
    there = theirs.root / path.relative_to(held.root)
    try:
        theirs.read(there)
    except UserError:
        return False
    return there.read_bytes() != path.read_bytes()
