"""Options of the executors of clusters: what is read, what is refused in one line before anything
runs.
"""

from __future__ import annotations

import re
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from plugin_packages import forget

from harness.cli.main import cli
from harness.errors import UserError
from harness.registry import get_class
from harness.runs.execution import Execution, Software
from harness.work.base import Executor
from harness.work.slurm.commands import SlurmTable, read_slurm_options

GRID = ("run", "--profile", "tiny", "--methods", "none", "--seeds", "1", "--suites", "sts")
DOCS = Path(__file__).resolve().parents[2] / "docs" / "clusters.md"
#: the library of an executor
LIBRARY = {"ray": "ray", "slurm": "submitit"}


@pytest.mark.parametrize(
    ("executor", "settings", "message"),
    [
        ("ray", {"shared-folder": "perhaps"}, "shared-folder=perhaps: it must be yes or no"),
        ("ray", {"cpus": "0"}, "cpus=0: it must be a positive whole number"),
        ("ray", {"gpus": "2"}, "gpus=2: it must be a number above 0 and up to 1"),
        ("ray", {"adress": "x:1"}, "the executor ray has no option 'adress'; did you mean address"),
        ("slurm", {"wait": "perhaps"}, "wait=perhaps: it must be yes or no"),
        ("slurm", {"cpus": "many"}, "--executor-option cpus=many: it must be a whole number"),
        (
            "slurm",
            {"partion": "a"},
            "the executor slurm has no option 'partion'; did you mean partition",
        ),
        ("slurm", {"gpus": "0"}, "--device cuda: the jobs have gpus = 0"),
    ],
)
def test_wrong_options_are_refused(executor: str, settings: dict[str, str], message: str) -> None:
    pytest.importorskip(
        LIBRARY[executor],
        reason=f"{LIBRARY[executor]} is not installed; its executor was not tested",
    )
    with pytest.raises(UserError, match=message):
        get_class("executor", executor, Executor)(
            Execution(jobs="auto", device="cuda", executor_options=settings)
        )


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("--address=a:1", "address"),
        ("--no-shared-folder", "shared-folder"),
        ("--slurm=x", "table"),
        ("--wait", "wait"),
    ],
)
def test_options_of_one_executor_are_for_it_alone(tmp_path: Path, option: str, name: str) -> None:
    result = CliRunner().invoke(
        cli, [*GRID, "--results", str(tmp_path), "--executor", "serial", option]
    )
    assert isinstance(result.exception, UserError), result.output
    assert f"the executor serial has no option '{name}'" in str(result.exception)


@pytest.mark.parametrize("executor", LIBRARY)
def test_without_its_library_one_line_says_what_to_install(
    executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # what imports the library; other modules of the package stay as other tests know them
    modules = ("executor", "cluster", "node", "task")
    importers = (LIBRARY["slurm"], *(f"harness.work.{executor}.{name}" for name in modules))
    for name in [name for name in sys.modules if name.startswith(importers)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, LIBRARY[executor], None)
    forget()
    install = re.escape(f"install it with `pip install 'sentence-harness[{executor}]'`")
    with pytest.raises(UserError, match=rf"--executor {executor}: .*; {install}"):
        get_class("executor", executor, Executor)
    forget()


def test_a_head_of_ray_that_cannot_be_joined_is_one_line() -> None:
    pytest.importorskip("ray", reason="ray is not installed; its executor was not tested")
    from harness.work.ray.cluster import join_cluster

    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and does not listen
        said = {
            f"127.0.0.1:{port}": "does not answer at"
            for port in (bound.getsockname()[1], "99999", "x")
        }
        said["ray://head:10001"] = "send the command there with `ray job submit`"
        for address, message in said.items():
            with (
                pytest.raises(UserError, match=message) as refused,
                join_cluster(address, send_code=False),
            ):
                pass
            assert address in str(refused.value)


def test_the_first_difference_of_software_is_named() -> None:
    here = Software.here()
    assert here.difference(here) is None
    assert {"torch", "sentence-harness", "python"} <= set(here.packages)
    assert {"harness", "harness_methods"} <= set(here.code)
    older = replace(here, packages={**here.packages, "torch": "2.0"})
    assert here.difference(older) == f"torch is 2.0 there and {here.packages['torch']} here"
    assert (
        here.difference(replace(here, code={}))
        == "the code of harness differs between there and here"
    )


def test_the_code_that_is_sent_is_whole() -> None:
    pytest.importorskip("ray", reason="ray is not installed; its executor was not tested")
    from harness.work.ray.cluster import copy_code

    with copy_code() as folders:
        names = {Path(folder).name.partition("-")[0] for folder in folders}
        about = next(Path(folder) for folder in folders if folder.endswith(".dist-info"))
        assert "harness.methods" in (about / "entry_points.txt").read_text()
        methods = next(Path(folder) for folder in folders if folder.endswith("harness_methods"))
        assert (methods / "simcse.py").is_file()
    assert names == {"sentence_harness", "harness", "harness_methods", "harness_reports"}
    assert not about.exists()


def written(folder: Path, text: str) -> str:
    (folder / "gpus.toml").write_text(f"[slurm]\n{text}\n")
    return str(folder / "gpus.toml")


def test_options_come_before_the_file_and_the_file_before_defaults(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        'partition = "a"\nwidth = 4\ngpus = 0\nsetup = ["module load x"]\nsbatch = {nice = 5}',
    )
    table = read_slurm_options(file, {"partition": "b", "cpus": "8"})
    assert (table.partition, table.width, table.gpus, table.cpus) == ("b", 4, "0", 8)
    assert (table.setup, dict(table.sbatch), table.notice) == (("module load x",), {"nice": 5}, 120)
    assert read_slurm_options(None, {"setup": "source env"}).setup == ("source env",)
    times = {"90": 90, "90:30": 90, "4:00:00": 240, "2-12": 3600, "1-00:30": 1470}
    assert {text: read_slurm_options(None, {"time": text}).time for text in times} == times, (
        "as sbatch reads them"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpu = 1", r"table \[slurm\], key 'gpu': there is no such key"),
        ("gpus = 2", "key 'gpus': it must match"),
        (
            'time = "two hours"',
            "key 'time': 'two hours' is not a SLURM time; write minutes, or D-HH:MM:SS",
        ),
    ],
)
def test_mistakes_in_a_file_are_one_line_with_the_key(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(UserError, match=rf"gpus\.toml.*{message}"):
        read_slurm_options(written(tmp_path, text), {})


def test_the_page_describes_every_key_and_its_example_is_read(tmp_path: Path) -> None:
    page = DOCS.read_text()
    assert set(SlurmTable.model_fields) <= set(re.findall(r"^\| `(\w+)` \|", page, re.M))
    example = page.partition("```toml\n[slurm]\n")[2].partition("```")[0]
    table = read_slurm_options(written(tmp_path, example), {})
    assert table.model_fields_set == set(SlurmTable.model_fields)
    assert (table.time, table.notice) == (480, 180)
