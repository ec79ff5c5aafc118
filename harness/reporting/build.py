"""One report from the store: report.md, report.tex, report.csv and index.html."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import __version__
from harness.profiles import load_profile, shipped_profiles
from harness.reporting.formats import count_of
from harness.reporting.grids import paper_grid, summary_grid
from harness.reporting.headline import headline
from harness.reporting.paper_cells import FilledTable
from harness.reporting.paper_tables import paper_tables, stand_in_tables
from harness.reporting.summary import summary_tables
from harness.sources import write_text

if TYPE_CHECKING:
    import pandas


def build(
    results: Sequence[Any],
    frame: pandas.DataFrame,
    out: Path,
    profile: str | None = None,
    failed: Sequence[Mapping[str, Any]] = (),
) -> Path:
    """Write the report into the folder `out`, each file whole or not at all, and return the path of index.html.

    `results` are the store's results and `frame` is `Store.frame()` of them; `profile` keeps one profile's only.
    `failed` are failure records as mappings (spec, profile, error, when). Beside the published numbers stand
    results of the profile `paper` alone. Raises UserError when a file below reports/ is wrong.
    """
    from harness.reporting.claims import claims_grid, read_claims
    from harness.reporting.papers import read_published
    from harness.reporting.render_csv import tidy
    from harness.reporting.render_html import Page, html
    from harness.reporting.render_latex import latex
    from harness.reporting.render_markdown import markdown

    if profile is not None:
        results = [result for result in results if result.profile == profile]
        failed = [record for record in failed if record.get("profile") == profile]
        frame = frame[frame["profile"] == profile]
    tables = summary_tables(frame)
    papers, stand_ins = _papers(frame)
    sentences = headline(tables, papers)
    claims = claims_grid(read_claims(), tables, read_published())
    grids = [*(summary_grid(table) for table in tables), *([claims] if claims else [])]
    paper_grids = [paper_grid(filled) for filled in (*papers, *stand_ins)]
    footer = _footer(len(results), profile)
    page = Page(results, tables, sentences, grids, paper_grids, failed, footer)
    write_text(out / "report.md", markdown(sentences, [*grids, *paper_grids], footer))
    write_text(out / "report.tex", latex([*grids, *paper_grids], footer))
    write_text(out / "report.csv", tidy(tables, [*papers, *stand_ins]))
    write_text(out / "index.html", html(page))
    return out / "index.html"


def _papers(frame: pandas.DataFrame) -> tuple[list[FilledTable], list[FilledTable]]:
    """The papers' tables, and their shapes on the shipped profiles that have results and stand-ins."""
    from harness.reporting.papers import read_papers, read_published

    papers, there = read_papers(), set(frame["profile"])
    profiles = [load_profile(name) for name in shipped_profiles() if name in there]
    return paper_tables(papers, read_published(), frame), stand_in_tables(papers, frame, profiles)


def _footer(results: int, profile: str | None) -> str:
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    where = f" of profile {profile}" if profile else ""
    return f"harness {__version__}, made {made} from {count_of(results, 'result')}{where}"
