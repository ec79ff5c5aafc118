"""All pages of a report: overview, audit, seen pairs, tunings, profiles, papers, methods, runs and files of figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from pathlib import Path
from typing import NamedTuple

from harness.papers.audit.numbers import Finding, tally
from harness.papers.published import Paper
from harness.reporting.charts.curves import SeedRuns, shown_runs
from harness.reporting.charts.forest import forest_plot
from harness.reporting.charts.heat import heat_plots
from harness.reporting.charts.library import vega_script
from harness.reporting.charts.plot import Plot
from harness.reporting.charts.sweeps import UnnamedOptions, sweep_plot, sweeps
from harness.reporting.charts.training import MOST_PLACES, curve_places
from harness.reporting.contents import Contents
from harness.reporting.figures.papers import ReportFigure
from harness.reporting.seeds.forest import Forest, forests, importance, lead_text
from harness.reporting.seeds.sentences import Sentence
from harness.reporting.seeds.summary import SummaryTable
from harness.reporting.site.html import TEMPLATES, KeepPage, Pages, notes_html, slugs
from harness.reporting.site.runs import in_order, write_runs
from harness.reporting.tables.grids import Grid, summary_grid
from harness.reporting.tables.ranking import ranking_grid
from harness.sources import digest
from harness.store import Result

#: charts of one kind on a page of a profile; the tables have the rest
MOST_PLOTS = 24
#: charts of the overview; the pages of profiles have the rest
MOST_LEADS = 12


@dataclass(frozen=True)
class Site:
    """What the pages show.

    `leads` are the pictures that the overview begins with. `paper_grids` are the tables of each paper by its name,
    `legend` explains their verdicts. `seen` are the tables of scores by what training has seen, where it has seen test
    pairs, `tuned` those of each tuning by its key; without any, there is no such page. `labs` are the runs that several
    labs have, if any.
    """

    contents: Contents
    leads: Sequence[Forest]
    sentences: Sequence[Sentence]
    claims: Grid | None
    labs: Grid | None
    papers: Sequence[Paper]
    paper_grids: Mapping[str, Sequence[Grid]]
    seen: Sequence[Grid]
    tuned: Mapping[str, Sequence[Grid]]
    figures: Sequence[ReportFigure]
    findings: Sequence[Finding]
    footer: str
    legend: str


class Ran(NamedTuple):
    """The runs of one profile, setting and encoder."""

    profile: str
    setting: str
    encoder: str
    variants: list[str]
    seeds: str
    suites: list[str]
    runs: int


def write_site(site: Site, folder: Path, kept: KeepPage = lambda page, key: False) -> None:
    """Write every page into an empty folder, except pages of runs that are `kept` from an earlier report."""
    contents = site.contents
    results = in_order(contents.results)
    profiles = slugs(contents.profiles)
    methods = slugs([*(facts.name for facts in contents.methods), *contents.variants])
    papers = slugs(paper.name for paper in site.papers)
    stems = slugs(figure.key for figure in site.figures if figure.svg)
    shared = {"profiles": profiles, "methods": methods, "papers": papers, "stems": stems, "seen": site.seen}
    shared |= {"tuned": dict(_tuned(site))}
    pages = Pages(folder, kept, footer=site.footer, **shared)
    for name in ("style.css", "charts.css", "site.js", "charts.js"):
        pages.put(name, (TEMPLATES / name).read_bytes())
    pages.put("vega.js", vega_script().encode())
    for figure in site.figures:
        if figure.svg:
            pages.put(f"figures/{stems[figure.key]}.svg", figure.svg.encode())
            pages.put(f"figures/{stems[figure.key]}.pdf", figure.pdf)
    findings = {paper: list(some) for paper, some in groupby(site.findings, key=lambda finding: finding.paper)}
    pages.write(
        "index.html",
        "index.html",
        ran=list(what_ran(results)),
        leads=[(lead_text(forest), forest_plot(forest)) for forest in site.leads[:MOST_LEADS]],
        more_leads=max(0, len(site.leads) - MOST_LEADS),
        sentences=site.sentences,
        paper_grids=site.paper_grids,
        legend=site.legend,
        titles={paper.name: paper.title for paper in site.papers},
        claims=site.claims,
        labs=site.labs,
        failures=contents.failures,
        unscored=contents.unscored,
        audited={paper: tally(some) for paper, some in findings.items()},
        runs=len(results),
    )
    pages.write("audit.html", "audit.html", findings=findings)
    if site.seen:
        beside = {grid.key: [figure for figure in site.figures if figure.beside == grid.key] for grid in site.seen}
        nothing = [
            f"{one.setting} / {one.encoder} (profile {one.profile})" for one in site.contents.seen if not one.has_seen
        ]
        pages.write("seen.html", "seen.html", beside=beside, nothing=nothing)
    if site.tuned:
        pages.write("tuned.html", "tuned.html")
    navigation = digest(methods, profiles, bool(site.seen), bool(site.tuned))
    for profile, stem in profiles.items():
        pages.write("profile.html", f"profiles/{stem}.html", profile=profile, **_profile(site, profile))
    for paper in site.papers:
        figures = [figure for figure in site.figures if figure.paper == paper.name]
        grids = site.paper_grids.get(paper.name, ())
        pages.write("paper.html", f"papers/{papers[paper.name]}.html", paper=paper, grids=grids, figures=figures)
    for method, stem in methods.items():
        pages.write("method.html", f"methods/{stem}.html", name=method, **_method(contents, method, methods))
    write_runs(pages, results, contents.store, navigation)  # last: what it takes stays taken


def _tuned(site: Site) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Title, tables and figure of each tuning by its key."""
    for report in site.contents.tuned:
        grids = site.tuned[report.tuning.key]
        keys = {grid.key for grid in grids}
        figures = [figure for figure in site.figures if figure.beside in keys]
        yield report.tuning.key, {"title": report.title, "grids": grids, "figures": figures}


