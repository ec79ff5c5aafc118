"""Checks of typed words, and printing as plain text in which no name or message can control the
terminal.
"""

from __future__ import annotations

import codecs
import io
import logging
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.errors import UserError
from harness.formatting import one_line, visible

if TYPE_CHECKING:
    from harness.reporting.results import Results
    from harness.reporting.tables.grids import Grid
    from harness.store import Result
    from harness.store.tunings import Tuning

#: width of output that is not a terminal, such as a file
WIDTH = 200
#: spaces between two columns, and the narrowest column of names
_GAP = 2
_NARROW = 12
#: the least width of a column beside one of keys
_LEAST_TEXT = 16


#: what stands for a character where the terminal's encoding has none
_PLAIN = {
    "±": "+/-",
    "–": "-",
    "−": "-",
    "…": "...",
    "†": "+",
    "‡": "++",
    "≈": "~",
    "≠": "!=",
    "✓": "yes",
    "✗": "no",
    "“": '"',
    "”": '"',
    "─": "-",
    "━": "-",
    "α": "alpha",
    "β": "beta",
    "γ": "gamma",
    "λ": "lambda",
    "μ": "mu",
    "τ": "tau",
}


def print_whatever_the_encoding() -> None:
    """Let standard output and error replace what their encoding lacks, such as ± in ASCII."""
    codecs.register_error("harness", _replace)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="harness")


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(_PLAIN.get(char, "?") for char in lacking), error.end


class OneLine(logging.Formatter):
    """Messages of `logging` as one line each."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """Format a message; a traceback below it stays as it is."""
        return one_line(super().formatMessage(record))


def check_typed(words: Sequence[str]) -> None:
    """Raise UserError for an empty word, such as an unset shell variable, and for one that is not
    UTF-8 text.
    """
    for before, word in zip(("", *words), words, strict=False):
        option, equals, value = (
            word.partition("=") if word.startswith("--") else (before, "=", word)
        )
        where = option if option.startswith("-") and option != "--" else "an argument"
        if equals and not value.strip():
            raise UserError(
                f"{where} is empty, perhaps an unset shell variable; give a value, or leave it out"
            )
        if "\0" in word or any("\ud800" <= char <= "\udfff" for char in word):
            raise UserError(f"{where} is not UTF-8 text: '{word}'; give it in UTF-8")


def echo(text: object, *, err: bool = False, nl: bool = True) -> None:
    """Print a text to standard output, or to standard error; control characters in it are shown,
    not obeyed.
    """
    click.echo(visible(str(text)), err=err, nl=nl)


def waiting(for_what: str) -> None:
    """Tell a terminal, before the first slow step of a command, what it waits for."""
    if sys.stderr.isatty():
        echo(f"{for_what} ...", err=True)


def complain(message: str) -> int:
    """Print a user's mistake as one line; return the exit code for it."""
    echo(f"error: {one_line(message)}", err=True)
    return 2


def console() -> Console:
    """Return standard output, as wide as the terminal; without colour in a file."""
    return (
        Console()
        if sys.stdout.isatty()
        else Console(width=WIDTH, color_system=None, force_terminal=False)
    )


def plain_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, whole_keys: bool = False
) -> None:
    """Print a table of texts, folded to the width of the terminal, between words where these fit;
    without markup. With `whole_keys`, the first column is never folded.
    """
    lines = [[visible(str(cell)) for cell in row] for row in rows]
    columns = [[name, *(line[at] for line in lines)] for at, name in enumerate(head)]
    longest_words = [_measure_longest_word(texts) for texts in columns]
    fits = sum(longest_words) + _GAP * len(columns) < console().width

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for at, texts in enumerate(columns):
        has_keys = whole_keys and at == 0
        # a short text, such as a number, is never folded
        is_short = all(len(text) <= _NARROW for text in texts)
        least = longest_words[at] if fits else None
        if has_keys:
            least = max(len(text) for text in texts)

        table.add_column(
            _text(texts[0]), overflow="fold", no_wrap=has_keys or is_short, min_width=least
        )
    for line in lines:
        table.add_row(*map(_text, line))

    console().print(table)


def _measure_longest_word(texts: Iterable[str]) -> int:
    words = " ".join(texts).split()
    return max(map(len, words), default=0)


