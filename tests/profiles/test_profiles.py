from __future__ import annotations

import csv
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from harness.errors import UserError
from harness.grid import UnfitSettingError, expand, resolve
from harness.method import Feature, method_named
from harness.profiles import Training, load_profile, shipped_profiles
from harness.profiles.schema import Rule
from harness.registry import get, names
from harness.spec import RunSpec, Variant

#: parameter, as the transcription of the papers calls it -> key of a rule
KEYS = {
    **{"eval_every_steps": "eval_every", "projection_dim_multimodal": "projection_dim"},
    **{
        name: name
        for name in (
            *("learning_rate", "batch_size", "epochs", "lambda", "mu", "margin"),
            *("temperature", "temperature_multimodal", "temperature_image"),
            *("image_learning_rate", "image_batch_size", "audio_learning_rate", "audio_batch_size"),
        )
    },
}

#: Which paper's rows bind a method: DALR prints values of its own runs of KDMCSE, NonLing some of SimCSE.
PAPERS = {
    **{"simcse": "mcse", "mcse": "mcse", "kdmcse": "kdmcse", "dalr": "dalr"},
    **dict.fromkeys(("visualcse", "audiocse", "visualcse-sup", "audiocse-sup"), "nonling"),
}

PAPER = load_profile("paper")
Published = list[tuple[str, str, str, str, float, str]]


@pytest.fixture(scope="module")
def published(papers_root: Path) -> Published:
    """(method, setting, encoder, key, value, where) of every published hyperparameter."""
    found: Published = []
    with (papers_root / "hyperparameters.csv").open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            if row["parameter"] not in KEYS:
                continue
            key, value, where = KEYS[row["parameter"]], float(row["value"]), f"{row['paper']} {row['where']}"
            found += [
                (method, setting, encoder, key.replace("image_", _other(method)), value, where)
                for method in row["method"].split(";")
                if PAPERS.get(method) == row["paper"]
                for setting in row["setting"].split(";")
                for encoder in row["encoder"].split(";")
            ]
    return found


def _other(method: str) -> str:
    """NonLing gives the batch of both other modalities in one row."""
    return "audio_" if method.startswith("audiocse") else "image_"


def variants() -> list[Variant]:
    """Every registered method in each of its readings."""
    return [Variant(name, (), reading) for name in names("method") for reading in method_named(name).readings]


@pytest.mark.parametrize("name", shipped_profiles())
def test_every_shipped_profile_resolves_every_method_setting_and_encoder(name: str) -> None:
    profile = load_profile(name)
    settings = [Variant(setting) for setting in profile.settings]
    runs, skipped = expand(profile, variants(), settings, list(profile.encoders), [0], {})
    reached = {(run.spec.variant, run.spec.setting.name, run.spec.encoder) for run in runs if run.method.trains}
    asked = {
        (variant, setting, encoder)
        for variant in variants()
        if method_named(variant.name).trains
        for setting in profile.settings
        for encoder in profile.encoders
        if f"{variant}/{setting}" not in {skip.what for skip in skipped}
    }
    assert reached == asked
    assert {run.spec.encoder for run in runs if not run.method.trains} == set(profile.encoders)


@pytest.mark.parametrize("name", shipped_profiles())
def test_defaults_name_runs_and_tasks_that_exist(name: str) -> None:
    profile = load_profile(name)
    methods = [Variant.parse(text) for text in profile.defaults.methods]
    settings = [Variant(setting) for setting in profile.defaults.settings]
    runs, skipped = expand(profile, methods, settings, profile.defaults.encoders, range(profile.defaults.seeds), {})
    trained = sum(method_named(variant.name).trains for variant in methods)
    cells = trained * len(settings) * profile.defaults.seeds + len(methods) - trained
    assert len(runs) == cells * len(profile.defaults.encoders)
    assert not skipped
    for suite, table in profile.suites.items():
        assert get("suite", suite)(table.tasks)
    assert get("similarity task", profile.dev)


