"""Notes on methods as HTML."""

from __future__ import annotations

import re

from harness.reporting.site.notes import notes_html


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
