"""One self-contained HTML page: no network, no script, everything from a result escaped."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness.reporting.curves import Chart, dev_charts, loss_charts, shown_runs
from harness.reporting.figures import style, svg
from harness.reporting.grids import Grid
from harness.reporting.headline import Sentence
from harness.reporting.runs import run_list
from harness.reporting.summary import SummaryTable


@dataclass(frozen=True)
class Page:
    """What stands on the page."""

    results: Sequence[Any]
    tables: Sequence[SummaryTable]
    sentences: Sequence[Sentence]
    grids: Sequence[Grid]
    papers: Sequence[Grid]
    failed: Sequence[Mapping[str, Any]]
    footer: str


def html(page: Page) -> str:
    """The page. Templates are in reports/templates."""
    environment = Environment(
        loader=FileSystemLoader(str(files("reports") / "templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"minus": minus, "svg": _svg, "swatch": style, "breaks": breaks, "run_key": _run_key}
    runs = shown_runs(page.results, page.tables)
    return environment.get_template("index.html").render(
        page=page, dev=dev_charts(runs), losses=loss_charts(runs), runs=run_list(page.results)
    )


def minus(text: str) -> str:
    """Numbers below zero with a true minus sign; a hyphen inside a name stays."""
    return re.sub(r"(?:^|(?<=\s))-(?=\d)", "\u2212", text)


def breaks(text: str) -> Markup:
    """A variant's name, escaped, that may go on in a new line before its options."""
    return Markup("<wbr>").join(re.split(r"(?=\[)|(?<=[,=/])", text))


def _svg(chart: Chart) -> Markup:
    # Safe: the element tree has escaped every text in it.
    return Markup(svg(chart))


def _run_key(record: Mapping[str, Any]) -> str:
    """What a failure record is about, as a run's key."""
    spec = record.get("spec", "?")
    if not isinstance(spec, Mapping):
        return str(spec)
    return f"{spec.get('variant')}/{spec.get('setting')}/{spec.get('encoder')}/seed-{spec.get('seed')}"
