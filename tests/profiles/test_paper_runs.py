"""Training values of the runs under the profile `paper` that the papers' tables and figures need.

Each is published, or a rule says why; and both sides of every comparison are trained alike, or the
difference is listed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from harness.grid import Resolved, resolve
from harness.method import method_named
from harness.papers.needed import StandIns, list_paper_runs
from harness.papers.published import Ablation, read_ablations, read_papers
from harness.papers.schema import PaperTable
from harness.profiles import load_profile
from harness.spec import RunSpec

PROFILE = load_profile("paper")
PAPERS = {paper.name: paper for paper in read_papers()}


def run(path: str) -> Resolved:
    """The run METHOD/SETTING/ENCODER of the first seed."""
    return resolve(PROFILE, RunSpec.parse(f"{path}/seed-0"), {})


def runs(paper: str) -> list[Resolved]:
    """The trained runs of a paper's tables and figures, in each reading of their methods; one seed
    of each.
    """
    wanted = {
        spec
        for entry in list_paper_runs(PAPERS[paper], StandIns.of(PROFILE), seeds=[0]).values()
        for spec in entry
    }
    readings = {
        replace(spec, variant=replace(spec.variant, reading=reading))
        for spec in wanted
        for reading in method_named(spec.variant.name).readings
    }
    resolved = [resolve(PROFILE, spec, {}) for spec in sorted(wanted | readings, key=str)]
    return [run for run in resolved if run.method.trains]


@pytest.mark.parametrize("paper", PAPERS)
def test_batch_learning_rate_and_epochs_of_every_run_come_from_a_rule(paper: str) -> None:
    trained = runs(paper)
    assert len(trained) > 10
    for run in trained:
        length = "steps" if run.training.steps else "epochs"
        assert all(run.sources.get(name) for name in ("batch_size", "learning_rate", length)), (
            run.spec
        )


@pytest.mark.parametrize("encoder", ["bert-base-uncased", "roberta-base", "roberta-large"])
@pytest.mark.parametrize(
    "named",
    [
        *(
            "visualcse/wiki+imagenet",
            "visualcse/wiki+cifar",
            "visualcse/wiki+cifar100",
            "audiocse/wiki+librispeech",
        ),
        *("visualcse-sup/nli+imagenet", "audiocse-sup/nli+librispeech"),
    ],
)
def test_simcse_beside_images_or_recordings_is_trained_as_the_text_side(
    named: str, encoder: str
) -> None:
    baseline = named.replace("visualcse", "simcse").replace("audiocse", "simcse")
    assert run(f"{named}/{encoder}").training == run(f"{baseline}/{encoder}").training


@pytest.mark.parametrize(
    ("language", "encoder"), [("de", "bert-base-german-cased"), ("zh", "bert-base-chinese")]
)
def test_simcse_in_another_language_is_trained_as_visualcse(language: str, encoder: str) -> None:
    names = (
        f"simcse/wiki-{language}",
        f"simcse@official/wiki-{language}",
        f"visualcse/wiki-{language}+imagenet",
    )
    paper, official, visual = (run(f"{name}/{encoder}").training for name in names)
    assert paper == visual
    assert official == paper.model_copy(update={"precision": "fp16"}), "SimCSE's script names fp16"


@pytest.mark.parametrize("reading", ["", "@official"])
@pytest.mark.parametrize(
    ("kind", "setting", "temperature"),
    [("visual", "nli+imagenet", 0.07), ("audio", "nli+librispeech", 0.05)],
)
def test_supervised_runs_have_the_values_of_their_script(
    kind: str, setting: str, temperature: float, reading: str
) -> None:
    """NonLing run_sup_example.sh; section 3.3 gives the temperature of images, and nothing gives
    that of audio.
    """
    resolved, prefix = (
        run(f"{kind}cse-sup{reading}/{setting}/bert-base-uncased"),
        kind.replace("visual", "image"),
    )
    training, values = resolved.training, resolved.hyperparameters.named()
    assert (training.batch_size, training.learning_rate, training.epochs) == (128, 3e-5, 3)
    assert training.precision == ("fp16" if reading else "tf32")
    assert [values[f"{prefix}_{key}"] for key in ("batch_size", "learning_rate", "weight")] == [
        48,
        1e-7,
        100.0,
    ]
    assert values[f"temperature_{prefix}"] == (0.05 if reading else temperature)


def test_models_of_mcses_captions_are_tested_on_the_split_that_these_were_drawn_from() -> None:
    for name, setting in PROFILE.settings.items():
        fits = {"Flickr30k": "Flickr30k-Entities"} if "flickr" in setting.corpora else {}
        assert setting.tests == fits, name
    assert {"Flickr30k", "Flickr30k-Entities"} < set(PROFILE.suites["retrieval"].tasks)


#: every method that trains, in a setting of its paper
SETTINGS = {
    **dict.fromkeys(("mcse", "kdmcse", "dalr"), "wiki+flickr"),
    **{"simcse": "wiki", "visualcse": "wiki+imagenet", "audiocse": "wiki+librispeech"},
    **{"simcse-sup": "nli", "visualcse-sup": "nli+imagenet", "audiocse-sup": "nli+librispeech"},
}
#: the values that both sides should share
COMPARED = ("batch_size", "epochs", "precision")
#: what is compared although it is trained apart, and in which of these values: each paper's method
#: with its own values
APART = {
    # DALR appendix B (128; 4 epochs) and its KDMCSE rows, quoted from KDMCSE (64 for BERT; 3
    # epochs)
    ("dalr:T1", "dalr", "kdmcse", "bert-base-uncased"): {"batch_size", "epochs"},
    ("dalr:T1", "dalr", "kdmcse", "roberta-base"): {"epochs"},
    # NonLing Table 3 tests against SimCSE by its own script, which names fp16, and for RoBERTa a
    # batch of 512; the claims compare simcse/wiki+imagenet, which is trained as visualcse
    ("nonling:T3", "visualcse", "simcse@official", "bert-base-uncased"): {"precision"},
    ("nonling:T3", "visualcse", "simcse@official", "roberta-base"): {"batch_size", "precision"},
}


def differing(ours: Resolved, other: Resolved) -> set[str]:
    return {
        name for name in COMPARED if getattr(ours.training, name) != getattr(other.training, name)
    }


def places(claim: Ablation) -> Iterator[tuple[str, PaperTable, str, str]]:
    """Each table of a claim with the settings and encoders of the better side's rows."""
    for name in claim.tables:
        table = PAPERS[claim.paper].tables[name]
        for encoder in table.encoders:
            for _, row in table.select_rows(encoder):
                if row.variant == claim.better:
                    yield f"{claim.paper}:{name}", table, row.setting, encoder


