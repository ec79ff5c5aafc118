"""The audit finds what was found by hand when the papers were read, and nothing where it was sound."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import scipy.stats
from audit_papers import Claim, check_papers, main, read_claims
from click.testing import CliRunner
from printed_numbers import Finding, compare, judge_better, make_printed_numbers

from harness.errors import UserError
from harness.papers.audit import count_verdicts, read_findings
from harness.papers.published import REPORTS, Published, PublishedKey, read_published


@pytest.fixture(scope="module")
def findings() -> list[Finding]:
    return check_papers(read_published())


def of(findings: list[Finding], paper: str, where: str, text: str) -> Finding:
    (finding,) = (f for f in findings if (f.paper, f.where) == (paper, where) and text in f.claim)
    return finding


def cells(mine: float, theirs: float, std: float = 0.7) -> dict[PublishedKey, Published]:
    """A number of MCSE with a deviation of 0.7, and one of SimCSE with `std`."""
    keys = (
        PublishedKey("mcse", "T1", name, "", "bert", "wiki", "sts", "STS12", "own")
        for name in ("mcse", "simcse")
    )
    return dict(
        zip(
            keys,
            (Published(mine, 0.7, 5, star=False), Published(theirs, std, 5, star=False)),
            strict=True,
        )
    )


def test_kdmcse_stars_that_cannot_reach(findings: list[Finding]) -> None:
    starred = of(findings, "kdmcse", "T1", "Each star: better")
    assert (starred.checked, starred.failed, starred.within, starred.verdict) == (22, 7, 1, "fails")
    sure, rounding = starred.details[:7], starred.details[7:]
    found_in = [re.match(r"kdmcse (\S+) wiki\+(\S+) (\S+) .*p = ([0-9.]+) ", text) for text in sure]
    assert [match.groups() for match in found_in if match] == [
        ("bert-base-uncased", "flickr", "STS13", "0.10"),
        ("bert-base-uncased", "flickr", "STS15", "0.86"),
        ("bert-base-uncased", "flickr", "SICK-R", "0.61"),
        ("roberta-base", "flickr", "SICK-R", "0.18"),
        ("bert-base-uncased", "coco", "STS13", "0.22"),
        ("bert-base-uncased", "coco", "SICK-R", "0.11"),
        ("roberta-base", "coco", "Avg", "0.42"),
    ]
    assert "bert-base-uncased wiki+coco Avg 77.9±1.2 against 76.6±0.5, p = 0.0558" in rounding[0]
    assert of(findings, "kdmcse", "T1", "has a star").verdict == "holds"
    one_sided = of(findings, "kdmcse", "T1", "one-sided")
    assert (one_sided.failed, one_sided.within) == (5, 2)


def test_mcse_stars(findings: list[Finding]) -> None:
    missing = of(findings, "mcse", "T7", "has a star")
    # fifteen for any rounding and either deviation: the least sure, RoBERTa flickr STS15, has p =
    # 0.0491 at most
    assert (missing.failed, missing.within) == (15, 3)
    assert any(
        "resnet roberta-base flickr STS15" in text and "0.0028 to 0.049 " in text
        for text in missing.details
    )
    assert any(
        "resnet bert-base-uncased flickr STS-B 74.0±0.4 against 67.1±1.1" in text
        for text in missing.details
    )
    starred = of(findings, "mcse", "T7", "Each star: better")
    assert (starred.failed, starred.within) == (0, 1)
    assert "clip roberta-base coco STS15" in starred.details[0]
    assert "p = 0.0558" in starred.details[0]
    lone = of(findings, "mcse", "T1", "has a star")
    assert (lone.failed, lone.within) == (1, 0)
    assert "STS15 83.6±0.9 against 81.9±0.8, p = 0.0135" in lone.details[0]
    within = of(findings, "mcse", "T1", "Each star: better")
    assert (within.verdict, within.within) == ("within rounding", 1)
    assert of(findings, "mcse", "T7", "A star on simcse").checked == 3


def test_a_star_is_corrected_over_the_tests_against_one_number(findings: list[Finding]) -> None:
    corrected = [
        (finding.paper, finding.where, finding.checked, finding.failed)
        for finding in findings
        if finding.check == "holm"
    ]
    # elsewhere each number is compared with one other: such a family has one test, which nothing
    # corrects
    assert corrected == [("mcse", "T2", 4, 0), ("mcse", "T7", 27, 2)]


def test_averages(findings: list[Finding]) -> None:
    checks = [f for f in findings if f.check == "averages"]
    assert sum(f.checked for f in checks) == 115
    (wrong,) = (f for f in checks if f.verdict != "holds")
    assert (wrong.paper, wrong.where, wrong.checked, wrong.failed) == ("dalr", "T2", 14, 2)
    assert wrong.details == [
        "mcse roberta-base wiki+flickr transfer Avg 86.29, the mean of its 7 tasks is 86.323",
        "kdmcse bert-base-uncased wiki+coco transfer Avg 86.20, the mean of its 7 tasks is 86.211",
    ]


def test_quotes(findings: list[Finding]) -> None:
    bad = {(f.paper, f.where) for f in findings if f.check == "quotes" and f.verdict == "fails"}
    assert bad == {("dalr", "T1"), ("dalr", "T2"), ("nonling", "TE.1")}
    for source in ("mcse", "kdmcse"):
        assert of(findings, "dalr", "T1", f"quoted from {source} ").verdict == "holds"
    assert of(findings, "kdmcse", "T1", "quoted from mcse").checked == 80


KNOWN = [
    ("mcse", "abstract", "over the quoted", "holds", 0),
    ("mcse", "abstract", "own SimCSE", "fails", 1),
    ("mcse", "section 4.2", "STS16 alone", "fails", 1),
    ("mcse", "section 4.2, T2", "Gains", "holds", 0),
    ("mcse", "section 4.2, T2", "Shuffling", "holds", 0),
    ("mcse", "T2, T7", "starred in both", "fails", 1),
    ("mcse", "T5", "1.9", "holds", 0),
    ("mcse", "T5", "2.6", "holds", 0),
    ("mcse", "F3", "87K", "fails", 1),
    ("mcse", "F3", "30K", "holds", 0),
    ("kdmcse", "section 5.1", "STS14", "fails", 2),
    ("kdmcse", "T1", "repeats", "fails", 1),
    ("kdmcse", "T2", "alignment", "fails", 1),
    ("kdmcse", "T3, appendix A", "best", "fails", 5),
    ("kdmcse", "T4, appendix B", "CC12M", "fails", 2),
    ("kdmcse", "T5 beside T1", "wiki+flickr", "holds", 0),
    ("kdmcse", "T5 beside T1", "wiki+coco", "fails", 8),
    ("dalr", "T1", "MCSE's own", "holds", 0),
    ("dalr", "section 1", "KDMCSE", "fails", 3),
    ("dalr", "section 4.2", "significantly", "fails", 3),
    ("dalr", "section 4.2", "SimCSE rows", "fails", 12),
    ("dalr", "T6", "alignment", "fails", 2),
    ("dalr", "T7, appendix B", "4 hours", "fails", 1),
    ("dalr", "T8, appendix E.1", "CML", "fails", 2),
    ("dalr", "T3", "CML", "holds", 0),
    ("nonling", "T1", "VisualCSE", "fails", 1),
    ("nonling", "T2", "AudioCSE", "fails", 3),
    ("nonling", "T3", "BERT gives p = 0.0235.", "holds", 0),
    ("nonling", "T3", "unequal", "fails", 1),
    ("nonling", "T5", "4.98", "holds", 0),
    ("nonling", "section 4.6, T6", "NLI", "fails", 1),
    ("nonling", "TE.1", "every transfer task", "fails", 11),
    ("nonling", "TE.1", "0.05", "holds", 0),
    ("nonling", "TE.1", "500 questions", "holds", 0),
    ("dalr", "T2", "SimCSE's TREC", "fails", 1),
    ("dalr", "T2", "one model", "fails", 10),
    ("nonling", "sections 3.3, 4.4", "class", "fails", 1),
    ("between papers", "STS, SimCSE-BERT on wiki", "average", "fails", 4),
    ("between papers", "KDMCSE Algorithm 1, DALR", "29783", "holds", 0),
    ("between papers", "KDMCSE Algorithm 1, DALR", "82783", "holds", 0),
]


@pytest.mark.parametrize(("paper", "where", "text", "verdict", "failed"), KNOWN)
def test_claims_end_as_read_by_hand(
    findings: list[Finding], paper: str, where: str, text: str, verdict: str, failed: int
) -> None:
    finding = of(findings, paper, where, text)
    assert (finding.verdict, finding.failed) == (verdict, failed)
    assert len(finding.details) == finding.failed + finding.within


def test_what_a_paper_does_not_say_is_counted_apart(findings: list[Finding]) -> None:
    """DALR appendix C states its batch of 128, and nowhere says that its last ablation is MCSE."""
    unsaid = (
        ("dalr", "T7", "its own batch"),
        ("dalr", "T3 beside T1", "what is left"),
        ("mcse", "T6", "usual"),
    )
    for key in unsaid:
        assert not of(findings, *key).claimed

    for paper in {finding.paper for finding in findings}:
        of_paper = [finding for finding in read_findings() if finding.paper == paper]
        counts = count_verdicts(of_paper)
        assert sum(counts.values()) == len(of_paper)
        assert counts["not claimed"] == sum(not finding.claimed for finding in of_paper)
        assert counts["fails"] == sum(
            finding.claimed and finding.failed > 0 for finding in of_paper
        )


def test_the_table_of_the_report_is_what_the_tool_writes(
    findings: list[Finding],
) -> None:
    written = CliRunner().invoke(main, catch_exceptions=False).stdout
    assert (REPORTS / "audit.csv").read_text() == written
    shown = [(finding.claim, finding.verdict, finding.exceptions) for finding in read_findings()]
    assert shown == [
        (finding.claim, finding.verdict, tuple(finding.details)) for finding in findings
    ]


def test_details_have_the_known_numbers(findings: list[Finding]) -> None:
    details = " ".join(of(findings, "dalr", "section 4.2", "significantly").details)
    assert re.findall(r"p = ([0-9.]+)", details) == ["0.0950", "0.33", "0.0950"]
    (detail,) = of(findings, "nonling", "sections 3.3, 4.4", "class").details
    assert detail.startswith("18.8 pairs")
    assert "55%" in detail


def test_rounding_is_taken_in_the_papers_favour() -> None:
    """The extremes of p over the box of unrounded values, found by trying its corners and both
    forms.
    """
    a, b = make_printed_numbers(cells(78.0, 77.1, 0.8), [])
    tried = [
        scipy.stats.ttest_ind_from_stats(
            78.0 + x, (0.7 + s) * f, 5, 77.1 + y, (0.8 + t) * f, 5
        ).pvalue
        for x in (-0.05, 0.05)
        for y in (-0.05, 0.05)
        for s in (-0.05, 0.05)
        for t in (-0.05, 0.05)
        for f in (1.0, (5 / 4) ** 0.5)
    ]
    contrasted = compare(a, b)
    assert (contrasted.lowest, contrasted.highest) == pytest.approx((min(tried), max(tried)))
    assert contrasted.lowest < contrasted.p < contrasted.highest


def test_a_star_needs_a_gain_and_a_small_p() -> None:
    states = {80.0: "holds", 78.0: "within rounding", 77.3: "fails", 74.0: "fails", 77.1: "fails"}
    assert {
        mine: judge_better(*make_printed_numbers(cells(mine, 77.1), [])) for mine in states
    } == states


def test_a_changed_number_changes_the_finding() -> None:
    """One digit of a quoted cell, of an average and a star: each is found."""
    numbers = read_published()
    at = PublishedKey(
        "kdmcse", "T1", "mcse", "", "bert-base-uncased", "wiki+coco", "sts", "STS12", "mcse"
    )
    old = numbers[at]
    numbers[at] = Published(old.value + 1.0, old.std, old.seeds, star=True)
    changed = check_papers(numbers)
    assert of(changed, "kdmcse", "T1", "quoted from mcse").failed == 1
    assert of(changed, "kdmcse", "T1", "mean of its tasks").failed == 1
    assert of(changed, "kdmcse", "T1", "A star on mcse").checked == 1


def test_a_claim_that_names_no_number_or_option_says_so() -> None:
    for arguments, words in (
        ({"a.method": "mcse", "b.method": "dalr"}, "line 2: no published number"),
        (
            {"a.method": "mcse", "b.method": "simcse"},
            "line 2: invalid options for the check 'difference'",
        ),
    ):
        with pytest.raises(UserError, match=words):
            check_papers(
                cells(80.0, 79.0),
                [Claim("mcse", "here", "a claim", "difference", arguments, "line 2")],
            )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("mcse,T1,a claim,yes,guess,table=T1", "unknown check 'guess'; known: agree"),
        ("mcse,T1,a claim,yes,better,table", "'table' is not an argument"),
        ("mcse,T1,a claim,perhaps,better,table=T1", "'claimed' is 'perhaps'; write yes or no"),
        ("mcse,T1,a claim", "3 fields, the header has 6"),
    ],
)
def test_a_damaged_claims_file_is_named_with_its_line(
    tmp_path: Path, line: str, message: str
) -> None:
    path = tmp_path / "claims.csv"
    path.write_text(f"paper,where,claim,claimed,check,arguments\n{line}\n")
    with pytest.raises(UserError, match=f"claims.csv, line 2: {re.escape(message)}"):
        read_claims(path)
