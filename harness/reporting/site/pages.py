"""All pages of a report: overview, audit, profiles, papers, methods, runs and files of figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.papers.audit.numbers import Finding
from harness.papers.published import Paper
from harness.reporting.contents import Contents
from harness.reporting.figures.curves import dev_charts, loss_charts, shown_runs
from harness.reporting.figures.papers import ReportFigure
from harness.reporting.seeds.headline import Sentence
from harness.reporting.seeds.summary import SummaryTable
from harness.reporting.site.html import TEMPLATES, Pages
from harness.reporting.site.names import slugs
from harness.reporting.site.notes import notes_html
from harness.reporting.site.overview import by_paper, by_place, verdict_counts, what_ran
from harness.reporting.site.runs import in_order, run_index, run_pages
from harness.reporting.tables.grids import Grid, summary_grid


@dataclass(frozen=True)
class Site:
    """What the pages show. `paper_grids` are the tables of each paper by its name."""

    contents: Contents
    sentences: Sequence[Sentence]
    claims: Grid | None
    papers: Sequence[Paper]
    paper_grids: Mapping[str, Sequence[Grid]]
    figures: Sequence[ReportFigure]
    findings: Sequence[Finding]
    footer: str


def write_site(site: Site, folder: Path) -> None:
    """Write every page into an empty folder."""
    contents = site.contents
    results = in_order(contents.results)
    profiles = slugs(contents.profiles)
    methods = slugs([*(facts.name for facts in contents.methods), *(one.spec.method for one in results)])
    papers = slugs(paper.name for paper in site.papers)
    stems = slugs(figure.key for figure in site.figures if figure.svg)
    pages = Pages(folder, footer=site.footer, profiles=profiles, methods=methods, papers=papers, stems=stems)
    for name in ("style.css", "site.js"):
        pages.put(name, (TEMPLATES / name).read_bytes())
    for figure in site.figures:
        if figure.svg:
            pages.put(f"figures/{stems[figure.key]}.svg", figure.svg.encode())
            pages.put(f"figures/{stems[figure.key]}.pdf", figure.pdf)
    findings = by_paper(site.findings)
    pages.write(
        "index.html",
        "index.html",
        ran=list(what_ran(results)),
        places=by_place(site.sentences),
        paper_grids=site.paper_grids,
        titles={paper.name: paper.title for paper in site.papers},
        claims=site.claims,
        failures=contents.failures,
        verdicts=verdict_counts(findings),
        runs=len(results),
    )
    pages.write("audit.html", "audit.html", findings=findings)
    pages.write("runs.html", "runs/index.html", index=run_index(results))
    for page in run_pages(results, contents.store):
        pages.write("run.html", f"runs/{page.page}.html", run=page)
    _write_profiles(site, pages, profiles)
    _write_papers(site, pages, papers)
    _write_methods(site, pages, methods)


def _write_profiles(site: Site, pages: Pages, profiles: Mapping[str, str]) -> None:
    for profile, stem in profiles.items():
        tables = [table for table in site.contents.tables if table.profile == profile]
        runs = shown_runs(site.contents.results, tables)
        pages.write(
            "profile.html",
            f"profiles/{stem}.html",
            profile=profile,
            grids=[summary_grid(table) for table in tables],
            dev=dev_charts(runs),
            losses=loss_charts(runs),
            figures=[figure for figure in site.figures if not figure.paper and figure.profile == profile],
        )


def _write_papers(site: Site, pages: Pages, papers: Mapping[str, str]) -> None:
    for paper in site.papers:
        pages.write(
            "paper.html",
            f"papers/{papers[paper.name]}.html",
            paper=paper,
            grids=site.paper_grids.get(paper.name, ()),
            figures=[figure for figure in site.figures if figure.paper == paper.name],
        )


def _write_methods(site: Site, pages: Pages, methods: Mapping[str, str]) -> None:
    known = {facts.name: facts for facts in site.contents.methods}
    links = {name: f"{stem}.html" for name, stem in methods.items()}
    runs = Counter(result.spec.method for result in site.contents.results)
    for name, stem in methods.items():
        facts = known.get(name)
        pages.write(
            "method.html",
            f"methods/{stem}.html",
            name=name,
            facts=facts,
            notes=notes_html(facts.notes, links) if facts else "",
            grids=[summary_grid(table) for table in _of_method(site.contents, name)],
            runs=runs[name],
        )


def _of_method(contents: Contents, name: str) -> Iterator[SummaryTable]:
    """The tables reduced to the rows of one method."""
    variants = {result.spec.variant for result in contents.results if result.spec.method == name}
    for table in contents.tables:
        blocks = tuple(
            replace(block, rows=rows)
            for block in table.blocks
            if (rows := tuple(row for row in block.rows if row.label.variant in variants))
        )
        if blocks:
            yield replace(table, blocks=blocks)
