"""Plans and fingerprints: everything that can change a number is in, nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
from builders import result

import harness
from harness import grid
from harness.cli.run import list_unequal_seeds
from harness.encoders.locate import FolderModel
from harness.errors import UserError
from harness.grid import Overrides, Resolved, make_grid, resolve
from harness.planning.experiments import Experiment
from harness.planning.plan import MOST_LISTED, Plan, make_plan
from harness.planning.request import Request
from harness.profiles import Profile, Training, load_profile
from harness.profiles.schema import Corpus
from harness.registry import get
from harness.sources import Missing
from harness.spec import RunSpec, Variant, parse_setting
from harness.store import Store


def plan(tmp_path: Path, suites: Sequence[str] = ("sts", "geometry"), **changes: object) -> Plan:
    axes = {
        "methods": [Variant("mcse")],
        "settings": [Variant("toy")],
        "encoders": ["toy-bert"],
        "seeds": (0,),
    }
    axes |= {name: changes.pop(name) for name in axes if name in changes}
    request = replace(Request(load_profile("tiny"), {}), **changes)
    wanted = dict.fromkeys(make_grid(request.profile, **axes), suites)
    return make_plan(replace(request, suites_by_run=wanted), Store(tmp_path))


def fingerprint(tmp_path: Path, **changes: object) -> str:
    (run,) = plan(tmp_path, **changes).runs
    return run.fingerprint


def test_a_long_plan_is_shown_in_part(tmp_path: Path) -> None:
    shown = repr(plan(tmp_path, seeds=tuple(range(MOST_LISTED + 3)))).splitlines()
    assert (len(shown), shown[-1]) == (MOST_LISTED + 2, "and 3 more")
    assert "more" not in repr(plan(tmp_path, seeds=tuple(range(MOST_LISTED))))


def test_seeds_share_what_is_decided_and_read_and_keep_their_fingerprints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decided = list[RunSpec]()
    read = list[str]()

    def resolve_and_note(profile: Profile, spec: RunSpec, overrides: Overrides) -> Resolved:
        decided.append(spec)
        return resolve(profile, spec, overrides)

    def count_and_note(experiment: Experiment) -> None:
        read.append(experiment.key_without_seed)

    monkeypatch.setattr(grid, "resolve", resolve_and_note)
    monkeypatch.setattr(Experiment, "check_mixing", count_and_note)
    methods = [Variant("simcse"), Variant("mcse")]
    many_seeds = plan(tmp_path, methods=methods, seeds=(0, 1, 2))
    assert len(decided) == 2
    assert read == ["simcse/toy/toy-bert", "mcse/toy/toy-bert"]
    assert len(many_seeds.inputs) == len(plan(tmp_path, methods=methods).inputs)

    for run in many_seeds.runs:
        spec = run.resolved.spec
        (alone,) = plan(tmp_path, methods=[spec.variant], seeds=(spec.seed,)).runs
        assert (run.key, run.fingerprint) == (alone.key, alone.fingerprint)


def test_a_grid_that_would_leave_unequal_seeds_names_those_that_make_them_equal(
    tmp_path: Path,
) -> None:
    methods = {"methods": [Variant("simcse"), Variant("mcse")], "seeds": (0, 1)}
    before = plan(tmp_path, **methods)
    assert before.unequal_seeds == {}
    group = next(run.group for run in before.runs if run.resolved.spec.variant.name == "simcse")
    finished = result("simcse", seed=2).model_copy(update={"group": group})
    Store(tmp_path).save(finished)

    after = plan(tmp_path, **methods)
    assert after.unequal_seeds == {"toy / toy-bert": {"simcse": {0, 1, 2}, "mcse": {0, 1}}}
    (line,) = list_unequal_seeds(after)
    words = "unequal in toy / toy-bert: simcse 3, mcse 2; `--seeds 3` makes them equal"
    assert line.endswith(words)


OTHER = {
    "batch_size": 32, "learning_rate": 5e-3, "epochs": 2, "steps": 10, "eval_every": 7, "max_length": 16,
    "warmup_steps": 5, "weight_decay": 0.1, "adam_epsilon": 1e-6, "unreached": "rest", "max_grad_norm": 0.5,
    "precision": "bf16",
    "compile": True, "checkpoint": "last",
    "temperature": 0.1, "temperature_multimodal": 0.1, "lambda": 0.5, "projection_dim": 128,
    "view_reduction": "mean", "images": "shuffled", "without": "info", "text_teacher": "toy-clip",
    "pooling": "mean", "dropout": 0.2, "attention_dropout": 0.0, "lora_rank": 4,
}  # fmt: skip


def test_the_list_of_values_is_whole() -> None:
    assert set(OTHER) == set(Training.model_fields) | set(
        get("method", "mcse").configure("paper").named()
    )


@pytest.mark.parametrize(
    "changes",
    [
        *({"overrides": {key: value}} for key, value in OTHER.items()),
        {"methods": [Variant.parse("simcse")]},
        {"methods": [Variant.parse("mcse@official")]},
        {"methods": [Variant.parse("mcse[images=random]")]},
        {"seeds": (1,)},
        {"settings": [parse_setting("toy-pairs")]},
    ],
    ids=str,
)
def test_every_hyperparameter_and_every_axis_change_the_fingerprint(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    assert fingerprint(tmp_path, **changes) != fingerprint(tmp_path)


def test_a_plan_says_that_a_weight_without_a_second_term_changes_nothing(tmp_path: Path) -> None:
    given = {"settings": [parse_setting("toy-pairs")]}
    alone = plan(tmp_path, methods=[Variant.parse("kdmcse[lambda=0.1]")], **given)
    (said,) = [line for line in alone.warnings if "lambda" in line]
    assert said.startswith("kdmcse: lambda changes nothing in toy-pairs: it scales the whole loss")
    for variant in ("kdmcse", "mcse[lambda=0.1]"):
        other = plan(tmp_path, methods=[Variant.parse(variant)], **given)
        assert not [line for line in other.warnings if "lambda" in line], "not given, or of use"


def test_a_value_that_was_added_later_leaves_the_identity_of_earlier_runs_as_it_was(
    tmp_path: Path,
) -> None:
    (run,) = plan(tmp_path).runs
    assert run.experiment.resolved.training.checkpoint == "best"
    assert "checkpoint" not in run.experiment.identity["training"]
    assert fingerprint(tmp_path, overrides={"checkpoint": "best"}) == run.fingerprint


@pytest.mark.parametrize(
    ("variant", "setting", "lacking"),
    [
        ("mcse", "flickr", {"captions.txt", "resnet50.hdf5"}),
        ("mcse", "flickr[captions=all]", {"captions.txt", "captions.parquet", "resnet50.hdf5"}),
        ("kdmcse", "flickr", {"captions.txt", "captions.parquet", "images"}),
        ("dalr@official", "flickr", {"captions.txt", "captions.parquet", "images"}),
    ],
)
def test_what_a_setting_with_mcses_captions_lacks_can_be_got(
    tmp_path: Path, variant: str, setting: str, lacking: set[str]
) -> None:
    """Published features need no ids; images and all captions need the matched file; the dev task
    is always needed.
    """
    asked = {
        "profile": load_profile("paper"),
        "encoders": ["bert-base-uncased"],
        "suites": [],
        "data": tmp_path,
    }
    made = plan(
        tmp_path, methods=[Variant.parse(variant)], settings=[parse_setting(setting)], **asked
    )
    assert not made.skipped
    files = {
        item.what for item in made.missing if item.how and item.what.startswith(("flickr/", "sts/"))
    }
    assert files == {"sts/STSB-dev.tsv", *(f"flickr/{name}" for name in lacking)}


def test_all_captions_of_a_file_without_them_are_refused_and_other_runs_go_on(
    tmp_path: Path,
) -> None:
    profile = load_profile("paper")
    alone = Corpus.model_validate({**profile.corpora["flickr"].model_dump(), "matched": None})
    profile = profile.model_copy(update={"corpora": {**profile.corpora, "flickr": alone}})
    (tmp_path / "flickr").mkdir()
    (tmp_path / "flickr/captions.txt").write_text("One dog .\nTwo cats .\n")
    asked = {"profile": profile, "encoders": ["bert-base-uncased"], "suites": [], "data": tmp_path}
    settings = [parse_setting("wiki+flickr"), parse_setting("wiki+coco")]
    made = plan(tmp_path, methods=[Variant.parse("kdmcse@official")], settings=settings, **asked)
    (skip,) = made.skipped
    assert skip.what == "kdmcse@official/wiki+flickr"
    assert skip.why.endswith(
        "captions.txt has only one caption per image; change the option, corpus or setting"
    )
    assert [str(run.resolved.spec.setting) for run in made.runs] == ["wiki+coco"]


def test_options_in_any_order_and_spelling_are_one_experiment(tmp_path: Path) -> None:
    texts = ["mcse[lambda=0.5,projection_dim=64]", "mcse[ projection_dim=64.0, lambda=5e-1 ]"]
    first, other = (fingerprint(tmp_path, methods=[Variant.parse(text)]) for text in texts)
    by_set = fingerprint(tmp_path, overrides={"lambda": 0.5, "projection_dim": 64})
    assert first == other == by_set


def test_paths_are_not_in_it_but_content_is(tmp_path: Path) -> None:
    folder = Path(str(files("harness.toy") / "student"))
    fingerprints = []
    for name in ("here", "there"):
        shutil.copytree(folder, tmp_path / name)
        fingerprints.append(
            fingerprint(tmp_path, own_encoders={"toy-bert": FolderModel(tmp_path / name)})
        )
    (tmp_path / "there" / "README.md").write_text("words change nothing")
    fingerprints.append(
        fingerprint(tmp_path, own_encoders={"toy-bert": FolderModel(tmp_path / "there")})
    )
    with (tmp_path / "there" / "model.safetensors").open("r+b") as stream:
        stream.seek(-1, 2)
        stream.write(b"\x7f")
    fingerprints.append(
        fingerprint(tmp_path, own_encoders={"toy-bert": FolderModel(tmp_path / "there")})
    )
    assert fingerprints[0] == fingerprints[1] == fingerprints[2] == fingerprint(tmp_path)
    assert fingerprints[3] != fingerprints[0]


def test_neither_the_profiles_name_and_words_nor_its_suites_are_in_it(tmp_path: Path) -> None:
    text = 'extends = "tiny"\ndescription = "other words"\n[suites.sts]\ntasks = ["ToySTS-dev"]\n'
    (tmp_path / "mine.toml").write_text(text)
    assert fingerprint(tmp_path, profile=load_profile(str(tmp_path / "mine.toml"))) == fingerprint(
        tmp_path
    )


def test_simcse_does_not_depend_on_pictures(tmp_path: Path) -> None:
    simcse = [Variant.parse("simcse")]
    without = load_profile("tiny").model_copy(update={"teachers": {}, "images": None})
    assert fingerprint(tmp_path, methods=simcse) == fingerprint(
        tmp_path, methods=simcse, profile=without
    )
    with pytest.raises(UserError, match="images = TEACHER"):
        fingerprint(tmp_path, profile=without)


def test_the_model_that_computes_features_of_test_images_is_missing_too(tmp_path: Path) -> None:
    """MCSE trains on published features of its own images, and retrieval has others."""
    chosen = {
        "methods": "mcse",
        "settings": "wiki+flickr",
        "seeds": 1,
        "results": tmp_path / "results",
    }
    data = tmp_path / "data"

    def lacks_resnet(missing: Sequence[Missing]) -> bool:
        return any(item.what.startswith("the weights of timm/resnet50.tv_in1k") for item in missing)

    bare = harness.plan(**chosen, suites="sts,retrieval")
    assert lacks_resnet(bare.without_data["retrieval"])
    assert not lacks_resnet(bare.missing)
    captions = [
        f"captions/{name}_captions.tsv.gz"
        for name in ("flickr30k", "flickr30k_entities", "coco_karpathy")
    ]
    for file in (*captions, "flickr/images/x", "coco/val2014/x"):
        (data / file).parent.mkdir(parents=True, exist_ok=True)
        (data / file).write_text("")
    there = harness.plan(**chosen, suites="retrieval", data_root=data)
    assert dict(there.without_data) == {}
    assert lacks_resnet(there.missing)
    for name, folder in (("test", "flickr"), ("entities_test", "flickr"), ("test", "coco")):
        (data / folder / f"{name}_resnet50.hdf5").write_text("")
    assert not lacks_resnet(harness.plan(**chosen, suites="retrieval", data_root=data).missing)


def test_a_tables_row_that_a_reading_cannot_train_is_skipped_and_a_users_own_is_refused(
    tmp_path: Path,
) -> None:
    """DALR's public code reads features of tokens, which CLIP, a row of Table 9, does not give."""
    plan = harness.plan(
        table="dalr:T9", readings="paper,official", seeds=1, results=tmp_path / "results"
    )
    unfit = {skip.what: skip.why for skip in plan.skipped}
    assert set(unfit) == {
        "dalr[text=clip]@official/wiki+flickr",
        "dalr[image=resnet,text=clip]@official/wiki+flickr",
    }
    assert all("not of tokens; name another teacher" in why for why in unfit.values())
    assert len(plan.runs) == 18
    with pytest.raises(UserError, match="not of tokens; name another teacher"):
        harness.plan(
            methods="dalr[text=clip]@official", settings="wiki+flickr", results=tmp_path / "results"
        )


