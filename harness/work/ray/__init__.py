"""The executor of Ray clusters, and the flag by which a driver asks its remote jobs to stop.

The flag is held by a Ray actor, whose process imports this file and nothing else of the executor.
"""

from __future__ import annotations

import asyncio


class Bell:
    """A flag that is set once."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    async def ring(self) -> None:
        """Set the flag for all who wait, now or later."""
        self._rung.set()

    async def heard(self) -> None:
        """Return once it is rung."""
        await self._rung.wait()
