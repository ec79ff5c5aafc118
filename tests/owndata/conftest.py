"""A user's folder, in an empty working folder and without a data root."""

from __future__ import annotations

from pathlib import Path

import pytest
from own_world import write_world


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The profile; the working folder is another than its own."""
    monkeypatch.delenv("HARNESS_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    return write_world(tmp_path / "lab")
