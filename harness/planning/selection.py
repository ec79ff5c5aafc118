"""A selection: runs as a user names them. Its fields are keywords of `harness.plan` and options of commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from harness.command_line import DEFAULT_PROFILE, DEFAULT_RESULTS, option

#: Several names: a sequence, or one text with commas.
Names = str | Sequence[str]


@dataclass(frozen=True)
class Selection:
    """Runs as a user names them; None takes the profile's default."""

    profile: str = option(DEFAULT_PROFILE, "Profile: corpora, encoders, hyperparameters and suites.", "NAME|FILE.toml")
    _: KW_ONLY
    methods: Names | None = option(
        None, "Variants of methods, one for each value in [key=A|B] (default: the profile's).", "A,B[key=value]"
    )
    settings: Names | None = option(None, "Training settings (default: the profile's).", "S,T")
    encoders: Names | None = option(
        None, "Encoders by name, folders as NAME=DIR (default: the profile's).", "E,NAME=DIR"
    )
    seeds: int | str | Sequence[int] | None = option(
        None, "Number of seeds from 0, or a list (default: the profile's).", "N|0,3,7"
    )
    suites: Names | None = option(None, "Evaluation suites (default: the profile's).", "A,B")
    tasks: Names | None = option(None, "Evaluate only these tasks; no averages are computed.", "T,U")
    table: Names | None = option(
        None, "Instead of a grid: the runs of a paper's table, such as dalr:T3.", "PAPER:TABLE"
    )
    figure: Names | None = option(
        None, "Instead of a grid: the runs of a paper's figure, such as mcse:F3.", "PAPER:FIGURE"
    )
    paper: Names | None = option(None, "Instead of a grid: the runs of all tables and figures of a paper.", "NAME")
    readings: Names | None = option(
        None, "With --table, --figure or --paper: run each row in these readings, such as paper,official.", "R,S"
    )
    released: bool = option(
        False, "Instead of training: evaluate the profile's public weights, or those of a --table or --paper."
    )
    set: Mapping[str, object] | Sequence[str] = option(
        (), "Set a hyperparameter in all runs; KEY=A,B makes a variant for each value.", "KEY=VALUE"
    )
    tune: str | Sequence[str] = option(
        (),
        "Tune a method, with as many trials as the others: values V|W, or a range LOW..HIGH.",
        "METHOD:KEY=V|W,...",
    )
    trials: int | None = option(None, "With --tune: number of configurations per method.", "N")
    redo: bool = option(False, "Train all of these runs again, finished ones too.")
    results: str | Path = option(DEFAULT_RESULTS, "Folder of results.", "DIR")
    data_root: str | Path | None = option(None, "Folder of data files (default: HARNESS_DATA).", "DIR")
