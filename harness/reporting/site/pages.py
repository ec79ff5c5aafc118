"""All pages of a report, written into one folder.

index.html, audit.html, profiles/NAME.html, papers/NAME.html, methods/NAME.html, runs/index.html and a page a run,
figures/KEY.svg and .pdf, one style sheet and one script.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

from harness.papers.audit.numbers import Finding
from harness.papers.published import Paper
from harness.reporting.figures.curves import dev_charts, has_curves, loss_charts, shown_runs
from harness.reporting.seeds.headline import Sentence
from harness.reporting.seeds.summary import SummaryTable
from harness.reporting.site.html import Pages
from harness.reporting.site.methods import MethodFacts
from harness.reporting.site.names import slugs
from harness.reporting.site.notes import notes_html
from harness.reporting.site.overview import agreement, by_place, failures, what_ran
from harness.reporting.site.runs import Log, in_order, run_index, run_pages
from harness.reporting.tables.grids import Grid, summary_grid


class Figure(Protocol):
    """A paper's figure: drawn as `svg` and `pdf`, or `empty` says why it is not; `commands` fill it."""

    @property
    def key(self) -> str:
        """A short name for files and links."""

    @property
    def paper(self) -> str:
        """The name of its paper."""

    @property
    def name(self) -> str:
        """What it is called in the paper."""

    @property
    def title(self) -> str:
        """What it shows, in a few words."""

    @property
    def caption(self) -> str:
        """What a reader must know to read it."""

    @property
    def svg(self) -> str:
        """The drawing; empty where there is none."""

    @property
    def pdf(self) -> bytes:
        """The same for a paper."""

    @property
    def empty(self) -> str:
        """Why nothing is drawn."""

    @property
    def commands(self) -> Sequence[str]:
        """What to run to fill it."""


@dataclass(frozen=True)
class Site:
    """What stands on the pages. `paper_grids` are the grids of each of the `papers`, by its name; `log` reads a log."""

    results: Sequence[Any]
    tables: Sequence[SummaryTable]
    sentences: Sequence[Sentence]
    claims: Grid | None
    papers: Sequence[Paper]
    paper_grids: Mapping[str, Sequence[Grid]]
    figures: Sequence[Figure]
    methods: Sequence[MethodFacts]
    findings: Sequence[Finding]
    failed: Sequence[Mapping[str, Any]]
    footer: str
    log: Log


def write_site(site: Site, folder: Path) -> None:
    """Write every page below an empty folder."""
    results = in_order(site.results)
    profiles = slugs(one.profile for one in results)
    methods = slugs([*(facts.name for facts in site.methods), *(one.spec.method for one in results)])
    papers = slugs(paper.name for paper in site.papers)
    pages = Pages(folder, footer=site.footer, profiles=profiles, methods=methods, papers=papers)
    for name in ("style.css", "site.js"):
        pages.put(name, (files("harness_reports") / "templates" / name).read_bytes())
    index = run_index(results)
    pages.write(
        "index.html",
        "index.html",
        ran=list(what_ran(results)),
        places=by_place(site.sentences),
        agreement={name: [agreement(grid) for grid in site.paper_grids.get(name, ())] for name in papers},
        titles={paper.name: paper.title for paper in site.papers},
        claims=site.claims,
        failed=failures(site.failed),
        verdicts=_verdicts(site.findings),
        runs=len(results),
    )
    pages.write("runs.html", "runs/index.html", index=index)
    for page in run_pages(results, site.log):
        pages.write("run.html", f"runs/{page.page}.html", run=page)
    stems = _write_figures(site, pages)
    _write_profiles(site, pages, profiles, stems)
    _write_papers(site, pages, papers, stems)
    _write_methods(site, pages, methods)
    pages.write("audit.html", "audit.html", papers_found=list(_by_paper(site.findings)))


def _write_figures(site: Site, pages: Pages) -> dict[str, str]:
    """Write what is drawn, and return the figures' file names without ending, by key."""
    drawn = [figure for figure in site.figures if figure.svg]
    stems = slugs(figure.key for figure in drawn)
    for figure in drawn:
        pages.put(f"figures/{stems[figure.key]}.svg", figure.svg.encode())
        pages.put(f"figures/{stems[figure.key]}.pdf", figure.pdf)
    return stems


def _write_profiles(site: Site, pages: Pages, profiles: Mapping[str, str], stems: Mapping[str, str]) -> None:
    for profile, stem in profiles.items():
        tables = [table for table in site.tables if table.profile == profile]
        runs = shown_runs(site.results, tables)
        pages.write(
            "profile.html",
            f"profiles/{stem}.html",
            profile=profile,
            grids=[summary_grid(table) for table in tables],
            curves=has_curves(runs),
            dev=dev_charts(runs),
            losses=loss_charts(runs),
            figures=[figure for figure in site.figures if not figure.paper and figure.name == profile],
            stems=stems,
        )


def _write_papers(site: Site, pages: Pages, papers: Mapping[str, str], stems: Mapping[str, str]) -> None:
    for paper in site.papers:
        mine = [figure for figure in site.figures if figure.paper == paper.name]
        grids = site.paper_grids.get(paper.name, ())
        pages.write(
            "paper.html", f"papers/{papers[paper.name]}.html", paper=paper, grids=grids, figures=mine, stems=stems
        )


def _write_methods(site: Site, pages: Pages, methods: Mapping[str, str]) -> None:
    known = {facts.name: facts for facts in site.methods}
    links = {name: f"{stem}.html" for name, stem in methods.items()}
    counts: dict[str, int] = {}
    for one in site.results:
        counts[one.spec.method] = counts.get(one.spec.method, 0) + 1
    for name, stem in methods.items():
        facts = known.get(name)
        pages.write(
            "method.html",
            f"methods/{stem}.html",
            name=name,
            facts=facts,
            notes=notes_html(facts.notes, links) if facts else "",
            grids=[summary_grid(table) for table in _of_method(site.tables, name)],
            runs=counts.get(name, 0),
        )


def _of_method(tables: Sequence[SummaryTable], name: str) -> Iterator[SummaryTable]:
    """The tables with the rows of one method alone."""
    for table in tables:
        blocks = tuple(
            replace(block, rows=rows)
            for block in table.blocks
            if (rows := tuple(row for row in block.rows if _method(row.label.variant) == name))
        )
        if blocks:
            yield replace(table, blocks=blocks)


def _method(variant: str) -> str:
    return variant.partition("[")[0].partition("@")[0]


def _by_paper(findings: Sequence[Finding]) -> Iterator[tuple[str, list[Finding]]]:
    for paper, group in groupby(findings, key=lambda finding: finding.paper):
        yield paper, list(group)


def _verdicts(findings: Sequence[Finding]) -> list[tuple[str, int, int, int]]:
    """(paper, holds, within rounding, fails)."""
    counted = []
    for paper, group in _by_paper(findings):
        words = [finding.verdict for finding in group]
        counted.append((paper, words.count("holds"), words.count("within rounding"), words.count("fails")))
    return counted