def keyed_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table whose first column has keys to copy, which are never broken.

    Where they leave too little room for the other columns, each key stands in a line of its own,
    above the rest of its row.
    """
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    least = widths[0] + sum(min(width, _LEAST_TEXT) + _GAP for width in widths[1:])
    if least < console().width:
        plain_table(head, rows, whole_keys=True)
        return
    for key, *values in rows:
        echo(key)
        named = zip(head[1:], values, strict=True)
        echo(f"    {', '.join(f'{name} {value}' for name, value in named if value)}")


def wide_table(
    heads: Sequence[str],
    columns: Sequence[str],
    rows: Sequence[tuple[Sequence[str], Sequence[str]]],
    title: str,
    groups: Sequence[tuple[str, int]] = (),
) -> None:
    """Print a table of names and numbers; one wider than the terminal is split, and each part
    repeats the names.

    `rows` are names and cells. Names are folded, numbers never cut. `groups` are headings and how
    many columns each has; each group is printed as a separate part.
    """
    out = console()
    widths = [
        max(len(text) for text in (name, *(cells[at] for _, cells in rows)))
        for at, name in enumerate(columns)
    ]
    names = [
        max(len(text) for text in (head, *(some[at] for some, _ in rows)))
        for at, head in enumerate(heads)
    ]
    room = out.width - sum(names) - _GAP * (len(heads) + 1)
    if room < max(widths, default=0) + _GAP:
        room = out.width - sum(min(width, _NARROW) for width in names) - _GAP * (len(heads) + 1)
    for group, some in _parts(widths, room, groups):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        out.print(
            _text(f"{title}; {group}" if group else title)
        )  # rich folds a title to its table's width
        for head in heads:
            table.add_column(_text(head), overflow="fold")
        for at in some:
            table.add_column(_text(columns[at]), justify="right", no_wrap=True)
        for named, cells in rows:
            table.add_row(*map(_text, (*named, *(cells[at] for at in some))))
        out.print(table)


def _parts(
    widths: Sequence[int], room: int, groups: Sequence[tuple[str, int]]
) -> Iterator[tuple[str, list[int]]]:
    """The parts of a table: a group and as many of its columns as fit into the room."""
    start = 0
    for group, span in groups or [("", len(widths))]:
        some: list[int] = []
        for at in range(start, start + span):
            if some and sum(widths[column] + _GAP for column in (*some, at)) > room:
                yield group, some
                some = []
            some.append(at)
        start += span
        yield group, some


def _text(cell: object) -> Text:
    return Text(visible(str(cell)))


def show_summaries(results: Sequence[Result], stored: Sequence[Result] = ()) -> list[str]:
    """Print the summary table of each suite: mean and deviation over seeds, marks for significance.

    Returns the encoders that have no untrained run.

    `stored` are these and all other results of the folder: their tests count in the families, and
    their untrained encoders are shown.
    """
    from harness.reporting.seeds.cells import Label
    from harness.reporting.seeds.summary import summary_tables
    from harness.reporting.tables.grids import summary_grid
    from harness.store import describe_unscored_runs, frames_of, metrics_of

    lines = describe_unscored_runs(results)
    every = stored or results
    runs = frames_of(results).runs
    shown = {
        Label(*label)
        for label in runs[list(Label._fields)].drop_duplicates().itertuples(index=False)
    }
    tables = summary_tables(every, metrics_of(every), lines, shown)
    for summary in tables:
        lines.pop((summary.profile, summary.suite), None)
        show_grid(summary_grid(summary))
    for (_, suite), whys in lines.items():  # of suites without a table
        for why in whys:
            echo(f"{suite}  {why}")
    return sorted({encoder for summary in tables for encoder in summary.lacking})


#: answers that the end of a run prints; the report has the others
MOST_ANSWERS = 3


def show_answers(results: Results, places: Collection[str]) -> str:
    """Print the answer to the question of each place, `setting / encoder`, as the report's first page
    has it.

    Returns the command of the run that would say most about the first one; empty without one.
    """
    from harness.reporting.seeds.gains import forests
    from harness.reporting.seeds.next_run import next_run
    from harness.reporting.seeds.question import Question, first_forests, suite_order

    every = [
        forest
        for table in results.tables
        for column in table.averages
        for forest in forests(table, column, 1)
        if forest.place in places
    ]
    asked = list(map(Question, first_forests(sorted(every, key=suite_order)).values()))
    for question in asked[:MOST_ANSWERS]:
        echo(f"{question.place}: {question.verdict}")
        for sentence in question.sentences:
            echo(f"  {sentence}")
    if len(asked) > MOST_ANSWERS:
        echo(f"and {len(asked) - MOST_ANSWERS} more answers in the report")
    chosen = next_run(asked[0], results.commands) if asked else None
    return chosen.command if chosen else ""


def show_tuning(tuning: Tuning, results: Results) -> None:
    """Print the tables of a tuning: expected best dev scores, test scores and what each seed
    picked.
    """
    from harness.reporting.sections.tuning import tuned_grids

    for report in replace(results, tunings=[tuning]).tuned:
        for grid in tuned_grids(report, results.commands):
            show_grid(grid)


def show_paper_tables(names: Iterable[str], results: Results) -> None:
    """Print the papers' tables of these names (mcse:T1) that have results of the one profile,
    reading by reading.
    """
    grids = results.paper_grids
    for name in names:
        if name in grids and not grids[name].empty:
            show_grid(grids[name], "encoder")


def show_grid(grid: Grid, sections: str = "setting / encoder") -> None:
    """Print a table and its notes, split if the table is wider than the terminal.

    `sections` is the heading above the titles of its sections; a table's only section is named in
    the table's title.
    """
    from harness.reporting.seeds.summary import BOLD
    from harness.reporting.tables.grids import code_of

    alone = len(grid.sections) == 1
    title = f"{grid.title}; {grid.sections[0].title}" if alone else grid.title
    heads = [*([] if alone else [sections]), *grid.heads]
    rows = []
    for section in grid.sections:
        for line in section.lines:
            names = [section.title, *line.heads[:-1]] if line.span else [""] * len(line.heads)
            named = [*map(code_of, names), code_of(line.heads[-1])]
            rows.append((named[1:] if alone else named, [str(cell) for cell in line.cells]))
    wide_table(heads, grid.columns, rows, title, grid.spans)
    for note in grid.remarks:
        if note != BOLD:
            echo(f"  {note}")


def read_results(folder: Path, profile: str | None = None, named: Collection[str] = ()) -> Results:
    """Read the results of a folder; print a warning for each that is left out, unless it was shown
    before (`named`).
    """
    from harness import api

    loaded = api.read_folder(folder, profile)
    warn(line for line in loaded.problems if line not in named)
    return loaded


def warn(lines: Iterable[str]) -> None:
    """Print warnings to standard error, one line each."""
    for line in lines:
        echo(f"warning: {line}", err=True)
