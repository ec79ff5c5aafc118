"""The charts of a report's pages by name, as figures of a paper: one specification for both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from harness.errors import UserError
from harness.registry import suggest
from harness.reporting.contents import Contents
from harness.reporting.look import ChartSpec, Plot, draw_picture, make_paper_spec
from harness.reporting.pages import anchor
from harness.reporting.sections.profiles import draw_profile
from harness.reporting.sections.questions import QuestionsSection

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class ChartFigure:
    """A chart of the report as a figure. `name` is its id on the page, `spec` its Vega-Lite
    specification with its data, `caption` says how it is read.
    """

    name: str
    title: str
    caption: str
    spec: ChartSpec

    @property
    def data(self) -> pandas.DataFrame:
        """The plotted numbers, a row for each mark."""
        import io

        import pandas

        return pandas.read_csv(io.StringIO(draw_picture(self.title, self.spec).data))

    @property
    def chart(self) -> Any:
        """The figure as a chart of Altair, to be changed there. Raises UserError without Altair."""
        try:
            import altair
        except ImportError as error:
            raise UserError(
                "altair is not installed; `pip install altair` adds it, or use .spec and .data"
            ) from error
        return altair.Chart.from_dict(self.spec)

    def save(self, folder: str | Path) -> list[Path]:
        """Write NAME.pdf, NAME.svg, NAME.png and NAME.csv into a folder; their paths."""
        out = Path(folder)
        out.mkdir(parents=True, exist_ok=True)
        paths = []
        for suffix, content in draw_picture(self.title, self.spec).files.items():
            path = out / f"{self.name}.{suffix}"
            path.write_bytes(content)
            paths.append(path)
        return paths


def list_charts(contents: Contents) -> list[tuple[str, str]]:
    """The names of all charts of a report, each with its title."""
    return [(anchor(plot.key), plot.title) for plot in _list_plots(contents)]


def find_chart(
    contents: Contents, name: str, width: Literal["column", "page"] = "page"
) -> ChartFigure:
    """A chart by its name, as wide as the `column` or the `page` of a paper. Raises UserError for an
    unknown name.
    """
    names = []
    for plot in _list_plots(contents):
        names.append(anchor(plot.key))
        if names[-1] == name:
            return ChartFigure(name, plot.title, plot.text, make_paper_spec(plot, width))
    raise UserError(f"no figure '{name}'; {suggest(name, names)}")


def _list_plots(contents: Contents) -> Iterator[Plot]:
    """The charts of a report: of its questions, and of each profile at a glance, then its curves."""
    for page in QuestionsSection("questions", contents).pages:
        yield page.plot

    for profile in contents.profiles:
        charts = draw_profile(contents, profile)
        for glance in charts.glances.values():
            yield from glance.plots
        for place in charts.curves:
            yield from place["plots"]
