"""Names of variants as people write them."""

from __future__ import annotations

import pytest

from harness.method.naming import name_of, take_titles
from harness.papers.published import read_papers


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("mcse", "MCSE"),
        ("simcse-sup", "supervised SimCSE"),
        ("mcse[lambda=0.1]", "MCSE, λ = 0.1"),
        ("mcse[lambda=0.1]@official", "MCSE (public code), λ = 0.1"),
        ("mcse[tuned=6]@official", "MCSE (public code), tuned (6 trials)"),
        (
            "dalr[tuned=1[mu=1,text=run:a[b=1]/c/d/seed-0]]",
            "DALR, tuned (1 trial: mu=1,text=run:a[b=1]/c/d/seed-0)",
        ),
        ("mcse[images=shuffled]", "MCSE, shuffled images"),
        ("kdmcse[with=cml]", "KDMCSE with CML"),
        ("dalr[without=rank]", "DALR without rank"),
        ("dalr[without=cma+ima+rank]", "DALR without cma, ima and rank"),
        ("simcse[learning_rate=3e-05]", "SimCSE, learning rate = 3e-5"),
        ("none[pooling=cls]", "untrained, [CLS]"),
        ("none[pooling=mean]", "untrained, mean"),
        (
            "dalr[text=run:simcse-sup/nli/bert/seed-0]",
            "DALR, text = supervised SimCSE/nli/bert/seed-0",
        ),
        ("gone[a_b=1]", "gone, a b = 1"),
        ("../no/variant", "../no/variant"),
    ],
)
def test_a_variant_has_a_readable_name_beside_its_code(code: str, name: str) -> None:
    assert (name_of(code).text, name_of(code).code) == (name, code)
    assert (
        name_of(code, "learning_rate=1e-05,steps=40").text
        == f"{name} (learning rate = 1e-5, steps = 40)"
    )


def test_two_variants_of_the_papers_never_share_a_name() -> None:
    tables = [table for paper in read_papers() for table in paper.tables.values()]
    variants = {row.variant for table in tables for row in table.rows}
    variants |= {f"{variant}@official" for variant in variants if "@" not in variant}
    assert len({name_of(variant).text for variant in variants}) == len(variants) > 20


def test_a_title_that_another_process_found_is_used() -> None:
    take_titles({"mine": "MyCSE"})
    assert name_of("mine[alpha=2]").text == "MyCSE, α = 2"