@pytest.mark.parametrize("name", shipped_profiles())
def test_every_key_of_a_rule_belongs_to_the_registered_methods_it_matches(name: str) -> None:
    profile = load_profile(name)
    for rule in profile.hyperparameters:
        assert set(rule.methods) <= set(names("method")), rule
        assert rule.options, f"a rule without values: {rule}"
        for method in rule.methods or names("method"):
            known = {*Training.model_fields, *method_named(method).configure("paper").named()}
            assert set(rule.options) <= known, f"{name}, rule '{rule.source}': {method} has not all of {rule.options}"
            assert set(rule.readings) <= set(method_named(method).readings), rule
            assert set(rule.settings) <= set(profile.settings), rule
            assert set(rule.encoders) <= set(profile.encoders), rule


def test_paper_has_the_published_hyperparameters(published: Published) -> None:
    wrong, checked = [], []
    for method, setting, encoder, key, value, where in published:
        with suppress(UnfitSettingError):  # one row may have methods and settings that do not go together
            resolved = resolve(PAPER, RunSpec(Variant(method), Variant(setting), encoder, 0), {})
            values = {**resolved.training.model_dump(), **resolved.hyperparameters.named()}
            checked.append(method)
            if values[key] != value:
                wrong.append(f"{method}/{setting}/{encoder}: {key} is {values[key]}, {where} has {value}")
    assert not wrong
    assert len(checked) >= 150, "the transcription of the papers' hyperparameters has shrunk"
    assert set(checked) == set(PAPERS)


def test_paper_has_the_published_number_of_seeds_and_the_seven_tasks() -> None:
    assert PAPER.defaults.seeds == 5
    assert PAPER.suites["sts"].tasks == ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")


def test_official_readings_differ_from_paper_as_the_public_scripts_do() -> None:

    def training(variant: str, setting: str, encoder: str) -> Training:
        return resolve(PAPER, RunSpec(Variant.parse(variant), Variant(setting), encoder, 0), {}).training

    ours, theirs = (training(name, "wiki", "bert-base-uncased") for name in ("simcse", "simcse@official"))
    assert (ours.epochs, ours.precision, ours.eval_every) == (3, "tf32", 125)
    assert (theirs.epochs, theirs.precision, theirs.eval_every) == (1, "fp16", 125)
    roberta = training("simcse@official", "wiki", "roberta-base")
    assert (roberta.batch_size, roberta.learning_rate) == (512, 1e-5)
    paper, official = (training(name, "wiki+flickr", "bert-base-uncased") for name in ("mcse", "mcse@official"))
    assert official == paper


@pytest.mark.parametrize("encoder", ["bert-base-uncased", "roberta-base"])
def test_adam_epsilon_is_that_of_the_program_which_trained_the_printed_row(encoder: str) -> None:
    """1e-6 in train_mix.py of MCSE and its forks, so in @paper too; 1e-8 in the Trainer of SimCSE and NonLing."""
    found = {
        variant: resolve(PAPER, RunSpec(Variant.parse(variant), Variant(setting), encoder, 0), {}).training
        for variant, setting in (
            *((name + reading, "wiki+flickr") for name in ("mcse", "kdmcse", "dalr") for reading in ("", "@official")),
            ("simcse", "wiki"),
            ("simcse@official", "wiki"),
            ("visualcse", "wiki+imagenet"),
            ("visualcse@official", "wiki+imagenet"),
        )
    }
    mixed = [name for name in found if name.partition("@")[0] not in ("visualcse",) and name != "simcse@official"]
    assert {name: found[name].adam_epsilon for name in found} == {
        name: 1e-6 if name in mixed else 1e-8 for name in found
    }
    assert {one.unreached for one in found.values()} == {"momentum"}


