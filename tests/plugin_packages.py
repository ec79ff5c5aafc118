"""Packages of other people: a module and its entry points in a folder, installed the way pip lays
them out.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from textwrap import dedent

import pytest

from harness import registry

#: writes and installs a package: its name, the code of its one module, and {group: {name: object of
#: the module}}
Install = Callable[[str, str, Mapping[str, Mapping[str, str]]], Path]


def forget() -> None:
    """Forget what is registered, and what was loaded of it."""
    registry.read_installed_entries.cache_clear()
    registry.list_entry_points.cache_clear()
    registry.list_plugin_modules.cache_clear()
    registry.try_to_load.cache_clear()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install small packages for one test; worker processes find them too."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    installed: list[str] = []

    def install_package(
        name: str, code: str, entry_points: Mapping[str, Mapping[str, str]]
    ) -> Path:
        (site / f"{name}.py").write_text(dedent(code))
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = [
            f"[harness.{group}]\n"
            + "".join(f"{key} = {name}:{target}\n" for key, target in targets.items())
            for group, targets in entry_points.items()
        ]
        (info / "entry_points.txt").write_text("\n".join(lines))
        installed.append(name)
        importlib.invalidate_caches()
        forget()
        return site

    yield install_package
    forget()
    for name in installed:
        sys.modules.pop(name, None)


@pytest.fixture
def profile(tmp_path: Path) -> Callable[[str], str]:
    """Write a profile file: tiny, with more tables."""

    def write(tables: str) -> str:
        path = tmp_path / "mine.toml"
        path.write_text(
            files("harness.profiles").joinpath("tiny.toml").read_text() + dedent(tables)
        )
        return str(path)

    return write
