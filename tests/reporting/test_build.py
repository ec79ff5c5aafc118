from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from report_fakes import frame, over_seeds, result

from harness import __version__
from harness.reporting import build
from harness.reporting.papers import read_papers

ATTACK = "simcse[temperature=<script>alert(1)</script>]"
VOID = {"meta", "br", "hr", "img", "input", "link", "wbr"}


class Balanced(HTMLParser):
    """Counts elements and refuses a page whose tags do not nest."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def parsed(page: str) -> Balanced:
    parser = Balanced()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


def world() -> list:
    return (
        over_seeds("mcse", [70.0, 73.0, 72.2], losses={"text": [3.0, 2.0], "info": [None, 5.0]})
        + over_seeds("simcse", [20.0, 24.0, 22.5])
        + over_seeds(ATTACK, [20.0, 21.0])
        + over_seeds("mcse", [61.7], profile="paper", setting="wiki+flickr", encoder="bert-base-uncased")
    )


FAILED = [
    {
        "spec": {"method": "mcse", "variant": "mcse", "setting": "toy", "encoder": "toy-bert", "seed": 7},
        "profile": "tiny",
        "fingerprint": "f" * 64,
        "error": "RuntimeError: <img src=x onerror=alert(1)>",
        "traceback": "",
        "when": "2026-01-02",
    }
]


def page_of(tmp_path: Path, results: list, **given: object) -> str:
    index = build(results, frame(results), tmp_path / "report", **given)  # type: ignore[arg-type]
    assert index == tmp_path / "report" / "index.html"
    return index.read_text(encoding="utf-8")


def test_four_files_are_written_and_nothing_else(tmp_path: Path) -> None:
    page_of(tmp_path, world())
    names = {path.name for path in (tmp_path / "report").iterdir()}
    assert names == {"report.md", "report.tex", "report.csv", "index.html"}


def test_the_page_is_whole_and_escapes_what_comes_from_results(tmp_path: Path) -> None:
    page = page_of(tmp_path, world(), failed=FAILED)
    tags = [tag for tag, _ in parsed(page).seen]
    assert "script" not in tags
    assert "img" not in tags
    assert "&lt;script&gt;" in page
    assert "onerror=alert" in page
    assert "mcse/<wbr>toy/<wbr>toy-bert/<wbr>seed-7" in page


def test_the_page_needs_nothing_from_outside(tmp_path: Path) -> None:
    page = page_of(tmp_path, world())
    for tag, attributes in parsed(page).seen:
        assert tag not in {"link", "iframe", "object", "embed"}
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org)", page)
    targets = {attributes["id"] for _, attributes in parsed(page).seen if "id" in attributes}
    links = {attributes["href"] for _, attributes in parsed(page).seen if attributes.get("href")}
    assert {str(link).removeprefix("#") for link in links} <= targets


def test_every_table_scrolls_in_its_own_container(tmp_path: Path) -> None:
    page = page_of(tmp_path, world(), failed=FAILED)
    tables = len(re.findall(r"<table", page))
    assert tables == len(re.findall(r'<div class="scroll"[^>]*>\s*<table', page))
    assert tables == 5 + sum(len(paper.tables) for paper in read_papers())


def test_the_page_says_what_is_true_and_where_it_is_from(tmp_path: Path) -> None:
    page = page_of(tmp_path, world())
    assert "mcse is above simcse by 49.57 points of Spearman on the average of sts" in page
    assert f"harness {__version__}, made 20" in page
    assert "from 9 results" in page
    assert "Packages, set 1: numpy 2.4.6, torch 2.15.0" in page
    assert page.count(world()[0].fingerprint[:12]) == 1
    assert "loss term info, unweighted" in page


@pytest.mark.parametrize(("profile", "here", "absent"), [("tiny", "toy-bert", "61.7"), ("paper", "61.7", "toy-bert")])
def test_a_profile_keeps_its_own_results(tmp_path: Path, profile: str, here: str, absent: str) -> None:
    page_of(tmp_path, world(), profile=profile, failed=FAILED)
    for name in ("index.html", "report.md", "report.tex", "report.csv"):
        text = (tmp_path / "report" / name).read_text(encoding="utf-8")
        assert here in text, name
        assert absent not in text, name


def test_nothing_measured_of_a_paper_is_said_and_folded_away(tmp_path: Path) -> None:
    page = page_of(tmp_path, over_seeds("simcse", [20.0]))
    assert "No run of profile paper yet: the printed numbers alone" in page
    parsed(page)


def test_a_report_of_nothing_is_a_page(tmp_path: Path) -> None:
    page = page_of(tmp_path, [])
    assert "There are no results yet." in page
    parsed(page)


def test_warnings_and_overrides_stand_beside_their_run(tmp_path: Path) -> None:
    one = result(overrides={"learning_rate": 0.001})
    one.warnings.append("the <dev> task has ties")
    page = page_of(tmp_path, [one])
    assert "learning_rate=0.001" in page
    assert "Warning: the &lt;dev&gt; task has ties" in page
