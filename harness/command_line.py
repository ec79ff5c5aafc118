"""Command lines: the options that select runs, `harness ...` commands to copy, and the values of
--set.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from harness.errors import UserError
from harness.spec import OptionValue, split, write_canonical

#: defaults of commands and of the functions of harness.api
DEFAULT_PROFILE = "paper"
DEFAULT_RESULTS = "results"
DEFAULT_REPORT = "reports/build"
#: a measured mean at most so many points from the printed one reproduces it
DEFAULT_MARGIN = 1.0
#: formats in which one table is printed
TableFormat = Literal["markdown", "latex", "csv"]
TABLE_FORMATS: tuple[TableFormat, ...] = get_args(TableFormat)
DEFAULT_DEVICE: Literal["auto"] = "auto"

_DEFAULTS = {"profile": DEFAULT_PROFILE, "results": DEFAULT_RESULTS}

Option = str | int | Path | Sequence[object] | Mapping[str, object] | None


def option(default: object, text: str, metavar: str = "") -> Any:
    """A dataclass field that is also a command-line option, with its help text and metavar."""
    return field(default=default, metadata={"help": text, "metavar": metavar})


def list_of_seeds(seeds: Sequence[int]) -> str:
    """Seeds as `--seeds` takes them: a single one ends in a comma, since a number alone is a count."""
    text = ",".join(map(str, seeds))
    if len(seeds) == 1:
        text += ","
    return text


#: Several names: a sequence, or one text with commas.
Names = str | Sequence[str]


@dataclass(frozen=True)
class Selection:
    """Runs as a user names them; None takes the profile's default.

    The fields are keywords of `harness.plan` and options of commands.
    """

    profile: str = option(
        DEFAULT_PROFILE, "Profile: corpora, encoders, hyperparameters and suites.", "NAME|FILE.toml"
    )
    _: KW_ONLY
    methods: Names | None = option(
        None,
        "Variants of methods, one for each value in [key=A|B] (default: the profile's).",
        "A,B[key=value]",
    )
    settings: Names | None = option(None, "Training settings (default: the profile's).", "S,T")
    encoders: Names | None = option(
        None,
        "Encoders by name, folders as NAME=DIR, of runs as run:KEY (default: the profile's).",
        "E,NAME=DIR",
    )
    seeds: int | str | Sequence[int] | None = option(
        None, "Number of seeds from 0, or a list (default: the profile's).", "N|0,3,7"
    )
    suites: Names | None = option(None, "Evaluation suites (default: the profile's).", "A,B")
    tasks: Names | None = option(
        None, "Evaluate only these tasks; no averages are computed.", "T,U"
    )
    table: Names | None = option(
        None, "Instead of a grid: the runs of a paper's table, such as dalr:T3.", "PAPER:TABLE"
    )
    figure: Names | None = option(
        None, "Instead of a grid: the runs of a paper's figure, such as mcse:F3.", "PAPER:FIGURE"
    )
    paper: Names | None = option(
        None, "Instead of a grid: the runs of all tables and figures of a paper.", "NAME"
    )
    claim: Names | None = option(
        None,
        "Instead of a grid: the fewest runs that decide a paper's claim, such as kdmcse:T1:avg "
        "(`harness list claims`).",
        "PAPER:TABLE:CLAIM",
    )
    rows: Names | None = option(
        None,
        "With --table, --figure, --paper or --claim: these rows, each with the other side of its "
        "claims; --settings and --encoders choose too.",
        "A,B[key=value]",
    )
    readings: Names | None = option(
        None,
        "With --table, --figure or --paper: run each row in these readings, such as paper,official.",
        "R,S",
    )
    released: bool = option(
        False,
        "Instead of training: evaluate the profile's public weights, or those of a --table or --paper.",
    )
    set: str | Mapping[str, object] | Sequence[str] = option(
        (), "Set a hyperparameter in all runs; KEY=A,B makes a variant for each value.", "KEY=VALUE"
    )
    tune: str | Sequence[str] | Mapping[str, Mapping[str, object]] = option(
        (),
        "Tune a method, with as many trials as the others: values V|W, or a range LOW..HIGH.",
        "METHOD:KEY=V|W,...",
    )
    trials: int | None = option(None, "With --tune: number of configurations per method.", "N")
    sampler: Literal["tpe", "gp"] | None = option(
        None, "With --tune: search with Optuna's sampler (default: draw)."
    )
    redo: bool = option(False, "Train all of these runs again, finished ones too.")
    results: str | Path = option(DEFAULT_RESULTS, "Folder of results.", "DIR")
    data_root: str | Path | None = option(
        None, "Folder of data files (default: HARNESS_DATA).", "DIR"
    )


def harness_command(*words: str, **options: Option) -> str:
    """A command with its options in the order given, quoted for a shell.

    A sequence is joined by commas, a mapping (`set`) repeats its option as KEY=VALUE. Options that
    are None, empty or the default are left out. `harness_command("run", table="dalr:T3",
    profile="tiny")`.
    """
    typed = ["harness", *words]
    for name, value in options.items():
        if value is None:
            continue

        if isinstance(value, Mapping):
            texts = [f"{key}={write_canonical(item)}" for key, item in value.items()]
        elif isinstance(value, Sequence) and not isinstance(value, str):
            texts = [",".join(map(str, value))]
        else:
            texts = [str(value)]

        for text in texts:
            if text not in ("", _DEFAULTS.get(name)):
                typed += [f"--{name.replace('_', '-')}", text]

    return shlex.join(typed)


def parse_set(pairs: str | Sequence[str]) -> dict[str, str]:
    """Read the pairs KEY=VALUE of --set, several of them in one text too: steps=300,eval_every=20.
    Raises UserError.
    """
    if isinstance(pairs, str):
        pairs = [pairs]
    texts: list[str] = []
    for pair in pairs:
        first, *rest = split(pair)
        texts.append(first)
        for part in rest:
            if len(split(part, "=")) > 1:
                texts.append(part)
            else:  # a further value of the same key
                texts[-1] += f",{part}"

    return parse_texts(texts, "--set", "learning_rate=1e-4")


def parse_overrides(pairs: str | Sequence[str]) -> dict[str, OptionValue]:
    """Read the pairs KEY=VALUE of --set into numbers, true/false and texts. Raises UserError."""
    texts = parse_set(pairs)
    overrides = {key: _parse_value(write_canonical(text)) for key, text in texts.items()}
    for key, value in overrides.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"--set {key}={texts[key]}: not a finite number; give another value")
    return overrides


def parse_texts(pairs: Sequence[str], option: str, example: str) -> dict[str, str]:
    """Read the pairs KEY=VALUE of an option, which may be repeated. Raises UserError."""
    values: dict[str, str] = {}
    for pair in pairs:
        key, _, text = (part.strip() for part in pair.partition("="))
        if not key or not text:
            raise UserError(
                f"{option} '{pair}' is not key=value; write for example {option} {example}"
            )
        if key in values:
            raise UserError(f"{option} gives {key} twice; keep one of them")
        values[key] = text

    return values


def _parse_value(text: str) -> OptionValue:
    if text in ("true", "false"):
        return text == "true"

    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