def test_an_interrupted_run_says_at_which_step_it_resumes(tmp_path: Path) -> None:
    work = Store(tmp_path).work(fingerprint(tmp_path))
    work.mkdir(parents=True)
    for step in (9, 120):
        (work / f"checkpoint-{step}-{'0' * 32}.pt").touch()
    (run,) = plan(tmp_path).runs
    assert (run.state, run.why) == ("missing", "interrupted; resumes at step 120")


def test_what_has_changed_is_not_guessed_while_inputs_are_missing(tmp_path: Path) -> None:
    """Other reference runs of the key differ in their precision; those of the profile's own wait
    for the encoder.
    """
    results = Path(__file__).parents[2] / "results" / "reference"
    chosen = {
        "profile": "small",
        "methods": "simcse",
        "settings": "wiki+flickr8k",
        "results": results,
    }
    (run,) = harness.plan(**chosen, seeds=[4], data_root=tmp_path).runs
    assert (run.state, run.changed) == ("missing", ())
    assert "perhaps of this run" in run.why
    (run,) = harness.plan(**chosen, seeds=[4], data_root=tmp_path, set={"steps": 7}).runs
    assert run.why.startswith("changed: settings: steps ")


def test_a_plan_prints_the_state_of_each_run_and_counts_teachers(tmp_path: Path) -> None:
    printed = str(harness.plan("tiny", methods="dalr", seeds=2, results=tmp_path)).splitlines()
    assert printed[0].startswith("profile tiny: 4 runs (2 teachers among them), 0 done, 4 to do")
    assert sorted(line.split()[1].partition("/")[0] for line in printed[1:]) == [
        "dalr",
        "dalr",
        "mcse",
        "mcse",
    ]


def test_a_control_without_features_of_test_images_leaves_their_suites_out(
    data_root: Path, tmp_path: Path
) -> None:
    """The untrained network's features are stored for training images alone."""
    plan = harness.plan(
        "grounding",
        methods="mcse,mcse[images=untrained]",
        seeds=1,
        results=tmp_path,
        data_root=data_root,
    )
    skips = {skip.what: skip.why for skip in plan.skipped}
    why = skips.pop("mcse[images=untrained]/flickr8k, suite retrieval")
    assert why.startswith("no file has squeezenet-untrained features of its images")
    assert not any("suite retrieval" in what for what in skips)
