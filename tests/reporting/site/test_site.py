"""The report in a real browser: every kind of page opens from disk, sorts, filters, copies and fits
a phone.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import over_seeds, result, sts
from site_samples import EVIL, rendered

from harness.evaluation.suites import list_pairs
from harness.reporting import pages
from harness.reporting.build import render
from harness.reporting.contents import Contents
from harness.reporting.sections import runs
from harness.store import Store
from harness.toy.tasks import TOY_RETRIEVAL, TOY_STS

playwright = pytest.importorskip(
    "playwright.sync_api", reason="no page is opened; install the extra dev"
)
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no page is opened; install chromium, such as by apt-get"
)

KINDS = [f"{name}.html" for name in ("index", "overview", "audit", "seen", "tuned", "runs/index")]
KINDS += [f"{name}.html" for name in ("profiles/tiny", "papers/mcse", "methods/mcse")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


class Watched:
    """A page that remembers what went wrong in it."""

    def __init__(self, page: Any, site: Path) -> None:
        self.page, self.site, self.wrong = page, site, []
        page.on("console", lambda message: self.wrong.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("requestfailed", self._failed)
        page.on(
            "request",
            lambda request: request.url.startswith("file:") or self.wrong.append(request.url),
        )
        page.on(
            "dialog",
            lambda dialog: (self.wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()),
        )

    def _failed(self, request: Any) -> None:
        if request.failure != "net::ERR_ABORTED":  # by leaving the page
            self.wrong.append(f"{request.failure}: {request.url}")

    def open(self, name: str, query: str = "") -> Any:
        path, mark, key = name.partition("?")
        self.page.goto((self.site / path).as_uri() + mark + key + query)
        return self.page


@pytest.fixture
def watched(browser: Any, site: Path) -> Iterator[Watched]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    watched = Watched(context.new_page(), site)
    yield watched
    context.close()
    assert watched.wrong == []


def run_page(site: Path, stem: str = "mcse") -> str:
    return f"runs/run.html?{min(path.stem for path in (site / 'runs').glob(f'{stem}-*.js'))}"


def shown(page: Any, table: str, column: int) -> list[str]:
    return page.evaluate(
        "([table, column]) => [...document.querySelector(table).querySelectorAll('tbody tr:not(.section)')]"
        ".filter((row) => row.offsetParent).map((row) => row.cells[column].innerText)",
        [table, column],
    )


TASKS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")


@pytest.fixture(scope="module")
def board_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of two settings with a heat map each, and gains of which one is significant only
    alone.
    """
    scores = {
        "simcse": [70.0, 70.4, 70.8],
        "mcse": [71.2, 71.6, 72.0],
        "mcse[lambda=1]": [60.0, 60.2, 60.3],
    }
    scores |= {"dalr": [70.1, 70.4, 70.7], "kdmcse": [70.1, 70.4, 70.8]}
    results = [
        result(
            name, seed, sts(**{task: value + at for at, task in enumerate(TASKS)}), setting=setting
        )
        for setting in ("toy", "wiki")
        for name, values in scores.items()
        for seed, value in enumerate(values)
    ]
    return rendered(tmp_path_factory.mktemp("boards") / "out", results).parent


@pytest.mark.parametrize(
    ("widths", "every"), [((390,), 9), pytest.param((390, 768), 3, marks=pytest.mark.long)]
)
def test_every_page_opens_without_a_complaint_and_fits_a_phone(
    watched: Watched, site: Path, board_site: Path, widths: tuple[int, ...], every: int
) -> None:
    runs = [f"runs/run.html?{path.stem}" for path in sorted((site / "runs").glob("*-*.js"))]
    assert len(runs) > 10
    boards = (
        (board_site, width, ("index.html", "overview.html", "profiles/tiny.html"))
        for width in widths
    )
    for where, width, names in ((site, 390, (*KINDS, *runs[::every])), *boards):
        watched.site = where
        watched.page.set_viewport_size({"width": width, "height": 844})
        for name in names:
            page = watched.open(name)
            if page.locator("figure.plot").count():
                page.wait_for_selector("html[data-charts=drawn]")
                assert (
                    page.locator(".view svg.marks").count() == page.locator("figure.plot").count()
                ), name
            assert page.locator("h1").count() == 1, name
            assert page.locator("main").inner_text().strip(), name
            ids = page.evaluate(
                "[...document.querySelectorAll('main [id]:not(svg *)')].map((one) => one.id)"
            )
            assert len(set(ids)) == len(ids), name
            page.evaluate(
                "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
            )
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name


