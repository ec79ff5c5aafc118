"""Inputs that a user may type by mistake: one line that says what to change, exit code 2, nothing
written.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from cli_words import Typed

import harness
from harness.caches import get_cache_folder
from harness.cli.main import cli
from harness.errors import UserError
from harness.store import Store

#: more variants than a grid can have, with 10,000 seeds
MANY = ",".join(f"simcse[temperature=0.{number:02d}]" for number in range(1, 31))
#: lists of 10, 10 and 11 values
LISTS = [
    w
    for key in ("steps", "eval_every")
    for w in ("--set", f"{key}={','.join(map(str, range(1, 11)))}")
]
LISTS += ["--set", f"batch_size={','.join(map(str, range(2, 13)))}"]
TUNE = (
    "--tune",
    "simcse:temperature=0.05|0.1|0.5",
    "--tune",
    "mcse:lambda=0.01|1",
    "--trials",
    "2",
)
NAMES = (
    "methods",
    "settings",
    "encoders",
    "suites",
    "tasks",
    "table",
    "figure",
    "paper",
    "readings",
)

#: mistakes in a grid of the profile tiny
REFUSED: tuple[tuple[tuple[str, ...], str], ...] = (
    # an unset shell variable must not stand for the whole default grid
    *(((f"--{name}={text}",), f"--{name} is empty") for name in NAMES for text in ("", ",")),
    (("--set", "steps=5", "--set", "steps=6"), "--set gives steps twice"),
    (("--methods", "msce"), "unknown method 'msce'; did you mean mcse"),
    (("--set", "steps=5,stepz=6"), "--set stepz: no such hyperparameter; did you mean steps"),
    (("--set", "steps=5,6,steps=7"), "--set gives steps twice"),
    (
        ("--set", "steps=many"),
        "the training value 'steps' = 'many' is refused: it must be a whole number",
    ),
    (("--set", "learning_rate=-1"), "'learning_rate' = -1 is refused: it must be greater than 0"),
    (
        ("--set", "unreached=stop"),
        "'unreached' = 'stop' is refused: it must be 'momentum' or 'rest'",
    ),
    (("--set", "compile=2"), "'compile' = 2 is refused: it must be true or false"),
    (
        ("--set", "compile=maybe"),
        "'compile' = 'maybe' is refused: it must be true or false or 'auto'",
    ),
    (
        ("--readings", "paper,offical", "--table", "mcse:T1"),
        "--readings offical: no method of mcse:T1 has",
    ),
    (("--readings", "fixed", "--table", "mcse:T2"), "has this reading; known: official, paper"),
    (
        ("--readings", "paper"),
        "--readings works only with --table, --figure or --paper; in a grid, name",
    ),
    (("--table", "dalr:T3", "--suites", "sts"), "--table selects its own runs; remove --suites"),
    (("--table", "mcse:T2", "--tasks", "ToySTS"), "--table selects its own runs; remove --tasks"),
    (("--table", "dalr:T2"), "tiny has no stand-ins for dalr:T2"),
    (("--released",), "tiny lists no public weights"),
    (
        ("--methods", "mcse", "--set", "lambda=0.1,"),
        "'--set lambda=0.1,' has an empty value in a list",
    ),
    (("--methods", "mcse[lambda=|1]"), "has an empty value in a list"),
    (("--methods", "simcse", "--set", "lambda=0.1,1"), "--set lambda: no such hyperparameter"),
    (
        ("--methods", "none", "--set", "epochs=1,2"),
        "--set epochs=1,2 changes no method of this grid",
    ),
    (
        ("--table", "mcse:T2", "--set", "lambda=0.1,1"),
        "--table selects its own runs; give one value",
    ),
    (("--methods", "mcse", *LISTS), "make more than 1,000 variants"),
    (("--tasks", "STS1"), "--tasks STS1: no such task in the suites"),
    (("--settings", "toi"), "no setting 'toi'; did you mean toy"),
    (("--encoders", "toy-bart"), "no encoder 'toy-bart'; did you mean toy-bert"),
    (("--suites", "stz"), "no suite 'stz'; did you mean sts"),
    (("--set", "lambada=1"), "--set lambada: no such hyperparameter; did you mean lambda"),
    (("--methods", "mcse[lambda=1,lambda=2]"), "sets 'lambda' twice"),
    (("--set", "steps=true"), "'steps' = True is refused"),
    (("--methods", "mcse[lambda=true]"), "'lambda' must be of type float"),
    (("--set", "temperature=0"), "'temperature' must be above 0"),
    (("--methods", "visualcse[image_batch_size=1]"), "'image_batch_size' must be 2 or more"),
    (
        ("--set", "steps=5", "--set", "warmup_steps=5"),
        "warmup_steps = 5 leave none of 5 steps at the full rate",
    ),
    (("--seeds", "0"), "seeds '0' asks for no run"),
    (("--seeds", "1" + "0" * 30), "more than 10,000 runs"),
    (("--seeds", "0," + "9" * 20), "at most 9 digits"),
    (("--set", "steps=1e99"), "'steps' = 1e+99 is refused: it is too large"),
    (("--set", "temperature=1e999"), "--set temperature=1e999: not a finite number"),
    (("--run-timeout", "99999999999d"), "--run-timeout is more than"),
    (("--executor", "serial", "--jobs", "2"), "one run at a time"),
    (
        (*TUNE[:-1], "3"),
        "mcse has 2 configurations, fewer than 3 trials; list more, or give --trials 2",
    ),
    (TUNE[:4], "--tune and --trials go together"),
    (("--trials", "2"), "--tune and --trials go together"),
    (("--sampler", "tpe"), "--tune and --trials go together"),
    ((*TUNE, "--sampler", "tpa"), "'tpa' is not one of"),
    (
        (*TUNE, "--sampler", "tpe", "--settings", "toy,toy[size=8]"),
        "in one place, not in toy/toy-bert and toy[size=8]/",
    ),
    (("--sampler", "tpe", "--table", "mcse:T2"), "--tune works only with a grid"),
    ((*TUNE, "--table", "mcse:T2"), "--tune works only with a grid of methods; remove --table"),
    (
        (*TUNE, "--set", "steps=1,2"),
        "lists several values, which makes a grid, but --tune draws its own values",
    ),
    (("--tune", "none:pooling=cls|mean", "--trials", "2"), "--tune none: it trains nothing"),
    (("--tune", "mcse:lamda=1|2", "--trials", "2"), "lamda"),
    (("--table", "dalr:T3", "--set", "epoch=3"), "did you mean epochs"),
    (("--methods", "mcse[lambda"), "unbalanced brackets"),
    (("--methods", "dalr[text=" * 30 + "x" + "]" * 30), "inside each other"),
    (("--set", "steps"), "--set 'steps' is not key=value"),
    (("--device", "tpu"), "'tpu' is not one of"),
    (("--encoders", "mine=./nowhere"), "has no config.json"),
    (("--encoders", "owner/model@main"), "does not pin a hub model"),
    (("--data-root", "./nowhere"), "is not a folder"),
    (("--track", "wanb"), "unknown tracker 'wanb'; did you mean wandb"),
    (("--executor", "slrum"), "did you mean slurm?"),
    (("--chunk", "x"), "'x' is not a whole number"),
    (("--wait",), "has no option 'wait'"),
    (("--accept-licences", "senteva"), "did you mean senteval?"),
    (("--seeds", "10000", "--methods", MANY), "more than 200,000"),
)
#: mistakes in a grid of the profile paper
REFUSED_FULL = (
    (("--table", "mcse:T5", "--encoders", "gpt2"), "--encoders gpt2: mcse:T5 has no such name"),
    (("--claim", "dalr:T3"), "--claim dalr:T3: dalr:T3 has no such column or claim"),
    (
        ("--released", "--methods", "mcse"),
        "the public weights that the profile lists; remove --methods",
    ),
    (("--released", "--figure", "mcse:F2"), "remove --figure"),
    (("--released", "--encoders", "bert-base-uncased"), "remove --encoders"),
    (("--released", "--table", "mcse:T1", "--suites", "sts"), "remove --suites"),
    (("--released", "--table", "mcse:T2"), "no public weights for mcse:T2"),
)


EVAL = ("eval", "--profile", "tiny")
RUN = "mcse/toy/toy-bert/seed-0"
HERE = ("--data-root", ".")
#: what names a folder, which may be that of a home
AT_HOME = (
    *(
        ("run", "--profile", "tiny", "--dry-run", text)
        for text in ("--results=", "--data-root=", "--encoders=mine=")
    ),
    ("eval", ""),
)
#: mistakes of any command
MISTAKES: tuple[tuple[tuple[str, ...], str], ...] = (
    *((("run", "--profile", "tiny", "--dry-run", *words), message) for words, message in REFUSED),
    *(
        (("run", "--profile", "paper", "--dry-run", *words), message)
        for words, message in REFUSED_FULL
    ),
    (("run", "--profile", "tiny", "--device", "cuda"), "no CUDA device"),
    (("doctor", "--device", "cuda"), "no CUDA device"),
    (
        ("run", "--profile", "tiny", "--device", "cpu", "--set", "precision=fp16"),
        "give --set precision=fp32 or bf16",
    ),
    (("run", "--profile", "tyni"), "unknown profile 'tyni'; did you mean tiny"),
    (("run", "--profile", "./mine.toml"), "cannot be read"),
    (
        ("run", "--profile", "tiny", "--encoders", "owner/model"),
        "1 input missing: the weights of owner/model at main",
    ),
    (("fetch", "--methods", "none"), "no data root is set"),
    (
        ("run", "--profile", "tiny", "--results", "/proc/nowhere", "--methods", "none"),
        "cannot be written",
    ),
    (("run",), "the profile `tiny` needs no data"),
    (
        ("run", "--profile", "tiny", "--methods", "mcse", "--settings", "toy-text"),
        "every run is skipped, nothing",
    ),
    ((*EVAL, "./nowhere"), "no folder ./nowhere"),
    ((*EVAL, RUN, "--pooling", "cls"), "remove --pooling"),
    ((*EVAL, RUN), f"no result of {RUN}"),
    ((*EVAL, "a/b", "--pooling", "cls"), "missing: the weights of a/b at main; run `harness fetch"),
    (
        ("data", "fetch", "wiki1m", "--accept-licences", "senteval,"),
        "--accept-licences : no restricted data set",
    ),
    ((*EVAL, "a/b"), "cannot find the weights of a/b at main; run `hf download a/b"),
    (("new", "profile", "../x"), "'../x' is not a valid name"),
    (("new", "task", "MR"), "is a name that the harness reserves"),
    (("new", "task", "tiny"), "the profile 'tiny' is shipped"),
    (("new", "method", "simcse"), "'simcse' is already the name of a method or module"),
    (("new", "method", "class"), "'class' is not a valid module name"),
    (("data", "fetch", "wiki1m"), "no data root is set"),
    (("data", "fetch", "flickr-images", *HERE), "harness data import flickr-images FOLDER"),
    (("data", "fetch", "mteb", *HERE), "`harness fetch --suites mteb` downloads the tasks"),
    (
        ("data", "fetch", "flickr-resnet", *HERE),
        "to accept them, add --accept-licences flickr-resnet",
    ),
    (("data", "path", "nli", *HERE), "harness data fetch nli"),
    (("data", "verify", *HERE), "harness data list"),
    (("data", "import", "nli", "nowhere", *HERE), "there is no folder"),
    (("report", "--profile", "tiny"), "no results of the profile 'tiny'"),
    (("show", "mcse/toy/toy-bert/seed-9"), "no result of"),
    (("show", "msce"), "there is no result of 'msce' in results; did you mean mcse?"),
    (("show", "nothing.json"), "there is no file"),
    (
        ("logs", "mcse/toy"),
        "there is no log of 'mcse/toy' in results; `harness status` lists the runs of a grid",
    ),
    (("list", "nouns"), "'nouns' is not one of"),
    (("check", "mcse[lamda=1]"), "the method 'mcse' has no option 'lamda'; did you mean lambda?"),
    (("check", "simcse", "nothing_here"), "nothing_here cannot be imported: ModuleNotFoundError"),
    (("rnu",), "unknown command `harness rnu`; did you mean run?"),
    (("data", "lst"), "unknown command `harness data lst`; did you mean list?"),
    (("run", "--sede", "3"), "--seeds"),
    (("run", "--zzz"), "see `harness run --help`"),
    (("audit", "--profile", "paper"), "add --seen"),
    (("power", "--effect", "1", "--std", "1", "--seeds", "100000000"), "2<=x<=10000"),
    (("show", "mcse", "--profile", "tiny", "--encoder", "nope"), "no encoder 'nope'"),
    (("show", "none", "--profile", "tiny", "--setting", "nope"), "no setting 'nope'"),
    *(
        ((*words, "--results", __file__), "is not a folder")
        for words in (("status",), ("doctor",), ("table", "sts"))
    ),
    (("results", "merge", ".", "--into", "."), "is the folder that results are merged into"),
    (("power", "--effect", "nan", "--std", "1"), "--effect nan: not a finite number"),
    (("power", "--effect", "1", "--std", "-1"), "--std"),
    (("run", "--profile", "/etc/passwd"), "give a file that ends in .toml"),
    *(
        ((*words, f"{of}~nobody-here/x"), "no home folder is known for ~nobody-here/")
        for *words, of in AT_HOME
    ),
)


@pytest.mark.parametrize(("words", "message"), MISTAKES, ids=lambda value: " ".join(value)[-40:])
def test_a_mistake_is_one_line_and_exit_code_2(
    typed: Typed,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    message: str,
) -> None:
    import torch

    if message == "no CUDA device" and torch.cuda.is_available():
        pytest.skip("this machine has the CUDA device that the mistake asks for")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    code, out, err = typed(*words)
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("error: ")
    assert message in err
    if "--dry-run" in words:
        assert (out, list(tmp_path.iterdir())) == ("", [])


#: what a command needs besides the value that is tried: run no model, read no result
FILL = {
    **{
        "what": "simcse",
        "a": "simcse",
        "b": "mcse",
        "metric": "sts.Avg",
        "name": "wiki1m",
        "names": "wiki1n",
    },
    **{
        "run": "simcse/toy/toy-bert/seed-0",
        "model": "simcse/toy/toy-bert/seed-0",
        "to": "exported",
        "kind": "methods",
    },
    **{"folder": "nowhere", "runs": "simcse/toy/toy-bert/seed-0", "effect": "1", "std": "1"},
    **{"folders": "nowhere", "repository": "somebody/results", "contributor": "me"},
}
#: an unset variable, a name that steers terminals, one that no file system takes, numbers that are
#: none
TYPED = (
    "",
    " ",
    "\x1b]0;owned\x07[",
    "n" * 300,
    "../" * 40 + "n" * 5000,
    "[" * 3000,
    "9" * 400,
    "\udcff",
    "nan",
)
FEW_TYPED = ("", "\x1b]0;owned\x07[", "\udcff", "nan")


def _commands(
    command: click.Command = cli, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with its words."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            member = command.get_command(context, name)
            assert member is not None
            yield from _commands(member, (*path, name))
    else:
        # the demo trains whatever its folder is called; its command `run` is tried itself
        if path != ("demo",):
            yield path, command


def _needed(path: tuple[str, ...], command: click.Command, tried: str) -> list[str]:
    """The words of a command without the parameter that is tried, on an empty folder."""
    words = [*path]
    for parameter in command.params:
        if parameter.required and parameter.name != tried:
            words += [*parameter.opts[:1]] * isinstance(parameter, click.Option) + [
                FILL[str(parameter.name)]
            ]
    names = {parameter.name for parameter in command.params}
    words += ["--profile", "tiny"] * (
        "profile" in names - {tried} and path[0] not in ("export", "audit")
    )
    return words + ["--dry-run"] * ("dry_run" in names)


@pytest.mark.parametrize(
    "texts", [FEW_TYPED, pytest.param(TYPED, marks=pytest.mark.long)], ids=["few", "all"]
)
@pytest.mark.parametrize(
    ("path", "command"),
    [
        # without a wrong word, it plans every table of every paper
        pytest.param(path, command, marks=[pytest.mark.long] if path == ("doctor",) else [])
        for path, command in _commands()
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_no_word_of_any_command_is_a_traceback(
    path: tuple[str, ...],
    command: click.Command,
    texts: tuple[str, ...],
    typed: Typed,
    tmp_path: Path,
) -> None:
    """Every option and argument, those of tomorrow too: one or two lines, nothing written, emptys
    refused.
    """
    for parameter in command.params:
        if getattr(parameter, "is_flag", False):
            continue
        for text in texts:
            words = _needed(path, command, str(parameter.name))
            words += (
                [f"{parameter.opts[0]}={text}"]
                if isinstance(parameter, click.Option)
                else ["--", text]
            )
            code, _, err = typed(*words)
            assert code in (0, 2), words
            assert len(err.splitlines()) == (code == 2), words
            assert len(err) < 1500, words
            assert err.removesuffix("\n").isprintable(), words
            if path[0] == "new" and text == "nan":  # a name like another
                code, _, _ = typed(*words)
                assert code == 2, "a second time, it is there"
                break
            assert not list(tmp_path.iterdir()), words
            if not text.strip() or text == "\udcff":
                assert code == 2, words
                assert (
                    parameter.opts[0] if isinstance(parameter, click.Option) else "argument"
                ) in err


def test_a_data_root_of_the_environment_that_is_a_file(
    typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_DATA", __file__)
    said = f"error: the data root {__file__} is a file; give a folder with --data-root or HARNESS_DATA\n"
    for words in ("run --profile paper --dry-run", "data fetch wiki1m"):
        assert typed(*words.split()) == (2, "", said)


START = "from harness.cli.start import main; main()"


def python(
    code: str, *words: str, stdout: Any = subprocess.PIPE, **how: Any
) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own, whose path lacks the working folder as the installed
    command's does.
    """
    command = [sys.executable, "-P", "-c", code, *words]
    return subprocess.run(
        command, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=300, check=False, **how
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_behind_the_output_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        ended = python(START, "data", "path", "--help", stdout=full)
    assert (ended.returncode, ended.stderr) == (
        1,
        "error: the output cannot be written: No space left on device\n",
    )


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="there is no /proc")
def test_a_home_folder_that_takes_no_cache_costs_one_warning(tmp_path: Path) -> None:
    words = [
        "status",
        "--profile",
        "tiny",
        "--methods",
        "simcse",
        "--seeds",
        "1",
        "--results",
        str(tmp_path / "r"),
    ]
    without = {name: value for name, value in os.environ.items() if name != "HARNESS_CACHE"}
    ended = python(START, *words, env={**without, "HOME": "/proc"})
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1].startswith("missing")
    assert ended.stderr.count("the cache /proc/.cache/harness cannot be used") == 1


