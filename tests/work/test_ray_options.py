"""What the Ray executor refuses in one line, before it joins a cluster."""

from __future__ import annotations

import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness import registry
from harness.cli.main import cli
from harness.errors import UserError
from harness.registry import get_class
from harness.work.base import Executor, ExecutorOptions
from harness.work.software import Software, code_folders

pytest.importorskip("ray", reason="Ray is not installed; its executor was not tested")
from harness.work.ray.cluster import joined, worker_environment

GRID = ("run", "--profile", "tiny", "--methods", "none", "--seeds", "1", "--suites", "sts")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("shared-folder", "perhaps", "shared-folder=perhaps: it must be yes or no"),
        ("cpus", "0", "cpus=0: it must be a positive whole number"),
        ("gpus", "2", "gpus=2: it must be a number above 0 and up to 1"),
        ("adress", "x:1", "the executor ray has no option 'adress'; did you mean address"),
    ],
)
def test_wrong_options_are_refused(name: str, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        get_class("executor", "ray", Executor)(ExecutorOptions(settings={name: text}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--address", "head:6379"), "the executor serial has no option 'address'"),
        (("--no-shared-folder",), "the executor serial has no option 'shared-folder'"),
        (("--executor", "ray", "--address", "ray://head:10001"), "send the command there with `ray job submit`"),
    ],
)
def test_options_of_ray_are_for_ray_alone(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    executor = () if "--executor" in options else ("--executor", "serial")
    result = CliRunner().invoke(cli, [*GRID, "--results", str(tmp_path), *executor, *options])
    assert isinstance(result.exception, UserError), result.output
    assert message in str(result.exception)


#: what imports Ray; other modules of the package stay as other tests know them
IMPORTERS = tuple(f"harness.work.ray.{name}" for name in ("executor", "cluster", "node", "tasks"))


def test_without_ray_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(IMPORTERS)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ray", None)
    registry._points.cache_clear()
    with pytest.raises(UserError, match=r"--executor ray: .*; install it with `pip install 'sentence-harness\[ray\]'`"):
        get_class("executor", "ray", Executor)
    registry._points.cache_clear()


def test_a_head_that_does_not_answer_is_one_line() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and does not listen
        for address in (f"127.0.0.1:{bound.getsockname()[1]}", "127.0.0.1:99999", "127.0.0.1:x"):
            with pytest.raises(UserError, match=f"does not answer at {address}"), joined(address, send_code=False):
                pass


def test_the_first_difference_of_software_is_named() -> None:
    here = Software.here()
    assert here.difference(here) is None
    assert {"torch", "sentence-harness", "python"} <= set(here.packages)
    assert {"harness", "harness_methods"} <= set(here.code)
    older = replace(here, packages={**here.packages, "torch": "2.0"})
    assert here.difference(older) == f"torch is 2.0 there and {here.packages['torch']} here"
    assert here.difference(replace(here, code={})) == "the code of harness differs between there and here"


def test_the_code_that_is_sent_is_whole(tmp_path: Path) -> None:
    with code_folders() as folders:
        names = {Path(folder).name.partition("-")[0] for folder in folders}
        about = next(Path(folder) for folder in folders if folder.endswith(".dist-info"))
        assert "harness.methods" in (about / "entry_points.txt").read_text()
        methods = next(Path(folder) for folder in folders if folder.endswith("harness_methods"))
        assert (methods / "simcse.py").is_file()
    assert names == {"sentence_harness", "harness", "harness_methods", "harness_reports"}
    assert not about.exists()


def test_a_worker_has_the_drivers_variables_and_no_gpu_that_it_did_not_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_DATA", "data")
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    monkeypatch.setenv("OTHER", "here")
    found = worker_environment(3, on_gpu=False)
    assert (found["HARNESS_DATA"], found["OMP_NUM_THREADS"], found["CUDA_VISIBLE_DEVICES"]) == ("data", "3", "")
    assert "OTHER" not in found
    assert "CUDA_VISIBLE_DEVICES" not in worker_environment(3, on_gpu=True), "Ray sets it to the GPU of the task"
