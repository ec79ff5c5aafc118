"""Commands for the runs of a folder of results, ready to copy on the machine that made the runs.

RESULTS/.last-places/PROFILE.USER.json records the places that a user's runs of a profile last used:
the profile's file, the data root, and encoder folders. It is written when runs are executed, and
results are compared with the present content of these places. It stays on its machine: `results
merge` leaves it out.

A folder of results may come from somebody else, with notes that name any place. Each note is
signed by a secret of its user, and only a user's own notes are read.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.caches import read_own_secret
from harness.command_line import DEFAULT_RESULTS, Option, harness_command
from harness.errors import UserError
from harness.files import DamagedError, parse_note, read_within, write_note
from harness.formatting import first_of
from harness.profiles import load_profile, shipped_profiles
from harness.spec import RUN, UNTRAINED
from harness.store import Result
from harness.store.files import NAMED, file_name

#: an untrained encoder, with the two usual poolings
UNTRAINED_VARIANTS = ("none[pooling=cls]", "none[pooling=mean]")


class SignedPlaces(BaseModel):
    """A note as it is stored: the places as JSON, and their signature."""

    places: str
    signature: str


class LastPlaces(BaseModel):
    """Files and folders that the last command was given; a shipped profile and an encoder found by
    name have none.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    profile: str = ""
    data_root: str = ""
    encoders: dict[str, str] = Field(default_factory=dict)


def read_places(results: Path, profile: str) -> LastPlaces:
    """Read the places that this user noted for a profile and that still exist; empty without a
    readable note.
    """
    with suppress(OSError, DamagedError, ValidationError, ValueError):
        content = read_within(results, _find_places_file(results, profile))
        note = SignedPlaces.model_validate(parse_note(content))
        if not read_own_secret() or not hmac.compare_digest(note.signature, _sign(note.places)):
            return LastPlaces()

        noted = LastPlaces.model_validate_json(note.places)
        encoders = {
            name: folder
            for name, folder in noted.encoders.items()
            if Path(folder.removeprefix(RUN)).is_dir()
        }
        return LastPlaces(
            profile=noted.profile if Path(noted.profile).is_file() else "",
            data_root=noted.data_root if Path(noted.data_root).is_dir() else "",
            encoders=encoders,
        )
    return LastPlaces()


def note_places(results: Path, profile: str, places: LastPlaces) -> None:
    """Note the places that a command was given, keeping earlier encoders; nothing is noted in a
    read-only folder.
    """
    before = read_places(results, profile)
    after = places.model_copy(update={"encoders": before.encoders | places.encoders})

    # without a secret, nothing that is noted could be read again
    if after != before and read_own_secret():
        text = after.model_dump_json()
        note = SignedPlaces(places=text, signature=_sign(text))
        with suppress(OSError):
            write_note(_find_places_file(results, profile), note.model_dump(), results)


def _find_places_file(results: Path, profile: str) -> Path:
    user = _sign("user")[:8]
    return results / ".last-places" / f"{file_name(profile)}.{user}.json"


def _sign(text: str) -> str:
    return hmac.new(read_own_secret().encode(), text.encode(), "sha256").hexdigest()


def explain_no_results(
    results: Path, problems: Sequence[str], profile: str | None = None
) -> UserError:
    """The error for a folder without usable results, of a profile: what is wrong with its files, or
    how to get some.
    """
    absent = f"no results of the profile '{profile}'" if profile else "no results"
    if problems:
        listed = first_of(problems, NAMED, "; ")
        return UserError(f"{results} has {absent} that can be used: {listed}")
    command = Commands(results).run(profile=profile or "tiny")
    return UserError(f"{results} has {absent}; run `{command}` first")


class Commands:
    """Commands for a folder of results, with the places that the runs of each profile last used."""

    def __init__(self, results: Path = Path(DEFAULT_RESULTS)) -> None:
        self.results = results
        self._read_places = cache(partial(read_places, results))
        self._has_encoder = cache(_has_encoder)

    def run(self, *words: str, profile: str, **options: Option) -> str:
        """The `harness run` command for a profile, with these words and options."""
        places = self._read_places(profile)
        typed = dict[str, Any](options)
        if typed.get("settings") == UNTRAINED:
            del typed["settings"]

        # a table names its own encoders: all that were given as folders are given again
        if typed.keys() & {"table", "figure"} and not words:
            typed["encoders"] = list(places.encoders)
        encoders = typed.get("encoders")
        if encoders:
            names = [encoders] if isinstance(encoders, str) else encoders
            typed["encoders"] = [self._name_encoder(name, profile) for name in names]

        typed.setdefault("results", show_path(self.results))
        typed["data_root"] = show_path(places.data_root)
        return harness_command("run", *words, profile=self.find_profile(profile), **typed)

    def repeat(self, result: Result, results: Path | None = None) -> str:
        """The command that trains and evaluates a run, here or elsewhere."""
        spec = result.spec
        return self.run(
            profile=result.profile,
            methods=str(spec.variant),
            settings=str(spec.setting),
            encoders=spec.encoder,
            seeds=f"{spec.seed},",
            set=dict(sorted(result.overrides.items())),
            results=show_path(results or self.results),
        )

    def find_profile(self, name: str) -> str:
        """The value of `--profile` for a result's profile; a file never noted is taken to be in the
        working folder.
        """
        if name in shipped_profiles():
            return name
        return show_path(self._read_places(name).profile) or f"./{name}.toml"

    def select_suites(self, profile: str, needed: Sequence[str]) -> list[str] | None:
        """Some suites as `--suites` has to name them; None if the profile evaluates them anyway.

        A profile that cannot be loaded may ask for any suite.
        """
        try:
            declared = load_profile(self.find_profile(profile)).suites
        except UserError:
            return list(needed)
        for name in needed:
            if name not in declared or declared[name].asked:
                return list(needed)
        return None

    def explain_untrained(self, profile: str, encoders: Sequence[str]) -> str:
        """A sentence with the command that evaluates untrained encoders; empty without encoders."""
        if not encoders:
            return ""
        command = self.run(profile=profile, methods=UNTRAINED_VARIANTS, encoders=encoders)
        return f"Untrained {' and '.join(encoders)} not evaluated; `{command}` adds it."

    def _name_encoder(self, name: str, profile: str) -> str:
        """An encoder as `--encoders` takes it: NAME=FOLDER, or only the name if that is enough."""
        folders = self._read_places(profile).encoders
        if name in folders:
            return f"{name}={show_path(folders[name])}"
        if "/" in name or self._has_encoder(name, self.find_profile(profile)):
            return name
        return f"{name}=FOLDER"


def show_path(location: str | Path) -> str:
    """A path to type: relative if it is inside the working folder; "" for none."""
    path = Path(location)
    if not (location and path.is_absolute()):
        return str(location)

    working_folder = Path.cwd()
    is_inside = path != working_folder and path.is_relative_to(working_folder)
    return str(path.relative_to(working_folder) if is_inside else location)


def _has_encoder(encoder: str, profile: str) -> bool:
    """Whether a profile has an encoder; true if the profile cannot be loaded."""
    try:
        loaded = load_profile(profile)
    except UserError:
        return True
    return encoder in loaded.encoders or encoder in loaded.released


#: the commands of the default folder
DEFAULT_COMMANDS = Commands()