def comparisons() -> Iterator[tuple[str, str, str, str, set[str]]]:
    """(table, variant, rival, encoder, values that differ) of all claims, in one setting each, and
    of all tests.
    """
    for claim in read_ablations():
        for name, _, setting, encoder in places(claim):
            sides = (
                run(f"{variant}/{setting}/{encoder}") for variant in (claim.better, claim.worse)
            )
            yield name, claim.better, claim.worse, encoder, differing(*sides)
    for paper in PAPERS.values():
        for name, table in paper.tables.items():
            for encoder in table.encoders:
                for _, row in table.select_rows(encoder):
                    if rival := table.find_compared(row):
                        sides = (
                            run(f"{side.variant}/{side.setting}/{encoder}") for side in (row, rival)
                        )
                        yield (
                            f"{paper.name}:{name}",
                            row.variant,
                            rival.variant,
                            encoder,
                            differing(*sides),
                        )


def test_both_sides_have_equal_epochs_batch_and_precision_or_it_is_known() -> None:
    """And every claim is compared somewhere."""
    compared = list(comparisons())
    assert [claim.text for claim in read_ablations() if not list(places(claim))] == []
    apart = {tuple(key): values for *key, values in compared if values}
    assert apart == APART


def test_precision_is_tf32_and_that_of_its_code_in_an_official_reading() -> None:
    """SimCSE's and NonLing's scripts have --fp16; MCSE's program and its forks had TF32 by their
    torch.
    """
    assert all("official" in method_named(name).readings for name in SETTINGS)
    for name, setting in SETTINGS.items():
        for reading in method_named(name).readings:
            fp16 = reading == "official" and name not in ("mcse", "kdmcse", "dalr")
            precision = run(f"{name}@{reading}/{setting}/bert-base-uncased").training.precision
            assert precision == ("fp16" if fp16 else "tf32"), f"{name}@{reading}"
