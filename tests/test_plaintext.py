"""Texts of others as plain text: what a terminal, a spreadsheet, Markdown and LaTeX would obey is
shown instead.
"""

from __future__ import annotations

import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from harness.formatting import (
    LONGEST_WORD,
    for_csv,
    for_latex,
    for_markdown,
    from_markdown,
    one_line,
    visible,
)

TEXTS = st.text(st.characters(), max_size=30)
HOSTILE = st.text(
    st.sampled_from("\x1b]0;\x07\x9b\u202e\r\n\t=+-@|*_`#[]()<>&\\{}$%^~!. :/wx1"), max_size=30
)


@given(TEXTS | HOSTILE)
def test_no_control_character_is_left(text: str) -> None:
    cleaned = visible(text)
    assert not {char for char in cleaned if unicodedata.category(char) in ("Cc", "Cs")} - {
        "\n",
        "\t",
    }
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", cleaned)
    assert visible(cleaned) == cleaned
    assert len(one_line(text).splitlines()) <= 1


def test_escapes_are_readable_and_other_scripts_stay() -> None:
    assert (
        visible("a\x1b[31mred\x07 \u202eabc\ud800\r\n中é\tx")
        == "a\\x1b[31mred\\x07 \\u202eabc\\ud800\n中é\tx"
    )
    assert one_line(" two\n  lines ") == "two lines"
    assert one_line("a" * LONGEST_WORD + " b") == "a" * LONGEST_WORD + " b"
    assert len(one_line("see " + "a" * 5000 + " there")) < LONGEST_WORD


@given(HOSTILE)
def test_markdown_renders_as_the_text_itself(text: str) -> None:
    html = MarkdownIt("gfm-like", {"linkify": False}).render(f"| {for_markdown(text)} |\n| --- |\n")
    assert not re.search(r"<(?!/?(table|thead|tbody|tr|th)\b)", html), html
    assert html.count("<th>") <= 1


@given(HOSTILE)
def test_a_terminal_shows_of_markdown_the_text_itself(text: str) -> None:
    assert from_markdown(for_markdown(text)) == " ".join(visible(text).split())


def test_markdown_has_no_links_and_no_cells_and_latex_prints_what_it_can() -> None:
    assert for_markdown("x_y*z`[w](v)|u\nt") == r"x\_y\*z\`\[w\](v)\|u t"
    assert for_markdown("see https://x.y or www.x.y") == "see https&#58;//x.y or www&#46;x.y"
    assert for_latex("é中\n\x1b") == "éU+4E2D U+001B"
    assert for_latex(r"\input{x}") == r"\textbackslash{}input\{x\}"


def test_a_formula_is_a_text_to_a_spreadsheet_and_a_number_a_number() -> None:
    for text in (
        "=1+1",
        "+x",
        "-x",
        "@x",
        "\t=1",
        "=cmd|' /C calc'!A0",
        "-1 to x",
        "-1+cmd",
        "-1, =1",
        "-inf to 1",
    ):
        assert for_csv(text) == f"'{text}"
    for value in (-1.5, 3, None, "-1.5", "+2e3", "0 1 2", "-0.47 to 0.45", "-1 to -0.5, 3 seeds"):
        assert for_csv(value) == value
