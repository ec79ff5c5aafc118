"""The pages of profiles, with summary tables, charts and training curves, and the pages of methods."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from harness.method.naming import name_of
from harness.reporting.charts.curves import (
    MOST_PLACES,
    SeedRuns,
    draw_curve_places,
    select_shown_runs,
)
from harness.reporting.charts.glance import UnnamedOptions, draw_forest, draw_heat_maps, draw_sweeps
from harness.reporting.contents import Contents
from harness.reporting.csvfiles import CsvFields, list_summary_fields
from harness.reporting.look import Plot
from harness.reporting.pages import Pages, convert_notes
from harness.reporting.sections.base import ReportSection
from harness.reporting.seeds.gains import make_forests, rank_importance
from harness.reporting.seeds.summary import SummaryTable
from harness.reporting.tables.grids import Grid, make_summary_grid
from harness.store import Frames

#: charts of one kind on a page of a profile; the tables have the rest
MOST_PLOTS = 24


class ProfilesSection(ReportSection):
    """The tables and charts of each profile."""

    order = 300
    title = "Tables and curves"
    menu = "Tables"
    is_shown = True

    @property
    def grids(self) -> Sequence[Grid]:
        """The summary tables, formatted anew at each use, since they may be large."""
        return list(map(make_summary_grid, self.contents.tables))

    def rows(self) -> Iterable[CsvFields]:
        for table in self.contents.tables:
            yield from list_summary_fields(table)

    def links(self, pages: Pages) -> Mapping[str, str]:
        return {f"Profile {name}": f"profiles/{stem}.html" for name, stem in pages.profiles.items()}

    def write(self, pages: Pages) -> None:
        """Write a page for each profile, with the tables that other sections have for it."""
        contents = self.contents
        for profile, stem in pages.profiles.items():
            charts = draw_profile(contents, profile)
            lacking = set(chain.from_iterable(table.lacking for table in charts.tables))
            pages.write(
                "profile.html",
                f"profiles/{stem}.html",
                profile=profile,
                grids=map(make_summary_grid, charts.tables),
                untrained=contents.commands.explain_untrained(profile, sorted(lacking)),
                curves=charts.curves,
                more_curves=charts.more_curves,
                **charts.glances,
            )


class PlotList(NamedTuple):
    """Charts of one kind, and whether there are more that are not drawn."""

    plots: Sequence[Plot]
    is_cut: bool


class ProfileCharts(NamedTuple):
    """The tables of a profile, their charts at a glance by template name, the curves of their runs,
    which are drawn when they are asked for, and how many pairs of setting and encoder have curves
    that are not drawn.
    """

    tables: Sequence[SummaryTable]
    glances: Mapping[str, PlotList]
    curves: Iterable[Mapping[str, Any]]
    more_curves: int


def draw_profile(contents: Contents, profile: str) -> ProfileCharts:
    """Draw the charts of a profile, at most MOST_PLOTS of a kind."""
    tables = [table for table in contents.tables if table.profile == profile]
    runs = select_shown_runs(tables)
    places = {(label.setting, label.encoder) for label in runs}

    options = _read_unnamed_options(contents.frames, runs)
    forests = sorted(chain.from_iterable(map(make_forests, tables)), key=rank_importance)
    sweeps = (draw_sweeps(table, options) for table in tables)
    glances = {
        "forests": _pick_plots(map(draw_forest, forests)),
        "heats": _pick_plots(chain.from_iterable(map(draw_heat_maps, tables))),
        "sweeps": _pick_plots(chain.from_iterable(sweeps)),
    }
    curves = draw_curve_places(runs, contents.result)
    return ProfileCharts(tables, glances, curves, max(0, len(places) - MOST_PLACES))


def _pick_plots(plots: Iterator[Plot]) -> PlotList:
    """The first ones; those after them are not drawn."""
    first = list(islice(plots, MOST_PLOTS))
    return PlotList(first, is_cut=next(plots, None) is not None)


def _read_unnamed_options(frames: Frames, runs: SeedRuns) -> UnnamedOptions:
    """The values of all options of each label's runs, also of those that its name leaves out."""
    texts = frames.texts("hyperparameters")
    options = {}
    for label, rows in runs.items():
        groups = json.loads(texts[rows[0]])
        options[label] = {**groups.get("training", {}), **groups.get("method", {})}
    return options


class MethodsSection(ReportSection):
    """A page for each method with results."""

    order = 800
    title = menu = "Methods"
    is_shown = True

    def links(self, pages: Pages) -> Mapping[str, str]:
        return {name_of(name).text: f"methods/{stem}.html" for name, stem in pages.methods.items()}

    def write(self, pages: Pages) -> None:
        """Write a page for each method."""
        facts_by_name = {facts.name: facts for facts in self.contents.methods}
        links = {name: f"{stem}.html" for name, stem in pages.methods.items()}
        for name, stem in pages.methods.items():
            facts = facts_by_name.get(name)
            notes = facts.notes.read_text("utf-8") if facts and facts.notes else ""
            tables = _select_method(self.contents.tables, name)
            pages.write(
                "method.html",
                f"methods/{stem}.html",
                name=name,
                facts=facts,
                notes=convert_notes(notes, links),
                grids=map(make_summary_grid, tables),
                runs=self.contents.counts[name],
            )


def _select_method(tables: Sequence[SummaryTable], name: str) -> list[SummaryTable]:
    """The tables reduced to the rows of one method."""
    reduced = (table.where(lambda row: row.label.method == name) for table in tables)
    return [table for table in reduced if table.blocks]
