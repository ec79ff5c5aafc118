"""Write a report of a store: report.md, report.tex, report.csv, tables.csv and a static site, section by section."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from harness import __version__
from harness.command_line import DEFAULT_MARGIN
from harness.errors import UserError
from harness.formatting import count_of
from harness.method.naming import take_titles
from harness.registry import names
from harness.reporting.charts.library import vega_script
from harness.reporting.contents import Contents
from harness.reporting.files.csv import tidy
from harness.reporting.files.latex import latex
from harness.reporting.files.markdown import markdown
from harness.reporting.files.runs_csv import write_runs
from harness.reporting.methods import methods_from_a_process
from harness.reporting.sections.base import ReportSection, report_sections
from harness.reporting.site.folder import new_folder
from harness.reporting.site.html import TEMPLATES, Pages, slugs
from harness.reporting.site.one_file import write_one_file
from harness.store import Judge, StaleIndexError, Store


@dataclass(frozen=True)
class WrittenReport:
    """A written report: its first page, the number of results and what could not be included, one line each."""

    page: Path
    results: int
    warnings: tuple[str, ...]


def write_report(
    store: Store,
    out: Path,
    profile: str | None = None,
    margin: float = DEFAULT_MARGIN,
    judge: Judge | None = None,
    *,
    one_file: bool = False,
) -> WrittenReport:
    """Write a report of a store into the folder `out`, completely or not at all.

    `profile` is the name or file of a profile and leaves out the results of all others. `margin` is the largest
    difference from print, in points, that is a reproduction. `one_file` adds report.html, which holds all pages but
    those of runs, and `judge` says which results are present. Result files that cannot be read, methods that cannot
    be loaded and sections of other packages that fail are left out with a warning. Raises UserError if there is no
    result, if the margin is not positive, if a file below reports/ is wrong, or if `out` holds other files than those
    of an earlier report.
    """
    if not 0 < margin < float("inf"):
        raise UserError(f"the margin {margin:g} is not a positive number of points; give one such as 0.5")
    contents = Contents.of(store, profile, judge)
    methods, broken = methods_from_a_process()
    take_titles({name: name for name in names("method")} | {facts.name: facts.title for facts in methods})
    try:
        contents = replace(contents, methods=methods, margin=margin)
        page = render(contents, out, one_file=one_file)
    except StaleIndexError:  # a file was damaged after it was indexed: it is left out like any other
        store.forget_index()
        contents = replace(Contents.of(store, profile, judge), methods=methods, margin=margin)
        page = render(contents, out, one_file=one_file)
    skipped = (*contents.warnings, *contents.problems)
    return WrittenReport(page, len(contents.results), (*skipped, *filter(None, [contents.earlier]), *broken))


def render(contents: Contents, out: Path, *, one_file: bool = False) -> Path:
    """Write the files and pages of a report and return the path of index.html.

    Raises UserError if a file below reports/ is wrong, or if `out` holds other files than those of a report.
    """
    sections = report_sections(contents)
    written = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    where = f" of profile {contents.profile}" if contents.profile else ""
    made = f"harness {__version__}, written {written} from {count_of(len(contents.results), 'result')}{where}"
    footer = "; ".join(filter(None, (made, contents.earlier)))
    with new_folder(out) as folder:
        with (folder / "report.csv").open("w", encoding="utf-8", newline="") as stream:
            write_runs(contents.results, stream)
        (folder / "tables.csv").write_text(tidy(row for section in sections for row in section.rows()), "utf-8")
        _write_texts(sections, folder, footer)
        pages = write_site(contents, sections, folder, footer)
        if one_file:
            write_one_file(folder, [page for page in pages if not page.startswith("runs/")], footer)
    return out / "index.html"


def _write_texts(sections: Sequence[ReportSection], folder: Path, footer: str) -> None:
    """All tables as Markdown and LaTeX."""
    grids = [grid for section in sections for grid in section.grids]
    sentences = [sentence for section in sections for sentence in section.sentences]
    (folder / "report.md").write_text(markdown(sentences, grids, footer), "utf-8")
    (folder / "report.tex").write_text(latex(grids, footer), "utf-8")


def write_site(contents: Contents, sections: Sequence[ReportSection], folder: Path, footer: str) -> list[str]:
    """Write every page into an empty folder; their paths."""
    drawn = [figure for section in sections for figure in section.figures if figure.svg]
    stems = slugs(figure.key for figure in drawn)
    methods = sorted(contents.variants)
    papers = [paper.name for paper in contents.papers]
    shown = [section for section in sections if section.is_shown]
    pages = Pages(folder, contents.profiles, methods, papers, stems=stems, sections=shown, footer=footer)
    for name in ("style.css", "charts.css", "site.js", "charts.js"):
        pages.put(name, (TEMPLATES / name).read_bytes())
    pages.put("vega.js", vega_script().encode())
    for figure in drawn:
        pages.put(f"figures/{stems[figure.key]}.svg", figure.svg.encode())
        pages.put(f"figures/{stems[figure.key]}.pdf", figure.pdf)
    pages.write("index.html", "index.html")
    for section in sections:
        section.write(pages)
    return pages.written
