"""Teachers by name: stored features, kinds of other packages, controls, and what is refused while
planning.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from itertools import islice
from pathlib import Path

import h5py
import numpy as np
import pytest
from executor_jobs import experiment, plan, with_teachers
from PIL import Image
from plugin_packages import Install

from harness.encoders.teachers import open_teacher
from harness.errors import PlugInError, UserError
from harness.fetching.archives import write_parquet
from harness.planning.experiments import Experiment
from harness.planning.teachers import RoleFeatures, load_pairs
from harness.profiles import Profile, load_profile
from harness.profiles.schema import TeacherTable
from harness.runs.inputs import load_training_inputs
from harness.toy import clip_folder, student_folder


def test_a_kind_that_cannot_be_loaded_costs_only_the_grids_that_name_it(
    install: Install, tmp_path: Path
) -> None:
    install("lengths", "raise RuntimeError('no driver')", {"teacher_kinds": {"lengths": "Lengths"}})
    profile = with_teachers(lengths=TeacherTable(kind="lengths", registered="toy-clip"))
    with pytest.raises(PlugInError, match="RuntimeError: no driver"):
        plan(tmp_path / "results", "mcse[images=lengths]", "mcse", profile=profile)
    assert plan(tmp_path / "results", "mcse", profile=profile).runs


def on_pairs(variant: str, profile: Profile) -> Experiment:
    return experiment(f"{variant}/toy-pairs/toy-bert/seed-0", profile)


def features_of(made: Experiment) -> dict[str, np.ndarray]:
    data = load_training_inputs(made, "cpu", {}).data
    assert data is not None
    return {role: values[np.arange(20)] for role, values in data.features.items()}


def test_another_kind_or_pooling_of_the_same_model_is_another_experiment(install: Install) -> None:
    install(
        "lengths",
        "from harness.encoders.teacher_kinds import *",
        {"teacher_kinds": {"lengths": "ClipTeacher"}},
    )
    package = with_teachers(lengths=TeacherTable(kind="lengths", registered="toy-clip"))
    tables = {
        name: TeacherTable(kind="text", registered="toy-clip", pooling=name)
        for name in ("cls", "mean")
    }
    variants = [f"mcse[images={name}]" for name in ("toy-clip", "lengths")]
    assert len({on_pairs(variant, package).fingerprint for variant in variants}) == 2
    assert (
        len(
            {on_pairs(f"dalr[text={name}]", with_teachers(**tables)).fingerprint for name in tables}
        )
        == 2
    )
    kinds = [on_pairs(variant, package).features["image"] for variant in variants]
    assert kinds[0].needs[0].fingerprint != kinds[1].needs[0].fingerprint, (
        "cached features go by these"
    )


BESIDE = """
from harness.method import Feature
from harness_methods.simcse import SimCSE
class Beside(SimCSE):
    name = "beside"
    features = classmethod(lambda cls, hyperparameters: {"guide": Feature("headed", "model")})