@pytest.mark.parametrize("name", ["bert-base-uncased", "roberta-base", "roberta-large"])
def test_a_later_rule_wins_over_an_earlier_one(name: str) -> None:
    last = Rule.model_validate({"methods": ["mcse"], "source": "a test", "lambda": 0.5, "batch_size": 7})
    changed = PAPER.model_copy(update={"hyperparameters": (*PAPER.hyperparameters, last)})
    spec = RunSpec(Variant("mcse"), Variant("flickr"), name, 0)
    assert resolve(changed, spec, {}).hyperparameters.lambda_ == 0.5
    assert resolve(changed, spec, {}).training.batch_size == 7
    assert resolve(changed, spec, {"batch_size": 9}).training.batch_size == 9


# A profile of one's own ---------------------------------------------------------------------------

MINE = """
description = "mine"
images = "squeezenet"
dev = "STS-B-dev"
[defaults]
methods = ["mcse"]
settings = ["pairs"]
encoders = ["mine"]
[corpora.captions]
kind = "captions-file"
file = "captions.txt"
how = "write it"
[settings.pairs]
corpora = ["captions"]
[encoders.mine]
folder = "encoders/mine"
[training]
batch_size = 8
[[hyperparameters]]
methods = ["mcse"]
lambda = 0.25
source = "me"
[suites.sts]
tasks = ["STS-B"]
"""


#: public weights, before the last table of MINE
RELEASED = """[released.{name}]
hub = "a/b"
revision = "main"
pooling = "{pooling}"
encoder = "bert-base-uncased"
source = "their README"

[suites.sts]"""


def write(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_users_own_profile_is_read_by_path(tmp_path: Path) -> None:
    profile = load_profile(write(tmp_path, MINE))
    assert profile.name == "mine"
    assert profile.defaults.seeds == 5
    runs, _ = expand(profile, [Variant("mcse")], [Variant("pairs")], ["mine"], [3], {})
    assert runs[0].hyperparameters.lambda_ == 0.25
    assert runs[0].training.batch_size == 8
    assert runs[0].features == {"image": Feature("default")}


def test_the_name_that_commands_give_a_profile_file_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.toml").write_text('extends = "tiny"\n')
    (tmp_path / "tiny.toml").write_text("no profile")
    monkeypatch.chdir(tmp_path)
    assert load_profile("mine") == load_profile("./mine.toml")
    assert load_profile("tiny").origin == "package"


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ('images = "squeezenet"', 'picture = "x"', ["mine.toml", "top level", "picture", "no such key"]),
        ("batch_size = 8", "bach_size = 8", ["mine.toml", "[training]", "bach_size", "no such key"]),
        ("batch_size = 8", "batch_size = 0", ["mine.toml", "[training]", "batch_size", "greater than or equal to 2"]),
        ('["captions"]', '["caption"]', ["mine.toml", "settings.pairs.corpora", "[corpora.caption]"]),
        ('settings = ["pairs"]', 'settings = ["pears"]', ["mine.toml", "defaults.settings", "[settings.pears]"]),
        ('encoders = ["mine"]', 'encoders = ["yours"]', ["mine.toml", "defaults.encoders", "[encoders.yours]"]),
        ("[encoders.mine]", '[encoders.mine]\nhub = "a/b"', ["mine.toml", "[encoders]", "mine", "exactly one of"]),
        ('folder = "encoders/mine"', 'hub = "a/b"', ["mine.toml", "[encoders]", "mine", "revision"]),
        ('source = "me"', "", ["mine.toml", "[hyperparameters.0]", "source", "is missing"]),
        ("lambda = 0.25", "lambda = [0.25]", ["mine.toml", "hyperparameters", "'lambda' must be a number"]),
        ('kind = "captions-file"', "", ["mine.toml", "[corpora.captions]", "kind", "is missing"]),
        ('description = "mine"', 'name = "mine"', ["mine.toml", "'name'", "remove the line"]),
        ('description = "mine"', 'origin = "package"', ["mine.toml", "'origin'", "remove the line"]),
        ("[training]", "[training", ["mine.toml", "not valid TOML", "line 17"]),
        (
            "[suites.sts]",
            RELEASED.format(name='"a/b"', pooling="clss"),
            ["mine.toml", "[released]", "a/b", "unknown pooling 'clss'; did you mean cls"],
        ),
        ("[suites.sts]", RELEASED.format(name="mine", pooling="cls"), ["released.mine", "a/b; name the table so"]),
    ],
)
def test_errors_name_file_table_and_key_in_one_line(tmp_path: Path, old: str, new: str, parts: list[str]) -> None:
    assert MINE.count(old) == 1
    with pytest.raises(UserError) as caught:
        load_profile(write(tmp_path, MINE.replace(old, new)))
    message = str(caught.value)
    assert "\n" not in message
    assert all(part in message for part in parts), message


