"""The first page: what ran, and counts of verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import over_seeds, result
from site_samples import rendered

from harness.papers.audit.findings import audit
from harness.papers.published import read_published
from harness.reporting.site.overview import by_paper, spans, verdict_counts, what_ran


@pytest.mark.parametrize(("seeds", "text"), [([0], "0"), ([2, 1, 0, 7], "0–2, 7"), ([4, 4, 6], "4, 6"), ([], "")])
def test_seeds_are_shown_as_spans(seeds: list[int], text: str) -> None:
    assert spans(iter(seeds)) == text


def test_runs_are_grouped_by_profile_setting_and_encoder() -> None:
    results = [*over_seeds("mcse", [1.0, 2.0]), *over_seeds("simcse", [1.0]), result(setting="wiki", profile="small")]
    first, second = what_ran(results)
    assert (first.profile, first.setting, first.seeds, first.runs) == ("small", "wiki", "0", 1)
    assert (second.variants, second.seeds, second.suites, second.runs) == (("mcse", "simcse"), "0–1", ("sts",), 3)


def test_audit_counts_are_those_of_the_findings() -> None:
    findings = audit(read_published())
    counts = verdict_counts(by_paper(findings))
    assert sum(sum(some.values()) for some in counts.values()) == len(findings)
    assert set(counts) == {finding.paper for finding in findings}


def test_a_papers_table_is_counted_by_its_verdicts(tmp_path: Path) -> None:
    scores = {"sts": {"STS12": {"spearman": 70.0}, "Avg": {"spearman": 77.0}}}
    where = {"profile": "paper", "setting": "wiki+flickr", "encoder": "bert-base-uncased"}
    rendered(tmp_path / "out", [result("mcse", 0, scores, **where)])
    row = (tmp_path / "out" / "index.html").read_text().partition('mcse-t1">')[2].partition("</tr>")[0]
    cells = [cell.partition("</td>")[0] for cell in row.split('<td class="num">')[1:]]
    assert cells[:4] == ["1 of 14", "–", "–", "2"], "one seed is too few to agree or differ"
    assert int(cells[4]) > 0