"""


@pytest.mark.parametrize("variant", ["dalr[text=headed]", "beside"])
def test_a_head_that_a_model_of_text_leaves_out_is_said(
    variant: str, install: Install, tmp_path: Path
) -> None:
    install("beside", BESIDE, {"methods": {"beside": "Beside"}})
    folder = shutil.copytree(student_folder(), tmp_path / "headed")
    settings = json.loads((folder / "config.json").read_text())
    for kind, lines in (("BertForQuestionAnswering", 1), ("BertForMaskedLM", 0)):
        (folder / "config.json").write_text(json.dumps({**settings, "architectures": [kind]}))
        made = on_pairs(
            variant, with_teachers(headed=TeacherTable(kind="text", folder=str(folder)))
        )
        assert (
            made.remarks
            == (f"teacher headed: weights of a classifier ({kind}); its head is left out",) * lines
        )


def test_features_in_bf16_are_near_those_in_float32_and_kept_apart() -> None:
    tables = {
        name: TeacherTable(registered="toy-clip", precision=name) for name in ("fp32", "bf16")
    }
    experiments = {
        name: on_pairs(f"kdmcse[images={name}]", with_teachers(**tables)) for name in tables
    }
    assert len({each.fingerprint for each in experiments.values()}) == 2
    exact, half = (features_of(each) for each in experiments.values())
    captions = list(islice(experiments["fp32"].corpora[-1].read.source.texts(None), 20))
    np.testing.assert_allclose(
        exact["caption"], open_teacher("open-clip", clip_folder()).captions(captions), atol=1e-5
    )
    for role, values in exact.items():
        assert not np.array_equal(half[role], values)
        np.testing.assert_allclose(half[role], values, atol=0.02 * np.abs(values).max())


def lit(images: str, captions: str, corpus: str = "toy-pairs") -> TeacherTable:
    return TeacherTable(kind="lit", images=images, captions=captions, corpus=corpus)


@pytest.mark.parametrize(
    ("teacher", "message"),
    [
        (
            "reader",
            "the teacher 'reader' (text) computes features of caption and tokens, not of image",
        ),
        ("nobody", "the profile 'tiny' has no teacher 'nobody'"),
        (
            "fitted",
            "has no corpus 'toy-pears' to fit the teacher 'fitted' on; did you mean toy-pairs",
        ),
        (
            "run:simcse/toy/toy-bert/seed-0",
            "(text) computes features of caption and tokens, not of image",
        ),
        (
            "images",
            "the teacher 'images' of the profile 'tiny' would read its own features; name other",
        ),
        (
            "captions",
            "the teacher 'captions' of the profile 'tiny' would read its own features; name other",
        ),
        (
            "ring",
            "the teacher 'ring' of the profile 'tiny' would read its own features; name other",
        ),
    ],
)
def test_what_no_teacher_gives_is_one_line_while_planning(teacher: str, message: str) -> None:
    own = {"images": lit("images", "reader"), "captions": lit("toy-clip", "captions")}
    profile = with_teachers(
        reader=TeacherTable(kind="text", registered="toy-clip"),
        fitted=lit("toy-clip", "reader", "toy-pears"),
        ring=lit("other", "reader"),
        other=lit("ring", "reader"),
        **own,
    )
    with pytest.raises(UserError, match=re.escape(message)):
        _ = on_pairs(f"mcse[images={teacher}]", profile).fingerprint


def test_controls_need_the_true_teacher_and_keep_their_name() -> None:
    plain, shuffled = (
        on_pairs(name, load_profile("tiny")) for name in ("mcse", "mcse[images=shuffled]")
    )
    first, second = (each.features["image"] for each in (plain, shuffled))
    assert [need.fingerprint for need in first.needs] == [need.fingerprint for need in second.needs]
    assert (first.feature.teacher, second.feature.teacher) == (
        load_profile("tiny").images,
        "shuffled",
    )


@pytest.mark.parametrize("setting", ["flickr", "flickr[captions=all]"])
def test_published_features_are_read_and_images_stand_in_for_missing_ones(
    tmp_path: Path, setting: str
) -> None:
    """Both say which; features of images are computed once an image, whatever the number of
    captions.
    """
    (tmp_path / "flickr/images").mkdir(parents=True)
    lines, ids = ["one", "two", "three"], ["11.jpg", "5.jpg", "7.jpg"]
    (tmp_path / "flickr/captions.txt").write_text("\n".join(lines))
    rows = {
        "image_id": ids,
        "caption": lines,
        "captions": [[line, f"{line} more"] for line in lines],
    }
    write_parquet(tmp_path / "flickr/captions.parquet", rows)
    for number, name in enumerate(ids):
        Image.new("RGB", (40, 30), (60 * number, 0, 200)).save(tmp_path / "flickr/images" / name)
    profile = load_profile("paper")
    table = TeacherTable(kind="open-clip", registered="toy-clip")
    profile = profile.model_copy(
        update={"teachers": {**profile.teachers, "resnet": table, "clip": table}}
    )

    def features(text: str) -> RoleFeatures:
        made = experiment(f"{text}/{setting}/bert-base-uncased/seed-0", profile, tmp_path)
        return next(role for role in made.features.values() if role.feature.of == "image")

    computed = features("mcse")
    assert computed.source == features("kdmcse").source == "computed"
    assert not [need for need in computed.needs if need.missing]
    vectors = computed.load([load_pairs(corpus) for corpus in computed.corpora], 0, "cpu", {})
    captions = 2 if "all" in setting else 1
    assert len(vectors) == 3 * captions
    expected = open_teacher("open-clip", clip_folder()).images(
        [np.array(Image.open(tmp_path / "flickr/images" / name)) for name in ids]
    )
    np.testing.assert_allclose(
        vectors[np.arange(len(vectors))], np.repeat(expected, captions, axis=0), atol=1e-5
    )

    with h5py.File(tmp_path / "flickr/resnet50.hdf5", "w") as file:
        file["features"] = np.array([[1.0], [2.0], [3.0]], np.float32)
    stored = features("mcse")
    assert stored.source == "flickr/resnet50.hdf5"
    assert features("kdmcse").source == "computed"
    assert stored.identity != computed.identity
    rows = stored.load([load_pairs(corpus) for corpus in stored.corpora], 0, "cpu", {})
    assert (
        rows[np.arange(len(rows))][:, 0].tolist() == np.repeat([1.0, 2.0, 3.0], captions).tolist()
    )


def test_features_are_kept_apart_by_what_decodes_and_computes_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of images, of captions, and of images in a file."""
    variants = {"image": "mcse[images=toy-clip]", "caption": "kdmcse"}
    image, caption = (
        on_pairs(name, with_teachers()).features[role] for role, name in variants.items()
    )
    (corpus,) = image.corpora
    in_file = replace(corpus, stored={("image", "toy-clip"): corpus.read})
    changes = {
        "DECODING": 9,
        "list_versions": lambda *packages: ["9"],
        "hash_reading_code": lambda: "9",
    }

    def keys() -> list[str]:
        return [
            image.teacher.make_key(corpus),
            caption.teacher.make_key(corpus),
            image.teacher.make_key(in_file),
        ]

    before = keys()
    assert len(set(before)) == 3
    moved = {}
    for name, value in changes.items():
        with monkeypatch.context() as patched:
            patched.setattr(f"harness.planning.teachers.{name}", value)
            moved[name] = [a != b for a, b in zip(keys(), before, strict=True)]
    assert moved == {
        "DECODING": [True, True, False],
        "list_versions": [True, True, False],
        "hash_reading_code": [False, True, True],
    }
    assert keys() == before
