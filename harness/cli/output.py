"""Checks of typed words, and printing as plain text in which no name or message can control the
terminal.
"""

from __future__ import annotations

import codecs
import io
import logging
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.errors import UserError
from harness.formatting import one_line, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

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
    unencodable = error.object[error.start : error.end]
    return "".join(_PLAIN.get(char, "?") for char in unencodable), error.end


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
        if word.startswith("--"):
            option, equals, value = word.partition("=")
            has_value = bool(equals)
        else:
            option = before
            value = word
            has_value = True

        where = option if option.startswith("-") and option != "--" else "an argument"
        if has_value and not value.strip():
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


def tell_waiting(for_what: str) -> None:
    """Tell a terminal, before the first slow step of a command, what it waits for."""
    if sys.stderr.isatty():
        echo(f"{for_what} ...", err=True)


def complain(message: str) -> int:
    """Print a user's mistake as one line; return the exit code for it."""
    echo(f"error: {one_line(message)}", err=True)
    return 2


def make_console() -> Console:
    """Return standard output, as wide as the terminal; without colour in a file."""
    from rich.console import Console

    if sys.stdout.isatty():
        return Console()
    return Console(width=WIDTH, color_system=None, force_terminal=False)


def print_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, whole_keys: bool = False
) -> None:
    """Print a table of texts, folded to the width of the terminal, between words where these fit;
    without markup; nothing without rows. With `whole_keys`, the first column is never folded.
    """
    from rich import box
    from rich.table import Table

    lines = [[visible(str(cell)) for cell in row] for row in rows]
    if not lines:
        return

    columns = [[name, *(line[at] for line in lines)] for at, name in enumerate(head)]
    longest_words = [_measure_longest_word(texts) for texts in columns]
    fits = sum(longest_words) + _GAP * len(columns) < make_console().width

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for at, texts in enumerate(columns):
        has_keys = whole_keys and at == 0
        # a short text, such as a number, is never folded
        is_short = all(len(text) <= _NARROW for text in texts)
        least = longest_words[at] if fits else None
        if has_keys:
            least = max(len(text) for text in texts)

        table.add_column(
            _make_text(texts[0]), overflow="fold", no_wrap=has_keys or is_short, min_width=least
        )
    for line in lines:
        table.add_row(*map(_make_text, line))

    make_console().print(table)


def _measure_longest_word(texts: Iterable[str]) -> int:
    words = " ".join(texts).split()
    return max(map(len, words), default=0)


