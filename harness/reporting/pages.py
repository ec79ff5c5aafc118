"""Pages from the templates in reports/templates and from Markdown notes; and all of a report's
pages as one file.

Texts from results are escaped. Pages load nothing from the network.
"""

from __future__ import annotations

import base64
import hashlib
import json
import posixpath
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from jinja2 import BytecodeCache, Environment, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from jinja2.utils import htmlsafe_json_dumps
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

from harness.formatting import about_minutes, count_of, duration, visible
from harness.method.naming import VariantName, name_of
from harness.metrics import tone
from harness.reporting.tables.grids import LineHead, get_code
from harness.reporting.tables.latex import format_latex_or_comment
from harness.reporting.tables.texts import format_csv_table
from harness.sources import digest
from harness.store import format_overrides

#: The folder of templates, style sheet and script.
TEMPLATES = Path(str(files("harness_reports") / "templates"))
#: Longest stem of a file name, in characters.
LONGEST = 90
#: most characters of tables and curves, and most charts, that stand on a page: a browser shows it in
#: a second; what is beyond is loaded when it is opened
MOST_ON_PAGE = 450_000
MOST_CHARTS_ON_PAGE = 100


class Pages:
    """A writer of pages below one folder. `profiles`, `methods` and `papers` map each name to the
    stem of its page.
    """

    def __init__(
        self,
        folder: Path,
        profiles: Iterable[str] = (),
        methods: Iterable[str] = (),
        papers: Iterable[str] = (),
        **shared: object,
    ) -> None:
        """Compile templates on first use; all of them see the stems and the `shared` values."""
        self.folder = folder
        self.written: list[str] = []
        self.profiles = make_slugs(profiles)
        self.methods = make_slugs(methods)
        self.papers = make_slugs(papers)
        self._characters_on_page = 0
        self._charts_on_page = 0
        self._environment = make_environment(autoescape=True, finalize=_clean_printed)
        self._environment.filters |= _FILTERS
        self._environment.globals |= {"pages": self, **shared}

    def write(self, template: str, path: str, **content: object) -> None:
        """Write a page at a path below the folder, piece by piece to save memory."""
        self._characters_on_page = 0
        self._charts_on_page = 0
        stream = self._environment.get_template(template).stream(
            root="../" * path.count("/"), here=path, **content
        )
        stream.enable_buffering(200)
        stream.dump(str(self._target(path)), encoding="utf-8")
        self.written.append(path)

    def write_fragment(self, template: str, path: str, **content: object) -> None:
        """Write a part of a page as a script that calls `showFragment` with its HTML, which the page
        loads when it is asked for.
        """
        html = self._environment.get_template(template).render(root="", here="", **content)
        self._put_script(path, _FRAGMENT, json.dumps(html))

    def put_part(self, key: str, html: str) -> str:
        """Write a part of the page that is being written as a fragment, if the page has no room for
        it; the fragment's path below the folder, or an empty text where the part is to stand on the
        page.
        """
        characters = self._characters_on_page + len(html)
        charts = self._charts_on_page + html.count(_CHART_ATTRIBUTE)
        if characters <= MOST_ON_PAGE and charts <= MOST_CHARTS_ON_PAGE:
            self._characters_on_page = characters
            self._charts_on_page = charts
            return ""
        return self._put_script(_name_script("parts", key, html), _FRAGMENT, json.dumps(html))

    def put_chart(self, key: str, spec: Mapping[str, object]) -> str:
        """Write a chart's specification as a script that calls `showChart` with it, which a page
        loads when it draws the chart; its path below the folder.
        """
        text = spec_json(spec)
        return self._put_script(_name_script("charts", key, text), _CHART, text)

    def _put_script(self, path: str, call: str, argument: str) -> str:
        """Write a script that is one call; its path."""
        self.put(path, f"{call}{argument}{_SCRIPT_END}".encode())
        return path

    def has(self, path: str) -> bool:
        """Whether a file has been written at a path."""
        return (self.folder / path).is_file()

    def put(self, path: str, content: bytes) -> None:
        self._target(path).write_bytes(content)

    def _target(self, path: str) -> Path:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        return target


