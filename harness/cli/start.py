"""Start of the `harness` command."""

from __future__ import annotations

import os


def main() -> None:
    """Run the command line, with no process of it importing from the working folder."""
    os.environ["PYTHONSAFEPATH"] = "1"
    from harness.cli.main import main as run

    run()
