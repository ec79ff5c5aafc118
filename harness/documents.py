"""Where the pages of the documents lie: a wheel has them in the package, a copy of the repository
in `docs`.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent


def find_page(name: str) -> Path:
    """The file of a page, such as `data.md`, on this machine."""
    installed = _PACKAGE / "docs"
    folder = installed if installed.is_dir() else _PACKAGE.parent / "docs"
    return folder / name