class _CompiledTemplates(BytecodeCache):
    """The compiled templates of this process, which all its reports share."""

    def __init__(self) -> None:
        self._code_of_template = dict[tuple[object, ...], Any]()

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._code_of_template.get(self._key(bucket))

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._code_of_template[self._key(bucket)] = bucket.code

    def _key(self, bucket: Bucket) -> tuple[object, ...]:
        """What compiled code depends on: the template, its text and the options that differ."""
        environment = bucket.environment
        options = (
            environment.autoescape,
            environment.finalize,
            environment.keep_trailing_newline,
        )
        return (bucket.key, bucket.checksum, *options)


_COMPILED = _CompiledTemplates()


def make_environment(**options: Any) -> Environment:
    """Return a jinja environment of the project's templates, in which an undefined name is an
    error.
    """
    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=_COMPILED,
        **options,
    )


def _name_script(folder: str, key: str, text: str) -> str:
    """The path of a script with a text."""
    return f"{folder}/{anchor(key)}-{digest(text)[:8]}.js"


def slug(text: str) -> str:
    """Reduce a text to lower-case ASCII letters, digits, dots and hyphens; never empty, hidden or a
    path.
    """
    # letters lose their accents
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9.]+", "-", plain)[:LONGEST].strip("-.") or "unnamed"


def anchor(key: str) -> str:
    """The id of a part of a page, always the same for a key; it ends in a hash if its slug loses
    part of the key.
    """
    stem = slug(key)
    is_whole = stem == re.sub("[ /]+", "-", key.lower())
    return stem if is_whole else f"{stem}-{digest(key)[:8]}"


def dump_json(value: object) -> str:
    """A value as JSON; control characters in its texts are made visible."""
    text = _dump_value(value)
    if text.isprintable() and not _HIDDEN.search(text):
        return text
    return _dump_value(_make_visible(value))


#: how JSON writes control characters, tabs and line feeds apart
_HIDDEN = re.compile(r"\\[bfru]")


def _dump_value(value: object) -> str:
    return json.dumps(
        value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_make_visible
    )


def spec_json(spec: Mapping[str, object]) -> Markup:
    """A specification as JSON in which no markup can begin or end."""
    return htmlsafe_json_dumps(spec, dumps=dump_json)


def _make_visible(value: object) -> object:
    """A value whose texts, keys too, have their control characters made visible."""
    if isinstance(value, Mapping):
        return {_make_visible(key): _make_visible(inner) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_make_visible(inner) for inner in value]
    return visible(value) if isinstance(value, str) else value


def make_slugs(names: Iterable[str]) -> dict[str, str]:
    """A unique slug for each name, safe on every file system and in links."""
    unique_names = list(dict.fromkeys(names))
    stems = make_unique(map(slug, unique_names))
    return dict(zip(unique_names, stems, strict=True))


def make_unique(stems: Iterable[str]) -> list[str]:
    """Stems of file names in their order; a repeated stem gets a number: `a`, `a--2`."""
    unique_stems: dict[str, None] = {}
    for stem in stems:
        unique = stem
        count = 1
        while unique in unique_stems:
            count += 1
            unique = f"{stem}--{count}"
        unique_stems[unique] = None
    return list(unique_stems)


def minus(text: str) -> str:
    """Give negative numbers a true minus sign; hyphens within names stay."""
    if "-" not in text:  # as in most texts: this is faster than a search
        return text
    return re.sub(r"(?:^|(?<=[\s(\[]))-(?=\d)", "\u2212", text)


def breaks(text: str) -> Markup:
    """Escape a name and let it break before its options and after separators."""
    parts = re.split(r"(?=\[)|(?<=[,=/+_])", minus(visible(text)))
    return Markup("<wbr>").join(parts)


def named(head: LineHead) -> Markup:
    """A name with its code on hover, where it has one."""
    text = breaks(str(head))
    if not isinstance(head, VariantName):
        return text
    return Markup('<span title="{}">{}</span>').format(visible(get_code(head)), text)


