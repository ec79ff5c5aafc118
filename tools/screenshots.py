"""Screenshots of a report of results/reference, for the documentation.

python tools/screenshots.py CHROMIUM   # the path of the browser; writes docs/screenshots/*.png
"""

from __future__ import annotations

import sys
import tempfile
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

import harness

DOCS = Path(__file__).resolve().parents[1] / "docs"
OUT = DOCS / "screenshots"
#: file name, page, place on it, width, height, theme
SHOTS = (
    ("overview", "index.html", "", 1100, 1000, "light"),
    ("overview-dark", "index.html", "", 1100, 1000, "dark"),
    ("overview-390", "index.html", "", 390, 780, "light"),
    ("sweep", "profiles/tiny.html", "#sweep-tiny-sts-lambda-toy-toy-bert", 1100, 520, "light"),
    ("sweep-dark", "profiles/tiny.html", "#sweep-tiny-sts-lambda-toy-toy-bert", 1100, 520, "dark"),
    ("curves", "profiles/tiny.html", "#curves-toy-toy-bert", 1100, 1000, "light"),
    ("curves-dark", "profiles/tiny.html", "#curves-toy-toy-bert", 1100, 1000, "dark"),
    ("curves-390", "profiles/tiny.html", "#curves-toy-toy-bert", 390, 780, "dark"),
    ("heat", "profiles/small.html", "", 1100, 900, "light"),
    ("print", "profiles/small.html", "#small-sts", 1000, 620, "print"),
    ("table-390", "profiles/tiny.html", "#tiny-sts", 390, 780, "light"),
)


def shoot(page: Page, at: str) -> None:
    """Open an address, and wait until its charts are drawn."""
    page.goto(at)
    page.wait_for_timeout(2500)


def main() -> None:
    """Write a report into a temporary folder and take all screenshots of it."""
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        report = harness.report(DOCS.parent / "results" / "reference", Path(folder) / "report")
        browser = playwright.chromium.launch(executable_path=sys.argv[1])
        for name, file, place, width, height, theme in SHOTS:
            page = browser.new_page(viewport={"width": width, "height": height})
            page.emulate_media(color_scheme=None if theme == "print" else theme)
            shoot(page, (report.page.parent / file).as_uri() + place)
            if theme == "print":
                page.emulate_media(media="print")
                page.evaluate("(id) => document.querySelector(id).scrollIntoView()", place)
            picture = Image.open(BytesIO(page.screenshot()))
            picture.convert("RGB").quantize(64).save(OUT / f"{name}.png", optimize=True)
            page.close()


if __name__ == "__main__":
    main()
