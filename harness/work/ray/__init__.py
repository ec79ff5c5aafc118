"""The executor of Ray clusters, and the flag by which a driver asks its remote jobs to stop.

The flag is held by a Ray actor, whose process imports this file and nothing else of the executor.
"""

from __future__ import annotations

import asyncio


class StopFlag:
    """A flag that is set once."""

    def __init__(self) -> None:
        self._set = asyncio.Event()

    async def set(self) -> None:
        """Set the flag for all who wait, now or later."""
        self._set.set()

    async def wait(self) -> None:
        """Return once it is set."""
        await self._set.wait()