#: elements of notes that are wider than a page, and what lets a reader scroll them
_SCROLLED = {
    "<pre>": '<pre tabindex="0">',
    "<table>": '<div class="scroll" tabindex="0"><table class="prose">',
    "</table>": "</table></div>",
}


def convert_notes(text: str, pages: Mapping[str, str]) -> Markup:
    """Convert notes from Markdown to HTML, with tables. `pages` maps the stem of each notes file to
    its page.

    Raw HTML is shown as text. Links to other files are removed, their text stays. Pictures become
    links. The title is removed, since the page has one, and other headings move one level down.
    """
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    tokens = markdown.parse(visible(text))
    if tokens and tokens[0].tag == "h1":
        # the beginning of the title, its text and its end
        tokens = tokens[3:]
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            level = int(token.tag[1]) + 1
            token.tag = f"h{min(6, level)}"
        token.children = _keep_known_links(token.children or [], pages)

    # safe: the parser escapes all text and renders no HTML of the notes
    html = markdown.renderer.render(tokens, markdown.options, {})
    for tag, scrolled in _SCROLLED.items():
        html = html.replace(tag, scrolled)
    return Markup(html)


def _keep_known_links(tokens: Sequence[Token], pages: Mapping[str, str]) -> list[Token]:
    """Remove the links that are neither external nor to a page."""
    kept_tokens = []
    is_link_known = []
    for token in tokens:
        if token.type == "link_open":
            href = str(token.attrGet("href") or "")
            is_external = href.startswith(("https://", "http://"))
            target = href if is_external else pages.get(href.removesuffix(".md"), "")
            is_link_known.append(bool(target))
            token.attrSet("href", target)
        # of a link that is removed, the text stays
        if token.type not in ("link_open", "link_close") or is_link_known[-1]:
            kept_tokens.append(token)
        if token.type == "link_close":
            is_link_known.pop()
    return kept_tokens


def _clean_printed(value: object) -> object:
    """A value that a template prints: plain text has true minus signs, and its control characters
    made visible, before it is escaped.
    """
    if isinstance(value, str) and not isinstance(value, Markup):
        return minus(visible(value))
    return value


def verbatim(text: str) -> Markup:
    """A text to copy, such as a command or a file: escaped, and otherwise as it is."""
    return escape(visible(text))


#: what templates do with a value, by the name that they use
_FILTERS = {
    "about_minutes": about_minutes,
    "anchor": anchor,
    "breaks": breaks,
    "count": count_of,
    "csv": format_csv_table,
    "duration": duration,
    "latex": format_latex_or_comment,
    "minus": minus,
    "name_of": name_of,
    "named": named,
    "overrides": format_overrides,
    "slug": slug,
    "spec_json": spec_json,
    "tone": tone,
    "verbatim": verbatim,
}

#: calls of the scripts that a page loads
_FRAGMENT = "showFragment("
_CHART = "showChart("
_SCRIPT_END = ");\n"


def _read_fragments(folder: Path, paths: Iterable[str]) -> dict[str, str]:
    """The HTML of those parts of a page whose files are there, by their paths."""
    html_by_path: dict[str, str] = {}
    for path in paths:
        if (folder / path).is_file():
            html_by_path[path] = _read_fragment(folder / path)
    return html_by_path


def _read_fragment(path: Path) -> str:
    html: str = json.loads(_read_script(path, _FRAGMENT))
    return html


def _read_script(path: Path, call: str) -> str:
    """The argument of the call that a script is, as JSON."""
    return path.read_text("utf-8").removeprefix(call).removesuffix(_SCRIPT_END)


#: files that a page loads parts of itself from: those that are chosen, those that are opened, and
#: those of charts
_CHOSEN_FILE = re.compile(r'"file":"([^"]+\.js)"')
_OPENED_FILE = re.compile(r' data-part="([^"]+\.js)"')
_CHART_ATTRIBUTE = ' data-chart="'
_CHART_FILE = re.compile(rf'{_CHART_ATTRIBUTE}([^"]+\.js)"')