@pytest.mark.parametrize("methods", ['methods = ["kdmcse"]\n', 'methods = ["simcse", "kdmcse"]\n', ""])
def test_a_rule_that_replaces_a_readings_own_value_must_name_its_readings(methods: str, tmp_path: Path) -> None:
    rule = f'[[hyperparameters]]\n{methods}margin = 0.3\nsource = "a guess"\n[suites.sts]'
    profile = load_profile(write(tmp_path, MINE.replace("[suites.sts]", rule)))
    spec = RunSpec(Variant("kdmcse"), Variant("pairs"), "mine", 0)
    with pytest.raises(UserError, match="rule with source 'a guess'") as caught:
        resolve(profile, spec, {})
    assert "\n" not in str(caught.value)
    assert "of kdmcse@official; add the readings" in str(caught.value)
    named = rule.replace("margin", 'readings = ["paper"]\nmargin')
    profile = load_profile(write(tmp_path, MINE.replace("[suites.sts]", named)))
    found = {r: resolve(profile, replace(spec, variant=Variant("kdmcse", (), r)), {}) for r in ("paper", "official")}
    assert {r: run.hyperparameters.margin for r, run in found.items()} == {"paper": 0.3, "official": 0.15}


def test_no_value_of_paper_repeats_a_default() -> None:
    """Values that hold without a rule are stated in the method's file, with their source."""
    for rule in PAPER.hyperparameters:
        for method, (name, value) in product(rule.methods, rule.options.items()):
            if name not in Training.model_fields:
                readings = rule.readings or method_named(method).readings
                assert {method_named(method).configure(r).named()[name] for r in readings} != {value}, rule


@pytest.mark.parametrize("name", ["wiki+cc12m-1", "wiki+cc12m-2"])
def test_kdmcse_trains_on_text_where_every_step_is_paired(name: str) -> None:
    for setting, wanted in ((name, True), ("wiki+flickr", False), (name.removeprefix("wiki+"), False)):
        run = resolve(PAPER, RunSpec(Variant("kdmcse"), Variant(setting), "bert-base-uncased", 0), {})
        assert run.hyperparameters.text_on_pairs is wanted


def test_a_setting_and_its_karpathy_split_have_the_same_text_and_rules() -> None:
    for name in ("wiki+flickr", "wiki+coco"):
        twin = f"{name}-karpathy"
        corpora = [corpus.removesuffix("-karpathy") for corpus in PAPER.settings[twin].corpora]
        assert corpora == list(PAPER.settings[name].corpora)
        for rule in PAPER.hyperparameters:
            assert (name in rule.settings) <= (twin in rule.settings), f"'{rule.source}' leaves out {twin}"


def test_several_mistakes_are_counted(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"\(and 2 more\)$"):
        load_profile(write(tmp_path, MINE.replace("batch_size = 8", "batch_size = 0\nepochs = 0\nbreath = 1")))


def test_a_file_that_is_no_utf8_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(b'description = "caf\xe9"\n')
    with pytest.raises(UserError, match=r"mine\.toml is not valid TOML: .*utf-8") as caught:
        load_profile(str(tmp_path / "mine.toml"))
    assert "\n" not in str(caught.value)
