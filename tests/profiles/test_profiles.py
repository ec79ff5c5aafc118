from __future__ import annotations

import csv
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest
from cases import mark_others_long

from harness.commands import DEFAULT_COMMANDS
from harness.errors import UserError
from harness.grid import Resolved, UnfitSettingError, make_grid, resolve, resolve_all
from harness.method import Feature, method_named
from harness.profiles import Training, load_profile, shipped_profiles
from harness.registry import get, list_registered
from harness.spec import RunSpec, Variant

#: parameter, as the transcription of the papers calls it -> key of a rule, where they differ
KEYS = {"eval_every_steps": "eval_every", "projection_dim_multimodal": "projection_dim"}
#: parameters that are keys of rules as they are called
SAME = {
    *("learning_rate", "batch_size", "epochs", "lambda", "mu", "margin"),
    *("temperature", "temperature_multimodal", "temperature_image"),
    *("image_learning_rate", "image_batch_size", "audio_learning_rate", "audio_batch_size"),
}

#: Which paper's rows bind a method: DALR prints values of its own runs of KDMCSE, NonLing some of
#: SimCSE.
PAPERS = {
    **{"simcse": "mcse", "mcse": "mcse", "kdmcse": "kdmcse", "dalr": "dalr"},
    **dict.fromkeys(("visualcse", "audiocse", "visualcse-sup", "audiocse-sup"), "nonling"),
}

PAPER = load_profile("paper")


def variants() -> list[Variant]:
    """Every registered method in each of its readings."""
    return [
        Variant(name, (), reading)
        for name in list_registered("method")
        for reading in method_named(name).readings
    ]


@pytest.mark.parametrize("name", mark_others_long(shipped_profiles(), ["tiny", "grounding"]))
def test_every_shipped_profile_resolves_every_method_setting_and_encoder(name: str) -> None:
    profile = load_profile(name)
    settings = [Variant(setting) for setting in profile.settings]
    runs, skipped = resolve_all(
        profile, make_grid(profile, variants(), settings, list(profile.encoders), [0]), {}
    )
    reached = {
        (run.spec.variant, run.spec.setting.name, run.spec.encoder)
        for run in runs
        if run.method.trains
    }
    left_out = {skip.what for skip in skipped}
    asked = {
        (variant, setting, encoder)
        for variant in variants()
        if method_named(variant.name).trains
        for setting in profile.settings
        for encoder in profile.encoders
        if f"{variant}/{setting}" not in left_out
    }
    assert reached == asked
    assert {run.spec.encoder for run in runs if not run.method.trains} == set(profile.encoders)


@pytest.mark.parametrize("name", shipped_profiles())
def test_defaults_name_runs_and_tasks_that_exist(name: str) -> None:
    profile = load_profile(name)
    methods = [Variant.parse(text) for text in profile.defaults.methods]
    settings = [Variant(setting) for setting in profile.defaults.settings]
    specs = make_grid(
        profile, methods, settings, profile.defaults.encoders, range(profile.defaults.seeds)
    )
    runs, skipped = resolve_all(profile, specs, {})
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
        assert set(rule.methods) <= set(list_registered("method")), rule
        assert rule.options, f"a rule without values: {rule}"
        for method in rule.methods or list_registered("method"):
            known = {*Training.model_fields, *method_named(method).configure("paper").named()}
            assert set(rule.options) <= known, (
                f"{name}, rule '{rule.source}': {method} has not all of {rule.options}"
            )
            assert set(rule.readings) <= set(method_named(method).readings), rule
            assert set(rule.settings) <= set(profile.settings), rule
            assert set(rule.encoders) <= set(profile.encoders), rule


