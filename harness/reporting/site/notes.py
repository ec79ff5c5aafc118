"""Notes on methods: Markdown to HTML, with tables and links between notes. Raw HTML is shown as text."""

from __future__ import annotations

from collections.abc import Mapping

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

_EXTERNAL = ("https://", "http://")


def notes_html(text: str, pages: Mapping[str, str]) -> Markup:
    """Convert notes to HTML. `pages` maps the stem of each notes file to its page.

    Links to other files are removed, their text stays. Pictures become links. The title is removed, since the page has
    one, and other headings move one level down.
    """
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    tokens = _lowered(markdown.parse(text))
    for token in tokens:
        if token.children:
            token.children = _linked(token.children, pages)
    tables = markdown.renderer.render(tokens, markdown.options, {})
    # safe: the parser escapes all text and renders no HTML of the notes
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
