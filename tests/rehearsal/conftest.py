"""The stand-ins of every test here, with the least of each data set."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from counts import SHORT
from world import World, world

from harness import fetching


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A machine with nothing on it, beside publishers of every entry of the catalogue."""
    entries = [name for name, entry in fetching.entries().items() if entry.origins]
    with world(tmp_path_factory.mktemp("machine"), SHORT, entries) as empty:
        yield empty