def test_paper_has_the_published_hyperparameters(papers_root: Path) -> None:
    wrong, checked = [], []
    for row in csv.DictReader(
        (papers_root / "hyperparameters.csv").read_text("utf-8").splitlines()
    ):
        if row["parameter"] not in KEYS.keys() | SAME:
            continue
        names = (row[axis].split(";") for axis in ("method", "setting", "encoder"))
        for method, setting, encoder in product(*names):
            if PAPERS.get(method) != row["paper"]:
                continue
            key = KEYS.get(row["parameter"], row["parameter"])
            if method.startswith(
                "audiocse"
            ):  # NonLing gives the batch of both other modalities in one row
                key = key.replace("image_", "audio_")
            with suppress(
                UnfitSettingError
            ):  # one row may have methods and settings that do not go together
                resolved = resolve(
                    PAPER, RunSpec(Variant(method), Variant(setting), encoder, 0), {}
                )
                values = {**resolved.training.model_dump(), **resolved.hyperparameters.named()}
                checked.append(method)
                if values[key] != float(row["value"]):
                    wrong.append(f"{method}/{setting}/{encoder}: {key} is {values[key]}, {row}")
    assert not wrong
    assert len(checked) >= 150, "the transcription of the papers' hyperparameters has shrunk"
    assert set(checked) == set(PAPERS)


def run(path: str, encoder: str = "bert-base-uncased") -> Resolved:
    """The run METHOD/SETTING of the profile of the papers."""
    return resolve(PAPER, RunSpec.parse(f"{path}/{encoder}/seed-0"), {})


def test_official_readings_differ_from_paper_as_the_public_scripts_do() -> None:
    ours, theirs = (run(f"{name}/wiki").training for name in ("simcse", "simcse@official"))
    assert (ours.epochs, ours.precision, ours.eval_every) == (3, "tf32", 125)
    assert (theirs.epochs, theirs.precision, theirs.eval_every) == (1, "fp16", 125)
    roberta = run("simcse@official/wiki", "roberta-base").training
    assert (roberta.batch_size, roberta.learning_rate) == (512, 1e-5)
    assert run("mcse@official/wiki+flickr").training == run("mcse/wiki+flickr").training
    assert PAPER.defaults.seeds == 5
    assert PAPER.suites["sts"].tasks == (
        "STS12",
        "STS13",
        "STS14",
        "STS15",
        "STS16",
        "STS-B",
        "SICK-R",
    )


