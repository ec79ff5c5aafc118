from __future__ import annotations

import csv
import tomllib
from pathlib import Path

import pytest

from harness import profiles
from harness.errors import UserError
from harness.grid import expand, resolve
from harness.method import Feature
from harness.profiles import Profile, Training, load_profile, shipped_profiles
from harness.profiles.schema import Rule
from harness.registry import get, names
from harness.spec import RunSpec, Variant

#: Methods of the papers that may have rules before they are registered.
ANNOUNCED = {"kdmcse", "dalr", "visualcse", "audiocse", "simcse-sup", "visualcse-sup", "audiocse-sup"}

#: parameter, as the transcription of the papers calls it -> key of a rule
KEYS = {
    "learning_rate": "learning_rate",
    "batch_size": "batch_size",
    "epochs": "epochs",
    "eval_every_steps": "eval_every",
    "temperature": "temperature",
    "temperature_multimodal": "temperature_multimodal",
    "temperature_image": "temperature_image",
    "projection_dim_multimodal": "projection_dim",
    "lambda": "lambda",
    "mu": "mu",
    "margin": "margin",
    "image_learning_rate": "image_learning_rate",
    "image_batch_size": "image_batch_size",
    "audio_learning_rate": "audio_learning_rate",
    "audio_batch_size": "audio_batch_size",
}

#: Which paper's rows bind a method: DALR prints values of its own runs of KDMCSE, NonLing some of SimCSE.
PAPERS = {
    "simcse": "mcse",
    "mcse": "mcse",
    "kdmcse": "kdmcse",
    "dalr": "dalr",
    "visualcse": "nonling",
    "audiocse": "nonling",
    "visualcse-sup": "nonling",
    "audiocse-sup": "nonling",
}

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
    return [Variant(name, (), reading) for name in names("method") for reading in get("method", name).readings]


def matching(profile: Profile, method: str, setting: str, encoder: str) -> dict[str, object]:
    """What the rules alone say of a @paper run, registered or not."""
    values: dict[str, object] = {}
    for rule in profile.hyperparameters:
        if rule.matches(method, "paper", setting, encoder):
            values |= rule.values
    return values


