"""The report as a folder of pages: links, names, nothing fetched, and one folder swapped for the other."""

from __future__ import annotations

import re
import shlex
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from builders import frame, over_seeds, result
from harness.reporting.tables.scores import score_tables
from site_fakes import EVIL, LONG, described, drawn, failures, hostile

from harness.errors import UserError
from harness.reporting import site
from harness.reporting.build import build
from harness.reporting.site.names import LONGEST, run_names, slug, slugs
from harness.reporting.site.notes import notes_html
from harness.reporting.site.overview import spans
from harness.reporting.site.runs import command_of
from harness.spec import split


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site") / "deep" / "out"
    results = [*over_seeds("mcse", [70.0, 73.0]), *over_seeds("simcse", [20.0, 24.0]), *hostile()]
    build(results, frame(results), out, failed=failures(), methods=described(), figures=drawn())
    return out


def test_every_link_leads_to_a_file_and_a_place_in_it(out: Path) -> None:
    checked = 0
    for page in out.rglob("*.html"):
        for tag, attributes in Tags(page.read_text("utf-8")).seen:
            for target in filter(None, (attributes.get("href"), attributes.get("src"))):
                if (tag, target) == ("a", "https://example.org/x.png"):
                    continue  # a link of the notes, which nothing follows by itself
                parts = urlsplit(target)
                assert not parts.scheme, f"{page}: {tag} {target}"
                assert not parts.netloc, f"{page}: {tag} {target}"
                file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
                assert file.is_file(), f"{page}: {target}"
                assert out in file.parents
                if parts.fragment:
                    ids = [found.get("id") for _, found in Tags(file.read_text("utf-8")).seen]
                    assert ids.count(parts.fragment) == 1, f"{page}: {target}"
                checked += 1
    assert checked > 200


def test_nothing_is_fetched_from_elsewhere_and_nothing_may_be(out: Path) -> None:
    for page in out.rglob("*.html"):
        tags = Tags(page.read_text("utf-8")).seen
        policies = [found.get("content") for _, found in tags if found.get("http-equiv") == "Content-Security-Policy"]
        assert policies == ["default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"]
        assert not {tag for tag, _ in tags} & {"iframe", "object", "embed", "base", "form"}
        assert not [name for _, found in tags for name in found if name.startswith("on")]
        assert sum(tag == "script" for tag, _ in tags) == 1
    for name in ("style.css", "site.js"):
        assert not re.search(r"url\(|@import|https?:|fetch\(|innerHTML", (out / name).read_text("utf-8")), name


def test_ids_are_unique_on_a_page(out: Path) -> None:
    for page in out.rglob("*.html"):
        ids = [found["id"] for _, found in Tags(page.read_text("utf-8")).seen if "id" in found]
        assert len(ids) == len(set(ids)), page


def test_no_name_leaves_the_folder_or_is_hidden(out: Path) -> None:
    assert [path.name for path in out.parent.iterdir()] == ["out"]
    for path in out.rglob("*"):
        assert re.fullmatch(r"[a-z0-9][a-z0-9.-]*|\.harness-report", path.name), path
        assert len(path.name) < 140
    assert len(list((out / "runs").iterdir())) == 1 + 4 + len(hostile())


@pytest.mark.parametrize("text", [*EVIL, LONG, "", "..", "/", ".hidden", "CON", "a/b\\c:d", "\x00\n"])
def test_a_slug_is_a_plain_name(text: str) -> None:
    assert re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", slug(text))
    assert len(slug(text)) <= LONGEST


def test_names_that_look_alike_have_pages_of_their_own() -> None:
    assert list(slugs(["a b", "a/b", "A-B", "a b"]).values()) == ["a-b", "a-b--2", "a-b--3"]
    twice = result("mcse", 1)
    names = run_names([twice, twice, result("mcse", 2)])
    assert len(set(names)) == 3


def test_a_second_report_replaces_the_first_as_a_whole(tmp_path: Path) -> None:
    out = tmp_path / "out"
    first, second = over_seeds("mcse", [70.0, 71.0]), over_seeds("simcse", [20.0])
    build(first, frame(first), out)
    assert len(list((out / "runs").glob("mcse-*.html"))) == 2
    build(second, frame(second), out)
    assert list((out / "runs").glob("mcse-*.html")) == []
    assert len(list((out / "runs").glob("simcse-*.html"))) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_report_that_fails_in_the_middle_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    results = over_seeds("mcse", [70.0, 71.0])
    build(results, frame(results), out)
    before = contents(tmp_path)
    written = []

    def breaks(*given: object) -> None:
        (new,) = (path for path in tmp_path.iterdir() if path != out)
        written.extend(new.rglob("*.html"))
        raise RuntimeError("in the middle")

    monkeypatch.setattr(site, "_write_methods", breaks)
    with pytest.raises(RuntimeError, match="in the middle"):
        build(results, frame(results), out)
    assert len(written) > 3
    assert contents(tmp_path) == before


