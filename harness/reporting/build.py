"""One report from the store: report.md, report.tex, report.csv and the pages of a static site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import __version__
from harness.formatting import count_of
from harness.profiles import load_profile, shipped_profiles
from harness.reporting.figures.runs import Arrays
from harness.reporting.seeds.headline import headline
from harness.reporting.seeds.summary import summary_tables
from harness.reporting.site.runs import Log
from harness.reporting.tables.cells import FilledTable
from harness.reporting.tables.filled import paper_tables, stand_in_tables
from harness.reporting.tables.grids import Grid, paper_grid, summary_grid
from harness.reporting.tables.neighbours import neighbour_grids

if TYPE_CHECKING:
    import pandas

    from harness.reporting.site.methods import MethodFacts
    from harness.reporting.site.pages import Figure


def build(
    results: Sequence[Any],
    frame: pandas.DataFrame,
    out: Path,
    profile: str | None = None,
    failed: Sequence[Mapping[str, Any]] = (),
    methods: Sequence[MethodFacts] = (),
    figures: Sequence[Figure] = (),
    arrays: Arrays = lambda result: {},
    log: Log = lambda result: "",
) -> Path:
    """Write the report into the folder `out`, all of it or nothing, and return the path of index.html.

    `results` are the store's results and `frame` is `Store.frame()` of them; `profile` keeps one profile's only.
    `failed` are failure records as mappings (spec, profile, error, traceback, when). `methods` and `figures` have
    pages or stand on their paper's page; `arrays` and `log` give a result's arrays and its log (`Store.arrays`,
    `Store.log`). Beside the published numbers stand results of the profile `paper` alone.
    Raises UserError when a file below reports/ is wrong, or when `out` holds what is no earlier report.
    """
    from harness.papers.audit.findings import audit
    from harness.papers.published import read_papers, read_published
    from harness.reporting.files.csv import tidy
    from harness.reporting.files.latex import latex
    from harness.reporting.files.markdown import markdown
    from harness.reporting.site.folder import new_folder
    from harness.reporting.site.pages import Site, write_site
    from harness.reporting.tables.claims import claims_grid, read_claims

    if profile is not None:
        results = [result for result in results if result.profile == profile]
        failed = [record for record in failed if record.get("profile") == profile]
        frame = frame[frame["profile"] == profile]
    papers, published = read_papers(), read_published()
    tables, filled = summary_tables(frame), paper_tables(papers, published, frame)
    profiles = [load_profile(name) for name in shipped_profiles() if name in set(frame["profile"])]
    shapes = stand_in_tables(papers, frame, profiles)
    sentences = headline(tables, filled)
    claims = claims_grid(read_claims(), tables, published)
    paper_grids = _by_paper([*filled, *shapes], neighbour_grids(papers, results, frame, arrays, profiles))
    grids = [
        *map(summary_grid, tables),
        *([claims] if claims else []),
        *(one for of in paper_grids.values() for one in of),
    ]
    footer = _footer(len(results), profile)
    findings = audit(published)
    site = Site(
        results, tables, sentences, claims, papers, paper_grids, figures, methods, findings, failed, footer, log
    )
    with new_folder(out) as folder:
        (folder / "report.md").write_text(markdown(sentences, grids, footer), encoding="utf-8")
        (folder / "report.tex").write_text(latex(grids, footer), encoding="utf-8")
        (folder / "report.csv").write_text(tidy(tables, [*filled, *shapes]), encoding="utf-8")
        write_site(site, folder)
    return out / "index.html"


def _by_paper(filled: Sequence[FilledTable], neighbours: Mapping[str, Sequence[Grid]]) -> dict[str, list[Grid]]:
    found: dict[str, list[Grid]] = {}
    for table in filled:
        found.setdefault(table.paper.name, []).append(paper_grid(table))
    for paper, grids in neighbours.items():
        found.setdefault(paper, []).extend(grids)
    return found


def _footer(results: int, profile: str | None) -> str:
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    where = f" of profile {profile}" if profile else ""
    return f"harness {__version__}, made {made} from {count_of(results, 'result')}{where}"
