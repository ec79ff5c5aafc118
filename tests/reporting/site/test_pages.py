"""The report as a folder of pages: links, names, unique ids, nothing loaded from elsewhere, and the
first page.

Names of pages are plain and unique; notes on methods become safe HTML.
"""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from builders import over_seeds, result
from site_samples import EVIL, LONG, every_kind, rendered

from harness import __version__
from harness.papers.audit import read_findings
from harness.reporting.pages import LONGEST, convert_notes, make_slugs, slug
from harness.reporting.sections.runs import format_spans, list_what_ran, name_runs, sort_runs
from harness.store import frames_of

VOID = {"meta", "br", "hr", "img", "input", "link", "wbr"}


class Tags(HTMLParser):
    """The tags of a page, in order. Refuses tags that do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def test_ids_are_unique_and_every_link_leads_to_a_file_and_a_place_in_it(site: Path) -> None:
    checked = 0
    ids = {
        page: [attributes.get("id") for _, attributes in Tags(page.read_text("utf-8")).seen]
        for page in site.rglob("*.html")
    }
    for page, names_there in ids.items():
        named = [name for name in names_there if name]
        assert len(named) == len(set(named)), page
        for tag, attributes in Tags(page.read_text("utf-8")).seen:
            for target in filter(None, (attributes.get("href"), attributes.get("src"))):
                if (tag, target) == ("a", "https://example.org/x.png"):
                    continue  # a link of the notes, which nothing follows by itself
                if target.startswith("data:image/svg+xml;base64,"):
                    continue  # a figure in the one file
                parts = urlsplit(target)
                assert not parts.scheme, f"{page}: {tag} {target}"
                assert not parts.netloc, f"{page}: {tag} {target}"
                file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
                assert file.is_file(), f"{page}: {target}"
                if parts.query and file.name == "run.html":
                    assert file.with_name(f"{parts.query}.js").is_file(), f"{page}: {target}"
                assert site in file.parents
                if parts.fragment:
                    assert ids[file].count(parts.fragment) == 1, f"{page}: {target}"
                checked += 1
    assert checked > 200


def test_nothing_is_fetched_from_elsewhere_and_nothing_may_be(site: Path) -> None:
    for page in site.rglob("*.html"):
        tags = Tags(page.read_text("utf-8")).seen
        if page.name == "report.html":
            continue
        policies = [
            attributes.get("content")
            for _, attributes in tags
            if attributes.get("http-equiv") == "Content-Security-Policy"
        ]
        assert policies == [
            "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"
        ]
        assert not {tag for tag, _ in tags} & {"iframe", "object", "embed", "base", "form"}
        assert not [name for _, attributes in tags for name in attributes if name.startswith("on")]
        scripts = [
            attributes.get("src")
            for tag, attributes in tags
            if tag == "script" and "type" not in attributes
        ]
        root = "../" * (len(page.relative_to(site).parts) - 1)
        own = ["run.js"] if page.name == "run.html" else []
        assert scripts == [f"{root}site.js", f"{root}charts.js", *own], page
        assert {attributes.get("type") for tag, attributes in tags if tag == "script"} <= {
            None,
            "application/json",
        }
        pictures = [str(attributes.get("src")) for tag, attributes in tags if tag == "img"]
        assert all(picture.removeprefix("../").startswith("figures/") for picture in pictures), page
    for name in ("style.css", "site.js", "runs/run.js"):
        assert not re.search(
            r"url\(|@import|https?:(?!//www\.w3\.org)|fetch\(|innerHTML",
            (site / name).read_text("utf-8"),
        ), name


def test_charts_stand_in_files_that_their_page_loads_and_all_of_them_in_the_one_file(
    site: Path,
) -> None:
    named = set()
    for page in site.rglob("*.html"):
        if page.name != "report.html":
            named |= set(re.findall(r'data-chart="([^"]+)"', page.read_text("utf-8")))
    files = {path.relative_to(site).as_posix(): path for path in site.glob("charts/*.js")}
    assert len(named) > 5
    assert named <= files.keys()
    one_file = (site / "report.html").read_text("utf-8")
    for name, path in files.items():
        script = path.read_text("utf-8")
        spec = script.removeprefix("showChart(").removesuffix(");\n")
        assert "layer" in json.loads(spec) or "mark" in json.loads(spec)
        assert "<" not in script, "no markup begins in a text of a result"
        assert f'data-file="{name}">{spec}</script>' in one_file


def test_no_name_leaves_the_folder_or_is_hidden(site: Path) -> None:
    assert [path.name for path in site.parent.iterdir()] == ["out"]
    for path in site.rglob("*"):
        assert re.fullmatch(r"[a-z0-9][a-z0-9.-]*|\.harness-report", path.name), path
        assert len(path.name) < 140
    assert len(list((site / "runs").iterdir())) == len(("index.html", "run.html", "run.js")) + len(
        every_kind()
    )
    expected = "profiles papers methods runs figures report.md report.tex report.csv tables.csv index.html audit.html"
    expected += " overview.html questions boards charts"
    expected += " seen.html tuned.html report.html style.css site.js charts.css charts.js vega.js"
    expected += " search.js .harness-report"
    assert {path.name for path in site.iterdir()} == set(expected.split())


def test_pages_show_scores_facts_and_commands(site: Path) -> None:
    pages = {
        path.relative_to(site).as_posix(): path.read_text("utf-8") for path in site.rglob("*.html")
    }
    assert f"harness {__version__}, written 20" in pages["overview.html"]
    assert f"from {len(every_kind())} results" in pages["overview.html"]
    assert (
        "RuntimeError: &#34;&#39;&gt;&lt;img src=x onerror=alert(2)&gt;" in pages["overview.html"]
    )
    result = every_kind()[0]
    (run,) = (
        path.read_text("utf-8") for path in (site / "runs").glob(f"*{result.fingerprint[:12]}.js")
    )
    command = '"harness run --profile tiny --methods mcse --settings toy --encoders toy-bert --seeds 0, --results '
    for text in (
        result.fingerprint,
        '"numpy":"2.4.6"',
        "Loss term info",
        "Best 60.00 at step 100; 60.00 at the last.",
        command,
    ):
        assert text in run, text
    charts = "".join(path.read_text("utf-8") for path in site.glob("charts/*.js"))
    assert "loss term info, unweighted" in charts
    assert "alignment" not in pages["methods/mcse.html"]
    assert "No run of profile paper yet: printed numbers only" in pages["papers/dalr.html"]


def test_the_mark_of_an_equal_row_is_explained(tmp_path: Path) -> None:
    equal = [
        *over_seeds("simcse", [70.0, 70.01, 70.02]),
        *over_seeds("mcse", [70.001, 70.012, 70.019]),
    ]
    rendered(tmp_path / "out", equal)
    mark = '<b class="mark" title="equal within the margin">≈</b>'
    assert all(
        mark in (tmp_path / "out" / page).read_text("utf-8")
        for page in ("overview.html", "profiles/tiny.html")
    )


@pytest.mark.parametrize(
    ("seeds", "text"), [([0], "0"), ([2, 1, 0, 7], "0–2, 7"), ([4, 4, 6], "4, 6"), ([], "")]
)
def test_seeds_are_shown_as_spans(seeds: list[int], text: str) -> None:
    assert format_spans(iter(seeds)) == text


def test_runs_are_grouped_by_profile_setting_and_encoder() -> None:
    results = [
        *over_seeds("mcse", [1.0, 2.0]),
        *over_seeds("simcse", [1.0]),
        result(setting="wiki", profile="small"),
    ]
    small, tiny = list_what_ran(sort_runs(frames_of(results)))
    where = {"profile": "small", "setting": "wiki", "encoder": "toy-bert"}
    assert small == {**where, "variants": ["simcse"], "seeds": "0", "suites": ["sts"], "runs": 1}
    where = {"profile": "tiny", "setting": "toy", "encoder": "toy-bert"}
    assert tiny == {
        **where,
        "variants": ["mcse", "simcse"],
        "seeds": "0–1",
        "suites": ["sts"],
        "runs": 3,
    }


def test_audit_counts_are_those_of_the_findings(site: Path) -> None:
    section = (
        (site / "overview.html")
        .read_text()
        .partition('<section id="audit">')[2]
        .partition("</section>")[0]
    )
    counts = [int(text) for text in re.findall(r'<td class="num">(\d+)</td>', section)]
    assert sum(counts) == len(read_findings()) > 0


def test_a_papers_table_is_counted_by_its_verdicts(tmp_path: Path) -> None:
    scores = {"sts": {"STS12": {"spearman": 70.0}, "Avg": {"spearman": 77.0}}}
    out, where = tmp_path / "out", {"setting": "wiki+flickr", "encoder": "bert-base-uncased"}
    rendered(out, [result("mcse", 0, scores, profile="paper", **where)])
    row = (out / "overview.html").read_text().partition('#mcse-t1">')[2].partition("</tr>")[0]
    cells = [cell.partition("</td>")[0] for cell in row.split('<td class="num">')[1:]]
    assert cells[:6] == ["1 of 12", "–", "–", "–", "2", "12"], (
        "one seed is too few to judge, and each row has too few"
    )
    page = (out / "papers" / "mcse.html").read_text()
    places = [
        page.index(f'id="{name}"')
        for name in ("tables", "mcse-t1", "printed", "mcse-t2", "mcse-t6")
    ]
    assert places == sorted(places), "tables with runs come before those that are printed only"
    printed = page[page.index('id="mcse-t6"') :].partition("</section>")[0]
    assert "definition" not in printed, "no note on rows that are not there"
    for path in out.rglob("*.html"):
        assert not re.search(r"\b[1-9]\d* of 0\b", path.read_text("utf-8")), path


@pytest.mark.parametrize(
    "text", [*EVIL, LONG, "", "..", "/", ".hidden", "CON", "a/b\\c:d", "\x00\n"]
)
def test_a_slug_is_a_plain_name(text: str) -> None:
    assert re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", slug(text))
    assert len(slug(text)) <= LONGEST


def test_names_that_look_alike_have_pages_of_their_own() -> None:
    assert list(make_slugs(["a b", "a/b", "A-B", "a b"]).values()) == ["a-b", "a-b--2", "a-b--3"]
    twice = ("mcse/toy/toy-bert/seed-1", "ab" * 32)
    assert len(set(name_runs([twice, twice, ("mcse/toy/toy-bert/seed-2", "cd" * 32)]))) == 3


def test_notes_show_html_as_text_and_keep_known_links_only() -> None:
    links = "[a](javascript:alert(1)) [b](mcse.md) [c](../x.md) [d](https://a.b) ![e](f.png)"
    text = f"# T\n\n## S\n\n<b>x</b> {links}\n\n|a|\n|-|\n|1|\n"
    shown = str(convert_notes(text, {"mcse": "mcse.html"}))
    assert re.findall(r'href="(.*?)"', shown) == ["mcse.html", "https://a.b"]
    assert "&lt;b&gt;x&lt;/b&gt;" in shown
    assert "<img" not in shown
    assert "<h1" not in shown
    assert "<h3>S</h3>" in shown
    assert '<div class="scroll" tabindex="0"><table class="prose">' in shown
