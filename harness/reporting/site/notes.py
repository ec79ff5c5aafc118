"""Notes in Markdown as HTML: tables and links to other methods' notes; raw HTML is shown as text."""

from __future__ import annotations

from collections.abc import Mapping

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

_EXTERNAL = ("https://", "http://")


def notes_html(text: str, pages: Mapping[str, str]) -> Markup:
    """The HTML of notes; `pages` maps the stem of a notes file to the page that a link to it leads to.

    A link to anything else within a folder is dropped, its text stays. Pictures become links. The notes' title is
    dropped too, since the page has one; other headings are one level down.
    """
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    tokens = _lowered(markdown.parse(text))
    for token in tokens:
        if token.children:
            token.children = _linked(token.children, pages)
    tables = markdown.renderer.render(tokens, markdown.options, {})
    # Safe: the parser has escaped all text and renders no HTML of the notes.
    tables = tables.replace("<table>", '<div class="scroll" tabindex="0"><table class="prose">')
    return Markup(tables.replace("</table>", "</table></div>"))


def _lowered(tokens: list[Token]) -> list[Token]:
    if tokens and tokens[0].tag == "h1":
        tokens = tokens[3:]
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + 1)}"
    return tokens


def _linked(tokens: list[Token], pages: Mapping[str, str]) -> list[Token]:
    kept, open_links = [], []
    for token in tokens:
        if token.type == "link_open":
            href = str(token.attrGet("href") or "")
            target = href if href.startswith(_EXTERNAL) else pages.get(href.removesuffix(".md"), "")
            open_links.append(bool(target))
            token.attrSet("href", target)
        drop = token.type in ("link_open", "link_close") and not open_links[-1]
        if token.type == "link_close":
            open_links.pop()
        if not drop:
            kept.append(token)
    return kept