#: texts whose colour has less than 4.5 to 1 on what is behind them (WCAG 2.2, level AA; 3 to 1 if
#: large), as lines
FAINT = """() => {
  const context = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
  const layers = (one) => one ? [...layers(one.parentElement), getComputedStyle(one).backgroundColor] : ["white"];
  const painted = (colours) => {
    for (const colour of colours) { context.fillStyle = colour; context.fillRect(0, 0, 1, 1); }
    return [...context.getImageData(0, 0, 1, 1).data.slice(0, 3)];
  };
  const light = (colour) => colour
    .map((part) => part / 255)
    .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const texts = [...document.querySelectorAll("body *")].filter((one) =>
    [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()) &&
    one.checkVisibility() && !one.closest("svg"));
  return texts.filter((one) => {
    const style = getComputedStyle(one), behind = layers(one);
    const two = [painted(behind), painted([...behind, style.color])].map(light);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    return (Math.max(...two) + 0.05) / (Math.min(...two) + 0.05) < (large ? 3 : 4.5);
  }).map((one) => `${one.tagName}.${one.className}: ${one.textContent.trim().slice(0, 40)}`);
}"""


@pytest.mark.long
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_can_be_read_in_both_themes(
    watched: Watched, board_site: Path, site: Path, theme: str
) -> None:
    watched.page.emulate_media(color_scheme=theme)
    for where, names in (
        (board_site, ("index.html", "overview.html", "profiles/tiny.html")),
        (site, ("index.html", "papers/mcse.html", "runs/index.html", run_page(site))),
    ):
        watched.site = where
        for name in names:
            assert watched.open(name).evaluate(FAINT) == [], (name, theme)
    watched.page.evaluate(
        "document.querySelector('h1').style.color = '#888'; document.body.style.background = '#777'"
    )
    assert any(line.startswith("H1") for line in watched.page.evaluate(FAINT)), (
        "what is faint is found"
    )


@pytest.mark.long
def test_the_first_page_answers_on_the_first_screen_and_fits_every_width(
    watched: Watched, board_site: Path
) -> None:
    watched.site = board_site
    for width in (390, 768, 1280, 1440):
        watched.page.set_viewport_size({"width": width, "height": 900})
        page = watched.open("index.html")
        page.wait_for_selector("html[data-charts=drawn]")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator(".view").evaluate("(one) => one.scrollWidth <= one.clientWidth"), width
    for part in (".verdict", ".evidence .view", "#trust", "#next"):
        box = page.locator(part).bounding_box()
        assert box["y"] + box["height"] <= 900, part
    drawn = page.locator(".view svg").first.text_content()
    assert "DALR" in drawn
    assert "rank" in drawn
    assert len(page.locator("main").inner_text().split()) <= 600
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= 1440


@pytest.mark.long
def test_a_printed_page_has_its_headings_marks_plots_and_columns(
    watched: Watched, board_site: Path
) -> None:
    watched.site = board_site
    watched.page.set_viewport_size({"width": 1000, "height": 700})
    for name in ("overview.html", "profiles/tiny.html"):
        page = watched.open(name)
        page.wait_for_selector("html[data-charts=drawn]")
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.locator(".view svg.marks").first.is_visible()
        for text in ("STS12", "Avg") if name != "overview.html" else ("rank", "minutes"):
            assert (
                page.locator("thead th", has_text=text).first.inner_text().strip().startswith(text)
            ), name
        cut = "(all) => all.filter((one) => one.getBoundingClientRect().right > innerWidth + 1).length"
        assert page.locator("td, svg.marks").evaluate_all(cut) == 0, name
        page.emulate_media(media="screen")
    page.emulate_media(media="print")
    over = page.locator(".marks b").evaluate_all(
        "(all) => all.map((one) => one.getBoundingClientRect().right - one.closest('td').getBoundingClientRect().right)"
    )
    assert over, "there are marks"
    assert max(over) <= 0, "a mark has its place within its cell"