def test_a_cache_without_a_home_folder_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where HOME is not set for a user whom the system does not know."""
    monkeypatch.setenv("HARNESS_CACHE", "~nobody-here/cache")
    with pytest.raises(UserError, match="no home folder is known for ~nobody-here/cache"):
        get_cache_folder()


def test_sigterm_is_one_line_from_the_start(tmp_path: Path) -> None:
    """A command that is ended before its runs are in work, here while it plans."""
    code = (
        "import os, signal, harness.api, harness.cli.main as main\n"
        "harness.api.plan = lambda **_: os.kill(os.getpid(), signal.SIGTERM)\n"
        "main.main()\n"
    )
    ended = python(code, "run", "--profile", "tiny", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (143, "")
    assert ended.stderr.split("\n")[1:] == ["interrupted; run the same command again to resume", ""]
    assert not list(tmp_path.iterdir())


def test_status_calls_a_run_that_another_process_has_running(typed: Typed) -> None:
    grid = ("--profile", "tiny", "--methods", "simcse", "--seeds", "1", "--results", "a folder")
    store = Store(Path("a folder"))
    (run,) = harness.plan("tiny", methods="simcse", seeds=1, results="a folder").runs
    with store.lock(run.fingerprint) as held:
        assert held
        _, shown, _ = typed("status", *grid)
    follow = f"`harness logs {run.key} --follow --results 'a folder'` shows its log"
    assert shown.splitlines()[-1] == f"running  {run.key}  in another process; {follow}"
    assert typed("status", *grid)[1].splitlines()[-1].startswith("missing")
