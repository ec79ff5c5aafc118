"""Packages of other people, and profiles that use them."""

from plugin_packages import install, profile  # noqa: F401
