"""Functions for notebooks and scripts that read results; the command line calls them too.

    import harness

    harness.results("results").frame                # a pandas frame, one row per score
    harness.compare("mcse", "simcse", "sts.Avg")    # every test over their seeds
    harness.table("sts")                            # as the report prints it

They stand apart from `harness.api`, so that a command that only reads imports nothing of what
plans, trains and fetches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from harness.command_line import DEFAULT_REPORT, DEFAULT_RESULTS, Names
from harness.commands import explain_no_results
from harness.planning.present import Present
from harness.store import Store
from harness.tomlfiles import check_call

if TYPE_CHECKING:
    import pandas

    from harness.reporting.build import WrittenReport
    from harness.reporting.charted import ChartFigure
    from harness.reporting.contents import Contents
    from harness.reporting.results import Results
    from harness.reporting.seeds.comparison import Comparison


@check_call
def results(folder: str | Path = DEFAULT_RESULTS, profile: str | None = None) -> Results:
    """Read every result in a folder.

    Tables show first the runs made with the present code, data and values, and say what has changed
    since the others. `profile` may be the file of one of the results' profiles, if that is not
    NAME.toml in the working folder.

    >>> import harness
    >>> frame = harness.results("results").frame  # doctest: +SKIP
    >>> frame[["variant", "seed", "suite", "task", "metric", "value"]]  # doctest: +SKIP

    Raises UserError for a folder that does not exist.
    """
    if not Path(folder).is_dir():
        raise explain_no_results(Path(folder), ())
    return read_folder(folder, profile)


def read_folder(folder: str | Path, profile: str | None) -> Results:
    """`results` of a folder that need not exist yet, as commands read it."""
    from harness.reporting.results import Results

    store = Store(Path(folder))
    return Results.read(store, judge=Present(store.root, profile))


@check_call
def compare(
    a: str,
    b: str,
    metric: str = "sts.Avg",
    *,
    profile: str | None = None,
    setting: str | None = None,
    encoder: str | None = None,
    set: str | Mapping[str, object] | Sequence[str] = (),  # noqa: A002
    results: str | Path = DEFAULT_RESULTS,
) -> Comparison:
    """Compare two variants of a folder of results, with every test over their seeds.

    `a` and `b` are variants or VARIANT/SETTING/ENCODER, the metric is SUITE.TASK[.METRIC]; the
    other arguments restrict the runs of both. `print(comparison.conclusion())` gives the result in
    one sentence.

    >>> import harness
    >>> _ = harness.run("tiny", methods="simcse,mcse", seeds=3, suites="sts", set="steps=2")
    >>> harness.compare("mcse", "simcse").a.seeds
    (0, 1, 2)

    Raises UserError when no runs or several groups of runs match.
    """
    read = _read_results(results, profile)
    return read.compare(a, b, metric, profile=profile, setting=setting, encoder=encoder, set=set)


@check_call
def table(
    name: str,
    *,
    profile: str | None = None,
    rows: Names = (),
    results: str | Path = DEFAULT_RESULTS,
) -> pandas.DataFrame:
    """A suite's summary ("sts") or a paper's table ("mcse:T1") of a folder of results, as texts.

    The arguments are those of `Results.table`.

    >>> import harness
    >>> _ = harness.run("tiny", methods="simcse,mcse", seeds=1, suites="sts", set="steps=2")
    >>> harness.table("sts")["variant"].tolist()
    ['simcse (steps=2)', 'mcse (steps=2)']

    Raises UserError for a name that has no table.
    """
    return _read_results(results, profile).table(name, profile, rows)


def _read_results(folder: str | Path, profile: str | None) -> Results:
    """`results`, for functions with an argument of that name."""
    return results(folder, profile)


@check_call
def figure(
    name: str,
    *,
    results: str | Path = DEFAULT_RESULTS,
    profile: str | None = None,
    width: Literal["column", "page"] = "page",
) -> ChartFigure:
    """A chart of the report as a figure of a paper, by its id on the page.

    `.save(folder)` writes it as PDF, SVG, PNG and CSV; `.chart` is a chart of Altair, where that is
    installed, `.spec` the Vega-Lite specification and `.data` the plotted numbers.

    >>> import harness
    >>> _ = harness.run("tiny", methods="simcse,mcse", seeds=3, suites="sts", set="steps=2")
    >>> harness.figure("answer-tiny-toy-toy-bert").save("figures")[0].name
    'answer-tiny-toy-toy-bert.pdf'

    Raises UserError for a name that the report has not, and without results.
    """
    from harness.reporting.charted import find_chart

    return find_chart(_report_contents(results, profile), name, width)


def figure_names(
    results: str | Path = DEFAULT_RESULTS, profile: str | None = None
) -> list[tuple[str, str]]:
    """The names of the charts of a report, each with its title. Raises UserError without results."""
    from harness.reporting.charted import list_charts

    return list_charts(_report_contents(results, profile))


def _report_contents(folder: str | Path, profile: str | None) -> Contents:
    from harness.reporting.contents import Contents

    store = Store(Path(folder))
    return Contents.of(store, profile, Present(store.root, profile))


@check_call
def report(
    results: str | Path = DEFAULT_RESULTS,
    out: str | Path = DEFAULT_REPORT,
    profile: str | None = None,
    margin: float | None = None,
    one_file: bool = False,
) -> WrittenReport:
    """Write a report of a folder of results into the folder `out`; `.page` is the path of its first
    page.

    `profile` restricts it to the results of one profile. A measured mean reproduces a printed one
    if the two are equivalent within `margin` points (1 by default), which is the margin of "equal"
    for two variants as well. `one_file` adds report.html, which holds all pages but those of runs.
    `.warnings` names files that were skipped. Raises UserError if there are no results, or for a
    margin that is not positive.
    """
    from harness.reporting.build import write_report

    store = Store(Path(results))
    return write_report(
        store, Path(out), profile, margin, Present(store.root, profile), one_file=one_file
    )