@pytest.mark.parametrize("encoder", ["bert-base-uncased", "roberta-base"])
def test_adam_epsilon_is_that_of_the_program_which_trained_the_printed_row(encoder: str) -> None:
    """1e-6 in train_mix.py of MCSE and its forks, so in @paper too; 1e-8 in the Trainer of SimCSE
    and NonLing.
    """
    mixed = [
        f"{name}{reading}/wiki+flickr"
        for name in ("mcse", "kdmcse", "dalr")
        for reading in ("", "@official")
    ]
    others = ["simcse@official/wiki", "visualcse/wiki+imagenet", "visualcse@official/wiki+imagenet"]
    for path in ("simcse/wiki", *mixed, *others):
        training = run(path, encoder).training
        assert (training.adam_epsilon, training.unreached) == (
            1e-8 if path in others else 1e-6,
            "momentum",
        ), path


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
[released."a/b"]
hub = "a/b"
revision = "main"
pooling = "cls"
encoder = "bert-base-uncased"
source = "their README"
[suites.sts]
tasks = ["STS-B"]
"""


def write(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    return str(path)


def test_a_users_own_profile_is_read_by_path(tmp_path: Path) -> None:
    profile = load_profile(write(tmp_path, MINE))
    assert (profile.name, profile.defaults.seeds) == ("mine", 5)
    run = resolve(profile, RunSpec.parse("mcse/pairs/mine/seed-3"), {})
    assert (run.hyperparameters.lambda_, run.training.batch_size) == (0.25, 8)
    assert run.features == {"image": Feature("default")}


def test_the_name_that_commands_give_a_profile_file_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.toml").write_text('extends = "tiny"\n')
    (tmp_path / "tiny.toml").write_text("no profile")
    monkeypatch.chdir(tmp_path)
    assert load_profile("mine") == load_profile("./mine.toml")
    assert load_profile("tiny").origin == "package"
    assert [DEFAULT_COMMANDS.find_profile(name) for name in ("tiny", "mine")] == [
        "tiny",
        "./mine.toml",
    ]


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ('images = "squeezenet"', 'picture = "x"', ["top level", "picture", "no such key"]),
        (
            "batch_size = 8",
            "batch_size = 0\nepochs = 0\nbreath = 1",
            ["[training]", "breath", "(and 2 more)"],
        ),
        ('["captions"]', '["caption"]', ["settings.pairs.corpora", "[corpora.caption]"]),
        ('settings = ["pairs"]', 'settings = ["pears"]', ["defaults.settings", "[settings.pears]"]),
        ('encoders = ["mine"]', 'encoders = ["yours"]', ["defaults.encoders", "[encoders.yours]"]),
        (
            "[encoders.mine]",
            '[encoders.mine]\nhub = "a/b"',
            ["[encoders]", "mine", "exactly one of"],
        ),
        ('folder = "encoders/mine"', 'hub = "a/b"', ["[encoders]", "mine", "revision"]),
        ('source = "me"', "", ["[hyperparameters.0]", "source", "is missing"]),
        ("lambda = 0.25", "lambda = [0.25]", ["hyperparameters", "'lambda' must be a number"]),
        ('kind = "captions-file"', "", ["[corpora.captions]", "kind", "is missing"]),
        ('description = "mine"', 'name = "mine"', ["'name'", "remove the line"]),
        ('description = "mine"', 'origin = "package"', ["'origin'", "remove the line"]),
        ("[training]", "[training", ["not valid TOML", "line 17"]),
        (
            'description = "mine"',
            "description = '\udce9'",
            ["is not UTF-8 text", "save it as UTF-8"],
        ),
        ('pooling = "cls"', 'pooling = "clss"', ["[released]", "a/b", "did you mean cls"]),
        ('[released."a/b"]', "[released.mine]", ["released.mine", "a/b; name the table so"]),
    ],
)
def test_errors_name_file_table_and_key_in_one_line(
    tmp_path: Path, old: str, new: str, parts: list[str]
) -> None:
    assert MINE.count(old) == 1
    with pytest.raises(UserError, match=r"mine\.toml") as caught:
        load_profile(write(tmp_path, MINE.replace(old, new)))
    assert all(part in str(caught.value) for part in parts), str(caught.value)


@pytest.mark.parametrize(
    "methods", ['methods = ["kdmcse"]\n', 'methods = ["simcse", "kdmcse"]\n', ""]
)
def test_a_rule_that_replaces_a_readings_own_value_must_name_its_readings(
    methods: str, tmp_path: Path
) -> None:
    def margin(reading: str = "paper", readings: str = "") -> float:
        rule = f'[[hyperparameters]]\n{methods}{readings}margin = 0.3\nsource = "a guess"\n[suites.sts]'
        profile = load_profile(write(tmp_path, MINE.replace("[suites.sts]", rule)))
        spec = RunSpec(Variant("kdmcse", (), reading), Variant("pairs"), "mine", 0)
        return resolve(profile, spec, {}).hyperparameters.margin

    with pytest.raises(
        UserError, match=r"rule with source 'a guess'.* of kdmcse@official; add the readings"
    ):
        margin()
    assert [margin(reading, 'readings = ["paper"]\n') for reading in ("paper", "official")] == [
        0.3,
        0.15,
    ]


def test_no_value_of_paper_repeats_a_default() -> None:
    """Values that hold without a rule are stated in the method's file, with their source."""
    for rule in PAPER.hyperparameters:
        for method, (name, value) in product(rule.methods, rule.options.items()):
            if name not in Training.model_fields:
                readings = rule.readings or method_named(method).readings
                assert {method_named(method).configure(r).named()[name] for r in readings} != {
                    value
                }, rule


def test_kdmcse_trains_on_text_where_every_step_is_paired() -> None:
    for setting in ("cc12m-1", "cc12m-2", "wiki+cc12m-1", "wiki+cc12m-2", "wiki+flickr"):
        wanted = setting.startswith("wiki+cc12m")
        assert run(f"kdmcse/{setting}").hyperparameters.text_on_pairs is wanted, setting


def test_a_setting_and_its_karpathy_split_have_the_same_text_and_rules() -> None:
    for name in ("wiki+flickr", "wiki+coco"):
        twin = f"{name}-karpathy"
        corpora = [corpus.removesuffix("-karpathy") for corpus in PAPER.settings[twin].corpora]
        assert corpora == list(PAPER.settings[name].corpora)
        for rule in PAPER.hyperparameters:
            assert (name in rule.settings) <= (twin in rule.settings), (
                f"'{rule.source}' leaves out {twin}"
            )
