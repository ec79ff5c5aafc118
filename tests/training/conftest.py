"""Fixtures of the tests of training."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Work in an empty folder: teachers that are trained on the way leave their weights there."""
    monkeypatch.chdir(tmp_path)
