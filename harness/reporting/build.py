"""Write a report of a store: report.md, report.tex, report.csv, tables.csv and a static site,
section by section.

The folder of a report is written beside its target and then swapped in, so that a process killed
while it writes leaves the old one. A file in the folder lists all files of the report. Files that
are not listed are never deleted.
"""

from __future__ import annotations

import glob
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from itertools import chain
from pathlib import Path

from harness import __version__
from harness.caches import is_unusable, keep_text, read_cached_text
from harness.code import get_declarations
from harness.errors import UserError
from harness.files import ABANDONED_S, RANDOM_PART, make_temporary_path, remove_leftovers
from harness.formatting import count_of
from harness.method.facts import read_methods_in_process
from harness.method.naming import take_titles
from harness.registry import list_registered
from harness.reporting.contents import Contents
from harness.reporting.csvfiles import write_runs, write_tidy
from harness.reporting.pages import TEMPLATES, Pages, make_search_index, make_slugs, write_one_file
from harness.reporting.sections.base import ReportSection, make_sections
from harness.reporting.tables.grids import Grid
from harness.reporting.tables.latex import format_latex
from harness.reporting.tables.texts import format_markdown
from harness.reporting.trust import describe_trust, find_controls_to_run, list_runs_to_start
from harness.store import Judge, Store, describe_earlier_backends
from harness.store.logs import read_last_lines

_NOTICE = (
    "/* Vega, Vega-Lite, Vega-Embed and the libraries that they use. Copyright (c) University of Washington "
    "Interactive Data Lab and contributors; BSD 3-Clause License (D3: ISC License, Mike Bostock). */\n"
)


def make_vega_script() -> str:
    """The Vega libraries as a script that defines `vegaEmbed`; cached for each version."""
    name = f"vega-{version('vl-convert-python')}.js"
    cached = read_cached_text(f"charts/{name}")
    if cached:
        return cached
    import vl_convert

    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    # report.html holds it inside a <script> element
    safe = bundle.replace("</script", "<\\/script")
    script = f"{_NOTICE}(() => {{\n{safe}\n}})();\n"
    keep_text(f"charts/{name}", script)
    return script


#: File that lists the files of a report, one per line, and marks the folder as a report.
MARK = ".harness-report"


@contextmanager
def replace_folder(out: Path) -> Iterator[Path]:
    """Yield a new folder that replaces `out` when the block succeeds and is removed otherwise.

    Raises UserError if `out` holds other files than those of an earlier report, or cannot be
    written.
    """
    out = out.resolve()
    if not out.name:
        raise UserError(
            f"{out} cannot be the folder of a report, which is replaced as a whole; give another --out"
        )
    fresh = make_temporary_path(out).with_suffix(".new")
    old = make_temporary_path(out).with_suffix(".old")
    with _raise_os_errors_as(f"the report cannot be written to {out}"):
        _refuse_foreign(out)
        # what killed reports have left
        for path in (fresh, old):
            name, _, ending = path.name.rsplit(".", 2)
            remove_leftovers(out.parent, f"{glob.escape(name)}.{RANDOM_PART}.{ending}", ABANDONED_S)
        fresh.mkdir(parents=True)

    try:
        with _raise_os_errors_as(f"the report cannot be written to {out}", is_unusable):
            yield fresh
            names = sorted(
                path.relative_to(fresh).as_posix() for path in fresh.rglob("*") if path.is_file()
            )
            (fresh / MARK).write_text("\n".join([*names, MARK]) + "\n", encoding="utf-8")
        # checked again: writing may have taken a minute
        _refuse_foreign(out)
        with _raise_os_errors_as(f"the report cannot be moved to {out}"):
            _replace_report(fresh, old, out)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


@contextmanager
def _raise_os_errors_as(
    what: str, which: Callable[[OSError], bool] = lambda error: True
) -> Iterator[None]:
    """Raise errors of the system of some kinds as one line, `what` and the reason."""
    try:
        yield
    except OSError as error:
        if not which(error):
            raise
        raise UserError(f"{what}: {error.strerror}; choose another --out") from error


def _replace_report(fresh: Path, old: Path, out: Path) -> None:
    if out.exists():
        out.rename(old)
    fresh.rename(out)
    shutil.rmtree(old, ignore_errors=True)


