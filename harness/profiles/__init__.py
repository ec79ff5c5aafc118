"""Profiles: TOML files that define corpora, encoders, hyperparameters and suites."""

from harness.profiles.load import load_profile, shipped_profiles
from harness.profiles.schema import Profile, Rule, Training, check_readings

__all__ = ["Profile", "Rule", "Training", "check_readings", "load_profile", "shipped_profiles"]
