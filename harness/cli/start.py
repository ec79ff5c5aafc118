"""Start of the `harness` command."""

from __future__ import annotations

import gc
import os


def main() -> None:
    """Run the command line, with no process of it importing from the working folder."""
    os.environ["PYTHONSAFEPATH"] = "1"
    collect_rarely()
    from harness.cli.main import main as run

    run()


def collect_rarely() -> None:
    """Search for unused cycles less often: results are many small objects that all stay in use."""
    gc.set_threshold(50_000)