@pytest.mark.long
def test_the_leaderboard_fits_with_eight_columns_and_shows_the_others_by_choice(
    watched: Watched, board_site: Path
) -> None:
    watched.site = board_site
    page = watched.open("overview.html")
    board = page.locator(".board:visible")
    scroll = board.locator(".scroll:has(> .leaders)")
    assert board.locator(".leaders thead th:visible").count() == 8
    assert scroll.evaluate("(one) => one.scrollWidth <= one.clientWidth"), "at 1,280 px"
    board.get_by_text("Columns", exact=True).click()
    board.get_by_role("checkbox", name="peak MB").check()
    board.get_by_role("checkbox", name="seeds").uncheck()
    link = "#leaderboard?hide=seeds&show=peak+MB"
    assert page.evaluate("location.hash") == link
    page = watched.open("index.html")
    page = watched.open("overview.html", link)
    shown = board.locator(".leaders thead th:visible").all_inner_texts()
    assert "peak MB" in shown
    assert "seeds" not in shown
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_leaderboard_unfolds_and_its_choices_are_kept_in_the_address(
    watched: Watched, board_site: Path
) -> None:
    watched.site = board_site
    page = watched.open("overview.html")
    assert page.locator(".board:visible").count() == 1
    variant = page.locator(".board:visible tr.variant")
    assert not variant.is_visible()
    page.get_by_role("button", name="1 variant").first.click()
    assert variant.is_visible(), "variants fold below their method"
    page.locator("select[name=setting]").select_option("wiki")
    page.locator("select[name=baseline]").select_option("MCSE")
    row = page.locator(".board:visible tr.method", has_text="DALR")
    assert "worse" in row.inner_text()
    row.get_by_role("button", name="Compare").click()
    page.locator(".board:visible tr.method", has_text="KDMCSE").get_by_role(
        "button", name="Compare"
    ).click()
    pair = page.locator(".board:visible .pair")
    playwright.expect(pair.locator("figure.plot svg.marks").first).to_be_visible()
    said = pair.inner_text()
    assert "No significant difference between kdmcse and dalr" in said
    assert "permutation test" in said
    differ = (
        pair.locator("h5", has_text="Values that differ")
        .locator("+ .scroll tbody th")
        .all_inner_texts()
    )
    assert "variant" in differ
    assert "encoder" not in differ, "values that both share are left out"
    assert (
        pair.bounding_box()["y"] < page.locator(".board:visible table.leaders").bounding_box()["y"]
    )
    address = page.url
    assert address.endswith("&open=mcse&compare=dalr&compare=kdmcse"), "rows stand in it by name"
    link = page.locator(".board:visible > h3 .anchor").get_attribute("href")
    assert {*address.partition("?")[2].split("&")} < {*link.partition("?")[2].split("&")}
    assert "profile=tiny" in link, "also choices that nobody changed"
    page.goto("about:blank")
    page.goto(address)
    assert page.locator(".board:visible").get_attribute("data-setting") == "wiki"
    assert page.locator("select[name=baseline]").input_value() == "MCSE"
    playwright.expect(pair.locator("figure.plot svg.marks").first).to_be_visible()
    assert pair.inner_text() == said
    assert variant.is_visible()
    board = page.locator(".board:visible")
    board.get_by_role("searchbox").fill("lambda")
    assert board.locator(".leaders tbody tr:visible th").all_inner_texts() == ["MCSE, λ = 1"], (
        "codes are searched too"
    )
    board.get_by_text("Columns", exact=True).click()
    board.get_by_role("checkbox", name="minutes").uncheck()
    assert not board.locator("thead th", has_text="minutes").is_visible()
    assert {"filter=lambda", "hide=minutes+%28this+machine%29"} <= {*page.url.split("&")}
    board.get_by_role("searchbox").fill("")
    assert board.locator(".leaders tbody tr:visible").count() == len(
        ("mcse", "its variant", "simcse", "dalr", "kdmcse")
    )

    page.set_viewport_size({"width": 390, "height": 844})
    code = f"kdmcse[{'lambda=0.101,' * 6}steps=600]"
    for place in (pair.locator("p").first, pair.locator("td").first):
        place.evaluate("(one, text) => { one.textContent = text; }", code)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390, "long codes break"
    tests = pair.locator(".scroll").first
    assert tests.evaluate("(one) => one.scrollWidth <= one.clientWidth"), "results are in their box"