NAME = "report.html"
#: most bytes of pages, and of figures, in one file: mail servers refuse more than about 25 MB
MOST_PAGES = 8_000_000
MOST_FIGURES = 8_000_000
#: where the content of a page begins and ends
_MAIN = '<main id="main">'
_MAIN_END = "</main>"
_SCRIPTS = ("vega.js", "site.js", "charts.js")
_STYLES = ("style.css", "charts.css")
#: templates escape < and > in all texts, so that this finds whole tags only
_TAG = re.compile(r"<[a-zA-Z][^<>]*>")
_ATTRIBUTE = re.compile(r' (id|href|src)="([^"]*)"')


#: a heading with its permanent link, or the title of a page; and the name of a row
_HEADING = re.compile(r'<h([1-3])>(.*?)(?: <a class="anchor" href="#([^"]*)".*?)?</h\1>', re.DOTALL)
_ROW = re.compile(r'<th scope="row"[^>]*>(.*?)</th>', re.DOTALL)
#: most characters of the names of rows below one heading that a search reads
MOST_ROWS = 2000


def make_search_index(folder: Path, names: Iterable[str]) -> str:
    """A script with the heading, place, page and rows of each part of these pages, for the search
    of a site.
    """
    parts = []
    for name in names:
        title = ""
        for text in _read_with_parts(folder, folder / name):
            headings = list(_HEADING.finditer(text))
            if headings and not title:
                title = _strip_tags(headings[0][2])
            # a part ends where the next one begins
            ends = [heading.start() for heading in headings[1:]]
            for heading, end in zip(headings, [*ends, len(text)], strict=False):
                rows = dict.fromkeys(map(_strip_tags, _ROW.findall(text, heading.end(), end)))
                place = f"{name}#{heading[3]}" if heading[3] else name
                parts.append((_strip_tags(heading[2]), place, title, " ".join(rows)[:MOST_ROWS]))
    return f"takeSearch({dump_json(parts)});\n"


def _read_with_parts(folder: Path, page: Path) -> Iterator[str]:
    """The HTML of a page with what is opened below its own headings, then each piece that is chosen
    there.
    """
    text = page.read_text("utf-8")

    def add_part(attribute: re.Match[str]) -> str:
        return attribute[0] + _read_fragment(folder / attribute[1])

    yield _OPENED_FILE.sub(add_part, text)
    for path in dict.fromkeys(_CHOSEN_FILE.findall(text)):
        if (folder / path).is_file():
            yield _read_fragment(folder / path)


def _strip_tags(html: str) -> str:
    """The text of a piece of HTML."""
    return Markup(html.replace("<span", " <span")).striptags()


def write_one_file(
    folder: Path, names: Sequence[str], footer: str, menu: Sequence[tuple[str, str, str]]
) -> None:
    """Write the pages with these names, in their order, into the file NAME in the folder of a
    report.

    `menu` has a title, the name of its section and a path for each entry; pages not in the file
    have none.
    """
    pages = _read_pages(folder, names)
    figures = _read_figures(folder)
    ids = {}
    for path in pages:
        stem = path.removesuffix(".html")
        ids[path] = "" if stem == "index" else f"page-{anchor(stem)}"

    shown_pages = []
    for path, text in pages.items():
        kind = re.split("[/.]", path)[0]
        shown_pages.append((ids[path], kind, Markup(_move_links(text, path, ids, figures))))

    entries = []
    for title, kind, target in menu:
        path, _, place = target.partition("#")
        if path in ids:
            entries.append((title, kind, _make_id(ids[path], place)))

    scripts = [folder.joinpath(name).read_text("utf-8") for name in _SCRIPTS]
    styles = [folder.joinpath(name).read_text("utf-8") for name in _STYLES]
    template = make_environment(autoescape=True).get_template("one_file.html")
    html = template.render(
        policy=" ".join(map(_hash_script, scripts)),
        styles=list(map(Markup, styles)),
        scripts=list(map(Markup, scripts)),
        pages=shown_pages,
        menu=entries,
        lacking=_list_left_out(folder, len(names), pages, len(figures)),
        footer=footer,
    )
    (folder / NAME).write_text(html, encoding="utf-8")


def _hash_script(script: str) -> str:
    """What a policy of content calls a script that stands in the page: its digest."""
    digest_of = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest_of}'"


