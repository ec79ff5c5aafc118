"""What takes long to import is imported where it is used: no process loads what its command does
not need.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"torch", "transformers", "pandas", "scipy"}
#: what a process does -> what it has not imported then
LIGHT: dict[str, set[str]] = {
    "import harness": {"torch", "pandas", "pydantic"},
    # help and completion of every command
    "import click; from harness.cli.main import COMMANDS, cli\n"
    "[cli.get_command(click.Context(cli), name) for name in COMMANDS]": {
        *HEAVY,
        "numpy",
        "pydantic",
        "huggingface_hub",
        "rich",
    },
    "import harness.api": {"torch", "jinja2"},
    # what reads results needs nothing of what plans and trains
    "import harness.reading, harness.reporting.results": {
        *HEAVY,
        "jinja2",
        "harness.api",
        "harness.planning.plan",
        "harness.work",
        "huggingface_hub",
    },
    "import harness.api; harness.api.plan('tiny')": {
        "transformers",
        "pandas",
        "open_clip",
        "scipy",
    },
    # what `harness status` and a plan read of results
    "from pathlib import Path; from harness.store import Store\n"
    "frames = Store(Path('results/reference')).frames()\n"
    "assert frames.seeds_by_group() and frames.collect_times()": {"pandas", "torch"},
    # an effect size, and the least difference that seeds show
    "from harness.stats import Summary, detectable_difference, hedges_g\n"
    "assert hedges_g(Summary(2.0, 1.0, 5), Summary(1.0, 1.0, 5)).low < 0.0\n"
    "assert detectable_difference(1.0, 5) > 0.0": {"scipy.stats", "scipy.optimize"},
    "import harness.reporting.seeds.summary": {"pandas", "scipy", "torch", "jinja2"},
    "import harness.papers.needed, harness.papers.audit": {"torch"},
    # what a report asks a figure for
    "from harness.registry import get, list_registered\n"
    "found = {name: get('figure kind', name).suites for name in list_registered('figure kind')}\n"
    "assert found['alignment-uniformity'] == ('sts',) and len(found) >= 7": {"vl_convert", "torch"},
    # what a plan asks suites for
    "import pathlib; from harness.registry import get, list_registered\n"
    "tasks = {'sts': ['STS12'], 'geometry': ['STS-B'], 'transfer': ['TREC'], 'mteb': list_registered('mteb task')}\n"
    "assert all(get('suite', name)(named).missing(pathlib.Path('nowhere')) for name, named in tasks.items())\n"
    "get('suite', 'mteb')(['ToyMTEB-STS']).fingerprint(None)": {
        *HEAVY,
        "sklearn",
        "mteb",
        "datasets",
    },
}


@pytest.mark.parametrize("code", LIGHT, ids=lambda code: code.partition("\n")[0])
def test_nothing_is_imported_before_it_is_needed(code: str) -> None:
    asked = f"{code}\nimport sys; print(sorted({LIGHT[code]!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", asked], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "[]", done.stderr
