"""The pages of methods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from harness.reporting.contents import Contents
from harness.reporting.pages import Pages, notes_html
from harness.reporting.sections.base import ReportSection
from harness.reporting.seeds.summary import SummaryTable
from harness.reporting.tables.grids import summary_grid


class MethodsSection(ReportSection):
    """A page for each method with results."""

    place = 800
    title = menu = "Methods"
    is_shown = True

    def links(self, pages: Pages) -> Mapping[str, str]:
        return {name: f"methods/{stem}.html" for name, stem in pages.methods.items()}

    def write(self, pages: Pages) -> None:
        described = {facts.name: facts for facts in self.contents.methods}
        links = {name: f"{stem}.html" for name, stem in pages.methods.items()}
        for name, stem in pages.methods.items():
            facts = described.get(name)
            notes = facts.notes.read_text("utf-8") if facts and facts.notes else ""
            pages.write(
                "method.html",
                f"methods/{stem}.html",
                name=name,
                facts=facts,
                notes=notes_html(notes, links),
                grids=[summary_grid(table) for table in _of_method(self.contents, name)],
                runs=self.contents.variants.get(name, Counter()).total(),
            )


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