@pytest.fixture(scope="module")
def full_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report whose pages have no room for tables, curves and a list of nine runs."""
    out = tmp_path_factory.mktemp("full") / "out"
    store = Store(out.parent / "nowhere")
    results = []
    for name in ("simcse", "mcse", "dalr"):
        results += over_seeds(name, [70.0, 71.0, 72.0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "MOST_ON_PAGE", 0)
        patch.setattr(runs, "MOST_LINES", 8)
        return render(Contents(store, results), out, one_file=True).parent


@pytest.mark.long
def test_a_part_without_room_on_its_page_is_loaded_when_it_is_opened(
    watched: Watched, full_site: Path
) -> None:
    watched.site = full_site
    for name in ("profiles/tiny.html", "report.html#page-profiles-tiny"):
        path, mark, place = name.partition("#")
        page = watched.open(path, mark + place)
        tables = page.locator("table.data:visible")
        charts = page.locator("#curves figure.plot, [id$=--curves] figure.plot")
        summaries = page.locator("[data-part]:visible > summary")
        assert tables.count() == 0
        assert charts.count() == 0
        parts = summaries.count()
        assert parts > 1
        summaries.filter(has_text="Table with 3 rows").first.click()
        playwright.expect(tables).to_have_count(1)
        assert tables.locator("thead button").first.is_visible(), "columns can be sorted"
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert summaries.count() == parts - 1, "printing loads nothing"
        page.emulate_media(media="print")
        note = "(one) => getComputedStyle(one, '::after').content"
        assert "not printed" in summaries.first.evaluate(note)
        page.emulate_media(media="screen")
        page.get_by_role("button", name="Load all").click()
        playwright.expect(summaries).to_have_count(0)
        playwright.expect(charts.locator("svg.marks").first).to_be_visible()
        assert page.locator(".legend button:visible").count() > 1

    page = watched.open("profiles/tiny.html", "#tiny-sts?sort=ToySTS&order=ascending")
    head = page.locator("#tiny-sts th[aria-sort=ascending]")
    playwright.expect(head).to_contain_text("ToySTS")

    page = watched.open("runs/index.html", "?filter=dalr+toy")
    page.locator("tbody a").first.click()
    find = page.get_by_role("searchbox", name="Filter")
    playwright.expect(find).to_have_value("dalr toy")
    assert page.locator("tbody tr:visible").count() == 3

    index = (full_site / "search.js").read_text("utf-8")
    entries = json.loads(index.removeprefix("takeSearch(").removesuffix(");\n"))
    rows_by_place = {place: rows for _, place, _, rows in entries}
    assert "MCSE" in rows_by_place["profiles/tiny.html#tiny-sts"], "what is loaded is found"


@pytest.mark.long
def test_a_part_whose_file_is_missing_says_so_and_one_without_a_script_where_its_numbers_are(
    browser: Any, full_site: Path, tmp_path: Path
) -> None:
    alone = tmp_path / "profiles"
    shutil.copytree(full_site / "profiles", alone)
    for script in ("site.js", "charts.js"):
        shutil.copy(full_site / script, tmp_path)
    page = browser.new_page()
    page.goto((alone / "tiny.html").as_uri())
    page.locator("[data-part] > summary").first.click()
    problem = page.locator("details p.about", has_text="is not beside this page")
    playwright.expect(problem).to_be_visible()
    page.close()

    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto((alone / "tiny.html").as_uri())
    page.locator("[data-part] > summary").first.click()
    assert "tables.csv" in page.locator("[data-part]").first.inner_text()
    page.context.close()


@pytest.mark.long
def test_a_runs_worst_pairs_and_captions_and_those_that_two_rows_judge_most_differently_are_shown(
    watched: Watched, pairs_site: Path
) -> None:
    watched.site = pairs_site
    pairs = list_pairs(TOY_STS.load(None))
    ends = (each(pairs, key=lambda pair: pair[2]) for each in (min, max))
    least, most = (f"“{first}”\n“{second}”" for first, second, _ in ends)

    def lines(place: Any) -> list[list[str]]:
        place.locator("tbody tr").first.wait_for()
        return [row.locator("th, td").all_inner_texts() for row in place.locator("tbody tr").all()]

    def of(task: str) -> list[list[str]]:
        return lines(page.locator("#judged h3", has_text=task).locator("+ div"))

    page = watched.open(run_page(pairs_site, "simcse"))
    first, captions = of("ToySTS")[0], [f"“{text}”" for text in TOY_RETRIEVAL.load(None).texts[:2]]
    assert (first[0], first[3:]) == (most, ["−1.0000", "1"])
    assert of("ToyRetrieval") == [[captions[0], "20"]]
    assert "not at hand" not in page.locator("#judged").inner_text()
    page = watched.open(run_page(pairs_site, "dalr"))
    assert re.fullmatch(r"pair \d+", of("ToySTS")[0][0])
    assert of("ToyRetrieval") == [["caption 3", "22"]]
    assert "data were not at hand" in page.locator("#judged").inner_text()
    page = watched.open("overview.html")
    for row in page.locator(".board:visible tr.method", has_text=re.compile("SimCSE|MCSE")).all():
        row.get_by_role("button", name="Compare").click()
    both = page.locator(".board:visible .pair h5", has_text="judge most differently").locator(
        "+ p + .scroll"
    )
    shown, queries = both.first, both.last
    first, second, *_ = lines(shown)
    assert {first[0], second[0]} == {least, most}
    assert shown.locator("thead th").all_inner_texts()[1:3] == ["gold", "rank of gold"]
    assert {first[4], second[4], first[3], second[3]} >= {"1"}
    assert {tuple(line) for line in lines(queries)} == {
        (captions[0], "20", "1"),
        (captions[1], "1", "21"),
    }


def test_hostile_texts_are_shown_as_text(watched: Watched, site: Path) -> None:
    for name in ("overview.html", "runs/index.html", "profiles/tiny.html"):
        assert "<script>alert(1)</script>" in watched.open(name).locator("main").inner_text(), name
    page = watched.open(run_page(site, "simcse-temperature"))
    text = page.locator("main").inner_text()
    for part in EVIL:
        assert part in text


@pytest.mark.long
def test_rows_sort_by_number_and_by_name_and_say_so(watched: Watched) -> None:
    page = watched.open("runs/index.html")
    head = page.locator("th", has_text="sts spearman")
    before = shown(page, "table.runs", 5)
    head.get_by_role("button").click()
    values = [float(text) for text in shown(page, "table.runs", 5)]
    assert values == sorted(values, reverse=True) != [float(text) for text in before]
    assert head.get_attribute("aria-sort") == "descending"
    head.get_by_role("button").press("Enter")
    assert [float(text) for text in shown(page, "table.runs", 5)] == sorted(values)
    assert head.get_attribute("aria-sort") == "ascending"
    page.locator("th", has_text="variant").get_by_role("button").click()
    names = shown(page, "table.runs", 0)
    assert [name.casefold() for name in names if name in ("mcse", "simcse")] == ["mcse"] * 7 + [
        "simcse"
    ] * 4
    assert head.get_attribute("aria-sort") == "none"


ORDER = (
    "() => [...document.querySelectorAll('table.data')[0].rows].slice(1)"
    ".filter((row) => !row.classList.contains('section') && row.offsetParent)"
    ".map((row) => [row.classList[0], row.cells.length, row.cells[0].innerText])"
)


@pytest.mark.long
def test_rows_of_one_heading_stay_together_when_sorted_over_all_sections(watched: Watched) -> None:
    page = watched.open("papers/mcse.html")
    before = page.evaluate(ORDER)
    head = page.locator("table.data").first.locator("th", has_text="STS12")
    head.get_by_role("button").click()
    after = page.evaluate(ORDER)
    assert sorted(row[:2] for row in before) == sorted(row[:2] for row in after)
    kinds = [kind for kind, *_ in after]
    assert "difference" in kinds
    assert all(kinds[at - 1] == "published" for at, kind in enumerate(kinds) if kind == "measured")
    assert all(kinds[at - 1] == "measured" for at, kind in enumerate(kinds) if kind == "difference")
    first = [name for kind, _, name in after if kind == "published"]
    assert all("bert-base-uncased" in name or "roberta-base" in name for name in first), (
        "each row names its section"
    )
    assert any("roberta-base" in name for name in first[: len(first) // 2]), (
        "rows of both sections are ranked together"
    )
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "none"
    assert page.evaluate(ORDER) == before, "the third click restores the sections"


@pytest.mark.long
def test_on_a_phone_the_variant_and_its_score_are_on_the_first_screen(watched: Watched) -> None:
    watched.page.set_viewport_size({"width": 390, "height": 844})
    page = watched.open("profiles/tiny.html")
    table = page.locator("table.data").first
    table.scroll_into_view_if_needed()
    row = table.locator("tbody tr:not(.section)").first
    for part in (row.locator("th"), row.locator("td:not(.head)").first):
        box = part.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
    page.evaluate("document.querySelector('div.scroll:has(table.data)').scrollLeft = 200")
    assert row.locator("th").bounding_box()["x"] >= 0, "the names stay in view"


@pytest.mark.long
def test_the_filter_hides_what_does_not_match(watched: Watched) -> None:
    page = watched.open("runs/index.html")
    box = page.locator("main").get_by_role("searchbox")
    everything = len(shown(page, "table.runs", 0))
    box.fill("MCSE paper")
    assert shown(page, "table.runs", 0) == ["mcse", "mcse"]
    assert f"2 of {everything} rows" in page.locator(".tools").inner_text()
    box.fill("")
    assert len(shown(page, "table.runs", 0)) == everything
    assert shown(watched.open("runs/index.html", "?filter=simcse+toy-bert"), "table.runs", 0)[
        0
    ].startswith("simcse")


def test_a_filter_and_hidden_columns_stay_in_the_link_and_hide_bold_print(
    watched: Watched, board_site: Path
) -> None:
    watched.site = board_site
    page = watched.open("profiles/tiny.html")
    table, grid = page.locator("#tiny-sts table"), page.locator("#tiny-sts")
    weight = "() => getComputedStyle(document.querySelector('#tiny-sts td b:not(.mark, .caveats)')).fontWeight"
    columns = len(table.locator("tbody tr.first").first.locator("td:visible").all())
    assert page.evaluate(weight) == "700"
    grid.get_by_role("searchbox").fill("dalr")
    assert page.evaluate(weight) == "400", "bold print is of the best of all rows"
    assert "none in bold" in grid.locator(".tools").first.inner_text()
    grid.get_by_text("Columns", exact=True).click()
    grid.get_by_label("STS13").uncheck()
    grid.get_by_role("button", name="STS14").click()
    link = grid.locator("h3 .anchor").first.get_attribute("href")
    assert link == "#tiny-sts?filter=dalr&hide=STS13&sort=STS14&order=descending"
    page = watched.open("index.html")
    page = watched.open("profiles/tiny.html", link)
    assert not table.locator("th", has_text="STS13").is_visible()
    assert (
        len(table.locator("tbody tr.first:visible").first.locator("td:visible").all())
        == columns - 1
    )
    assert table.locator("[aria-sort=descending]").inner_text().startswith("STS14")
    assert {*shown(page, "#tiny-sts table", 0)} == {"DALR\ntoy / toy-bert", "DALR\nwiki / toy-bert"}


@pytest.mark.long
def test_the_search_finds_headings_and_rows_of_all_pages(
    watched: Watched, board_site: Path
) -> None:
    watched.site = board_site
    page = watched.open("methods/mcse.html")
    box = page.get_by_role("searchbox", name="Search all pages")
    box.fill("sts correlation profile kdmcse")
    page.locator(".search a", has_text="Profile tiny").first.click()
    assert page.url.endswith("profiles/tiny.html#tiny-sts"), (
        "a table is found by its title and its rows"
    )
    box.fill("no such thing")
    playwright.expect(page.locator(".search li")).to_have_text(["Runs with “no such thing”"])
    box.press("Escape")
    assert not page.locator(".search li").is_visible()


@pytest.mark.long
def test_targets_are_24_pixels_high_and_pictures_have_names(
    watched: Watched, board_site: Path
) -> None:
    watched.site = board_site
    small = """(all) => all.map((one) => [one.textContent.trim() || one.name, one.getBoundingClientRect()])
      .filter(([, box]) => box.height && (box.height < 24 || box.width < 24)).map(([text]) => text)"""
    for name in ("index.html", "overview.html", "profiles/tiny.html"):
        page = watched.open(name)
        page.wait_for_selector("html[data-charts=drawn]")
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert (
            page.locator(
                "button, select, summary, nav a, .anchor, .leaders th a, .checks a"
            ).evaluate_all(small)
            == []
        ), name
        assert page.locator(".view:not([aria-label])").count() == 0
        marks = page.locator(".view [role^=graphics-symbol]")
        assert (
            marks.count()
            == page.locator(".view [aria-hidden=true] [role^=graphics-symbol]").count()
            > 0
        )


@pytest.mark.long
def test_a_chart_is_saved_as_picture_and_data(watched: Watched, board_site: Path) -> None:
    watched.site = board_site
    page = watched.open("profiles/tiny.html")
    page.wait_for_selector("html[data-charts=drawn]")
    figure = page.locator("figure.plot").first
    saved = {}
    for kind in ("SVG", "PNG", "CSV"):
        with page.expect_download() as download:
            figure.get_by_role("button", name=f"as {kind}").click()
        saved[kind] = Path(download.value.path()).read_bytes()
    assert saved["PNG"].startswith(b"\x89PNG")
    assert b"var(--" not in saved["SVG"], "colours are those of the page"
    head, *rows = saved["CSV"].decode().splitlines()
    assert len(rows) == 5
    assert any(row.startswith("MCSE,") for row in rows), head


@pytest.mark.long
def test_commands_and_tables_are_copied_with_and_without_a_clipboard(
    watched: Watched, site: Path
) -> None:
    page = watched.page
    page.add_init_script(
        "Object.defineProperty(navigator, 'clipboard',"
        "{configurable: true, value: {writeText: async (text) => { window.copied = text; }}})"
    )
    watched.open(run_page(site, "mcse-toy"))
    assert page.locator("h1").inner_text() == "MCSE"
    for place, start in (
        (".key", "mcse/toy/toy-bert/seed-0"),
        (".commands", "harness run --profile "),
    ):
        page.locator(place).get_by_role("button", name="Copy").click()
        page.locator(place).get_by_text("Copied").wait_for()
        assert page.evaluate("window.copied") == page.locator(f"{place} code").inner_text()
        assert page.evaluate("window.copied").startswith(start)
    watched.open("profiles/tiny.html")
    page.locator("summary", has_text="LaTeX").first.click()
    page.get_by_role("button", name="Copy LaTeX").first.click()
    assert page.evaluate("window.copied").startswith("\\begin{table*}")

    page.add_init_script(
        "Object.defineProperty(navigator, 'clipboard', {value: undefined});"
        "document.execCommand = () => { window.fallback = document.activeElement.value; return true; };"
    )
    watched.open(run_page(site))
    page.locator(".commands").get_by_role("button", name="Copy").click()
    page.get_by_text("Copied").wait_for()
    assert page.evaluate("window.fallback") == page.locator(".commands code").inner_text()


def test_an_unknown_run_says_so(browser: Any, site: Path) -> None:
    page = browser.new_page()
    page.goto((site / "runs" / "run.html").as_uri() + "?nobody-0-0123")
    assert page.locator("h1").inner_text() == "No such run"
    assert "nobody-0-0123" in page.locator("main").inner_text()
    page.get_by_role("link", name="All runs").click()
    assert page.url.endswith("runs/index.html")
    page.close()


@pytest.mark.long
def test_the_theme_changes_and_is_remembered(watched: Watched) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    page = watched.open("index.html")
    light = page.evaluate(ground)
    page.get_by_role("button", name="Dark").click()
    dark = page.evaluate(ground)
    assert dark != light == "rgb(255, 255, 255)"
    assert watched.open("audit.html").evaluate(ground) == dark
    page.get_by_role("button", name="Light").click()
    assert page.evaluate(ground) == light
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(ground) == light, "a choice stands above the system's"


@pytest.mark.long
def test_charts_follow_the_theme_and_their_legend(watched: Watched) -> None:
    page = watched.open("profiles/tiny.html")
    page.wait_for_selector("html[data-charts=drawn]")
    section = (
        page.locator("#curves section").filter(has=page.locator("button", has_text="MCSE")).first
    )
    drawn = section.locator("figure.plot").first.locator("svg .mark-line path")
    line = drawn.first
    ink = "(one) => getComputedStyle(one).stroke"
    light, before = line.evaluate(ink), drawn.count()
    page.get_by_role("button", name="Dark", exact=True).click()
    assert line.evaluate(ink) != light
    section.locator("figure.plot .view svg").first.hover()
    playwright.expect(page.locator("#vg-tooltip-element")).to_contain_text("CSE")
    toggle = section.locator("ul.legend button").last
    assert toggle.get_attribute("aria-pressed") == "false", "variants wait for a click"
    toggle.click()
    assert toggle.get_attribute("aria-pressed") == "true"
    playwright.expect(drawn).not_to_have_count(before)
    toggle.click()
    playwright.expect(drawn).to_have_count(before)


def test_one_file_opens_alone_and_its_links_lead_into_it(watched: Watched, tmp_path: Path) -> None:
    watched.page.set_viewport_size({"width": 390, "height": 844})
    watched.site = Path(shutil.copy(watched.site / "report.html", tmp_path)).parent
    page = watched.open("report.html")
    policy = page.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content")
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    page.wait_for_selector("html[data-charts=drawn]")
    assert page.locator(".view svg.marks").count() == page.locator("figure.plot").count() > 5
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    links = page.evaluate(
        "[...document.querySelectorAll('a[href]')].map((one) => one.getAttribute('href'))"
    )
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")
    assert len(ids) == len(set(ids))
    away = {
        link for link in links if not link.startswith("#") or link[1:].partition("?")[0] not in ids
    }
    assert away <= {"https://example.org/x.png"}
    page.get_by_role("link", name="All results", exact=True).click()
    assert "<script>alert(1)</script>" in page.locator("main").inner_text()
    page.get_by_role("link", name="Answer", exact=True).click()
    pages = page.locator("section.page:visible")
    assert pages.locator("h1").inner_text().endswith("?"), "the first page is a question"
    page.get_by_role("link", name="Methods", exact=True).click()
    page.locator('section.page:visible [id$="--methods"] a', has_text="mcse").first.click()
    assert pages.count() == 1, "one page at a time"
    assert page.locator(".bar .here").inner_text() == "Methods"
    page.get_by_role("searchbox", name="Search all pages").fill("table 1 mcse")
    page.locator(".search a").first.click()
    assert page.locator(".bar .here").inner_text() == "Papers"
    picture = page.locator("figure.drawn img").first
    assert picture.evaluate("(one) => one.decode().then(() => one.naturalWidth)") > 200
    page.get_by_role("button", name="Dark", exact=True).click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator(".bar").is_visible()


def test_without_scripts_the_pages_are_whole_and_the_data_of_runs_are_linked(
    browser: Any, site: Path
) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((site / "runs/index.html").as_uri())
    assert page.locator("table.runs tbody tr").count() > 8
    assert page.locator("button, input").count() == 0
    target = page.get_by_role("link", name="data and log").first.get_attribute("href")
    assert (site / "runs" / target).is_file()
    page.goto((site / "runs/run.html").as_uri())
    assert page.get_by_role("link", name="index").get_attribute("href") == "index.html"
    context.close()