@pytest.mark.parametrize("name", shipped_profiles())
def test_every_shipped_profile_resolves_every_method_setting_and_encoder(name: str) -> None:
    profile = load_profile(name)
    settings = [Variant(setting) for setting in profile.settings]
    runs, skipped = expand(profile, variants(), settings, list(profile.encoders), [0], {})
    reached = {(run.spec.variant, run.spec.setting.name, run.spec.encoder) for run in runs if run.method.trains}
    asked = {
        (variant, setting, encoder)
        for variant in variants()
        if get("method", variant.name).trains
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
    trained = sum(get("method", variant.name).trains for variant in methods)
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
        assert set(rule.methods) <= {*names("method"), *ANNOUNCED}, rule
        assert rule.values, f"a rule without values: {rule}"
        for method in set(rule.methods or names("method")) & set(names("method")):
            known = {*Training.model_fields, *get("method", method).configure("paper").named()}
            assert set(rule.values) <= known, f"{name}, rule '{rule.source}': {method} lacks some of {rule.values}"
            assert set(rule.readings) <= set(get("method", method).readings), rule
            assert set(rule.settings) <= set(profile.settings), rule
            assert set(rule.encoders) <= set(profile.encoders), rule


def test_paper_is_what_the_mcse_paper_prints(published: Published) -> None:
    profile = load_profile("paper")
    wrong, checked = [], 0
    for method, setting, encoder, key, value, where in published:
        if method not in names("method"):
            continue
        resolved = resolve(profile, RunSpec(Variant(method), Variant(setting), encoder, 0), {})
        values = {**resolved.training.model_dump(), **resolved.hyperparameters.named()}
        checked += 1
        if values[key] != value:
            wrong.append(f"{method}/{setting}/{encoder}: {key} is {values[key]}, {where} has {value}")
    assert not wrong
    assert checked >= 99, "the transcription of MCSE's hyperparameters has shrunk"


def test_rules_of_methods_to_come_are_what_their_papers_print(published: Published) -> None:
    profile = load_profile("paper")
    rows = [row for row in published if row[0] in ANNOUNCED]
    wrong = []
    for method, setting, encoder, key, value, where in rows:
        given = matching(profile, method, setting, encoder).get(key, getattr(profile.training, key, None))
        if given != value:
            wrong.append(f"{method}/{setting}/{encoder}: {key} is {given}, {where} has {value}")
    assert not wrong
    assert {row[0] for row in rows} >= ANNOUNCED - {"simcse-sup"} - set(names("method"))


def test_paper_has_the_published_number_of_seeds_and_the_seven_tasks() -> None:
    profile = load_profile("paper")
    assert profile.defaults.seeds == 5
    assert profile.suites["sts"].tasks == ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")


def test_official_readings_differ_from_paper_as_the_public_scripts_do() -> None:
    profile = load_profile("paper")

    def training(variant: str, setting: str, encoder: str) -> Training:
        return resolve(profile, RunSpec(Variant.parse(variant), Variant(setting), encoder, 0), {}).training

    ours, theirs = (training(name, "wiki", "bert-base-uncased") for name in ("simcse", "simcse@official"))
    assert (ours.epochs, ours.precision, ours.eval_every) == (3, "fp32", 125)
    assert (theirs.epochs, theirs.precision, theirs.eval_every) == (1, "fp16", 125)
    roberta = training("simcse@official", "wiki", "roberta-base")
    assert (roberta.batch_size, roberta.learning_rate) == (512, 1e-5)
    mcse = [training(name, "wiki+flickr", "bert-base-uncased") for name in ("mcse", "mcse@official")]
    assert [item.adam_epsilon for item in mcse] == [1e-8, 1e-6]
    assert mcse[0].model_copy(update={"adam_epsilon": 1e-6}) == mcse[1]


@pytest.mark.parametrize("name", ["bert-base-uncased", "roberta-base", "roberta-large"])
def test_a_later_rule_wins_over_an_earlier_one(name: str) -> None:
    profile = load_profile("paper")
    last = Rule.model_validate({"methods": ["mcse"], "source": "a test", "lambda": 0.5, "batch_size": 7})
    changed = profile.model_copy(update={"hyperparameters": (*profile.hyperparameters, last)})
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
    assert runs[0].features(profile) == {"image": Feature("squeezenet")}


@pytest.mark.parametrize("name", shipped_profiles())
def test_a_copy_of_a_shipped_profile_is_a_profile(name: str, tmp_path: Path) -> None:
    text = (Path(profiles.__file__).parent / f"{name}.toml").read_text(encoding="utf-8")
    copy = load_profile(write(tmp_path, text))
    assert copy == load_profile(name).model_copy(update={"name": "mine"})
    assert "name" not in tomllib.loads(text)


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ('images = "squeezenet"', 'picture = "x"', ["mine.toml", "top level", "picture", "not permitted"]),
        ("batch_size = 8", "bach_size = 8", ["mine.toml", "[training]", "bach_size", "not permitted"]),
        ("batch_size = 8", 'batch_size = "many"', ["mine.toml", "[training]", "batch_size", "integer"]),
        ("batch_size = 8", "batch_size = 0", ["mine.toml", "[training]", "batch_size", "greater than or equal to 1"]),
        ('["captions"]', '["caption"]', ["mine.toml", "settings.pairs.corpora", "[corpora.caption]"]),
        ('settings = ["pairs"]', 'settings = ["pears"]', ["mine.toml", "defaults.settings", "[settings.pears]"]),
        ('encoders = ["mine"]', 'encoders = ["yours"]', ["mine.toml", "defaults.encoders", "[encoders.yours]"]),
        ("[encoders.mine]", '[encoders.mine]\nhub = "a/b"', ["mine.toml", "[encoders]", "mine", "exactly one of"]),
        ('folder = "encoders/mine"', 'hub = "a/b"', ["mine.toml", "[encoders]", "mine", "revision"]),
        (
            'folder = "encoders/mine"',
            'hub = "a/b"\nrevision = "main"',
            ["mine.toml", "[encoders.mine]", "revision", "pattern"],
        ),
        ('source = "me"', "", ["mine.toml", "[hyperparameters.0]", "source", "required"]),
        ("lambda = 0.25", "lambda = [0.25]", ["mine.toml", "hyperparameters", "'lambda' must be a number"]),
        ('tasks = ["STS-B"]', "tasks = []", ["mine.toml", "[suites.sts]", "tasks", "at least 1"]),
        ('kind = "captions-file"', "", ["mine.toml", "[corpora.captions]", "kind", "required"]),
        ('description = "mine"', 'name = "mine"', ["mine.toml", "'name'", "remove it"]),
        ("[training]", "[training", ["mine.toml", "not valid TOML", "line 17"]),
    ],
)
def test_errors_name_file_table_and_key_in_one_line(tmp_path: Path, old: str, new: str, parts: list[str]) -> None:
    assert MINE.count(old) == 1
    with pytest.raises(UserError) as caught:
        load_profile(write(tmp_path, MINE.replace(old, new)))
    message = str(caught.value)
    assert "\n" not in message
    assert all(part in message for part in parts), message


def test_several_mistakes_are_counted(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"\(and 2 more\)$"):
        load_profile(write(tmp_path, MINE.replace("batch_size = 8", "batch_size = 0\nepochs = 0\nbreath = 1")))


def test_a_file_that_is_no_utf8_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(b'description = "caf\xe9"\n')
    with pytest.raises(UserError, match=r"mine\.toml is not valid TOML: .*utf-8") as caught:
        load_profile(str(tmp_path / "mine.toml"))
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"absent\.toml cannot be read: No such file"):
        load_profile(str(tmp_path / "absent.toml"))


def test_an_unknown_profile_gets_the_nearest_names() -> None:
    with pytest.raises(UserError, match=r"unknown profile 'papers'; did you mean paper\?"):
        load_profile("papers")


@pytest.mark.parametrize(
    ("methods", "settings", "message"),
    [
        ("mcze", "wiki", r"unknown method 'mcze'; did you mean mcse"),
        ("mcse", "wiki+flicker", r"'paper' has no setting 'wiki\+flicker'; did you mean wiki\+flickr"),
        ("mcse[lamda=1]", "flickr", r"'mcse' has no option 'lamda'.*lambda"),
        ("mcse@oficial", "flickr", r"no reading '@oficial'; it has @paper, @official"),
    ],
)
def test_unknown_names_get_the_nearest_ones(methods: str, settings: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        expand(load_profile("paper"), [Variant.parse(methods)], [Variant(settings)], ["bert-base-uncased"], [0], {})
    assert "\n" not in str(caught.value)
