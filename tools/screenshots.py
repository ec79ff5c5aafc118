"""Screenshots of a report by the browser CHROMIUM, for the documentation: all of them, and the
numbers that they show in `numbers.json`, from the same results.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import click
from PIL import Image

import harness
from harness.reporting.contents import Contents
from harness.reporting.sections.leaderboard import LeaderboardSection
from harness.reporting.sections.questions import QuestionPage, QuestionsSection
from harness.reporting.tables.grids import Grid, make_summary_grid
from harness.store import Store

if TYPE_CHECKING:
    from playwright.sync_api import Browser

DOCS = Path(__file__).resolve().parents[1] / "docs"
OUT = DOCS / "screenshots"
NUMBERS = OUT / "numbers.json"
RESULTS = DOCS.parent / "results" / "reference"
#: milliseconds that a loaded machine may take for a page, and that a page takes to settle
PATIENCE = 600_000
SETTLING = 1500


class Shot(NamedTuple):
    """A picture: the page, the place on it, its size in pixels, and the theme."""

    page: str
    place: str
    width: int
    height: int
    theme: Literal["light", "dark", "print"]


#: the page of the question that the README speaks of, wherever in a report it is
ANSWER = "answer-small-wiki-flickr8k-all-minilm-l6-v2"
SWEEP = "#sweep-tiny-sts-lambda-toy-toy-bert"
CURVES = "#curves-toy-toy-bert"
SHOTS = {
    "answer": Shot(ANSWER, "", 1440, 900, "light"),
    "answer-390": Shot(ANSWER, "", 390, 1000, "light"),
    "overview": Shot("overview.html", "#leaderboard", 1280, 1000, "light"),
    "sweep": Shot("profiles/tiny.html", SWEEP, 1100, 520, "light"),
    "sweep-dark": Shot("profiles/tiny.html", SWEEP, 1100, 520, "dark"),
    "curves": Shot("profiles/tiny.html", CURVES, 1100, 1000, "light"),
    "curves-dark": Shot("profiles/tiny.html", CURVES, 1100, 1000, "dark"),
    "curves-390": Shot("profiles/tiny.html", CURVES, 390, 780, "dark"),
    "heat": Shot("profiles/small.html", "", 1100, 900, "light"),
    "print": Shot("profiles/small.html", "#small-sts", 1000, 620, "print"),
    "table-390": Shot("profiles/tiny.html", "#tiny-sts", 390, 780, "light"),
}


def collect_numbers(results: Path = RESULTS) -> dict[str, list[str]]:
    """The numbers that the pictures show, by the page and the part of it."""
    contents = Contents.of(Store(results))
    numbers = {
        ANSWER: list_answer_numbers(find_answer_page(contents)),
        "overview.html": _list_leaderboard_numbers(contents),
        "profiles/tiny.html#tiny-sts": _list_table_numbers(contents, "tiny"),
        f"profiles/tiny.html{CURVES}": _list_last_dev_scores(contents),
        "profiles/small.html#small-sts": _list_table_numbers(contents, "small"),
    }
    return {place: list(lines) for place, lines in numbers.items()}


def find_answer_page(contents: Contents) -> QuestionPage:
    """The page of the question that the README speaks of. Raises LookupError without one."""
    pages = QuestionsSection("questions", contents).pages
    for page in pages:
        if page.key == ANSWER:
            return page
    raise LookupError(f"no question is {ANSWER}: {', '.join(page.key for page in pages)}")


def list_answer_numbers(page: QuestionPage) -> Iterator[str]:
    """What the page of a question says: the answer, the rows of its figure, its checks, and the next
    run.
    """
    yield page.question.verdict
    yield from page.question.sentences
    for row in page.standings.rows:
        score = page.question.score_text(row.cell)
        yield f"{row.rank} {row.name}: {score}; {row.difference}"
    for check in page.checks:
        yield f"{check.mark} {check.about}: {check.text}"
    if page.next_run:
        yield f"{page.next_run.decides} {page.next_run.command}"
    yield page.sentence


def _list_leaderboard_numbers(contents: Contents) -> Iterator[str]:
    """The first leaderboard: its sentence, and each method with its score and gain."""
    board = LeaderboardSection("leaderboard", contents).boards[0]
    yield board.sentences[0].text
    for entries in board.methods:
        gain, test = board.words[entries[0].number]
        yield f"{entries[0].gain.name}: {entries[0].score}; {gain}; {test}"


def _list_table_numbers(contents: Contents, profile: str) -> Iterator[str]:
    """The lines of a profile's table of STS, which its charts show too."""
    for table in contents.tables:
        if (table.profile, table.suite) == (profile, "sts"):
            yield from _list_lines(make_summary_grid(table))


def _list_lines(grid: Grid) -> Iterator[str]:
    for section in grid.sections:
        for line in section.lines:
            heads = [str(head) for head in line.heads]
            cells = [str(cell) for cell in line.cells]
            yield f"{section.title}: {', '.join(heads)}: {'; '.join(cells)}"


def _list_last_dev_scores(contents: Contents) -> Iterator[str]:
    """Where the curves of the toy world end: the mean over seeds of each variant."""
    runs = contents.frames.runs
    place = (runs["profile"] == "tiny") & (runs["setting"] == "toy")
    ends = runs[place & (runs["encoder"] == "toy-bert")].astype({"variant": str})
    for variant, mean in ends.groupby("variant")["last_dev"].mean().items():
        yield f"{variant}: {mean:.2f}"


def read_numbers() -> Mapping[str, Sequence[str]]:
    """The numbers that were written with the pictures."""
    numbers: Mapping[str, Sequence[str]] = json.loads(NUMBERS.read_text("utf-8"))
    return numbers


@click.command(help=__doc__)
@click.argument("chromium", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=OUT,
    help="A folder other than docs/screenshots.",
)
def main(chromium: str, out: Path) -> None:
    """Write a report into a temporary folder, take screenshots of it, and write their numbers."""
    from playwright.sync_api import sync_playwright

    out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        report = harness.report(RESULTS, Path(folder) / "report")
        pages = report.page.parent
        answer = find_answer_page(Contents.of(Store(RESULTS))).path
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, shot in SHOTS.items():
            page = pages / (answer if shot.page == ANSWER else shot.page)
            picture = take_screenshot(browser, page, shot)
            picture.convert("RGB").quantize(64).save(out / f"{name}.png", optimize=True)

    numbers = json.dumps(collect_numbers(RESULTS), indent=1, ensure_ascii=False)
    (out / NUMBERS.name).write_text(f"{numbers}\n", encoding="utf-8")


def take_screenshot(browser: Browser, page: Path, shot: Shot) -> Image.Image:
    """A picture of a page of a report, once its charts are drawn."""
    tab = browser.new_page(viewport={"width": shot.width, "height": shot.height})
    tab.emulate_media(color_scheme=None if shot.theme == "print" else shot.theme)
    tab.set_default_timeout(PATIENCE)
    tab.goto(page.as_uri() + shot.place)
    tab.wait_for_selector("html[data-charts=drawn]")
    tab.wait_for_timeout(SETTLING)

    if shot.theme == "print":
        tab.emulate_media(media="print")
        tab.evaluate("(id) => document.querySelector(id).scrollIntoView()", shot.place)
    picture = Image.open(BytesIO(tab.screenshot()))
    tab.close()
    return picture


if __name__ == "__main__":
    main()
