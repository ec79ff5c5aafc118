"""The memory that a process keeps."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: blocks of 5 MB, each with a small one behind it that stays; a larger one was freed before, as in training
HOLES = """
import os, sys
from pathlib import Path
from harness.processors import free_large_blocks

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

if sys.argv[1] == "freed":
    free_large_blocks()
large = bytearray(30 * 2**20)
del large
before, blocks, stay = resident(), [], []
for _ in range(20):
    blocks.append(bytearray(b"x") * (5 * 2**20))
    stay.append(bytearray(b"x") * 2**16)
del blocks
print(resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_large_blocks_are_given_back_although_small_ones_lie_between() -> None:
    kept, freed = (
        float(subprocess.run([sys.executable, "-c", HOLES, how], capture_output=True, check=True, text=True).stdout)
        for how in ("kept", "freed")
    )
    assert freed < 20 < 80 < kept