def what_ran(results: Sequence[Result]) -> Iterator[Ran]:
    """The variants, seeds and suites of each profile, setting and encoder."""
    places: dict[tuple[str, str, str], tuple[Counter[str], set[int], dict[str, None]]] = {}
    for one in results:
        place = (one.profile, one.spec.setting, one.spec.encoder)
        variants, seeds, suites = places.setdefault(place, (Counter(), set(), {}))
        variants[one.spec.variant] += 1
        seeds.add(one.spec.seed)
        suites.update(dict.fromkeys(one.suites))
    for place, (variants, seeds, suites) in sorted(places.items()):
        yield Ran(*place, sorted(variants), spans(seeds), list(suites), variants.total())


def spans(seeds: Iterable[int]) -> str:
    """`0–4, 7`."""
    texts: list[str] = []
    for _, group in groupby(enumerate(sorted(set(seeds))), key=lambda pair: pair[1] - pair[0]):
        numbers = [number for _, number in group]
        texts.append(str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}–{numbers[-1]}")
    return ", ".join(texts)


def _profile(site: Site, profile: str) -> dict[str, object]:
    tables = [table for table in site.contents.tables if table.profile == profile]
    runs = shown_runs(site.contents.results, tables)
    return {
        "grids": [summary_grid(table) for table in tables],
        "rankings": [ranking_grid(table) for table in site.contents.rankings if table.profile == profile],
        "curves": curve_places(runs),
        "more_curves": max(0, len({(label.setting, label.encoder) for label in runs}) - MOST_PLACES),
        **_glance(tables, _defaults(runs)),
    }


def _glance(tables: Sequence[SummaryTable], defaults: UnnamedOptions) -> dict[str, list[Plot]]:
    """The charts of a profile's tables by template name, at most MOST_PLOTS of a kind."""
    found = {
        "forests": map(forest_plot, sorted((one for table in tables for one in forests(table)), key=importance)),
        "heats": (plot for table in tables for plot in heat_plots(table)),
        "sweeps": (sweep_plot(sweep) for table in tables for sweep in sweeps(table, defaults)),
    }
    return {name: list(islice(every, MOST_PLOTS)) for name, every in found.items()}


def _defaults(runs: SeedRuns) -> UnnamedOptions:
    """The hyperparameters that the runs of each label had."""
    return {
        label: {**results[0].hyperparameters.get("training", {}), **results[0].hyperparameters.get("method", {})}
        for label, results in runs.items()
    }


def _method(contents: Contents, name: str, stems: Mapping[str, str]) -> dict[str, object]:
    facts = next((facts for facts in contents.methods if facts.name == name), None)
    links = {other: f"{stem}.html" for other, stem in stems.items()}
    return {
        "facts": facts,
        "notes": notes_html(facts.notes.read_text("utf-8"), links) if facts and facts.notes else "",
        "grids": [summary_grid(table) for table in _of_method(contents, name)],
        "runs": contents.variants.get(name, Counter()).total(),
    }


def _of_method(contents: Contents, name: str) -> Iterator[SummaryTable]:
    """The tables reduced to the rows of one method."""
    variants = contents.variants.get(name, Counter())
    for table in contents.tables:
        blocks = tuple(
            replace(block, rows=rows)
            for block in table.blocks
            if (rows := tuple(row for row in block.rows if row.label.variant in variants))
        )
        if blocks:
            yield replace(table, blocks=blocks)
