"""No process that the harness starts imports from the working folder, where any file could shadow a
module.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import slurm_standin
from made_files import image_bytes

import harness
from harness.fetching.archives import write_parquet

RUN = (
    "run --results RESULTS --profile tiny --methods mcse --seeds 1 --set steps=4 --set eval_every=2"
)
#: run as a script of another folder, as an installed command is, so that its own import path is
#: sound
COMMAND = """
import sys
from harness.cli.start import main
if __name__ == "__main__":
    for words in sys.argv.pop().split(";"):
        sys.argv[1:] = words.split()
        try:
            main()
        except SystemExit as end:
            assert not end.code
"""
LOADER = """
    from pathlib import Path
    from harness.corpora.labelled_images import LabelledImages
    from harness.training.batching import Order
    from harness.training.streams import MediaInputs, Prefetcher
    media = LabelledImages("images.parquet", "", size=224).load(Path.cwd())
    order = Order(len(media), 4, 0, "toy", "images")
    assert len(Prefetcher(MediaInputs(media, order, 0), 10**6, 1).take(0)["labels"]) == 4
"""
PATHS = """
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from harness.processors import start_with_safe_path
if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    for how in ("spawn", "forkserver"):
        with start_with_safe_path(), ProcessPoolExecutor(1, mp_context=get_context(how)) as pool:
            print(*pool.submit(eval, "__import__('sys').path").result(), sep="\\n")
    assert sys.path[0] == sys.argv[1]
"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a module of every name that a process could import; each says who imported it,
    and fails.
    """
    folder = tmp_path_factory.mktemp("hostile")
    told = f"open({str(folder / 'imported')!r}, 'a').write(f'{{__name__}} {{__import__(\"sys\").orig_argv}}\\n')"
    for name in {*sys.stdlib_module_names, *packages_distributions()}:
        if name.isidentifier() and not name.startswith("_"):
            (folder / f"{name}.py").write_text(
                f"{told}\nraise ImportError('of the working folder')\n"
            )
    write_parquet(
        folder / "images.parquet",
        {"jpeg": [image_bytes(np.zeros((8, 8, 3), np.uint8))] * 8, "label": list(range(8))},
    )
    return folder


@pytest.mark.parametrize(
    ("commands", "needs"),
    [
        pytest.param(
            (
                f"{RUN} --track tensorboard",
                "report --results RESULTS --profile tiny --out report",
            ),
            "tensorboard",
            marks=pytest.mark.long,
        ),
        pytest.param(
            (f"{RUN} --executor slurm --executor-option wait=yes --executor-option gpus=0",),
            "submitit",
            marks=pytest.mark.long,
        ),
        pytest.param((f"{RUN} --executor ray",), "ray", marks=pytest.mark.long),
    ],
    ids=["local", "slurm", "ray"],
)
def test_no_process_imports_from_the_working_folder(
    hostile: Path, tmp_path: Path, commands: tuple[str, ...], needs: str
) -> None:
    """Nor do the workers that load images, once the commands of this machine have ended."""
    if not find_spec(needs):
        pytest.skip(f"{needs} is not installed; its processes were not tested")
    script, results = tmp_path / "script.py", tmp_path / "results"
    script.write_text(COMMAND + (LOADER if needs == "tensorboard" else ""))
    environment = {**os.environ, **slurm_standin.install(tmp_path / "slurm")}
    environment |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_memory_monitor_refresh_ms": "0"}
    words = ";".join(commands).replace("RESULTS", str(results))
    done = subprocess.run(
        [sys.executable, str(script), words],
        cwd=hostile,
        env=environment,
        capture_output=True,
        text=True,
    )
    imported = hostile / "imported"
    told = imported.read_text() if imported.exists() else ""
    imported.unlink(missing_ok=True)
    assert told == ""
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(results.glob("*/*/*/*/seed-0-*.json"))


@pytest.mark.parametrize("first", ["", "."], ids=["of a notebook", "of python -m"])
def test_a_notebooks_working_folder_is_left_out_and_given_back(tmp_path: Path, first: str) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (tmp_path / "script.py").write_text(PATHS)
    command = [sys.executable, str(tmp_path / "script.py"), first and str(here)]
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=True)
    paths = done.stdout.splitlines()
    assert str(tmp_path) in paths
    assert {"", str(here)}.isdisjoint(paths)


def test_every_place_that_starts_a_python_process_leaves_the_working_folder_out() -> None:
    for path in Path(harness.__file__).parent.rglob("*.py"):
        text = path.read_text()
        if re.search(r"sys\.executable|get_context\(|ray\.init\(|submit_array\(", text):
            assert re.search(r"safe_path\(\)|SAFE_PATH", text), (
                f"{path} starts a process without `start_with_safe_path`"
            )