def _refuse_foreign(out: Path) -> None:
    """Raise UserError if a folder holds other files than those of an earlier report."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; give a folder for the report")
    if not out.exists() or not any(out.iterdir()):
        return

    mark = out / MARK
    if not mark.is_file():
        raise UserError(
            f"{out} is not empty and not a report of harness; empty it or give another --out"
        )
    files_of_report = set(mark.read_text(encoding="utf-8").splitlines())
    for path in sorted(out.rglob("*")):
        if not path.is_dir() and path.relative_to(out).as_posix() not in files_of_report:
            raise UserError(
                f"{path} is not a file of the report in this folder; move it away or give another --out"
            )


@dataclass(frozen=True)
class WrittenReport:
    """A written report: its first page, the number of results and what could not be included, one
    line each.

    `running` is the number of runs that were in progress or submitted.
    """

    page: Path
    results: int
    warnings: tuple[str, ...]
    running: int = 0


def write_report(
    store: Store,
    out: Path,
    profile: str | None = None,
    margin: float | None = None,
    judge: Judge | None = None,
    *,
    one_file: bool = False,
) -> WrittenReport:
    """Write a report of a store into the folder `out`, completely or not at all.

    `profile`, a name or file, restricts the report to the results of one profile. `margin` is the
    largest difference, in points, that counts as equal, and from print as reproduced. `one_file`
    adds report.html, which holds all pages but those of runs, and `judge` says which results are
    present. Result files that cannot be read, methods that cannot be loaded and sections of other
    packages that fail are left out with a warning. Raises UserError if there is no result, if the
    margin is not positive, if a file below reports/ is wrong, or if `out` holds other files than
    those of an earlier report.
    """
    contents = Contents.of(store, profile, judge).with_margin(margin)
    methods, broken = read_methods_in_process()
    take_titles(
        {name: name for name in list_registered("method")}
        | {facts.name: facts.title for facts in methods}
    )
    contents = replace(contents, methods=methods)
    with get_declarations().hold():
        page = render(contents, out, one_file=one_file)
    skipped = (
        *contents.problems,
        *contents.found,
        *filter(None, [describe_earlier_backends(contents.frames)]),
        *broken,
    )
    return WrittenReport(page, len(contents.runs), skipped, len(read_last_lines(store)))


def render(contents: Contents, out: Path, *, one_file: bool = False) -> Path:
    """Write the files and pages of a report and return the path of index.html.

    Raises UserError if a file below reports/ is wrong, or if `out` holds other files than those of
    a report.
    """
    sections = make_sections(contents)
    footer = _make_footer(contents)
    with replace_folder(out) as folder:
        with (folder / "report.csv").open("w", encoding="utf-8", newline="") as stream:
            write_runs(contents.frames, stream)
        with (folder / "tables.csv").open("w", encoding="utf-8", newline="") as stream:
            write_tidy(chain.from_iterable(section.rows() for section in sections), stream)
        _write_texts(sections, folder, footer)

        written = _write_site(contents, sections, folder, footer)
        # those of runs are too many to be searched or sent
        pages = [page for page in written if not page.startswith("runs/")]
        (folder / "search.js").write_text(make_search_index(folder, pages), "utf-8")
        if one_file:
            write_one_file(folder, pages, footer, _make_menu(sections))
    return out / "index.html"


def _make_footer(contents: Contents) -> str:
    """The version, the time, and what a report was written from."""
    time = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    results = count_of(len(contents.runs), "result")
    footer = f"harness {__version__}, written {time} from {results}"
    if contents.profile:
        footer += f" of profile {contents.profile}"
    earlier_backends = describe_earlier_backends(contents.frames)
    return f"{footer}; {earlier_backends}" if earlier_backends else footer


def _make_menu(sections: Sequence[ReportSection]) -> list[tuple[str, str, str]]:
    """The menu of the one file: the first pages, then those of sections."""
    listed = [section for section in sections if section.is_shown and section.menu]
    return [
        ("Answer", "index", "index.html"),
        ("All results", "overview", "overview.html"),
        *((section.menu, section.name, section.home) for section in listed),
    ]


def _write_texts(sections: Sequence[ReportSection], folder: Path, footer: str) -> None:
    """Write report.md and report.tex."""
    sentences = list(chain.from_iterable(section.sentences for section in sections))
    formats: dict[str, Callable[[Iterable[Grid], str], Iterator[str]]] = {
        "report.md": partial(format_markdown, sentences),
        "report.tex": format_latex,
    }
    for name, format_grids in formats.items():
        # section by section, since tables may be large
        grids = chain.from_iterable(section.grids for section in sections)
        with (folder / name).open("w", encoding="utf-8") as stream:
            stream.writelines(format_grids(grids, footer))


def _write_site(
    contents: Contents, sections: Sequence[ReportSection], folder: Path, footer: str
) -> list[str]:
    """Write every page into an empty folder; their paths."""
    figures = chain.from_iterable(section.figures for section in sections)
    drawn = [figure for figure in figures if figure.svg]
    stems = make_slugs(figure.key for figure in drawn)
    pages = Pages(
        folder,
        contents.profiles,
        sorted(contents.counts),
        [paper.name for paper in contents.papers],
        stems=stems,
        sections=[section for section in sections if section.is_shown],
        footer=footer,
        running=read_last_lines(contents.store),
    )
    for name in ("style.css", "charts.css", "site.js", "charts.js"):
        pages.put(name, (TEMPLATES / name).read_bytes())
    pages.put("vega.js", make_vega_script().encode())
    for figure in drawn:
        for suffix, content in figure.picture.files.items():
            pages.put(f"figures/{stems[figure.key]}.{suffix}", content)

    missing = find_controls_to_run(contents)
    trust = describe_trust(contents, missing)
    runs_to_start = list(dict.fromkeys(list_runs_to_start(contents, missing)))
    for section in sections:
        section.write(pages)
    pages.write("overview.html", "overview.html", trust=trust, to_run=runs_to_start)
    if not pages.has("index.html"):
        pages.write("unanswered.html", "index.html")
    # whatever the order of the sections is, the first page comes first
    return sorted(pages.written, key=lambda path: (path != "index.html", path != "overview.html"))
