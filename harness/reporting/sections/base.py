"""Sections of a report: the interface of the entry points in the group `harness.sections`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import ClassVar, NamedTuple

from harness.errors import PlugInError
from harness.registry import OWN, convert_errors, get_class, list_registered, list_targets
from harness.reporting.contents import Contents
from harness.reporting.csvfiles import CsvFields
from harness.reporting.figures.drawn import ReportFigure
from harness.reporting.pages import Pages, slug
from harness.reporting.seeds.wording import Sentence
from harness.reporting.tables.grids import Grid

KIND = "report section"


class Part(NamedTuple):
    """Tables and figures under one heading. A part without a title shows only the titles of its
    tables.
    """

    key: str
    title: str
    grids: Sequence[Grid]
    figures: Sequence[ReportFigure] = ()


class ReportSection:
    """A feature of a report, from its data to its page. It is made once for each report.

    `order` is the place of a section on the overview, in the menu and in the files. `title` is the
    heading on the overview, `about` a line below it, `menu` its entry in the menu of all pages, if
    it has one. The tables of the parts stand on the overview; with a `lede`, on a page of their
    own, NAME.html, linked from the overview.
    """

    order: ClassVar[int] = 1000
    title: ClassVar[str] = ""
    about: ClassVar[str] = ""
    menu: ClassVar[str] = ""
    lede: ClassVar[str] = ""
    #: template of its part of the overview
    overview: ClassVar[str] = "overview/parts.html"

    def __init__(self, name: str, contents: Contents) -> None:
        """`name` is that of the entry point, the id on the overview and the stem of a page."""
        self.name = name
        self.contents = contents

    @cached_property
    def parts(self) -> Sequence[Part]:
        """What the section shows, part by part; without any it is not on the overview."""
        return ()

    @cached_property
    def grids(self) -> Sequence[Grid]:
        """Its tables, for report.md and report.tex."""
        return list(chain.from_iterable(part.grids for part in self.parts))

    @cached_property
    def figures(self) -> Sequence[ReportFigure]:
        """Its figures, which are written as files too."""
        return list(chain.from_iterable(part.figures for part in self.parts))

    def rows(self) -> Iterable[CsvFields]:
        """Its rows of tables.csv."""
        return ()

    @property
    def is_shown(self) -> bool:
        """Whether there is anything to show."""
        return bool(self.parts)

    @property
    def notes(self) -> Sequence[str]:
        """Lines below the lede of its page."""
        return ()

    @property
    def home(self) -> str:
        """Where the menu leads."""
        return f"{self.name}.html" if self.lede else f"overview.html#{self.name}"

    @property
    def sentences(self) -> Sequence[Sentence]:
        """Its findings, for report.md."""
        return ()

    def links(self, pages: Pages) -> Mapping[str, str]:
        """The links on the overview, from their text to their target: the parts of its page."""
        if not self.lede:
            return {}
        return {part.title: f"{self.home}#{slug(part.key)}" for part in self.parts}

    def of_profile(self, profile: str) -> Sequence[Grid]:
        """Its tables on the page of a profile, below the title of the section."""
        return ()

    def write(self, pages: Pages) -> None:
        """Write its pages."""
        if self.lede and self.is_shown:
            pages.write("section.html", self.home, section=self)


def make_sections(contents: Contents) -> list[ReportSection]:
    """All registered sections in their order. One of another package that fails is left out, with a
    warning.
    """
    modules = {name: targets[0] for name, targets in list_targets(KIND).items()}

    sections: list[ReportSection] = []
    for name in list_registered(KIND):
        is_own = modules[name].partition(".")[0] in OWN
        try:
            section = get_class(KIND, name, ReportSection)(name, contents)
            if not is_own:
                with convert_errors(KIND, name, "cannot be made"):
                    _ = section.grids, section.figures, list(section.rows())
            sections.append(section)
        except PlugInError as error:
            if is_own:
                raise
            contents.found.append(str(error))
    return sorted(sections, key=lambda section: section.order)
