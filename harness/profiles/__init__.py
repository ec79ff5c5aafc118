"""Profiles: TOML files that define corpora, encoders, hyperparameters and suites."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from harness.errors import UserError
from harness.profiles.schema import Profile, Rule, Training, check_readings
from harness.registry import suggest
from harness.tomlfiles import read_toml

__all__ = ["Profile", "Rule", "Training", "check_readings", "load_profile", "shipped_profiles"]


def shipped_profiles() -> list[str]:
    """Names of the profiles in this package, sorted."""
    return sorted(Path(item.name).stem for item in files(__package__).iterdir() if item.name.endswith(".toml"))


def load_profile(name: str) -> Profile:
    """Load a shipped profile by name, or a profile file by a path that ends in .toml.

    Raises UserError naming the file, the table and the key of the first mistake, or if a file has the name of a shipped
    profile, because results name their profile.
    """
    shipped = shipped_profiles()
    if name.endswith(".toml"):
        path = Path(name)
        if path.stem in shipped:
            raise UserError(
                f"the profile {path} has the name of a shipped profile; rename the file, for example to "
                f"my-{path.name}, or use --profile {path.stem}"
            )
        return read_toml(path, "profile", Profile, origin="file")
    if name not in shipped:
        hint = suggest(name, shipped)
        raise UserError(f"unknown profile '{name}'; {hint} (a profile file of your own: --profile ./{name}.toml)")
    return read_toml(Path(str(files(__package__) / f"{name}.toml")), "profile", Profile, origin="package")
