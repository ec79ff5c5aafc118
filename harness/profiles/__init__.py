"""Profiles: TOML files that define corpora, encoders, hyperparameters and suites."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from harness.errors import UserError
from harness.profiles.layers import blamed, layers_of, merged, shipped_file, shipped_profiles
from harness.profiles.schema import Profile, Rule, Training
from harness.registry import suggest
from harness.tomlfiles import read_toml, validated

__all__ = ["Profile", "Rule", "Training", "load_profile", "shipped_profiles"]


def load_profile(name: str) -> Profile:
    """Load a shipped profile by name, or a profile file by a path that ends in .toml, with what it extends.

    Another name is that of the file NAME.toml in the working folder: results and commands name a profile without it.
    Raises UserError naming the file, the table and the key of the first mistake, or if a file has the name of a shipped
    profile, because results name their profile.
    """
    shipped = shipped_profiles()
    if name not in shipped and not name.endswith(".toml") and Path(f"{name}.toml").is_file():
        name = f"{name}.toml"
    if name.endswith(".toml"):
        layers = layers_of(Path(name))
        return validated(
            merged(layers), "profile", Profile, partial(blamed, layers), name=Path(name).stem, origin="file"
        )
    if name not in shipped:
        own = "give a file that ends in .toml" if "/" in name else f"a file of your own: --profile ./{name}.toml"
        raise UserError(f"unknown profile '{name}'; {suggest(name, shipped)} ({own})")
    return read_toml(shipped_file(name), "profile", Profile, origin="package")
