"""A report as one file for sending: its pages below each other, with styles, scripts and figures inside."""

from __future__ import annotations

import base64
import hashlib
import posixpath
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markupsafe import Markup

from harness.formatting import count_of
from harness.reporting.site.html import anchor, environment

NAME = "report.html"
#: bytes of pages, and of figures, from which on the rest is left out: mail servers refuse more than about 25 MB
MOST_PAGES, MOST_FIGURES = 8_000_000, 8_000_000
_SCRIPTS = ("vega.js", "site.js", "charts.js")
_STYLES = ("style.css", "charts.css")
#: templates escape < and > in all texts, so that this finds whole tags only
_TAG = re.compile(r"<[a-zA-Z][^<>]*>")
_ATTRIBUTE = re.compile(r' (id|href|src)="([^"]*)"')


def write_one_file(folder: Path, names: Iterable[str], footer: str) -> Path:
    """Write NAME into the folder of a report, of the pages with these names in their order, and return its path."""
    pages, left_out = _pages(folder, names)
    figures = _figures(folder)
    titles = {path: re.sub(r"<[^>]*>", "", text[text.index("<h1>") : text.index("</h1>")]) for path, text in pages}
    within = {path: "" if path == "index.html" else f"page-{anchor(path.removesuffix('.html'))}" for path, _ in pages}
    scripts = [folder.joinpath(name).read_text("utf-8") for name in _SCRIPTS]
    hashes = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts)
    lacking = [count_of(left_out, "page") + " (too large)"] if left_out else []
    images = sum(1 for _ in folder.glob("figures/*.svg")) - len(figures)
    lacking += [count_of(images, "figure") + " (too large)"] if images else []
    html = (
        environment(autoescape=True)
        .get_template("one_file.html")
        .render(
            policy=" ".join(f"'sha256-{one}'" for one in hashes),
            styles=[Markup(folder.joinpath(name).read_text("utf-8")) for name in _STYLES],
            scripts=list(map(Markup, scripts)),
            pages=[
                (within[path], Markup(titles[path]), Markup(_moved(text, path, within, figures)))
                for path, text in pages
            ],
            lacking=lacking,
            footer=footer,
        )
    )
    target = folder / NAME
    target.write_text(html, encoding="utf-8")
    return target


def _pages(folder: Path, names: Iterable[str]) -> tuple[list[tuple[str, str]], int]:
    """Path and content of each page, as far as they fit, and the number of those that do not."""
    found: list[tuple[str, str]] = []
    size = left_out = 0
    for path in map(folder.joinpath, names):
        size += path.stat().st_size
        if found and size > MOST_PAGES:
            size, left_out = size - path.stat().st_size, left_out + 1
            continue
        text = path.read_text("utf-8")
        start, end = '<main id="main">', "</main>"
        content = text[text.index(start) + len(start) : text.rindex(end)].replace(' loading="lazy"', "")
        found.append((path.relative_to(folder).as_posix(), content))
    return found, left_out


def _figures(folder: Path) -> dict[str, str]:
    """The figures as addresses that hold them, as far as they fit."""
    found: dict[str, str] = {}
    size = 0
    for path in sorted(folder.glob("figures/*.svg"), key=lambda path: path.stat().st_size):
        size += path.stat().st_size
        if size <= MOST_FIGURES:
            held = base64.b64encode(path.read_bytes()).decode()
            found[path.relative_to(folder).as_posix()] = f"data:image/svg+xml;base64,{held}"
    return found


def _moved(text: str, path: str, within: Mapping[str, str], figures: Mapping[str, str]) -> str:
    """A page's content with ids of its own, links to where their targets are now, and figures inside."""

    def attribute(found: re.Match[str]) -> str:
        name, value = found[1], found[2]
        if name == "id":
            return f' id="{_id(within[path], value)}"'
        parts = urlsplit(value)
        if parts.scheme:
            return found[0]
        target = (
            posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(parts.path))) if parts.path else path
        )
        if name == "src":
            return f' src="{figures[target]}"' if target in figures else ""
        inside = target in within and not parts.query
        return f' href="#{_id(within[target], parts.fragment)}"' if inside else ""

    return _TAG.sub(lambda tag: _ATTRIBUTE.sub(attribute, tag[0]), text)


def _id(page: str, name: str) -> str:
    """The id of a part of a page, and for no part that of the page itself."""
    return "--".join(filter(None, (page, name))) or "top"
