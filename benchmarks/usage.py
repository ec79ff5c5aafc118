"""What this process uses of the machine; its peak of memory is measured by the harness."""

from __future__ import annotations

from pathlib import Path


def read_resident_mb(part: str = "VmRSS") -> float:
    """Resident memory in MB: all of it, `RssAnon` alone, or `RssFile`, the mapped files."""
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, amount = line.partition(":")
        if name == part:
            return int(amount.split()[0]) * 1024 / 1e6
    raise LookupError(f"/proc/self/status has no {part}")
