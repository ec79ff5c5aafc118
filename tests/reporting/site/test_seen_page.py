"""The page on seen and unseen test pairs, its links, and the same numbers in the files of a report."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from builders import over_seeds, split
from site_samples import rendered, shown_run

from harness.reporting.build import render
from harness.reporting.contents import Contents
from harness.store import Store

RESULTS = [
    *(split("simcse", seed, {"STS15": (250, 60.0 + seed, 500, 70.0)}) for seed in (0, 1)),
    *(split("mcse", seed, {"STS15": (250, 64.0 + 2 * seed, 500, 69.0)}) for seed in (0, 1)),
    split("visualcse", 0, {"STS15": (250, 64.0, 500, 69.0)}, setting="wiki"),
    split("simcse", 0, {"STS15": (0, None, 750, 70.0)}, setting="wiki+digits"),
]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site") / "out"
    contents = Contents(Store(out.parent / "nowhere"), RESULTS)
    render(contents, out)
    return out


def row(page: str, variant: str) -> list[str]:
    """The cells of a variant's first row, without marks and spaces."""
    line = next(line for line in re.findall(r"<tr.*?</tr>", page, re.DOTALL) if f'">{variant}</span></th>' in line)
    return [" ".join(re.sub(r"<[^>]*>", "", cell).split()) for cell in re.findall(r"<td.*?</td>", line, re.DOTALL)]


def test_the_page_has_pairs_scores_and_gains(out: Path) -> None:
    page = (out / "seen.html").read_text("utf-8")
    # gains of seed 0 and 1: 4 and 5 on seen pairs, -1 and -1 on unseen ones
    assert row(page, "MCSE") == ["2", "250", "65.00 ± 1.41", "+4.50 ± 0.71", "500", "69.00 ± 0.00", "−1.00 ± 0.00"]
    assert row(page, "SimCSE") == ["2", "250", "60.50 ± 0.71", "–", "500", "70.00 ± 0.00", "–"]
    assert "Not compared, no matching run of SimCSE: VisualCSE." in page
    assert "Training read no sentence of any test pair in wiki+digits / toy-bert (profile tiny)." in page
    assert "wiki+digits" not in page.partition("</header>")[2]
    (picture,) = re.findall(r'<img src="([^"]*)"', page)
    assert (out / picture).read_text("utf-8").startswith("<svg")


def test_every_page_links_to_it_and_other_tables_leave_the_parts_out(out: Path) -> None:
    for path in out.rglob("*.html"):
        assert 'seen.html">Seen pairs</a>' in path.read_text("utf-8").replace(' aria-current="page"', "").replace(
            ' class="here"', ""
        ), path
    index = (out / "index.html").read_text("utf-8")
    assert 'href="seen.html#pairs-seen-1-tiny-sts"' in index
    profile = (out / "profiles" / "tiny.html").read_text("utf-8")
    assert "Curves as files" not in profile
    assert profile.partition('id="ranking"')[0].count('<tr class="plain first">') == 2


def test_report_files_have_the_same_numbers(out: Path) -> None:
    text = (out / "report.md").read_text("utf-8")
    assert "| STS15 | MCSE | 2 | 250 | 65.00 ± 1.41 | +4.50 ± 0.71 | 500 | 69.00 ± 0.00 | -1.00 ± 0.00 |" in text
    assert "STS on seen and unseen pairs: toy / toy-bert" in (out / "report.tex").read_text("utf-8")
    lines = list(csv.DictReader((out / "tables.csv").open()))
    (seen,) = (
        line
        for line in lines
        if (line["table"], line["variant"], line["task"], line["part"]) == ("seen", "mcse", "STS15", "[seen]")
    )
    assert (seen["n"], seen["mean"], seen["against"], seen["difference"]) == ("2", "65.0", "simcse", "4.5")
    # the t interval of the differences 4 and 5
    assert float(seen["low"]) == pytest.approx(4.5 - 12.706204736 * 0.5)
    assert [line["part"] for line in lines if line["variant"] == "visualcse" and line["against"]] == []


def test_a_runs_page_says_what_the_parts_are(out: Path) -> None:
    (parts,) = (table for table in shown_run(out, RESULTS[2])["scores"] if table["folded"])
    assert parts["title"] == "parts of the tasks; [seen]: pairs of which training read a sentence, [unseen]: the others"


def test_without_such_parts_there_is_no_page_and_no_link(tmp_path: Path) -> None:
    rendered(tmp_path / "out", over_seeds("simcse", [1.0, 2.0]))
    assert not (tmp_path / "out" / "seen.html").exists()
    for path in (tmp_path / "out").rglob("*.html"):
        assert "seen.html" not in path.read_text("utf-8"), path
        assert "[unseen]" not in path.read_text("utf-8"), path