def _list_left_out(
    folder: Path, all_pages: int, pages: Mapping[str, str], shown_figures: int
) -> list[str]:
    """What one file has no room for, in words."""
    all_figures = len(list(folder.glob("figures/*.svg")))
    counts = {
        "page": all_pages - len(pages),
        "figure": all_figures - shown_figures,
        "leaderboard": _count_left_out(folder, "boards", pages.values()),
        "folded part": _count_left_out(folder, "parts", pages.values()),
        "chart": _count_left_out(folder, "charts", pages.values()),
    }
    return [f"{count_of(count, kind)} (too large)" for kind, count in counts.items() if count]


def _read_pages(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The content of each page by path, with the parts that it loads, as far as they fit."""
    pages: dict[str, str] = {}
    room = MOST_PAGES
    for name in names:
        text = (folder / name).read_text("utf-8")
        content = text.partition(_MAIN)[2].rpartition(_MAIN_END)[0]
        # the first page is there in any case
        if pages and len(content) > room:
            continue
        pages[name] = _add_loaded(folder, text, content, room)
        room -= len(pages[name])
    return pages


def _add_loaded(folder: Path, text: str, content: str, room: int) -> str:
    """The content of a page and behind it the files that it loads, as far as they fit into a room
    in characters.
    """
    paths = [*_CHOSEN_FILE.findall(text), *_OPENED_FILE.findall(text)]
    for path, html in _read_fragments(folder, paths).items():
        if len(content) + len(html) <= room:
            content += f'<template class="fragment" data-file="{path}">{html}</template>'

    # parts have charts too
    for path in dict.fromkeys(_CHART_FILE.findall(content)):
        spec = _read_script(folder / path, _CHART)
        if len(content) + len(spec) <= room:
            content += f'<script type="application/json" data-file="{path}">{spec}</script>'
    return content


def _count_left_out(folder: Path, kind: str, pages: Iterable[str]) -> int:
    """The number of parts of pages in files of a kind that do not stand in the pages."""
    files = {path.relative_to(folder).as_posix() for path in folder.glob(f"{kind}/*.js")}
    for content in pages:
        files -= set(_KEPT_FILE.findall(content))
    return len(files)


#: a file whose content stands in a page
_KEPT_FILE = re.compile(r' data-file="([^"]+\.js)"')


def _read_figures(folder: Path) -> dict[str, str]:
    """The figures as data URLs by path, smallest first, as far as they fit."""
    figures: dict[str, str] = {}
    size = 0
    for path in sorted(folder.glob("figures/*.svg"), key=lambda path: path.stat().st_size):
        size += path.stat().st_size
        if size <= MOST_FIGURES:
            content = base64.b64encode(path.read_bytes()).decode()
            figures[path.relative_to(folder).as_posix()] = f"data:image/svg+xml;base64,{content}"
    return figures


def _move_links(text: str, path: str, ids: Mapping[str, str], figures: Mapping[str, str]) -> str:
    """A page's content for the one file: the ids of its parts begin with that of the page, links
    point to the new ids, and figures are embedded.
    """

    def move_attribute(match: re.Match[str]) -> str:
        """An attribute as the one file has it; empty if it leads to what is not there."""
        name = match[1]
        value = match[2]
        if name == "id":
            return f' id="{_make_id(ids[path], value)}"'
        link = urlsplit(value)
        if link.scheme:
            return match[0]

        target = path
        if link.path:
            folder = posixpath.dirname(path)
            target = posixpath.normpath(posixpath.join(folder, unquote(link.path)))
        if name == "src":
            return f' src="{figures[target]}"' if target in figures else ""
        # a link to what is not in the file is none
        if target not in ids or link.query:
            return ""
        return f' href="#{_make_id(ids[target], link.fragment)}"'

    return _TAG.sub(lambda tag: _ATTRIBUTE.sub(move_attribute, tag[0]), text)


def _make_id(page: str, name: str) -> str:
    """The id of a part of a page; without a name, that of the page itself."""
    return "--".join(filter(None, (page, name))) or "top"
