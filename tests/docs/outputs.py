"""The outputs on docs/first-steps.md: those of the same commands on the runs in results/reference.

`python tests/docs/outputs.py` writes them anew. `...` as the first line of an output stands for the
plan and the progress of the runs.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir
from itertools import pairwise
from pathlib import Path

from click.testing import CliRunner
from pages import ROOT, Block, blocks, calls

PAGE = ROOT / "docs" / "first-steps.md"
REFERENCE = ROOT / "results" / "reference"
#: the folder of the page's reader
HOME = "/home/you/project"
#: the first line of an output that is shown from the tables on
CUT = "...\n"


def copy_runs(reference: Path, folder: Path) -> None:
    """Copy what the page trains and scores: the seeds 0 to 2 of two methods, and one suite."""
    from harness.store import Store

    source, target = Store(reference), Store(folder)
    for method in ("simcse", "mcse"):
        for file in sorted(reference.glob(f"tiny/{method}/toy/toy-bert/seed-[012]-*.json")):
            result = source.read(file)
            scores = [evaluation for evaluation in result.evaluations if evaluation.suite == "sts"]
            target.save(result.model_copy(update={"evaluations": scores}))


def missing_runs(folder: Path) -> int:
    """How many runs of the page are not in a folder of results, or were trained by an earlier
    version of the code.
    """
    from harness import plan

    return len(plan("tiny", methods="simcse,mcse", seeds=3, suites="sts", results=folder).todo)


def outputs(page: str, folder: Path) -> Iterator[tuple[Block, str]]:
    """Each block of output on the page, and what its command prints now in a folder with `results`."""
    listed = blocks(page)
    with chdir(folder):
        for command, shown in pairwise(listed):
            if (command.language, shown.language) == ("sh", "text"):
                yield (
                    shown,
                    _cut(shown.text, "".join(_typed(words) for words in calls(command.text))),
                )


def _typed(words: list[str]) -> str:
    from harness.cli.main import cli

    elsewhere = ["--results", "none yet"] if "--dry-run" in words else []
    result = CliRunner().invoke(cli, [*words[1:], *elsewhere], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    text = result.output.replace(os.path.realpath(Path.cwd()), HOME)
    return re.sub(r" +$", "", text, flags=re.MULTILINE)


def _cut(shown: str, printed: str) -> str:
    """What is printed; where the page cuts, only what follows the plan and the runs."""
    if not shown.startswith(CUT):
        return printed
    return CUT + printed.partition("nothing to do: ")[2].partition("\n")[2]


def write(reference: Path) -> None:
    """Write the page with the outputs of now."""
    text = PAGE.read_text()
    with tempfile.TemporaryDirectory() as folder:
        copy_runs(reference, Path(folder) / "results")
        if missing := missing_runs(Path(folder) / "results"):
            sys.exit(
                f"{reference} lacks {missing} of the page's runs, as the present code trains them"
            )
        for block, printed in reversed(list(outputs(text, Path(folder)))):
            text = text[: block.start] + printed + text[block.end :]
    PAGE.write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else REFERENCE)
