"""Tables as LaTeX floats for a two-column document: booktabs, text of 8 or 7 pt, in one column or
across both.

Widths are those of Times, which ACL, IEEE and AAAI set. Decimals are aligned by two plain columns,
of numbers and of what follows them, which needs no package beside booktabs. A table that is larger
than a page at 7 pt is refused, with the option that makes it smaller.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, groupby

from harness.errors import UserError
from harness.formatting import for_latex
from harness.metrics import Agreement, ClaimVerdict
from harness.reporting.tables.grids import (
    ABSENT,
    SEEDS,
    CellText,
    Grid,
    Line,
    Section,
)

#: in points: a column and the page of ACL's style (those of IEEE and AAAI are wider), the height of
#: rows and notes, the gap of columns, that of a table whose texts are folded, and the narrowest of
#: these
COLUMN = 219.0
PAGE = 455.0
HEIGHT = 590.0
GAP = 6.0
TIGHT_GAP = 4.0
NARROWEST = 40.0
#: sizes of text in points, and of a line in sizes
SIZES = (8, 7)
LEADING = 1.2
#: most characters of two lines of a caption, with its number
CAPTION = {COLUMN: 76, PAGE: 170}
#: floats that LaTeX holds back at most
HELD = 8
#: lines that the title of a section and its rule take, and a rule between groups
SECTION_LINES = 1.6
RULE_LINES = 0.6
_NUMBER = re.compile(rf"[-+]?[\d.,]*\d%?|[≈≠?{ABSENT}]")

#: words would make a table of eight columns too wide
_SIGNS = {Agreement.REPRODUCED: "≈", Agreement.DIFFERS: "≠", Agreement.UNDECIDED: "?"}
_SIGN_NOTE = (
    "Signs of verdicts: "
    + ", ".join(f"{sign} {verdict}" for verdict, sign in _SIGNS.items())
    + " (with the seeds a side that would decide)."
)
#: a verdict on a claim in one word
_CLAIM_WORDS = {ClaimVerdict.UNSEEN: "open", ClaimVerdict.TOO_FEW: ABSENT}


class TooLargeError(UserError):
    """A table that no page of a paper holds: why, and what to give to `harness table`."""

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(f"{reason}; give {advice}")
        self.reason = reason
        self.advice = advice


@dataclass(frozen=True)
class _Column:
    """A column: its number in the grid, its heading in lines, its natural width in em, its
    alignment and, if its texts are folded, its width in points.
    """

    number: int
    heading: tuple[str, ...]
    em: float
    align: str
    folded: float = math.inf

    @property
    def span(self) -> int:
        """The columns that it is in LaTeX."""
        return 2 if self.align == "r@{}l" else 1

    @property
    def is_text(self) -> bool:
        return self.align == "l"

    def width(self, size: int) -> float:
        """Its width in points."""
        return min(size * self.em, self.folded)


@dataclass(frozen=True)
class TableLayout:
    """The size of the text, the width of the float and the gap of columns, all in points, and the
    columns.
    """

    size: int
    room: float
    gap: float
    columns: tuple[_Column, ...]


def format_latex(grids: Iterable[Grid], footer: str) -> Iterator[str]:
    """The text of report.tex, piece by piece: without tables that have no rows, and with a comment
    in the place of one that no page holds.
    """
    yield f"% {' '.join(footer.split())}\n% Needs \\usepackage{{booktabs}} in the preamble.\n\n"
    filled = (grid for grid in grids if grid.lines)
    for number, grid in enumerate(filled):
        if number:
            yield "\n" if number % HELD else "\n\\clearpage\n"
        yield format_latex_or_comment(grid)


def format_latex_or_comment(grid: Grid) -> str:
    """A table as a float; of one that no page holds, a comment that says so."""
    try:
        return format_latex_table(grid)
    except TooLargeError as error:
        # only tables that `harness table` prints have sentences for a caption
        advice = f" `harness table` takes {error.advice}." if grid.caption else ""
        return _format_comment(
            f"Left out: {error.reason}.{advice} All its numbers are in tables.csv."
        )


def format_latex_table(grid: Grid) -> str:
    """A table as one float, with a caption of at most two lines.

    What explains marks stands below the table; all other remarks are comments behind it. Raises
    TooLargeError, with the option that helps, if no page holds it in text of 7 pt.
    """
    unsplit = _put_heads_in_cells(grid)
    columns = _measure_columns(unsplit, len(grid.heads))
    layout = _fit(columns)
    if layout is None:
        raise _explain_width(grid, unsplit, columns)

    caption, rest = _fill_caption(grid, layout.room)
    notes = [*rest, *_explain_marks(unsplit)]
    _check_height(unsplit, layout, notes)

    environment = "table" if layout.room == COLUMN else "table*"
    label = re.sub("[^A-Za-z0-9]", "-", grid.key)
    parts = [
        f"\\begin{{{environment}}}\n\\centering\n",
        f"\\caption{{{_escape(caption)}}}\n\\label{{tab:{label}}}\n",
        f"{_select_font(layout.size)}\\setlength{{\\tabcolsep}}{{{layout.gap / 2:g}pt}}%\n",
        _format_tabular(unsplit, layout.columns),
        _format_notes(notes),
        f"\\end{{{environment}}}\n",
    ]
    # a command is for whoever works on the results
    other_remarks = [note for note in grid.remarks if note not in notes and "`harness " not in note]
    parts += map(_format_comment, other_remarks)
    return "".join(parts)


def _put_heads_in_cells(grid: Grid) -> Grid:
    """The grid with the heads of its lines as its first columns, and short verdicts."""
    sections = [replace(section, lines=tuple(_make_lines(section))) for section in grid.sections]
    groups = grid.groups
    if groups:
        groups = (*[""] * len(grid.heads), *groups)
    columns = (*grid.heads, *grid.columns)
    return replace(grid, columns=columns, groups=groups, sections=tuple(sections))


def _make_lines(section: Section) -> Iterator[Line]:
    """Lines that have a number, with their heads as cells, and without the p-values of differences."""
    for line in section.lines:
        has_number = any(cell.value != ABSENT for cell in line.cells)
        if not line.span and not has_number:
            continue

        cells = [_replace_verdict(cell) for cell in line.cells]
        if line.kind == "difference":
            cells = [replace(cell, extra="") for cell in cells]
        heads = map(CellText, _remove_known_heads(line))
        yield replace(line, cells=(*heads, *cells))


def _remove_known_heads(line: Line) -> list[str]:
    """The heads of a line without what a paper says elsewhere, or what other lines say."""
    # how a row is tested is for the text of a paper, which has no room for it in a table
    heads = [str(head).replace(" (paired)", "") for head in line.heads]
    if not line.span:
        heads[:-1] = [""] * (len(heads) - 1)

    # the signs already show what the row's verdict would say
    has_signs = any(cell.verdict in _SIGNS for cell in line.cells)
    if line.kind == "verdict" and has_signs:
        heads[-1] = heads[-1].partition(":")[0]
    return heads


def _replace_verdict(cell: CellText) -> CellText:
    """A verdict as a sign or one word; other cells as they are."""
    if isinstance(cell.verdict, ClaimVerdict):
        return CellText(_CLAIM_WORDS.get(cell.verdict, str(cell.verdict)), verdict=cell.verdict)
    if not isinstance(cell.verdict, Agreement):
        return cell
    if cell.verdict not in _SIGNS:
        return CellText(ABSENT)

    # what one test says alone may stand before the seeds that would decide
    seeds = cell.extra.rpartition("; ")[2].partition(" ")[0]
    return replace(cell, value=_SIGNS[cell.verdict], extra=seeds)


def _fit(columns: Sequence[_Column]) -> TableLayout | None:
    """The layout of columns; None if no page holds them.

    It is the first that fits: one column at each size, the page at each size, and the page in the
    smaller size with folded texts.
    """
    for room in (COLUMN, PAGE):
        for size in SIZES:
            if _add_widths(columns, size, GAP) <= room:
                return TableLayout(size, room, GAP, tuple(columns))

    folded = _wrap_texts(columns)
    if _add_widths(folded, SIZES[-1], TIGHT_GAP) > PAGE:
        return None
    return TableLayout(SIZES[-1], PAGE, TIGHT_GAP, tuple(folded))


def _add_widths(columns: Sequence[_Column], size: int, gap: float) -> float:
    """The width of columns with the gaps between them, in points."""
    width = sum(column.width(size) + gap for column in columns) - gap
    # folded columns fill a page exactly
    return round(width, 3)


def _wrap_texts(columns: Sequence[_Column]) -> list[_Column]:
    """The columns with texts folded into what the others leave of a page in the smallest size.

    Texts that are shorter than an equal share keep their width.
    """
    size = SIZES[-1]
    gaps = TIGHT_GAP * (len(columns) - 1)
    rest = PAGE - gaps - sum(column.width(size) for column in columns if not column.is_text)
    texts = sorted(column.width(size) for column in columns if column.is_text)
    while texts and texts[0] * len(texts) <= rest:
        rest -= texts.pop(0)
    if not texts:
        return list(columns)

    share = max(rest / len(texts), NARROWEST)
    folded = []
    for column in columns:
        is_long = column.is_text and size * column.em > share
        folded.append(replace(column, folded=share) if is_long else column)
    return folded


def _measure_columns(grid: Grid, names: int, *, has_spread: bool = True) -> list[_Column]:
    """The columns of a grid, the first of which are its `names`, in their natural widths; those of
    numbers are narrower without deviations.
    """
    lines = [line for _, line in grid.lines]
    columns = []
    for number, heading in enumerate(grid.columns):
        cells = [line.cells[number] for line in lines]
        is_text = number < names
        columns.append(_measure_column(heading, number, cells, is_text, has_spread))
    return columns


def _measure_column(
    heading: str, number: int, cells: Sequence[CellText], is_text: bool, has_spread: bool
) -> _Column:
    """A column in its natural width; one of numbers `is_text` where a value is none."""
    is_text = is_text or not all(_NUMBER.fullmatch(cell.value) for cell in cells)
    # bold letters are wider
    values = [_measure_text(cell.value) * (1.1 if cell.bold else 1) for cell in cells]
    followers = [_measure_text(_get_follower(cell, has_spread)) for cell in cells]
    value = max(values, default=0.0)
    follower = max(followers, default=0.0)

    if is_text:
        align = "l"
    elif follower:
        align = "r@{}l"
    else:
        align = "r"
    width = value + follower
    lines = _wrap(heading, 2 * width)
    widest = max([width, *map(_measure_text, lines)])
    return _Column(number, tuple(lines), widest, align)


def _wrap(text: str, characters: float) -> list[str]:
    """A heading in lines of about so many characters, between words only."""
    return textwrap.wrap(
        text, max(9, int(characters)), break_long_words=False, break_on_hyphens=False
    )


def _list_times_widths() -> dict[str, float]:
    """The widths of characters in em in Times, rounded up; signs are those of mathematics, which
    most classes set in Computer Modern.
    """
    characters_by_width = {
        0.25: " .,",
        0.28: "ijlt:;/|'",
        0.34: "frI()[]-!",
        0.45: "acesz",
        0.58: "ELTZ=FPS",
        0.73: "ABCDGHKNOQRUVXYw",
        0.8: "m&",
        0.95: "MW±≈≠−+%@",
    }
    widths: dict[str, float] = {}
    for width, characters in characters_by_width.items():
        widths |= dict.fromkeys(characters, width)
    return widths


_WIDTHS = _list_times_widths()
#: a digit and most other letters; a letter that Times may lack
_USUAL_WIDTH = 0.5
_FOREIGN_WIDTH = 0.8


@lru_cache(maxsize=1 << 16)
def _measure_text(text: str) -> float:
    """The width of a text in em."""
    width = 0.0
    for character in _set_minus_signs(text):
        usual = _USUAL_WIDTH if character < "\x7f" or character in "†‡§¶–" else _FOREIGN_WIDTH
        width += _WIDTHS.get(character, usual)
    return width


def _explain_width(grid: Grid, unsplit: Grid, columns: Sequence[_Column]) -> TooLargeError:
    """Why the columns of a grid do not fit, and what helps: the first option that makes them narrow
    enough.
    """
    width = _add_widths(_wrap_texts(columns), SIZES[-1], TIGHT_GAP)
    narrower = _measure_columns(unsplit, len(grid.heads), has_spread=False)
    smaller = {"--no-std": narrower}
    if SEEDS in grid.heads:
        seeds = grid.heads.index(SEEDS)
        without_seeds = [column for column in columns if column.number != seeds]
        smaller = {"--no-seeds": without_seeds, **smaller}
        smaller["--no-seeds and --no-std"] = [
            column for column in narrower if column.number != seeds
        ]

    advice = "--columns or --tasks with fewer of them"
    for option, remaining_columns in smaller.items():
        if _fit(remaining_columns):
            advice = option
            break
    reason = (
        f"the table {grid.key} is {width:.0f} pt wide in text of {SIZES[-1]} pt, and a page of a "
        f"paper has {PAGE:.0f} pt"
    )
    return TooLargeError(reason, advice)


def _check_height(grid: Grid, layout: TableLayout, notes: Sequence[str]) -> None:
    """Raise TooLargeError if rows and notes are higher than a page."""
    line_height = LEADING * layout.size
    notes_height = LEADING * SIZES[-1] * _count_note_lines(notes, layout.room)
    lines = _count_lines(grid, layout)
    most_lines = (HEIGHT - notes_height) / line_height
    if lines > most_lines:
        reason = f"the table {grid.key} has {lines:.0f} lines, and a page of a paper holds {most_lines:.0f}"
        raise TooLargeError(reason, "--rows with fewer variants")


def _count_note_lines(notes: Sequence[str], room: float) -> int:
    return sum(math.ceil(SIZES[-1] * _measure_text(note) / room) for note in notes)


def _count_lines(grid: Grid, layout: TableLayout) -> float:
    """The lines of text that the rows of a grid take, with titles of sections and rules."""
    lines = 0.0
    for section in grid.sections:
        lines += SECTION_LINES
        for before, line in zip([None, *section.lines], section.lines, strict=False):
            is_new_group = before is not None and before.group != line.group
            lines += RULE_LINES if is_new_group else 0
            lines += max(_count_folded(line, column, layout.size) for column in layout.columns)
    return lines


def _count_folded(line: Line, column: _Column, size: int) -> int:
    """The lines of text of a cell, which is folded between words."""
    # a line that is broken between words is not full
    fullness = 0.85
    width = size * _measure_text(str(line.cells[column.number]))
    return max(1, math.ceil(width / (fullness * column.folded)))


def _fill_caption(grid: Grid, room: float) -> tuple[str, list[str]]:
    """The caption in two lines: the title and the sentences that fit; and those that do not."""
    caption = f"{grid.paper_title or grid.title}."
    rest = [*(grid.caption or grid.legend)]
    while rest and len(f"{caption} {rest[0]}") <= CAPTION[room]:
        caption += f" {rest.pop(0)}"
    return caption, rest


def _explain_marks(grid: Grid) -> Iterator[str]:
    """The remarks that explain the marks of weak scores and the signs of verdicts in a grid."""
    cells = list(chain.from_iterable(line.cells for _, line in grid.lines))
    marks = set("".join(cell.caveats for cell in cells))
    for note in grid.notes:
        if note[:1] in marks:
            yield note
    if any(cell.verdict in _SIGNS for cell in cells):
        yield _SIGN_NOTE


def _format_comment(remark: str) -> str:
    return f"% {' '.join(_escape(remark).split())}\n"


def _select_font(size: int) -> str:
    return f"\\fontsize{{{size}}}{{{LEADING * size:g}}}\\selectfont"


def _format_notes(notes: Sequence[str]) -> str:
    """The notes below a table, in its width; empty without any."""
    if not notes:
        return ""
    text = "\n\\par\n".join(map(_escape, notes))
    font = _select_font(SIZES[-1])
    start = f"\\par\\smallskip\n\\begin{{minipage}}{{\\linewidth}}{font}\\raggedright\n"
    return f"{start}{text}\n\\end{{minipage}}\n"


def _format_tabular(grid: Grid, columns: Sequence[_Column]) -> str:
    """The rows of a table with their rules, section by section."""
    aligns = [
        column.align if math.isinf(column.folded) else f"p{{{column.folded:.0f}pt}}"
        for column in columns
    ]
    span = sum(column.span for column in columns)
    parts = [f"\\begin{{tabular}}{{@{{}}{''.join(aligns)}@{{}}}}\n\\toprule\n"]
    parts.append(_format_header(grid, columns))

    for section in grid.sections:
        title = _escape(section.title)
        parts.append(
            f"\\midrule\n\\multicolumn{{{span}}}{{@{{}}l@{{}}}}{{\\textit{{{title}}}}} \\\\\n"
        )
        for number, line in enumerate(section.lines):
            if number and line.group != section.lines[number - 1].group:
                parts.append("\\midrule\n")
            cells = [_format_cell(line.cells[column.number], column) for column in columns]
            parts.append(f"{' & '.join(cells)} \\tabularnewline\n")

    parts.append("\\bottomrule\n\\end{tabular}\n")
    return "".join(parts)


def _format_header(grid: Grid, columns: Sequence[_Column]) -> str:
    """The headings of columns, below those of their groups where there are any."""
    headings = [_format_heading(column.heading, column.span) for column in columns]
    row = f"{' & '.join(headings)} \\\\\n"
    if not any(grid.groups):
        return row

    start = 0
    cells = []
    rules = ""
    for group, members in groupby(columns, key=lambda column: grid.groups[column.number]):
        grouped = list(members)
        span = sum(column.span for column in grouped)
        if group:
            lines = _wrap(group, 1.8 * sum(column.em for column in grouped))
            cells.append(_format_heading(lines, span))
            rules += f"\\cmidrule(lr){{{start + 1}-{start + span}}}"
        else:
            cells.append(" & " * (span - 1))
        start += span
    return f"{' & '.join(cells)} \\\\\n{rules}\n{row}"


def _format_heading(lines: Sequence[str], span: int) -> str:
    text = r" \\ ".join(map(_escape, lines))
    if len(lines) > 1:
        text = f"\\begin{{tabular}}[b]{{@{{}}c@{{}}}}{text}\\end{{tabular}}"
    return text if span == 1 else f"\\multicolumn{{{span}}}{{c}}{{{text}}}"


def _format_cell(cell: CellText, column: _Column) -> str:
    """A cell, or two if its column is double; a folded text may break within names."""
    is_double = column.span == 2
    value = _escape(cell.value if is_double else cell)
    is_folded = not math.isinf(column.folded)
    if is_folded:
        value = "\\raggedright " + re.sub(r"([/+=,:_-])(?=[^\s$])", r"\1\\allowbreak{}", value)
    if cell.bold:
        value = rf"\textbf{{{value}}}"

    if not is_double:
        return value
    follower = _escape(_get_follower(cell)).replace(" (", "~(")
    return f"{value} & {follower}"


def _get_follower(cell: CellText, has_spread: bool = True) -> str:
    """What follows the number of a cell: its spread, marks and remark."""
    text = cell.after
    if not has_spread:
        text = text.removeprefix(f" ± {cell.spread}")
    return text.replace(" ± ", "±")


def _escape(text: object) -> str:
    r"""A text without commands, with minus signs and `$\times$ 100`; a letter with its value is one
    formula, `$\lambda = 0.1$`.
    """
    signed = for_latex(_set_minus_signs(str(text)))
    times = re.sub(r"\bx 100\b", r"$\\times$ 100", signed)
    return re.sub(r"(\$\\[a-z]+)\$ = (?:\$(-)\$)?(\d+(?:\.\d+)?(?:e-?\d+)?)", r"\1 = \2\3$", times)


def _set_minus_signs(text: str) -> str:
    """A text whose numbers below zero have the sign of mathematics, not a hyphen."""
    if "-" not in text:
        return text
    return re.sub(r"(?<![\w)])-(?=\.?\d)", "−", text)
