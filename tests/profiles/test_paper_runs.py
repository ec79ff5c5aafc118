"""Training values of the runs under the profile `paper` that the papers' tables and figures need.

Each is published, or a rule says why; and both sides of every comparison are trained alike, or the difference is listed
here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from harness.grid import Resolved, resolve
from harness.method import method_named
from harness.papers.needed import StandIns, paper_runs
from harness.papers.published import Ablation, read_ablations, read_papers
from harness.papers.schema import PaperTable
from harness.profiles import load_profile
from harness.spec import RunSpec, Variant, parse_setting

PROFILE = load_profile("paper")
#: values that decide a result and that no library default may decide
DECIDED = ("batch_size", "learning_rate")


def unsourced(run: Resolved) -> Iterator[str]:
    """The values of a run that come from no rule, one line each."""
    length = "steps" if run.training.steps else "epochs"
    for name in (*DECIDED, length):
        if not run.sources.get(name):
            yield f"{run.spec}: {name} = {getattr(run.training, name)} comes from no rule"


def runs(paper: str) -> list[Resolved]:
    """The trained runs of a paper's tables and figures, in each reading of their methods; one seed of each."""
    (one,) = (one for one in read_papers() if one.name == paper)
    wanted = {spec for entry in paper_runs(one, StandIns.of(PROFILE), seeds=[0]).values() for spec in entry}
    found = [resolve(PROFILE, spec, {}) for spec in sorted(wanted, key=str)]
    readings = {
        replace(run.spec, variant=replace(run.spec.variant, reading=reading))
        for run in found
        for reading in run.method.readings
    }
    found += [resolve(PROFILE, spec, {}) for spec in readings - wanted]
    return [run for run in found if run.method.trains]


@pytest.mark.parametrize("paper", [paper.name for paper in read_papers()])
def test_batch_learning_rate_and_epochs_of_every_run_come_from_a_rule(paper: str) -> None:
    found = runs(paper)
    assert len(found) > 10
    assert not [line for run in found for line in unsourced(run)]


def test_a_value_without_a_rule_is_refused_by_the_name_of_its_run() -> None:
    rules = tuple(rule for rule in PROFILE.hyperparameters if "visualcse-sup" not in rule.methods)
    spec = RunSpec.parse("visualcse-sup/nli+imagenet/bert-base-uncased/seed-0")
    bare = resolve(PROFILE.model_copy(update={"hyperparameters": rules}), spec, {})
    values = ("batch_size = 64", "learning_rate = 3e-05", "epochs = 1")
    assert list(unsourced(bare)) == [f"{spec}: {value} comes from no rule" for value in values]
    assert not list(unsourced(resolve(PROFILE, spec, {})))


@pytest.mark.parametrize("encoder", ["bert-base-uncased", "roberta-base", "roberta-large"])
@pytest.mark.parametrize(
    ("method", "setting", "baseline"),
    [
        ("visualcse", "wiki+imagenet", "simcse"),
        ("visualcse", "wiki+cifar", "simcse"),
        ("visualcse", "wiki+cifar100", "simcse"),
        ("audiocse", "wiki+librispeech", "simcse"),
        ("visualcse-sup", "nli+imagenet", "simcse-sup"),
        ("audiocse-sup", "nli+librispeech", "simcse-sup"),
    ],
)
def test_simcse_beside_images_or_recordings_is_trained_as_the_text_side(
    method: str, setting: str, baseline: str, encoder: str
) -> None:
    ours, theirs = (
        resolve(PROFILE, RunSpec.parse(f"{name}/{setting}/{encoder}/seed-0"), {}).training
        for name in (method, baseline)
    )
    assert ours == theirs


@pytest.mark.parametrize("encoder", ["bert-base-german-cased", "bert-base-chinese"])
def test_simcse_in_another_language_is_trained_as_visualcse(encoder: str) -> None:
    language = {"bert-base-german-cased": "de", "bert-base-chinese": "zh"}[encoder]
    names = (f"simcse/wiki-{language}", f"simcse@official/wiki-{language}", f"visualcse/wiki-{language}+imagenet")
    found = [resolve(PROFILE, RunSpec.parse(f"{name}/{encoder}/seed-0"), {}).training for name in names]
    assert found[0] == found[2]
    assert found[1] == found[0].model_copy(update={"precision": "fp16"}), "SimCSE's script names fp16"


def test_supervised_runs_have_the_values_of_their_script() -> None:
    """NonLing run_sup_example.sh; section 3.3 gives the temperature of images, and nothing gives that of audio."""
    for name, prefix, temperatures in (
        ("visualcse-sup/nli+imagenet", "image", (0.07, 0.05)),
        ("audiocse-sup/nli+librispeech", "audio", (0.05, 0.05)),
    ):
        method, setting = name.split("/")
        for reading, temperature in zip(("", "@official"), temperatures, strict=True):
            run = resolve(PROFILE, RunSpec.parse(f"{method}{reading}/{setting}/bert-base-uncased/seed-0"), {})
            training, values = run.training, run.hyperparameters.named()
            assert (training.batch_size, training.learning_rate, training.epochs) == (128, 3e-5, 3)
            assert training.precision == ("fp16" if reading else "tf32")
            own = [values[f"{prefix}_{key}"] for key in ("batch_size", "learning_rate", "weight")]
            assert (*own, values[f"temperature_{prefix}"]) == (48, 1e-7, 100.0, temperature)


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
    """And every claim is compared somewhere."""
    found = list(comparisons())
    assert [claim.text for claim in read_ablations() if not list(places(claim))] == []
    apart = {tuple(place): values for *place, values in found if values}
    assert apart == APART


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
