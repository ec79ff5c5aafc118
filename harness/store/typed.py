"""Where a folder's runs of each profile were last found: the profile's file, the data root, and folders of encoders.

RESULTS/.typed/PROFILE.json is written when runs are executed. It stays on its machine: `results merge` and `push` leave
it out. Commands to copy are made from it, and results are compared with what these places have now.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.files import DamagedError, note_in, read_regular, write_note
from harness.store.files import file_name


class Typed(BaseModel):
    """Options whose values no result has. A profile of the package has no file, an encoder found by name no folder."""

    model_config = ConfigDict(frozen=True)

    profile: str = ""
    data_root: str = ""
    encoders: dict[str, str] = Field(default_factory=dict)


def read_typed(results: Path, profile: str) -> Typed:
    """What was noted for a profile and is still there; nothing where there is no note that can be read."""
    with suppress(OSError, DamagedError, ValidationError, ValueError):
        noted = Typed.model_validate(note_in(read_regular(_file(results, profile))))
        return Typed(
            profile=noted.profile if Path(noted.profile).is_file() else "",
            data_root=noted.data_root if Path(noted.data_root).is_dir() else "",
            encoders={name: place for name, place in noted.encoders.items() if Path(place).is_dir()},
        )
    return Typed()


def note_typed(results: Path, profile: str, typed: Typed) -> None:
    """Note what a command was given, beside the encoders of earlier commands; nothing in a folder without rights."""
    before = read_typed(results, profile)
    after = typed.model_copy(update={"encoders": before.encoders | typed.encoders})
    if after != before:
        with suppress(OSError):
            write_note(_file(results, profile), after.model_dump())


def _file(results: Path, profile: str) -> Path:
    return results / ".typed" / f"{file_name(profile)}.json"
