"""The bell by which a driver asks its remote jobs to stop. An actor of Ray has it; it imports next to nothing."""

from __future__ import annotations

import asyncio


class Bell:
    """Is rung once."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    async def ring(self) -> None:
        """Let everybody hear it who waits, now or later."""
        self._rung.set()

    async def heard(self) -> None:
        """Return once it is rung."""
        await self._rung.wait()
