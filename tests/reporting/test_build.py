from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from builders import frame, over_seeds, result

from harness import __version__
from harness.reporting.build import build

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


def pages(tmp_path: Path) -> dict[str, str]:
    folder = tmp_path / "report"
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in folder.rglob("*.html")}


def run_of(tmp_path: Path, one: object) -> str:
    (path,) = (tmp_path / "report" / "runs").glob(f"*{one.fingerprint[:12]}.html")  # type: ignore[attr-defined]
    return path.read_text(encoding="utf-8")


def test_the_files_are_written_and_nothing_else(tmp_path: Path) -> None:
    page_of(tmp_path, world())
    names = {path.name for path in (tmp_path / "report").iterdir()}
    folders = {"profiles", "papers", "methods", "runs"}
    texts = {"report.md", "report.tex", "report.csv", "index.html", "audit.html", "style.css", "site.js"}
    assert names == {*texts, *folders, ".harness-report"}
    runs = {path.name for path in (tmp_path / "report" / "runs").iterdir()}
    assert len(runs) == 1 + len(world())
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_every_page_is_whole_and_escapes_what_comes_from_results(tmp_path: Path) -> None:
    page = page_of(tmp_path, world(), failed=FAILED)
    for name, text in pages(tmp_path).items():
        scripts = [attributes.get("src") for tag, attributes in parsed(text).seen if tag == "script"]
        assert scripts == [("../" if "/" in name else "") + "site.js"], name
        assert not [tag for tag, _ in parsed(text).seen if tag == "img"], name
    assert "&lt;script&gt;" in page
    assert "onerror=alert" in page
    assert "mcse/<wbr>toy/<wbr>toy-bert/<wbr>seed-7" in page


def test_every_table_scrolls_in_its_own_container(tmp_path: Path) -> None:
    page_of(tmp_path, world(), failed=FAILED)
    for name, text in pages(tmp_path).items():
        tables = len(re.findall(r"<table", text))
        assert tables == len(re.findall(r'<div class="scroll"[^>]*>\s*<table', text)), name
    assert len(re.findall(r"<table", pages(tmp_path)["index.html"])) == 5


def test_the_pages_say_what_is_true_and_where_it_is_from(tmp_path: Path) -> None:
    page = page_of(tmp_path, world())
    assert "mcse is above simcse by 49.57 points of Spearman on the average of sts" in page
    assert f"harness {__version__}, made 20" in page
    assert "from 9 results" in page
    run = run_of(tmp_path, world()[0])
    assert world()[0].fingerprint in run
    assert "<dt>numpy</dt><dd>2.4.6</dd>" in run
    assert "Loss term info" in run
    assert "Best 60.00 at step 100." in run
    assert "harness run --profile tiny --methods mcse --settings toy --encoders toy-bert --seeds 0,<" in run
    assert "loss term info, unweighted" in pages(tmp_path)["profiles/tiny.html"]


@pytest.mark.parametrize(("profile", "here", "absent"), [("tiny", "toy-bert", "61.7"), ("paper", "61.7", "toy-bert")])
def test_a_profile_keeps_its_own_results(tmp_path: Path, profile: str, here: str, absent: str) -> None:
    page_of(tmp_path, world(), profile=profile, failed=FAILED)
    for name in ("index.html", "report.md", "report.tex", "report.csv"):
        text = (tmp_path / "report" / name).read_text(encoding="utf-8")
        assert here in text, name
        assert absent not in text, name


def test_nothing_measured_of_a_paper_is_said_and_folded_away(tmp_path: Path) -> None:
    page_of(tmp_path, over_seeds("simcse", [20.0]))
    page = pages(tmp_path)["papers/mcse.html"]
    assert "No run of profile paper yet: the printed numbers alone" in page
    parsed(page)


def test_a_report_of_nothing_is_a_page(tmp_path: Path) -> None:
    page = page_of(tmp_path, [])
    assert "There are no results yet." in page
    parsed(page)


def test_warnings_and_overrides_stand_beside_their_run(tmp_path: Path) -> None:
    one = result(overrides={"learning_rate": 0.001})
    one.warnings.append("the <dev> task has ties")
    page_of(tmp_path, [one])
    page = run_of(tmp_path, one)
    assert "learning_rate=0.001" in page
    assert "Warning: the &lt;dev&gt; task has ties" in page


def test_a_run_page_shows_its_log_as_text_and_not_all_of_a_long_one(tmp_path: Path) -> None:
    long, short, none = (result("mcse", seed) for seed in range(3))
    logs = {
        long.fingerprint: "".join(f"line {index}\n" for index in range(1000)),
        short.fingerprint: "2026-01-01T00:00:00Z  <script>alert(1)</script>\n2026-01-01T00:00:01Z  done & gone\n",
    }
    page_of(tmp_path, [long, short, none], log=lambda one: logs.get(one.fingerprint, ""))
    page = run_of(tmp_path, short)
    parsed(page)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\n2026-01-01T00:00:01Z  done &amp; gone\n</pre>" in page
    assert "<script>alert(1)" not in page
    lines = re.findall(r"^(?:.*>)?(line \d+|\(\d+ lines left out\))$", run_of(tmp_path, long), re.MULTILINE)
    assert lines == [
        *(f"line {index}" for index in range(150)),
        "(700 lines left out)",
        *(f"line {index}" for index in range(850, 1000)),
    ]
    assert "Log of the run" not in run_of(tmp_path, none)
