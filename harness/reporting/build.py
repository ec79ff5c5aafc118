"""Write a report of a store: report.md, report.tex, report.csv, tables.csv and a static site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from harness import __version__
from harness.command_line import DEFAULT_MARGIN
from harness.errors import UserError
from harness.formatting import count_of
from harness.method.naming import take_titles
from harness.papers.ablations import read_ablations
from harness.papers.audit.findings import audit
from harness.papers.published import PAPER_PROFILE, read_papers, read_published
from harness.profiles import load_profile, shipped_profiles
from harness.registry import names
from harness.reporting.contents import Contents
from harness.reporting.figures.papers import Material, ReportFigure
from harness.reporting.figures.seen import seen_figures
from harness.reporting.figures.tuned import tuned_figures
from harness.reporting.files.csv import tidy
from harness.reporting.files.latex import latex
from harness.reporting.files.markdown import markdown
from harness.reporting.files.runs_csv import write_runs
from harness.reporting.seeds.forest import lead_text, leading
from harness.reporting.seeds.headline import headline
from harness.reporting.seeds.sentences import Sentence
from harness.reporting.site.folder import new_folder
from harness.reporting.site.methods import methods_from_a_process
from harness.reporting.site.one_file import write_one_file
from harness.reporting.site.pages import Site, write_site
from harness.reporting.tables.claims import claims_grid
from harness.reporting.tables.filled import paper_tables, stand_in_tables
from harness.reporting.tables.grids import Grid, summary_grid
from harness.reporting.tables.labs import labs_grid
from harness.reporting.tables.neighbours import neighbour_grids
from harness.reporting.tables.ranking import ranking_grid
from harness.reporting.tables.seen import seen_grid
from harness.reporting.tables.tuned import tuned_grids
from harness.reporting.tables.worded import paper_grid, verdict_note
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
    those of runs, and `judge` says which results are present. Result files that cannot be read and methods that cannot
    be loaded are left out with a warning. Raises UserError if there is no result, if the margin is not positive, if a
    file below reports/ is wrong, or if `out` holds other files than those of an earlier report.
    """
    if not 0 < margin < float("inf"):
        raise UserError(f"the margin {margin:g} is not a positive number of points; give one such as 0.5")
    contents = Contents.of(store, profile, judge)
    methods, broken = methods_from_a_process()
    take_titles({name: name for name in names("method")} | {facts.name: facts.title for facts in methods})
    try:
        contents = replace(contents, methods=methods)
        page = render(contents, report_figures(contents), out, margin, one_file=one_file)
    except StaleIndexError:  # a file was damaged after it was indexed: it is left out like any other
        store.forget_index()
        contents = replace(Contents.of(store, profile, judge), methods=methods)
        page = render(contents, report_figures(contents), out, margin, one_file=one_file)
    skipped = (*contents.warnings, *contents.unreadable)
    return WrittenReport(page, len(contents.results), (*skipped, *filter(None, [contents.earlier]), *broken))


def report_figures(contents: Contents) -> list[ReportFigure]:
    """The papers' figures, those drawn from other profiles, gains on seen pairs, and tunings."""
    papers, published, found = read_papers(), read_published(), []
    for profile in dict.fromkeys([PAPER_PROFILE, *contents.profiles]):
        material = Material(profile, contents, papers, published)
        drawn = (material.figure(paper, name) for paper in papers for name in paper.figures)
        found += [figure for figure in drawn if figure.svg or material.is_paper]
    return found + seen_figures(contents.seen) + tuned_figures(contents.tuned)


def render(
    contents: Contents,
    figures: Sequence[ReportFigure],
    out: Path,
    margin: float = DEFAULT_MARGIN,
    *,
    one_file: bool = False,
) -> Path:
    """Write the files and pages of a report and return the path of index.html.

    Raises UserError if a file below reports/ is wrong, or if `out` holds other files than those of a report.
    """
    papers, published = read_papers(), read_published()
    profiles = [load_profile(name) for name in shipped_profiles() if name in contents.profiles]
    frame = contents.frame_with_parts([PAPER_PROFILE, *(one.name for one in profiles)])
    filled = paper_tables(papers, published, frame, margin)
    stand_ins = stand_in_tables(papers, frame, profiles, contents.teacher_options)
    neighbours = neighbour_grids(papers, contents.results, frame, contents.arrays, profiles, contents.teacher_options)
    paper_grids: dict[str, list[Grid]] = {}
    for table in (*filled, *stand_ins):
        paper_grids.setdefault(table.paper.name, []).append(paper_grid(table))
    for paper, more in neighbours.items():
        paper_grids.setdefault(paper, []).extend(more)
    sentences = headline(contents.tables, filled)
    leads = leading(contents.tables, Counter(result.profile for result in contents.results))
    claims = claims_grid(read_ablations(), contents.tables, published)
    labs = labs_grid(contents.repeated)
    seen = [seen_grid(table) for table in contents.seen if table.has_seen]
    tuned = {report.tuning.key: tuned_grids(report) for report in contents.tuned}
    written = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    where = f" of profile {contents.profile}" if contents.profile else ""
    made = f"harness {__version__}, written {written} from {count_of(len(contents.results), 'result')}{where}"
    footer = "; ".join(filter(None, (made, contents.earlier)))
    site = Site(
        contents,
        leads,
        sentences,
        claims,
        labs,
        papers,
        paper_grids,
        seen,
        tuned,
        figures,
        audit(published),
        footer,
        verdict_note(margin),
    )
    with new_folder(out) as folder:
        with (folder.path / "report.csv").open("w", encoding="utf-8", newline="") as stream:
            write_runs(contents.results, stream)
        (folder.path / "tables.csv").write_text(
            tidy(contents.tables, [*filled, *stand_ins], contents.seen, contents.tuned, contents.rankings), "utf-8"
        )
        _write_texts(site, folder.path)
        write_site(site, folder.path, folder.kept)
        if one_file:
            write_one_file(folder.path, site.footer)
    return out / "index.html"


def _said(site: Site) -> list[Sentence]:
    """The sentences of the overview, who leads first."""
    return [*(Sentence("", lead_text(forest), "lead") for forest in site.leads), *site.sentences]


def _write_texts(site: Site, folder: Path) -> None:
    """All tables as Markdown and LaTeX."""
    grids = [
        *map(summary_grid, site.contents.tables),
        *map(ranking_grid, site.contents.rankings),
        *(grid for some in site.tuned.values() for grid in some),
        *site.seen,
        *([site.claims] if site.claims else []),
        *([site.labs] if site.labs else []),
        *(grid for some in site.paper_grids.values() for grid in some),
    ]
    (folder / "report.md").write_text(markdown(_said(site), grids, site.footer), "utf-8")
    (folder / "report.tex").write_text(latex(grids, site.footer), "utf-8")
