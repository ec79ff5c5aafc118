"""The software of a process: versions of packages and the code itself.

Processes that share work must agree on it; the code can be sent to those that do not have it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import distribution, entry_points
from importlib.util import find_spec
from pathlib import Path

from harness.registry import GROUPS
from harness.runs.environment import package_versions
from harness.sources import digest

DISTRIBUTION = "sentence-harness"
#: What it installs.
PACKAGES = ("harness", "harness_methods", "harness_reports")
#: Environment variables that a process elsewhere shares with the driver, by their beginnings.
SHARED_VARIABLES = ("HARNESS_", "HF_", "OMP_", "MKL_", "TOKENIZERS_")


@dataclass(frozen=True)
class Software:
    """Versions by package, and a hash of the code of this project and its plug-ins by top-level module."""

    packages: Mapping[str, str]
    code: Mapping[str, str]

    @classmethod
    @cache
    def here(cls) -> Software:
        points = [point for group in GROUPS.values() for point in entry_points(group=group)]
        plugins = {point.dist.name: point.dist.version for point in points if point.dist}
        modules = sorted({point.module.partition(".")[0] for point in points})
        return cls({**plugins, **package_versions()}, {name: _code(name) for name in modules})

    def difference(self, other: Software) -> str | None:
        """The first difference of `other` from this, in words; None where there is none."""
        for name in sorted({*self.packages, *other.packages}):
            ours, theirs = (one.packages.get(name, "none") for one in (self, other))
            if ours != theirs:
                return f"{name} is {theirs} there and {ours} here"
        for name in sorted({*self.code, *other.code}):
            if self.code.get(name) != other.code.get(name):
                return f"the code of {name} differs between there and here"
        return None


def _code(module: str) -> str:
    """A hash of the Python files of a top-level module, which is not imported; of none where it is not found."""
    spec = find_spec(module)
    files = [(path, path.relative_to(folder)) for folder in _folders(module) for path in sorted(folder.rglob("*.py"))]
    if spec and spec.submodule_search_locations is None and spec.origin and spec.origin.endswith(".py"):
        files = [(Path(spec.origin), Path(f"{module}.py"))]
    return digest([[name.as_posix(), path.read_text("utf-8")] for path, name in files])


def _folders(module: str) -> list[Path]:
    spec = find_spec(module)
    return [Path(folder) for folder in (spec.submodule_search_locations if spec else None) or ()]


@contextmanager
def code_folders() -> Iterator[list[str]]:
    """Folders of the installed packages and of their entry points, copied under the names they are imported by.

    They are complete where a copy of files that git knows would not be: entry points are found in the metadata of an
    installed project only. Dependencies are not among them.
    """
    with tempfile.TemporaryDirectory(prefix="harness-code-") as made:
        found = distribution(DISTRIBUTION)
        about = Path(made) / f"{DISTRIBUTION.replace('-', '_')}-{found.version}.dist-info"
        about.mkdir()
        for name in ("METADATA", "entry_points.txt"):
            (about / name).write_text(found.read_text(name) or "", encoding="utf-8")
        for package in PACKAGES:
            for folder in _folders(package):
                shutil.copytree(folder, Path(made) / package, ignore=shutil.ignore_patterns("__pycache__"))
        yield [str(about), *(str(Path(made) / package) for package in PACKAGES)]
