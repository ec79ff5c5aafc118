"""Names of pages: plain and unique."""

from __future__ import annotations

import re

import pytest
from builders import result
from site_samples import EVIL, LONG

from harness.reporting.site.names import LONGEST, run_names, slug, slugs


@pytest.mark.parametrize("text", [*EVIL, LONG, "", "..", "/", ".hidden", "CON", "a/b\\c:d", "\x00\n"])
def test_a_slug_is_a_plain_name(text: str) -> None:
    assert re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", slug(text))
    assert len(slug(text)) <= LONGEST


def test_names_that_look_alike_have_pages_of_their_own() -> None:
    assert list(slugs(["a b", "a/b", "A-B", "a b"]).values()) == ["a-b", "a-b--2", "a-b--3"]
    twice = result("mcse", 1)
    names = run_names([twice, twice, result("mcse", 2)])
    assert len(set(names)) == 3
