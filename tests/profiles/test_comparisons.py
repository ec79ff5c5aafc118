"""Both sides of every comparison are trained alike under the profile `paper`, or the difference is listed here."""

from __future__ import annotations

from collections.abc import Iterator

from harness.grid import Resolved, resolve
from harness.method import method_named
from harness.papers.published import Ablation, read_ablations, read_papers
from harness.papers.schema import PaperTable
from harness.profiles import load_profile
from harness.spec import RunSpec, Variant, parse_setting

PROFILE = load_profile("paper")
#: every method that trains, in a setting of its paper
SETTINGS = {
    **dict.fromkeys(("mcse", "kdmcse", "dalr"), "wiki+flickr"),
    **{"simcse": "wiki", "visualcse": "wiki+imagenet", "audiocse": "wiki+librispeech"},
    **{"simcse-sup": "nli", "visualcse-sup": "nli+imagenet", "audiocse-sup": "nli+librispeech"},
}
PAPERS = {paper.name: paper for paper in read_papers()}
#: the values that both sides should share
COMPARED = ("batch_size", "epochs", "precision")
#: what is compared although it is trained apart, and in which of these values: each paper's method with its own values
APART = {
    # DALR appendix B (128; 4 epochs) and its KDMCSE rows, quoted from KDMCSE (64 for BERT; 3 epochs)
    ("dalr:T1", "dalr", "kdmcse", "bert-base-uncased"): {"batch_size", "epochs"},
    ("dalr:T1", "dalr", "kdmcse", "roberta-base"): {"epochs"},
    # NonLing Table 3 tests against SimCSE by its own script, which names fp16, and for RoBERTa a batch of 512; the
    # claims compare simcse/wiki+imagenet, which is trained as visualcse
    ("nonling:T3", "visualcse", "simcse@official", "bert-base-uncased"): {"precision"},
    ("nonling:T3", "visualcse", "simcse@official", "roberta-base"): {"batch_size", "precision"},
}


def run(variant: str, setting: str, encoder: str) -> Resolved:
    return resolve(PROFILE, RunSpec(Variant.parse(variant), parse_setting(setting), encoder, 0), {})


def differing(one: Resolved, other: Resolved) -> set[str]:
    return {name for name in COMPARED if getattr(one.training, name) != getattr(other.training, name)}


def places(claim: Ablation) -> Iterator[tuple[str, PaperTable, str, str]]:
    """Each table of a claim with the settings and encoders of the better side's rows."""
    for name in claim.tables:
        table = PAPERS[claim.paper].tables[name]
        for encoder in table.encoders:
            for _, row in table.rows_of(encoder):
                if row.variant == claim.better:
                    yield f"{claim.paper}:{name}", table, row.setting, encoder


def comparisons() -> Iterator[tuple[str, str, str, str, set[str]]]:
    """(table, variant, rival, encoder, values that differ) of all claims, in one setting each, and of all tests."""
    for claim in read_ablations():
        for name, _, setting, encoder in places(claim):
            sides = (run(variant, setting, encoder) for variant in (claim.better, claim.worse))
            yield name, claim.better, claim.worse, encoder, differing(*sides)
    for paper in PAPERS.values():
        for name, table in paper.tables.items():
            for encoder in table.encoders:
                for _, row in table.rows_of(encoder):
                    if other := table.compared(row):
                        sides = (run(one.variant, one.setting, encoder) for one in (row, other))
                        yield f"{paper.name}:{name}", row.variant, other.variant, encoder, differing(*sides)


def test_both_sides_have_equal_epochs_batch_and_precision_or_it_is_known() -> None:
    found = list(comparisons())
    assert {claim.paper for claim in read_ablations()} == {name.partition(":")[0] for name, *_ in found}
    apart = {tuple(place): values for *place, values in found if values}
    assert apart == APART


def test_every_claim_is_compared_somewhere() -> None:
    for claim in read_ablations():
        assert list(places(claim)), f"'{claim.text}': no table of the claim has a row {claim.better}"


def test_precision_is_tf32_and_that_of_its_code_in_an_official_reading() -> None:
    """SimCSE's and NonLing's scripts have --fp16; MCSE's program and its forks had TF32 by their torch."""
    found = {
        f"{name}@{reading}": run(f"{name}@{reading}", setting, "bert-base-uncased").training.precision
        for name, setting in SETTINGS.items()
        for reading in method_named(name).readings
    }
    code = {f"{name}@official": "tf32" if name in ("mcse", "kdmcse", "dalr") else "fp16" for name in SETTINGS}
    assert found == {variant: code.get(variant, "tf32") for variant in found}
    assert code.keys() <= found.keys()