def print_keyed_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table whose first column has keys to copy, which are never broken.

    Where they leave too little room for the other columns, each key stands in a line of its own,
    above the rest of its row.
    """
    key_width, *other_widths = _measure_columns([head, *rows])
    least_width = key_width
    least_width += sum(min(width, _LEAST_TEXT) + _GAP for width in other_widths)
    if least_width < make_console().width:
        print_table(head, rows, whole_keys=True)
        return

    for key, *values in rows:
        echo(key)
        cells = zip(head[1:], values, strict=True)
        echo(f"    {', '.join(f'{name} {value}' for name, value in cells if value)}")


def _measure_columns(rows: Sequence[Sequence[str]]) -> list[int]:
    """The width of the longest text in each column; no row is wider than the first."""
    return [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]


def print_wide_table(
    heads: Sequence[str],
    columns: Sequence[str],
    rows: Sequence[tuple[Sequence[str], Sequence[str]]],
    title: str,
    groups: Sequence[tuple[str, int]] = (),
) -> None:
    """Print a table of names and numbers; one wider than the terminal is split, and each part
    repeats the names.

    `rows` are names and cells. Names are folded between their parts, numbers never. `groups` are
    headings and how many columns each has; each group is printed as a separate part.
    """
    from rich import box
    from rich.table import Table

    console = make_console()
    name_columns = [[head, *(names[at] for names, _ in rows)] for at, head in enumerate(heads)]
    name_widths = _measure_columns([heads, *(names for names, _ in rows)])
    cell_widths = _measure_columns([columns, *(cells for _, cells in rows)])

    gaps = _GAP * (len(heads) + 1)
    room = console.width - sum(name_widths) - gaps
    if room < max(cell_widths, default=0) + _GAP:
        # names are folded where they leave no room for a column
        name_widths = [_measure_folded(names) for names in name_columns]
        room = console.width - sum(name_widths) - gaps

    for group, numbers in _split_columns(cell_widths, room, groups):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        # rich folds a title to its table's width
        console.print(_make_text(f"{title}; {group}" if group else title))
        for head, width in zip(heads, name_widths, strict=True):
            table.add_column(_fold_name(head, width), overflow="fold")
        for number in numbers:
            table.add_column(_make_text(columns[number]), justify="right", no_wrap=True)
        for names, cells in rows:
            folded_names = map(_fold_name, names, name_widths)
            table.add_row(*folded_names, *(_make_text(cells[number]) for number in numbers))
        console.print(table)


def _measure_folded(names: Sequence[str]) -> int:
    """The least width of a column of names that are folded between their parts."""
    parts = [part for name in names for part in _split_name(name)]
    longest_part = max(map(len, parts), default=0)
    longest_name = max(map(len, names))
    return min(max(longest_part, _NARROW), longest_name)


def _split_name(name: str) -> list[str]:
    """The parts of a name, such as `dalr`, `[text=`, `clip,` and `lambda=`, which a line keeps whole."""
    return re.split(r"(?=\[)|(?<=[,=/+ ])", visible(name))


def _fold_name(name: str, width: int) -> Text:
    """A name in lines of at most a width, as far as its parts allow."""
    from rich.text import Text

    lines = [""]
    for part in _split_name(name):
        longer = lines[-1] + part
        if lines[-1] and len(longer.rstrip()) > width:
            lines.append(part)
        else:
            lines[-1] = longer
    return Text("\n".join(line.rstrip() for line in lines))


def _split_columns(
    widths: Sequence[int], room: int, groups: Sequence[tuple[str, int]]
) -> Iterator[tuple[str, list[int]]]:
    """The parts of a table: a group and as many of its columns as fit into the room."""
    start = 0
    for group, span in groups or [("", len(widths))]:
        numbers: list[int] = []
        width = 0
        for number in range(start, start + span):
            width += widths[number] + _GAP
            if numbers and width > room:
                yield group, numbers
                numbers = []
                width = widths[number] + _GAP
            numbers.append(number)
        start += span
        yield group, numbers


def _make_text(cell: object) -> Text:
    from rich.text import Text

    return Text(visible(str(cell)))


def show_summaries(results: Sequence[Result], stored: Sequence[Result] = ()) -> list[str]:
    """Print the summary table of each suite: mean and deviation over seeds, marks for significance.

    Returns the encoders that have no untrained run.

    `stored` are these and all other results of the folder: their tests count in the families, and
    their untrained encoders are shown.
    """
    from harness.reporting.seeds.cells import Label
    from harness.reporting.seeds.summary import make_summary_tables
    from harness.reporting.tables.grids import make_summary_grid
    from harness.store import describe_unscored_runs, frames_of, metrics_of

    lines = describe_unscored_runs(results)
    labels = frames_of(results).runs[list(Label._fields)].drop_duplicates()
    shown_labels = {Label(*label) for label in labels.itertuples(index=False)}
    all_results = stored or results
    tables = make_summary_tables(all_results, metrics_of(all_results), lines, shown_labels)
    for summary in tables:
        lines.pop((summary.profile, summary.suite), None)
        show_grid(make_summary_grid(summary))

    # those left are of suites without a table
    for (_, suite), reasons in lines.items():
        for reason in reasons:
            echo(f"{suite}  {reason}")

    encoders = set[str]()
    for summary in tables:
        encoders.update(summary.lacking)
    return sorted(encoders)


#: answers that the end of a run prints; the report has the others
MOST_ANSWERS = 3


def show_answers(results: Results, places: Collection[str]) -> str:
    """Print the answer to the question of each place, `setting / encoder`, as the report's first page
    has it.

    Returns the command of the run that would say most about the first one; empty without one.
    """
    from harness.reporting.seeds.gains import make_forests
    from harness.reporting.seeds.next_run import find_next_run
    from harness.reporting.seeds.question import Question, pick_first_forests, rank_suite

    shown_forests = []
    for table in results.tables:
        for column in table.averages:
            shown_forests += [
                forest for forest in make_forests(table, column, 1) if forest.place in places
            ]
    firsts = pick_first_forests(sorted(shown_forests, key=rank_suite))
    questions = [Question(forest) for forest in firsts.values()]

    for question in questions[:MOST_ANSWERS]:
        echo(f"{question.place}: {question.verdict}")
        for sentence in question.sentences:
            echo(f"  {sentence}")
    if len(questions) > MOST_ANSWERS:
        echo(f"and {len(questions) - MOST_ANSWERS} more answers in the report")

    advice = find_next_run(questions[0], results.commands) if questions else None
    return advice.command if advice else ""


def show_tuning(tuning: Tuning, results: Results) -> None:
    """Print the tables of a tuning: expected best dev scores, test scores and what each seed
    picked.
    """
    from harness.reporting.sections.tuning import make_tuned_grids

    for report in replace(results, tunings=[tuning]).tuned:
        for grid in make_tuned_grids(report, results.commands):
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
    from harness.reporting.tables.grids import get_code

    title = grid.title
    heads = [sections, *grid.heads]
    has_one_section = len(grid.sections) == 1
    if has_one_section:
        title = f"{grid.title}; {grid.sections[0].title}"
        heads = list(grid.heads)

    rows = []
    for section_title, line in grid.lines:
        texts = [""] * len(line.heads)
        if line.span:  # the first line of rows that share their names
            texts = [section_title, *map(get_code, line.heads[:-1])]
        texts.append(get_code(line.heads[-1]))
        if has_one_section:
            del texts[0]
        rows.append((texts, [str(cell) for cell in line.cells]))

    print_wide_table(heads, grid.columns, rows, title, grid.spans)
    for note in grid.remarks:
        if note != BOLD:
            echo(f"  {note}")


def read_results(folder: Path, profile: str | None = None, shown: Collection[str] = ()) -> Results:
    """Read the results of a folder; print a warning for each that is left out, unless it was
    `shown` before.
    """
    from harness import reading

    results = reading.read_folder(folder, profile)
    warn(line for line in results.problems if line not in shown)
    return results


def warn(lines: Iterable[str]) -> None:
    """Print warnings to standard error, one line each."""
    for line in lines:
        echo(f"warning: {line}", err=True)