def test_what_killed_reports_left_is_put_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    results = over_seeds("mcse", [70.0])
    build(results, frame(results), out)
    # what a kill between the two renames leaves, by a process that is no more
    out.rename(tmp_path / ".out.999999999.old")
    (tmp_path / ".out.999999999.new").mkdir()
    (tmp_path / ".out.1.new").mkdir()
    monkeypatch.setattr(site, "_write_methods", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        build(results, frame(results), out)
    assert (out / "index.html").is_file(), "the old report is back, whatever becomes of the new one"
    assert {path.name for path in tmp_path.iterdir()} == {"out", ".out.1.new"}, "of a living process nothing is taken"


@pytest.mark.parametrize("place", ["notes.txt", "runs/notes.txt", ".hidden"])
def test_a_foreign_file_is_never_deleted(tmp_path: Path, place: str) -> None:
    results = over_seeds("mcse", [70.0])
    foreign = tmp_path / "foreign" / place
    foreign.parent.mkdir(parents=True)
    foreign.write_text("mine")
    with pytest.raises(UserError, match="not empty and no report"):
        build(results, frame(results), tmp_path / "foreign")
    ours = tmp_path / "ours"
    build(results, frame(results), ours)
    (ours / place).write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(UserError, match=f"{place} is no file of the report"):
        build(results, frame(results), ours)
    assert contents(tmp_path) == before


def test_a_file_in_the_place_of_the_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(UserError, match="is a file"):
        build([], frame([]), tmp_path / "out")


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match="cannot be written"):
        build([], frame([]), tmp_path / "file" / "out")


def test_notes_show_html_as_text_and_keep_known_links_only() -> None:
    links = "[a](javascript:alert(1)) [b](mcse.md) [c](../x.md) [d](https://a.b) ![e](f.png)"
    text = f"# T\n\n## S\n\n<b>x</b> {links}\n\n|a|\n|-|\n|1|\n"
    found = str(notes_html(text, {"mcse": "mcse.html"}))
    assert [found["href"] for tag, found in Tags(found).seen if tag == "a"] == ["mcse.html", "https://a.b"]
    assert "&lt;b&gt;x&lt;/b&gt;" in found
    assert "<img" not in found
    assert "<h1" not in found
    assert "<h3>S</h3>" in found
    assert '<div class="scroll" tabindex="0"><table class="prose">' in found


def test_the_command_of_a_run_is_read_back_as_that_run() -> None:
    one = result("mcse[images=shuffled,lambda=1]", 3, overrides={"learning_rate": 0.001, "compile": True})
    words = shlex.split(command_of(one))
    assert split(words[words.index("--methods") + 1]) == ["mcse[images=shuffled,lambda=1]"]
    assert words[words.index("--seeds") + 1] == "3,"
    assert [words[at + 1] for at, word in enumerate(words) if word == "--set"] == [
        "compile=true",
        "learning_rate=0.001",
    ]
    assert "--settings" not in command_of(result("none[pooling=cls]", setting="none"))


def test_scores_have_parts_apart_and_decimals_by_column() -> None:
    scores = {
        "sts": {
            "STS12": {"spearman": 72.5918, "n": 3108.0, "spearman[MSRpar]": 55.02, "n[MSRpar]": 750.0},
            "Avg": {"spearman": 8.0},
        }
    }
    whole, parts = score_tables(result(scores=scores))
    assert whole.columns == ("spearman", "n")
    assert whole.rows == ((("STS12",), ("72.59", "3108")), (("Avg",), ("8.00", "–")))
    assert parts.rows == ((("STS12", "MSRpar"), ("55.02", "750")),)
    assert parts.folded
    many = {"mteb": {"T": {f"m{index}": 0.5 for index in range(20)} | {"main_score": 0.25}}}
    main, others = score_tables(result(scores=many))
    assert main.columns == ("main_score",)
    assert main.rows == ((("T",), ("0.2500",)),)
    assert len(others.columns) == 20


@pytest.mark.parametrize(("seeds", "text"), [([0], "0"), ([2, 1, 0, 7], "0–2, 7"), ([4, 4, 6], "4, 6"), ([], "")])
def test_seeds_are_told_in_spans(seeds: list[int], text: str) -> None:
    assert spans(iter(seeds)) == text
