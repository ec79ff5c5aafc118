"""Seeds derived from the named axes that a choice should depend on, and on nothing else.

The order of the data is seeded by the seed and the setting, not by the method. Global generators
are not used.
"""

from __future__ import annotations

import hashlib
import json

import numpy as np


def derive_seed(**axes: str | int) -> int:
    """A 63-bit seed that depends on the given axes only, whatever their order."""
    text = json.dumps(axes, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def make_generator(**axes: str | int) -> np.random.Generator:
    """A NumPy generator seeded by the given axes."""
    return np.random.Generator(np.random.PCG64(derive_seed(**axes)))
