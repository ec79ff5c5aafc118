"""Training values of every run that a paper's tables and figures need: each is published, or a rule says why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from harness.grid import Resolved, resolve
from harness.papers.needed import paper_runs
from harness.papers.published import read_papers
from harness.papers.standins import StandIns
from harness.profiles import Profile, load_profile
from harness.spec import RunSpec

#: values that decide a result and that no library default may decide
DECIDED = ("batch_size", "learning_rate")


def unsourced(run: Resolved) -> Iterator[str]:
    """The values of a run that come from no rule, one line each."""
    length = "steps" if run.training.steps else "epochs"
    for name in (*DECIDED, length):
        if not run.sources.get(name):
            yield f"{run.spec}: {name} = {getattr(run.training, name)} comes from no rule"


def runs(profile: Profile, paper: str) -> list[Resolved]:
    """The trained runs of a paper's tables and figures, in each reading of their methods; one seed of each."""
    (one,) = (one for one in read_papers() if one.name == paper)
    wanted = {spec for entry in paper_runs(one, StandIns.of(profile), seeds=[0]).values() for spec in entry}
    found = [resolve(profile, spec, {}) for spec in sorted(wanted, key=str)]
    readings = {
        replace(run.spec, variant=replace(run.spec.variant, reading=reading))
        for run in found
        for reading in run.method.readings
    }
    found += [resolve(profile, spec, {}) for spec in readings - wanted]
    return [run for run in found if run.method.trains]


@pytest.mark.parametrize("paper", [paper.name for paper in read_papers()])
def test_batch_learning_rate_and_epochs_of_every_run_come_from_a_rule(paper: str) -> None:
    found = runs(load_profile("paper"), paper)
    assert len(found) > 10
    assert not [line for run in found for line in unsourced(run)]


def test_a_value_without_a_rule_is_refused_by_the_name_of_its_run() -> None:
    profile = load_profile("paper")
    rules = tuple(rule for rule in profile.hyperparameters if "visualcse-sup" not in rule.methods)
    spec = RunSpec.parse("visualcse-sup/nli+imagenet/bert-base-uncased/seed-0")
    bare = resolve(profile.model_copy(update={"hyperparameters": rules}), spec, {})
    assert list(unsourced(bare)) == [
        f"{spec}: batch_size = 64 comes from no rule",
        f"{spec}: learning_rate = 3e-05 comes from no rule",
        f"{spec}: epochs = 1 comes from no rule",
    ]
    assert not list(unsourced(resolve(profile, spec, {})))


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
    profile = load_profile("paper")
    ours, theirs = (
        resolve(profile, RunSpec.parse(f"{name}/{setting}/{encoder}/seed-0"), {}).training
        for name in (method, baseline)
    )
    assert ours == theirs


@pytest.mark.parametrize("encoder", ["bert-base-german-cased", "bert-base-chinese"])
def test_simcse_in_another_language_is_trained_as_visualcse(encoder: str) -> None:
    profile = load_profile("paper")
    language = {"bert-base-german-cased": "de", "bert-base-chinese": "zh"}[encoder]
    names = (f"simcse/wiki-{language}", f"simcse@official/wiki-{language}", f"visualcse/wiki-{language}+imagenet")
    found = [resolve(profile, RunSpec.parse(f"{name}/{encoder}/seed-0"), {}).training for name in names]
    assert found[0] == found[2]
    assert found[1] == found[0].model_copy(update={"precision": "fp16"}), "SimCSE's script names fp16"


def test_supervised_runs_have_the_values_of_their_script() -> None:
    """NonLing run_sup_example.sh; section 3.3 gives the temperature of images, and nothing gives that of audio."""
    profile = load_profile("paper")
    for name, prefix, temperatures in (
        ("visualcse-sup/nli+imagenet", "image", (0.07, 0.05)),
        ("audiocse-sup/nli+librispeech", "audio", (0.05, 0.05)),
    ):
        method, setting = name.split("/")
        for reading, temperature in zip(("", "@official"), temperatures, strict=True):
            run = resolve(profile, RunSpec.parse(f"{method}{reading}/{setting}/bert-base-uncased/seed-0"), {})
            training, values = run.training, run.hyperparameters.named()
            assert (training.batch_size, training.learning_rate, training.epochs) == (128, 3e-5, 3)
            assert training.precision == ("fp16" if reading else "tf32")
            own = [values[f"{prefix}_{key}"] for key in ("batch_size", "learning_rate", "weight")]
            assert (*own, values[f"temperature_{prefix}"]) == (48, 1e-7, 100.0, temperature)


def test_models_of_mcses_captions_are_tested_on_the_split_that_these_were_drawn_from() -> None:
    profile = load_profile("paper")
    for name, setting in profile.settings.items():
        fits = {"Flickr30k": "Flickr30k-Entities"} if "flickr" in setting.corpora else {}
        assert setting.tests == fits, name
    assert {"Flickr30k", "Flickr30k-Entities"} < set(profile.suites["retrieval"].tasks)
