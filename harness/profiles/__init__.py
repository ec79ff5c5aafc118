"""Profiles: TOML files that fix corpora, encoders, hyperparameters and suites. Data, not code."""

from harness.profiles.load import load_profile, shipped_profiles
from harness.profiles.schema import Profile, Training

__all__ = ["Profile", "Training", "load_profile", "shipped_profiles"]
