"""What is shipped beside the package runs: every benchmark and tool in its smallest form, and every
make target.

The notebook and the packages of examples/ are carried out in tests/docs.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import torch
from click.testing import CliRunner
from scripts import script

from harness.cli.main import cli

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sorted(
    path for folder in ("benchmarks", "tools") for path in (ROOT / folder).glob("*.py")
)
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
#: words of each script, and what it prints; OUT is an empty folder
SMALL = [
    ("allocator", "--case kept --steps 2 --profile tiny", r"^\[[\d., ]+\]$"),
    ("allocator", "--rounds 1", "set HARNESS_DATA"),
    ("chunk", "--rows 2 --chunk 1 --rounds 1", "in pieces"),
    ("dev_eval", "--rounds 1 --batch 2 --sentences 8", "the dev score every 125 steps"),
    ("embedding", "", "largest difference"),
    (
        "evaluation",
        "--serve harness --toy --rows 200",
        r"^\[[\d.]+, \{\"ToySTS\"[^]]*\]\n.*\"ToyMTEB-Class[^]]*\]\n.*\"t2i_R@1\"",
    ),
    ("features", "--rows 100", "np.load: open"),
    ("grid", "runs --runs 2 --slots 2", "2 runs of 1 s on 2 slots"),
    ("grid", "plan --runs 40", "40 runs planned"),
    ("grid", "scale --runs 24 --slots 4", "a plan that finds them done"),
    ("peers", "text-fp32", "set HARNESS_DATA"),
    ("recording", "--steps 2", r"of which [\d.]+ % measure_gradient, [\d.]+ % observe"),
    ("retrieval", "--images 10", "largest difference of 16 scores 0.000"),
    ("step", "--serve text fp32 2", r"^[\d.]+$"),
    ("step", "--serve text reference 2", r"^[\d.]+$"),
    ("simulations", "--number 1", "decided by the seeds that were said to decide"),
    ("transfer", "speed --rows 60 --width 2 --sample 1", "best dev accuracies that differ: 0 of 4"),
    ("encoders_page", "bert", r"^bert: packed"),
    ("pretrain_student", "--help", "FOLDER becomes a model folder"),
    ("pretrain_toy", "--out OUT --steps 1", ""),
]
#: what takes several processes of seconds each, and pages that tests of their own compare
LARGER = [
    ("hours", "", "Hours of all runs"),
    ("api_page", "", "# The Python API"),
    ("profiles_page", "", "# Profiles"),
    ("reference_numbers", "", ""),
    ("results_page", "", "# What a results folder holds"),
    ("audit_papers", "", "^paper,where,claim,"),
    ("card", "--device cpu --steps 1 --no-doctor --out OUT", r"^\| fp32 \| no \| 8 \| 2 \| "),
    ("allocator", "kept --rounds 1 --steps 2 --profile tiny", "kept"),
    ("evaluation", "--toy --rows 200", "mteb .* largest difference of 4 scores 0.000"),
    (
        "full_size",
        "--sentences 600 --images 14 --batches 1 --starts 1",
        "cold.*\n.*first batch after",
    ),
    ("grid", "memory --runs 2 --slots 2", "the same plan again"),
    ("grid", "processes --runs 2 --slots 2", "2 processes at a time: "),
    ("host", "simcse --rounds 1", "simcse: .* on the host"),
    ("media", "--images 1 --batch 1 --rounds 1", "filterbanks of"),
    ("memory", "--steps 1", "baseline"),
    ("screenshots", f"{CHROMIUM} --out OUT", ""),
    ("site", "205", "largest page"),
    ("startup", "--rounds 1", "completion of --suites"),
    ("store", "205", "205 results, index"),
    ("step", "text --rounds 1 --rows 2 --precision fp32", "fp32: .*bar"),
]


def command_of(name: str, monkeypatch: pytest.MonkeyPatch) -> click.Command | None:
    """The command of a script, which finds those beside it; None for one that others import."""
    (path,) = (path for path in SCRIPTS if path.stem == name)
    monkeypatch.syspath_prepend(path.parent)
    module = script(path)
    monkeypatch.setitem(sys.modules, name, module)  # for what its processes import
    return getattr(module, "main", None)


@pytest.mark.parametrize(
    ("name", "words", "printed"),
    [*SMALL, *(pytest.param(*case, marks=pytest.mark.long) for case in LARGER)],
)
def test_a_script_in_its_smallest_form(
    name: str,
    words: str,
    printed: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    if name == "screenshots" and CHROMIUM is None:
        pytest.skip("no picture is taken; install chromium, such as by apt-get")
    monkeypatch.delenv("HARNESS_DATA", raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO("sts\ntransfer\nretrieval\n"))
    command = command_of(name, monkeypatch)
    assert command is not None
    given = words.replace("OUT", str(tmp_path / "out"))
    command.main(given.split(), standalone_mode=False)
    assert re.search(printed, capfd.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_explains_itself(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = command_of(path.stem, monkeypatch)
    assert (command is not None) == (path.stem in {name for name, *_ in (*SMALL, *LARGER)})
    for each in [command, *getattr(command, "commands", {}).values()] if command else []:
        shown = CliRunner().invoke(each, ["--help"])
        assert (shown.exit_code, shown.output.startswith("Usage: ")) == (0, True)
        assert CliRunner().invoke(each, ["--no-such-option"]).exit_code == 2


def test_the_harness_side_of_a_comparison_with_others_is_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other side needs accelerate and takes minutes; it was not carried out here."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.delenv("HARNESS_DATA", raising=False)
    program, *words = script(ROOT / "benchmarks" / "peers.py").make_harness_command(
        "captions-bf16", 1, tmp_path
    )
    assert Path(program).name == "harness"
    planned = CliRunner().invoke(cli, [*map(str, words), "--dry-run"])
    assert (planned.exit_code, "missing" in planned.output) == (0, True), planned.output


def test_the_program_for_cards_measures_what_there_is_time_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a card whose compiled steps take half as long, and steps in bf16 a tenth longer."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    card = script(ROOT / "benchmarks" / "card.py")

    def measure_together(load: Any, processes: int) -> list[Any]:
        step_ms = 22.0 if load.precision == "bf16" else 20.0
        if load.compile:
            step_ms /= 2
        return [card.StepTime(step_ms / 1000, 0.004, 46.0, 3.5)] * processes

    def measure_replay(load: Any) -> Any:
        assert (load.precision, load.compile) == ("bf16", False)
        return card.PassTime(called=0.015, replayed=0.01)

    monkeypatch.setattr(card, "measure_together", measure_together)
    monkeypatch.setattr(card, "measure_replay", measure_replay)
    monkeypatch.setattr(card, "check_device", lambda device, seconds: f"{device}: equal")
    file = tmp_path / "card.json"
    words = ["--device", "cuda", "--out", str(file)]
    done = CliRunner().invoke(card.main, words, catch_exceptions=False)
    page = json.loads(file.read_text("utf-8"))
    assert "| bf16 | yes | 64 | 1 | 11.0 | 4.0 | 46.0 |" in done.output
    assert page["doctor"] == "cuda: equal"
    assert page["gains"]["bf16 over tf32"] == pytest.approx(20 / 22)
    assert page["gains"]["compiled in bf16"] == pytest.approx(2)
    assert page["gains"]["passes in bf16 as a CUDA graph"] == pytest.approx(1.5)
    measured = {(each["precision"], each["processes"]) for each in page["measures"]}
    assert {("tf32", 4), ("bf16", 4), ("fp16", 1)} <= measured
    assert page["left_out"] == 0

    CliRunner().invoke(card.main, [*words, "--seconds", "0"], catch_exceptions=False)
    assert json.loads(file.read_text("utf-8"))["left_out"] == len(page["measures"])


def test_passes_of_the_program_for_cards_give_new_gradients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one that a CUDA graph records, which has to be the whole of a batch's work."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    card = script(ROOT / "benchmarks" / "card.py")
    load = card.Load("cpu", "bf16", 3, 1, compile=False)
    student = load.make_student()
    run_passes = card.make_passes(load, student)

    gradients = []
    for _ in range(2):
        torch.manual_seed(0)
        run_passes()
        gradients.append([weight.grad.clone() for weight in student.model.parameters()])
    assert all(gradient.abs().sum() > 0 for gradient in gradients[0])
    torch.testing.assert_close(*gradients, rtol=0, atol=0)


def recipes() -> dict[str, str]:
    """The commands of each make target, by its name."""
    listed = re.findall(
        r"^([a-z]+):.*\n((?:\t.*\n?)+)", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    return dict(listed)


@pytest.mark.parametrize("target", recipes())
def test_a_make_target_names_what_is_there(target: str) -> None:
    shown = subprocess.run(
        ["make", "-n", "-B", target], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0, shown.stderr
    text = shown.stdout
    for path in re.findall(
        r"(?<![\w./])(?:tests|benchmarks|docs|tools)(?:/[\w*.]+)*(?![\w/])", text
    ):
        assert path.startswith("docs/_build") or any(ROOT.glob(path)), path
    for extras in re.findall(r"'\.\[([\w,]+)\]'", text):
        assert all(
            f"\n{extra} = [" in (ROOT / "pyproject.toml").read_text() for extra in extras.split(",")
        )
    for marker in re.findall(r"pytest -m (\w+)", text):
        assert any(
            f"mark.{marker}" in path.read_text() for path in (ROOT / "tests").rglob("test_*.py")
        )
    for words in re.findall(r"/harness ([^\n]*)", text):
        if words.startswith("run"):
            planned = CliRunner().invoke(cli, [*words.split(), "--results", "nowhere", "--dry-run"])
            assert planned.exit_code == 0, planned.output
        else:
            assert words.startswith("report")


def test_mutants_are_drawn_by_coverage(tmp_path: Path) -> None:
    pytest.importorskip("pytest_cov", reason="no mutant was drawn; install pytest-cov")
    lines = [
        "a = 1 < 2  # one",
        "b: 3 = f(x, y=4) + 'text' if not c else 5",
        "raise ValueError(6)",
        "g(7)",
    ]
    (tmp_path / "code.py").write_text("\n".join(lines))
    mutants = script(ROOT / "tests" / "mutants.py")
    drawn = mutants.mutants_of(
        tmp_path / "code.py", {1: ["a::b[c|d]|run", "a::b[c|d]|setup", ""], 2: ["e::f|run"]}
    )
    afters = {(mutant.after, mutant.tests) for mutant in drawn}
    first = {(after, ("a::b[c|d]",)) for after in ("(1 <= 2)", "2", "3")}
    assert afters == first | {
        (after, ("e::f",))
        for after in ("(f(x, y=4) + 'text' if not not c else 5)", *("(c)", "5", "6", "(f(x))"))
    }


@pytest.mark.long
def test_mutants_are_tried(tmp_path: Path) -> None:
    pytest.importorskip("pytest_cov", reason="no mutant was tried; install pytest-cov")
    if not (ROOT / ".git").exists():  # such as the copy that `make mutants` works in
        pytest.skip("no mutant was tried: this is no checkout of git")
    words = [
        "--count",
        "1",
        "--rooms",
        "harness/seeds.py",
        "--libraries",
        "",
        "--coverage",
        tmp_path / "coverage",
    ]
    command = [sys.executable, ROOT / "tests" / "mutants.py", *words, "tests/test_seeds.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert re.search(
        r"^\d+ mutants of executed lines; trying 1\n(not noticed  .*\n)*\d of 1 noticed",
        done.stdout,
        re.M,
    )


def test_make_clean_keeps_results(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("results", "reports/build", ".venv", "dist"):
        (tmp_path / name).mkdir(parents=True)
    subprocess.run(["make", "clean"], cwd=tmp_path, check=True, capture_output=True)
    assert {path.name for path in tmp_path.iterdir()} == {"Makefile", "results", "reports"}
