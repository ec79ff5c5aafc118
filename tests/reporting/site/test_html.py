"""Names of pages are plain and unique; notes on methods become safe HTML."""

from __future__ import annotations

import re

import pytest
from builders import result
from site_samples import EVIL, LONG

from harness.reporting.pages import LONGEST, notes_html, slug, slugs
from harness.reporting.sections.runs import run_names


@pytest.mark.parametrize("text", [*EVIL, LONG, "", "..", "/", ".hidden", "CON", "a/b\\c:d", "\x00\n"])
def test_a_slug_is_a_plain_name(text: str) -> None:
    assert re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", slug(text))
    assert len(slug(text)) <= LONGEST


def test_names_that_look_alike_have_pages_of_their_own() -> None:
    assert list(slugs(["a b", "a/b", "A-B", "a b"]).values()) == ["a-b", "a-b--2", "a-b--3"]
    twice = result("mcse", 1)
    names = run_names([twice, twice, result("mcse", 2)])
    assert len(set(names)) == 3


def test_notes_show_html_as_text_and_keep_known_links_only() -> None:
    links = "[a](javascript:alert(1)) [b](mcse.md) [c](../x.md) [d](https://a.b) ![e](f.png)"
    text = f"# T\n\n## S\n\n<b>x</b> {links}\n\n|a|\n|-|\n|1|\n"
    found = str(notes_html(text, {"mcse": "mcse.html"}))
    assert re.findall(r'href="(.*?)"', found) == ["mcse.html", "https://a.b"]
    assert "&lt;b&gt;x&lt;/b&gt;" in found
    assert "<img" not in found
    assert "<h1" not in found
    assert "<h3>S</h3>" in found
    assert '<div class="scroll" tabindex="0"><table class="prose">' in found
