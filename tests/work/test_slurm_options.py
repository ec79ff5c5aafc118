"""A user's options for SLURM: the table of a file, options in its place, and what is refused in one line."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness import registry
from harness.cli.main import cli
from harness.errors import UserError
from harness.registry import get_class
from harness.work.base import Executor, ExecutorOptions
from harness.work.slurm.commands import SlurmTable, slurm_table

GRID = ("run", "--profile", "tiny", "--methods", "none", "--seeds", "1", "--suites", "sts")
DOCS = Path(__file__).resolve().parents[2] / "docs" / "clusters.md"


def written(folder: Path, text: str) -> str:
    (folder / "gpus.toml").write_text(f"[slurm]\n{text}\n")
    return str(folder / "gpus.toml")


def test_options_come_before_the_file_and_the_file_before_defaults(tmp_path: Path) -> None:
    file = written(tmp_path, 'partition = "a"\nwidth = 4\ngpus = 0\nsetup = ["module load x"]\nsbatch = {nice = 5}')
    found = slurm_table(file, {"partition": "b", "cpus": "8"})
    assert (found.partition, found.width, found.gpus, found.cpus) == ("b", 4, "0", 8)
    assert (found.setup, dict(found.sbatch), found.notice) == (("module load x",), {"nice": 5}, 120)
    assert slurm_table(None, {"setup": "source env"}).setup == ("source env",)


@pytest.mark.parametrize(
    ("text", "minutes"), [("90", 90), ("90:30", 90), ("4:00:00", 240), ("2-12", 3600), ("1-00:30", 1470)]
)
def test_times_are_those_of_sbatch(text: str, minutes: int) -> None:
    assert slurm_table(None, {"time": text}).time == minutes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpu = 1", r"table \[slurm\], key 'gpu': there is no such key"),
        ("gpus = 2", "key 'gpus': String should match"),
        ('time = "two hours"', "key 'time': 'two hours' is not a SLURM time; write minutes, or D-HH:MM:SS"),
        ("width = 0", "key 'width': Input should be greater than or equal to 1"),
    ],
)
def test_mistakes_in_a_file_are_one_line_with_the_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=rf"the SLURM file .*gpus\.toml, {message}|{message}"):
        slurm_table(written(tmp_path, text), {})


def test_the_page_describes_every_key_and_its_example_is_read(tmp_path: Path) -> None:
    page = DOCS.read_text()
    assert set(SlurmTable.model_fields) <= set(re.findall(r"^\| `(\w+)` \|", page, re.M))
    example = page.partition("```toml\n[slurm]\n")[2].partition("```")[0]
    found = slurm_table(written(tmp_path, example), {})
    assert found.model_fields_set == set(SlurmTable.model_fields)
    assert (found.time, found.notice) == (480, 180)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"wait": "perhaps"}, "wait=perhaps: it must be yes or no"),
        ({"cpus": "many"}, "--executor-option cpus=many: Input should be a valid integer"),
        ({"partion": "a"}, "the executor slurm has no option 'partion'; did you mean partition"),
        ({"gpus": "0"}, "--device cuda: the jobs have gpus = 0"),
    ],
)
def test_wrong_options_are_refused(settings: dict[str, str], message: str) -> None:
    pytest.importorskip("submitit", reason="submitit is not installed; its executor was not tested")
    with pytest.raises(UserError, match=message):
        get_class("executor", "slurm", Executor)(ExecutorOptions("auto", "cuda", settings))


@pytest.mark.parametrize("options", [("--slurm", "x.toml"), ("--wait",)])
def test_options_of_slurm_are_for_slurm_alone(tmp_path: Path, options: tuple[str, ...]) -> None:
    result = CliRunner().invoke(cli, [*GRID, "--results", str(tmp_path), "--executor", "serial", *options])
    assert isinstance(result.exception, UserError), result.output
    assert "the executor serial has no option" in str(result.exception)


#: what imports submitit; other modules of the package stay as other tests know them
IMPORTERS = ("submitit", *(f"harness.work.slurm.{name}" for name in ("executor", "submit", "task")))


def test_without_submitit_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(IMPORTERS)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "submitit", None)
    registry._points.cache_clear()
    with pytest.raises(
        UserError, match=r"--executor slurm: .*; install it with `pip install 'sentence-harness\[slurm\]'`"
    ):
        get_class("executor", "slurm", Executor)
    registry._points.cache_clear()
