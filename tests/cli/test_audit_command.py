"""The `audit` command."""

from __future__ import annotations

from cli_words import Typed


def test_audit_counts_its_verdicts(typed: Typed) -> None:
    code, out, err = typed("audit")
    assert (code, err) == (0, "")
    for name in ("mcse", "kdmcse", "dalr", "nonling", "between papers"):
        assert f"\n{name}: " in "\n" + out
    assert "7 of 22, 1 within rounding" in out
    assert "roberta-base wiki+coco Avg" not in out
    code, out, _ = typed("audit", "--paper", "kdmcse")
    assert code == 0
    assert "kdmcse roberta-base wiki+coco Avg 78.0±0.7 against 77.6±0.8, p = 0.42" in out
    assert "dalr: " not in out


def test_audit_counts_what_training_has_seen(typed: Typed) -> None:
    code, out, err = typed("audit", "--seen", "--profile", "tiny", "--settings", "toy")
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    (images,) = (row for row in rows if row[:2] == ["toy", "retrieval"])
    assert images == ["toy", "retrieval", "ToyRetrieval", "1,000", "0"]
    assert {row[2] for row in rows if row[:2] == ["toy", "dev"]} == {"ToySTS-dev"}
