"""Screenshots of a report by the browser CHROMIUM, for the documentation."""

from __future__ import annotations

import tempfile
from io import BytesIO
from pathlib import Path
from typing import Literal

import click
from PIL import Image
from playwright.sync_api import Page, sync_playwright

import harness

DOCS = Path(__file__).resolve().parents[1] / "docs"
OUT = DOCS / "screenshots"
#: file name, page, place on it, width, height, theme
SHOTS: tuple[tuple[str, str, str, int, int, Literal["light", "dark", "print"]], ...] = (
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


@click.command(help=__doc__)
@click.argument("chromium", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=OUT,
    help="A folder other than docs/screenshots.",
)
@click.option(
    "--results",
    default=DOCS.parent / "results" / "reference",
    help="Results other than results/reference.",
)
@click.option("--only", help="The name of one picture; default: all.")
def main(chromium: str, out: Path, results: Path, only: str | None) -> None:
    """Write a report into a temporary folder and take screenshots of it."""
    out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        report = harness.report(results, Path(folder) / "report")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, file, place, width, height, theme in SHOTS:
            if only not in (None, name):
                continue
            page = browser.new_page(viewport={"width": width, "height": height})
            page.emulate_media(color_scheme=None if theme == "print" else theme)
            shoot(page, (report.page.parent / file).as_uri() + place)
            if theme == "print":
                page.emulate_media(media="print")
                page.evaluate("(id) => document.querySelector(id).scrollIntoView()", place)
            picture = Image.open(BytesIO(page.screenshot()))
            picture.convert("RGB").quantize(64).save(out / f"{name}.png", optimize=True)
            page.close()


if __name__ == "__main__":
    main()
