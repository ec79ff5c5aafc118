"""Commands to copy for the runs of a folder of results: each can be typed as it is where the runs were made.

RESULTS/.typed/PROFILE.json has where the runs of a profile were last found: the profile's file, the data root, and
folders of encoders. It is written when runs are executed, and results are compared with what these places have now. It
stays on its machine: `results merge` and `push` leave it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.command_line import DEFAULT_RESULTS, Option, harness_command
from harness.errors import UserError
from harness.files import DamagedError, note_in, read_regular, write_note
from harness.profiles import load_profile, shipped_profiles
from harness.spec import UNTRAINED
from harness.store import Result
from harness.store.files import file_name

#: an encoder before training, as it is usually read
UNTRAINED_VARIANTS = ("none[pooling=cls]", "none[pooling=mean]")


class Typed(BaseModel):
    """Options whose values no result has. A profile of the package has no file, an encoder found by name no folder."""

    model_config = ConfigDict(frozen=True)

    profile: str = ""
    data_root: str = ""
    encoders: dict[str, str] = Field(default_factory=dict)


def read_typed(results: Path, profile: str) -> Typed:
    """What was noted for a profile and is still there; nothing where there is no note that can be read."""
    with suppress(OSError, DamagedError, ValidationError, ValueError):
        noted = Typed.model_validate(note_in(read_regular(_typed_file(results, profile))))
        return Typed(
            profile=noted.profile if Path(noted.profile).is_file() else "",
            data_root=noted.data_root if Path(noted.data_root).is_dir() else "",
            encoders={name: folder for name, folder in noted.encoders.items() if Path(folder).is_dir()},
        )
    return Typed()


def note_typed(results: Path, profile: str, typed: Typed) -> None:
    """Note what a command was given, beside the encoders of earlier commands; nothing in a folder without rights."""
    before = read_typed(results, profile)
    after = typed.model_copy(update={"encoders": before.encoders | typed.encoders})
    if after != before:
        with suppress(OSError):
            write_note(_typed_file(results, profile), after.model_dump())


def _typed_file(results: Path, profile: str) -> Path:
    return results / ".typed" / f"{file_name(profile)}.json"


class Commands:
    """The commands of a folder of results, with the places where runs of each profile were last found."""

    def __init__(self, results: Path = Path(DEFAULT_RESULTS)) -> None:
        self.results = results
        self._of = cache(partial(read_typed, results))
        self._is_named = cache(_is_named)

    def run(self, *words: str, profile: str, **options: Option) -> str:
        """The command `harness run` with these words and options, which makes runs of a profile."""
        noted, chosen = self._of(profile), dict[str, Any](options)
        if chosen.get("settings") == UNTRAINED:
            del chosen["settings"]
        if "table" in chosen and not words:
            chosen["encoders"] = list(noted.encoders)
        if encoders := chosen.get("encoders"):
            names = [encoders] if isinstance(encoders, str) else encoders
            chosen["encoders"] = [self._encoder(name, profile) for name in names]
        chosen.setdefault("results", shown(self.results))
        chosen["data_root"] = shown(noted.data_root)
        return harness_command("run", *words, profile=self.profile(profile), **chosen)

    def again(self, result: Result, results: Path | None = None) -> str:
        """The command that trains and evaluates a run, here or elsewhere."""
        spec = result.spec
        return self.run(
            profile=result.profile,
            methods=spec.variant,
            settings=spec.setting,
            encoders=spec.encoder,
            seeds=f"{spec.seed},",
            set=dict(sorted(result.overrides.items())),
            results=shown(results or self.results),
        )

    def profile(self, name: str) -> str:
        """What `--profile` takes for the profile of a result; a file that was never noted is in the working folder."""
        return name if name in shipped_profiles() else shown(self._of(name).profile) or f"./{name}.toml"

    def untrained(self, profile: str, encoders: Sequence[str]) -> str:
        """Name the command that evaluates encoders before training; empty for none."""
        if not encoders:
            return ""
        command = self.run(profile=profile, methods=UNTRAINED_VARIANTS, encoders=encoders)
        return f"Untrained {' and '.join(encoders)} not evaluated; `{command}` adds it."

    def _encoder(self, name: str, profile: str) -> str:
        """An encoder as `--encoders` takes it: with its folder, unless it is found by its name."""
        if name in self._of(profile).encoders:
            return f"{name}={shown(self._of(profile).encoders[name])}"
        return name if "/" in name or self._is_named(name, self.profile(profile)) else f"{name}=FOLDER"


def shown(location: str | Path) -> str:
    """A place as short as it can be typed: without the working folder that it is in; "" for none."""
    path, here = Path(location), Path.cwd()
    inside = bool(location) and path.is_absolute() and path != here and path.is_relative_to(here)
    return str(path.relative_to(here) if inside else location)


def _is_named(encoder: str, profile: str) -> bool:
    """Whether a profile names an encoder, or cannot say."""
    try:
        loaded = load_profile(profile)
    except UserError:
        return True
    return encoder in loaded.encoders or encoder in loaded.released


#: the commands of the default folder
DEFAULT_COMMANDS = Commands()
